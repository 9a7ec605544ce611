"""The command ``flowguard list``."""

from __future__ import annotations

from typing import Any, Final

import click

from flowguard.aws.run_reader import RunReader, SeenRun
from flowguard.cli.connection import command_time, connected
from flowguard.cli.console import cell, console
from flowguard.cli.listing import Column, show_table
from flowguard.cli.printing import say, say_json
from flowguard.cli.run_filters import filtered, selection_of
from flowguard.cli.table_reading import (
    TableReading,
    bounded_list,
    name_of_one,
    of_one_flow,
    reading_errors,
    say_none_of,
)
from flowguard.operate.moments import duration
from flowguard.operate.run_rows import quiet_since, row_facts, urgency
from flowguard.wire.notification import to_json

_COLUMNS: Final = (
    *map(Column, ("flow", "object", "status", "stage", "hop", "attempt", "age", "quiet")),
    Column("now", folds=True),
)


@click.command("list")
@connected
@of_one_flow
@filtered
@bounded_list
def list_(
    *,
    flow: str | None,
    limit: int,
    as_json: bool,
    **options: Any,
) -> None:
    """List runs, those that need attention first.

    Late waits come first, then runs that no worker has, failed ones, waits and the others.

    The table is read by Scan, which pays for each item whether it is shown or not; --read and --limit bound that.
    What was read is said on standard error. Rows are in order among those of one list.

    The exit code is 0 where the table was read, whatever was found, and 2 where the command cannot be run.
    """
    selection, now = selection_of(options, name_of_one(flow)), command_time().clock.now()
    with reading_errors(options):
        reading = TableReading(options)
        chosen = reading.chosen(selection.wanted, lambda seen: selection.has(seen, reading.runs, now), limit)
        chosen.sort(key=lambda seen: urgency(seen.item, now))
        if not chosen:
            say_none_of(flow)
        _show(chosen, reading.runs, now, as_json=as_json)


def _show(rows: list[SeenRun], runs: RunReader, now: int, *, as_json: bool) -> None:
    if as_json:
        for seen in rows:
            say_json(to_json(row_facts(seen, runs, now)))
        return
    if rows:
        show_table(console(), _COLUMNS, [[cell(text) for text in _cells(seen, runs, now)] for seen in rows])
    say(f"{len(rows)} run{'' if len(rows) == 1 else 's'}")


def _cells(seen: SeenRun, runs: RunReader, now: int) -> list[str]:
    facts, item = row_facts(seen, runs, now), seen.item
    since = quiet_since(item, now)
    return [
        seen.flow,
        seen.object_id,
        facts["status"],
        facts["stage"],
        str(item.hop),
        str(facts["attempt"]),
        duration(max(0, now - item.requested_at) // 1000),
        "" if since is None else duration(max(0, now - since) // 1000),
        facts["now"],
    ]
