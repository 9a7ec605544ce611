"""The command ``flowguard stats``."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

import click

from flowguard.aws.run_pages import Wanted
from flowguard.aws.run_reader import SeenRun
from flowguard.cli.connection import command_time, connected
from flowguard.cli.console import cell, console, line
from flowguard.cli.letter_rows import duration
from flowguard.cli.listing import Column, show_table
from flowguard.cli.moments import distance, iso, moment
from flowguard.cli.printing import say_json
from flowguard.cli.run_rows import TableReading, bounded_reading, check_names, is_late, is_left, reading_errors
from flowguard.printable import LONGEST_PART, bounded
from flowguard.protocol.run import Status
from flowguard.wire.notification import to_json

_COLUMNS: Final = (
    *map(Column, ("flow", "status", "stage")),
    *(Column(name, right=True) for name in ("runs", "late", "left", "oldest")),
)


@dataclass
class Count:
    """The runs of one flow, status and stage. ``oldest`` is the time of the first request, ms since 1970."""

    runs: int = 0
    late: int = 0
    left: int = 0
    oldest: int = 0

    def add(self, seen: SeenRun, now: int) -> None:
        """Count a run."""
        item = seen.item
        self.oldest = min(self.oldest, item.requested_at) if self.runs else item.requested_at
        self.runs += 1
        self.late += is_late(item, now)
        self.left += is_left(item, now)


@click.command()
@connected
@click.option("--flow", metavar="NAME", help="Only runs of this flow.")
@bounded_reading
def stats(*, flow: str | None, as_json: bool, **options: Any) -> None:
    """Count the runs of a table by flow, status and stage.

    "late" are waits whose deadline is over, "left" runs in the middle of a hop that no worker has. The table is read by
    Scan, which pays for each item; --read bounds that. What was read is said on standard error.

    The exit code is 0 where the table was read, and 2 where the command cannot be run.
    """
    check_names(**{"--flow": flow})
    now = command_time().clock.now()
    counts: defaultdict[tuple[str, str, str], Count] = defaultdict(Count)
    longest: SeenRun | None = None
    with reading_errors(options):
        for seen in TableReading(options).found(Wanted(flow)):
            counts[seen.flow, seen.item.status.value, seen.item.stage].add(seen, now)
            if seen.item.status is Status.WAITING and (longest is None or _since(seen) < _since(longest)):
                longest = seen
    _say(counts, now) if as_json else _show(counts, longest, now)


def _since(seen: SeenRun) -> int:
    return seen.item.committed_at


def _say(counts: dict[tuple[str, str, str], Count], now: int) -> None:
    for (flow, status, stage), count in sorted(counts.items()):
        numbers = {"runs": count.runs, "late": count.late, "left": count.left, "oldest": iso(count.oldest)}
        say_json(to_json({"flow": flow, "status": status, "stage": stage, **numbers}))


def _show(counts: dict[tuple[str, str, str], Count], longest: SeenRun | None, now: int) -> None:
    out = console()
    rows = [
        [*key, *map(str, (one.runs, one.late, one.left)), duration(max(0, now - one.oldest) // 1000)]
        for key, one in sorted(counts.items())
    ]
    if rows:
        show_table(out, _COLUMNS, [[cell(text) for text in row] for row in rows])
    total = sum(one.runs for one in counts.values())
    out.print(line(f"{total:,} run{'' if total == 1 else 's'}"))
    if longest is not None and longest.item.wait is not None:
        name = f"{bounded(longest.flow, LONGEST_PART)} of {bounded(longest.object_id, LONGEST_PART)}"
        until = moment(longest.item.wait.deadline, now)
        out.print(
            line(f"the oldest wait: {name}, begun {distance(_since(longest), now)}, until {until}"), soft_wrap=True
        )
