"""The text of a replay. Deliveries come first, then the final state, then the counts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from rich.console import Console
from rich.text import Text

from flowguard.cli.console import cell, line
from flowguard.cli.listing import Column, show_table
from flowguard.sim.delivered import Counts, Delivered
from flowguard.sim.delivery_trace import Sent, Written
from flowguard.sim.final_state import FinalState, RunLeft, Tables

_DELIVERIES: Final = (
    Column("after", right=True),
    *map(Column, ("record", "object", "stage")),
    Column("hop", right=True),
    Column("try", right=True),
    Column("verdict", folds=True),
    Column("what came of it", folds=True),
)
_RUNS: Final = (
    *map(Column, ("flow", "object", "status", "stage")),
    Column("hop", right=True),
    Column("epoch", right=True),
    Column("request id"),
    Column("result", folds=True),
)

_MOST_ITEMS: Final = 100
"""Of each table. All of them are in the lines of --json."""

_STYLES = {
    "CLAIMED": "green",
    "DONE": "cyan",
    "UNROUTABLE": "red",
    "UNREADABLE": "red",
    "UNTRUSTED": "red",
    "REFUSED": "yellow",
    "BUSY": "yellow",
}


def show_timeline(out: Console, rows: Sequence[Delivered], start: int) -> None:
    """Print the deliveries. Times are relative to ``start``, ms since 1970."""
    flows = {row.flow for row in rows if row.flow}
    cells = [
        (
            line(_after(row, start)),
            _short(row.record),
            cell(row.object_id or ""),
            cell("" if row.stage is None else f"{row.flow}/{row.stage}" if len(flows) > 1 else row.stage),
            line(str(row.hop or "")),
            line(str(row.attempt or "")),
            _verdict(row),
            Text("\n").join([*(_consequences(row) or _nothing(row)), *_more(alike, start)]),
        )
        for row, *alike in _grouped(rows)
    ]
    show_table(out, _DELIVERIES, cells)


def show_aftermath(out: Console, left: FinalState, before: Tables) -> None:
    """Print the final state of runs, tables and queues. Of tables these are the items that were not there before."""
    if left.runs:
        _section(out, "runs")
        show_table(out, _RUNS, [_run(run) for run in left.runs])
    for name, items in left.tables.items():
        changed = [item for item in items if item not in before.get(name, ())]
        title = f"table {name}" if len(changed) == len(items) else f"table {name}: {len(changed)} of {len(items)} items"
        if items:
            shown = [json.dumps(item, ensure_ascii=False) for item in changed[:_MOST_ITEMS]]
            more = [f"and {len(changed) - _MOST_ITEMS} more"] if len(changed) > _MOST_ITEMS else []
            _section(out, title, *shown, *more)
    letters = [
        f"{dead.queue}: {dead.stage or 'a message for no stage'} of {dead.object_id or 'no object'}: {dead.error}"
        for dead in left.dead_letters
    ]
    if letters:
        _section(out, "dead letters", *letters)
    if waiting := [f"{name}: {count}" for name, count in left.queues.items() if count]:
        _section(out, "messages in other queues", *waiting)


def summary(counts: Counts) -> str:
    """Return the last line, with the counts."""
    parts = (
        f"{counts.messages} messages in",
        f"{counts.deliveries} deliveries",
        f"{counts.executions} executions",
        f"{counts.effects} effects",
        f"{counts.duplicates} duplicates refused",
        f"{counts.overtaken} older or overtaken",
        f"{counts.fenced} fenced",
        f"{counts.retried} retried",
        f"{counts.sent} sent",
        f"{counts.crashes} crashes",
    )
    return ", ".join(parts)


def _run(run: RunLeft) -> tuple[Text, ...]:
    ended = json.dumps(run.result, ensure_ascii=False) if run.result is not None else run.error or ""
    cells = (run.flow, run.object_id, run.status, run.stage, str(run.hop), str(run.epoch), run.request_id, ended)
    return tuple(map(cell, cells))


def _section(out: Console, title: str, *lines: str) -> None:
    out.print()
    out.print(line(title, style="bold"))
    for text in lines:
        out.print(line(text), soft_wrap=True)


def _grouped(rows: Iterable[Delivered]) -> Iterator[list[Delivered]]:
    """Yield the rows in groups. Deadlines of a run that are not due yet, one after another, are one group."""
    for whose, group in groupby(rows, lambda row: row.is_not_due and (row.flow, row.object_id, row.request_id)):
        if whose:
            yield list(group)
        else:
            yield from ([row] for row in group)


def _more(alike: Sequence[Delivered], start: int) -> Iterator[Text]:
    if alike:
        yield line(f"{len(alike)} more such until {_after(alike[-1], start)}", style="dim")


def _after(row: Delivered, start: int) -> str:
    return f"{(row.at - start) / 1000:.3f} s"


def _short(record: str) -> Text:
    """Cut a long id to eight characters."""
    return cell(record if len(record) <= 12 else record.removeprefix("invocation-")[:8])


def _verdict(row: Delivered) -> Text:
    words = ["deadline not due"] if row.is_not_due else [row.verdict or "", row.outcome or ""]
    return Text(", ".join(word for word in words if word), style=_STYLES.get(row.verdict or "", ""))


def _nothing(row: Delivered) -> list[Text]:
    """Say so where a record was acknowledged and changed nothing, such as a deadline after the end of its wait."""
    is_silent = row.acked and row.verdict is None and row.outcome is None
    return [line("nothing was left to do", style="dim")] if is_silent else []


def _consequences(row: Delivered) -> list[Text]:
    return list(_each_consequence(row))


def _each_consequence(row: Delivered) -> Iterator[Text]:
    yield from (cell(f"before it: {key} had expired, and is gone", style="yellow") for key in row.expired)
    yield from (cell(f"{_write(write)}") for write in row.writes)
    yield from (cell(f"refused: {_write(write)}", style="yellow") for write in row.refused)
    yield from (cell(f"sent to {_send(sent)}") for sent in row.sends)
    if row.status is not None:
        yield line(f"HTTP {row.status}")
    if row.why is not None:
        yield cell(row.why, style="dim")
    if row.crash is not None:
        yield cell(f"died {row.crash.value.replace('-', ' ')}", style="bold red")
    if row.from_dlq:
        yield cell("served by dlq_handler", style="dim")
    if row.to_dlq:
        yield cell(f"moved to the dead-letter queue of SQS after {row.receive} receives", style="red")


def _write(write: Written) -> str:
    return f"{write.kind} {write.table} {write.key}".rstrip()


def _send(sent: Sent) -> str:
    return sent.to + (f" in {sent.delay} s" if sent.delay else "")
