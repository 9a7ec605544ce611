"""The command ``flowguard stats``."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from flowguard.aws.dead_letter_queue import Unusable, explained
from flowguard.aws.pause_rows import Pause, PauseRows
from flowguard.aws.run_pages import Wanted
from flowguard.aws.run_reader import SeenRun
from flowguard.cli.connection import CannotRun, clients_of, command_time, connected, settings_of
from flowguard.cli.console import cell, console, line
from flowguard.cli.formats import check_one_format
from flowguard.cli.listing import Column, show_table
from flowguard.cli.printing import complain, say_json
from flowguard.cli.stats_metrics import Count, metric_lines
from flowguard.cli.table_reading import (
    TableReading,
    bounded_reading,
    name_of_one,
    of_one_flow,
    reading_errors,
    say_none_of,
)
from flowguard.observers.metrics import is_namespace
from flowguard.operate.moments import distance, duration, iso, moment
from flowguard.operate.run_rows import is_late, is_left
from flowguard.protocol.run import Status
from flowguard.text.printable import LONGEST_PART, bounded
from flowguard.wire.notification import to_json

FOUND: Final = 1
"""The exit code where gauges lack runs that cannot be read."""

_COLUMNS: Final = (
    *map(Column, ("flow", "status", "stage")),
    *(Column(name, right=True) for name in ("runs", "late", "left", "oldest")),
)


@click.command()
@connected
@of_one_flow
@bounded_reading
@click.option("--emf", "namespace", metavar="NAMESPACE", help="Lines of CloudWatch's embedded metric format, by flow.")
def stats(*, flow: str | None, as_json: bool, namespace: str | None, **options: Any) -> None:
    """Count the runs of a table by flow, status and stage.

    "late" are waits whose deadline is over, "left" runs in the middle of a hop that no worker has. The table is read by
    Scan, which pays for each item; --read bounds that. What was read is said on standard error. Stages and
    keys that are paused are named after that. With --json a line is of runs or of a pause: its "row" says which.

    --emf writes metrics of the whole table, and none where --read or --after leaves a part of it out.

    The exit code is 0 where the table was read, 1 where --emf lacks runs that this version cannot read, and 2 where the
    command cannot be run.
    """
    name = name_of_one(flow)
    check_one_format("as_json", "namespace")
    if namespace is not None:
        _check_metrics(namespace, options)
    now = command_time().clock.now()
    counts: defaultdict[tuple[str, str, str], Count] = defaultdict(Count)
    longest: SeenRun | None = None
    with reading_errors(options):
        reading = TableReading(options)
        for seen in reading.found(Wanted(name)):
            _add(counts[seen.flow, seen.item.status.value, seen.item.stage], seen, now)
            if seen.item.status is Status.WAITING and (longest is None or _since(seen) < _since(longest)):
                longest = seen
        if not counts:
            say_none_of(flow)
    if namespace is not None:
        _write_metrics(counts, reading, namespace, now)
    else:
        _say(counts) if as_json else _show(counts, longest, now)
        _tell_pauses(_pauses(name, options), now, as_json=as_json)


def _check_metrics(namespace: str, options: Mapping[str, Any]) -> None:
    if not is_namespace(namespace):
        raise click.BadParameter("it is no namespace of CloudWatch, such as shop/orders", param_hint="--emf")
    if options["after"] is not None:
        raise click.UsageError("--emf is for a whole table, and --after leaves out a part of it")


def _write_metrics(
    counts: Mapping[tuple[str, str, str], Count], reading: TableReading, namespace: str, now: int
) -> None:
    if reading.last is not None:
        raise CannotRun("the table has more items than --read allows, and metrics of a part would mislead; raise it")
    for document in metric_lines(counts.items(), namespace, now):
        say_json(to_json(document))
    if reading.unreadable:
        sys.exit(FOUND)


def _add(count: Count, seen: SeenRun, now: int) -> None:
    item = seen.item
    count.oldest = min(count.oldest, item.requested_at) if count.runs else item.requested_at
    count.first_commit = min(count.first_commit, _since(seen)) if count.runs else _since(seen)
    count.runs += 1
    count.late += is_late(item, now)
    count.left += is_left(item, now)


def _since(seen: SeenRun) -> int:
    return seen.item.committed_at


def _say(counts: Mapping[tuple[str, str, str], Count]) -> None:
    for (flow, status, stage), count in sorted(counts.items()):
        numbers: dict[str, Any] = {
            "runs": count.runs,
            "late": count.late,
            "left": count.left,
            "oldest": iso(count.oldest),
        }
        if status == Status.WAITING.value:
            numbers["oldest_wait"] = iso(count.first_commit)
        say_json(to_json({"row": "runs", "flow": flow, "status": status, "stage": stage, **numbers}))


def _pauses(flow: str | None, options: Mapping[str, Any]) -> list[Pause]:
    """Return the pauses of a flow, or of all. They are unknown to who may not Query the table, which is said."""
    try:
        with explained("pauses"):
            pauses = PauseRows(clients_of(options).dynamodb, settings_of(options).run_table).all()
    except Unusable as error:
        complain(f"which stages are paused is unknown: {error}")
        return []
    return [pause for pause in pauses if flow in (None, pause.flow)]


def _tell_pauses(pauses: Sequence[Pause], now: int, *, as_json: bool) -> None:
    for pause in pauses:
        if as_json:
            facts = {
                "row": "pause",
                "flow": pause.flow,
                "stage": pause.stage,
                "key": pause.place or None,
                "why": pause.why,
            }
            until = iso(pause.until) if pause.until else None
            say_json(to_json({**facts, "paused_since": iso(pause.since), "at_once": pause.at_once, "tried_at": until}))
            continue
        name = " ".join(bounded(part, LONGEST_PART) for part in (pause.flow, pause.stage, pause.place) if part)
        how = "has paused itself" if pause.until else "paused"
        if pause.at_once is not None:
            how = f"drains, at most {pause.at_once} batches at once, after a pause"
        told = f"{name}: {how} {distance(pause.since, now)}: {bounded(pause.why, LONGEST_PART)}"
        console().print(line(told, "yellow"), soft_wrap=True)


def _show(counts: dict[tuple[str, str, str], Count], longest: SeenRun | None, now: int) -> None:
    out = console()
    rows = [
        [*key, *map(str, (count.runs, count.late, count.left)), duration(max(0, now - count.oldest) // 1000)]
        for key, count in sorted(counts.items())
    ]
    if rows:
        show_table(out, _COLUMNS, [[cell(text) for text in row] for row in rows])
    total = sum(count.runs for count in counts.values())
    out.print(line(f"{total:,} run{'' if total == 1 else 's'}"))
    if longest is not None and longest.item.wait is not None:
        name = f"{bounded(longest.flow, LONGEST_PART)} of {bounded(longest.object_id, LONGEST_PART)}"
        until = moment(longest.item.wait.deadline, now)
        out.print(
            line(f"the oldest wait: {name}, begun {distance(_since(longest), now)}, until {until}"), soft_wrap=True
        )
