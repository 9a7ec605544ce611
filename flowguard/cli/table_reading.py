"""Many runs as rows, and what was read to find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import click

from flowguard.aws.indexed_runs import IndexedRuns
from flowguard.aws.run_pages import NoCursor, RunPage, RunPages, Wanted
from flowguard.aws.run_reader import RunReader, SeenRun
from flowguard.cli.connection import (
    CannotRun,
    clients_of,
    command_time,
    flow_named,
    settings_of,
    table_errors,
    with_options,
)
from flowguard.cli.printing import complain
from flowguard.text.printable import bounded

LISTED: Final = 100
"""Rows that are shown unless a limit is given."""

MOST_READ: Final = 100_000
"""Items that are read unless a limit is given."""

_PROGRESS: Final = 10_000

_BOUNDS: Final = (
    click.option("--read", "most_read", metavar="N", type=click.IntRange(1), default=MOST_READ, show_default=True,
                 help="Stop after so many items of the table."),
    click.option("--after", metavar="PLACE", help="Go on where another list has stopped: it printed the place."),
    click.option("--json", "as_json", is_flag=True, help="A line of JSON for each row."),
)  # fmt: skip

of_one_flow: Final = click.option(
    "--flow", metavar="FLOW", help="Only runs of this flow: its name, or its class as MODULE:FLOW."
)
"""Gives a command the option that names a flow. :func:`name_of_one` reads it."""

INDEX: Final = click.option("--index", metavar="NAME", help="Find runs of a --status by this index, not by a Scan.")

_LIMITS: Final = (
    click.option("--limit", metavar="N", type=click.IntRange(1), default=LISTED, show_default=True,
                 help="Stop after so many rows."),
    *_BOUNDS,
    INDEX,
)  # fmt: skip


bounded_reading: Final = with_options(*_BOUNDS)
"""Gives a command the options that bound what it reads."""


bounded_list: Final = with_options(*_LIMITS)
"""Gives a command the options that bound what it reads, and how many rows it shows."""


class TableReading:
    """Reads the runs of a table, and prints the cost of reading to standard error.

    ``last`` is the place behind what was read. None where the table has no more. ``unreadable`` counts the items that
    are no run of this version.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        settings, clients = settings_of(options), clients_of(options)
        self._table = settings.run_table
        self.runs = RunReader.of(settings, clients)
        self._pages = (
            RunPages(clients.dynamodb, settings.run_table, self.runs)
            if options.get("index") is None
            else IndexedRuns(clients.dynamodb, settings.run_table, options["index"], self.runs, command_time().pause)
        )
        self._after, self._most = options["after"], options["most_read"]
        self._read, self._units, self.unreadable = 0, 0.0, 0
        self.last: str | None = None

    def found(self, wanted: Wanted) -> Iterator[SeenRun]:
        """Yield the runs that are wanted, in the order in which the table has them."""
        yield from self.all_of(wanted)
        if self.last is not None:
            complain(f"stopped after {self._read:,} items; go on with --after {self.last}")

    def all_of(self, wanted: Wanted) -> Iterator[SeenRun]:
        """Yield them without a word on where this stopped. That is in ``last``."""
        last: str | None = None
        for page in self._pages.pages(wanted, self._after, self._most):
            self._count(page)
            yield from page.runs
            last = page.last
        self.last = last
        self.summary()

    def place_of(self, flow: str, object_id: str, wanted: Wanted) -> str:
        """Return the place behind the run of an object."""
        return self._pages.place_of(flow, object_id, wanted)

    def chosen(self, wanted: Wanted, passes: Callable[[SeenRun], bool], limit: int) -> list[SeenRun]:
        """Return the runs that pass, no more than ``limit``, and say where the list stopped."""
        runs: list[SeenRun] = []
        for seen in self.found(wanted):
            if passes(seen):
                runs.append(seen)
            if len(runs) == limit:
                self.summary()
                place = self.place_of(seen.flow, seen.object_id, wanted)
                complain(f"stopped at {limit}; there may be more, go on with --after {place}")
                break
        return runs

    def _count(self, page: RunPage) -> None:
        before = self._read
        self._read += page.read
        self._units += page.units
        self.unreadable += page.unreadable
        if before // _PROGRESS != self._read // _PROGRESS:
            complain(f"{self._read:,} items read")

    def summary(self) -> None:
        """Print how much was read and its cost."""
        units = f", {self._units:,.1f} read units" if self._units else ""
        complain(f"read {self._read:,} items of table {self._table} by {self._pages.way}{units}")
        if self.unreadable:
            complain(f"{self.unreadable:,} items are no runs that this version can read")


@contextmanager
def reading_errors(options: Mapping[str, Any]) -> Iterator[None]:
    """Turn errors of a list into errors of the command."""
    with table_errors(options):
        try:
            yield
        except NoCursor as error:
            raise CannotRun(f"--after: {error}") from None


def say_none_of(flow: str | None) -> None:
    """Say that no run of a flow was read. A name may be misspelt; a class is there."""
    if flow is not None and ":" not in flow:
        complain(
            f"no such run of {bounded(flow)} was read; it may have none, or another name: 'flowguard stats' has the "
            "names of those with runs"
        )


def name_of_one(flow: str | None) -> str | None:
    """Return the name of the flow that --flow names, itself or by its class. None where there is no such option."""
    return None if flow is None else flow_named(flow, "--flow")[0]
