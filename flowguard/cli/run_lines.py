"""The lines that show a run to people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.text import Text

from flowguard.aws.run_reader import SeenRun
from flowguard.cli.console import cell, console, line
from flowguard.cli.listing import Column, show_pairs, show_table
from flowguard.operate.history_facts import happened
from flowguard.operate.moments import moment
from flowguard.operate.run_facts import last_commit
from flowguard.operate.wait_facts import wait_end
from flowguard.text.printable import LONGEST_PART, bounded
from flowguard.wire.notification import to_json

_MOST_NAMED: Final = 5
"""Callers and messages that are named; of more, their number is shown."""

_WAIT_COLUMNS: Final = (*map(Column, ("name", "what", "answer")), Column("under the id", folds=True))
_EXCERPT: Final = 200

_HISTORY_COLUMNS: Final = (
    *map(Column, ("when", "hop", "stage", "attempt", "epoch")),
    Column("what", folds=True),
    Column("ms", right=True),
)


def show_run(facts: Mapping[str, Any], seen: SeenRun, now: int) -> None:
    """Print a run as lines, with a table of what it waits for."""
    out = console()
    where = f"hop {facts['hop']}, attempt {facts['attempt']}"
    again = f", redrive {facts['redrive']}" if facts["redrive"] else ""
    flow, object_id, stage = (bounded(facts[name], LONGEST_PART) for name in ("flow", "object_id", "stage"))
    out.print(line(f"{flow} of {object_id}: {facts['status']} at {stage}, {where}{again}", "bold"), soft_wrap=True)
    show_pairs(out, [(name, cell(text)) for name, text in _lines(facts, seen, now)])
    if facts["history"]:
        show_table(out, _HISTORY_COLUMNS, [_happened(fact) for fact in facts["history"]])
    if facts["wait"] is not None:
        show_names(facts["wait"], payload="state_size" in facts and "state" in facts)


def _happened(fact: Mapping[str, Any]) -> list[Text]:
    again = f", redrive {fact['redrive']}" if fact["redrive"] else ""
    ms = "" if fact["ms"] is None else f"{fact['ms']:,}"
    texts = (
        fact["at"],
        str(fact["hop"]),
        fact["stage"],
        f"{fact['attempt']}{again}",
        str(fact["epoch"]),
        happened(fact),
        ms,
    )
    return [cell(text) for text in texts]


def say_line(text: str) -> None:
    """Print one line, each control in it escaped."""
    console().print(line(text), soft_wrap=True)


def show_names(wait: Mapping[str, Any], *, payload: bool) -> None:
    """Print the names of a wait as a table."""
    columns = [*_WAIT_COLUMNS, *([Column("payload", folds=True)] if payload else [])]
    show_table(console(), columns, [_cells(row, payload=payload) for row in wait["names"]])


def _cells(row: Mapping[str, Any], *, payload: bool) -> list[Text]:
    cells = [row["name"], row["what"], row["answer"] or "awaited", row["id"] or ""]
    texts = [*cells, to_json(row["payload"])[:_EXCERPT] if "payload" in row else ""] if payload else cells
    return [cell(text) for text in texts]


def _lines(facts: Mapping[str, Any], seen: SeenRun, now: int) -> Iterator[tuple[str, str]]:
    item = seen.item
    yield "now", facts["now"]
    yield "request", f"{bounded(item.request_id, LONGEST_PART)}, of {moment(item.requested_at, now)}"
    yield from _look(facts)
    if facts["committed_at"] is not None:
        last = "" if item.done else f"hop {item.hop - 1}, "
        yield "committed", f"{last}{moment(last_commit(item), now)}"
    if facts["stages"]:
        yield "stages", ", ".join(facts["stages"])
    yield from _endings(facts)
    if facts["wait"] is not None:
        yield "waits", _of_wait(facts["wait"])
    if facts["callers"]:
        yield "callers", _of_callers(facts["callers"])
    if facts["outbox"] is not None:
        yield "outbox", _of_outbox(facts["outbox"], item.request_id)
    for name in ("state", "result"):
        if f"{name}_size" in facts:
            yield name, _of_payload(facts, name)
    if facts["result_good_until"] is not None:
        yield "kept", f"the result is good for newer requests until {facts['result_good_until']}"
    if item.ttl:
        yield "expires", moment(item.ttl * 1000, now)


def _look(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if facts["look"] is not None:
        yield "look", f"'{facts['look']}' shows its message if that is parked"


def _endings(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the lines about the run's end."""
    if (back_off := facts["back_off"]) is not None and facts["error"] is None:
        yield "last error", f"{back_off['at']}: {bounded(back_off['error'])}"
    if facts["error"] is not None:
        yield "error", facts["error"]
    if (failed := facts["failed"]) is not None:
        taking = "its on_failed stage has failed too" if facts["status"] == "FAILED" else "it is being taken back"
        undone = "it was taken back" if failed["undone"] else taking
        yield "failed", f"hop {failed['hop']}, {failed['at']}: {bounded(failed['error'])}; {undone}"
    if (cancelled := facts["cancelled"]) is not None:
        yield "cancelled", f"{cancelled['at']}: {cancelled['why']}"
    if facts["reset_at"] is not None:
        yield "reset", facts["reset_at"]


def _of_wait(wait: Mapping[str, Any]) -> str:
    if wait["ended"] is not None:
        return wait_end(wait)
    if (group := wait.get("group")) is not None:
        return (
            f"for a group of {group['requests']:,}, of which {group['asked']:,} were asked: {group['open_shards']:,} "
            f"of its {group['shards']:,} shards are open; then {wait['goes_on_at']}, or at {wait['deadline']} "
            f"{wait['on_timeout']}"
        )
    return (
        f"{wait['missing']} more of these answers, then {wait['goes_on_at']}; "
        f"at {wait['deadline']} without them, {wait['on_timeout']}"
    )


def _of_callers(callers: list[dict[str, Any]]) -> str:
    named = [
        f"{bounded(caller['request_id'], LONGEST_PART)} → {caller['reply_to']}" for caller in callers[:_MOST_NAMED]
    ]
    more = f", and {len(callers) - _MOST_NAMED} more" if len(callers) > _MOST_NAMED else ""
    return f"{', '.join(named)}{more}"


_SENT: Final = "sent or, where that is refused, among the dead letters; unless the worker died after its commit"
"""What an outbox says of its messages: a queue may be missing, and none is read here."""


def _of_outbox(outbox: Mapping[str, Any], request_id: str) -> str:
    if "problem" in outbox:
        return str(outbox["problem"])
    sends = outbox["sends"]
    named = [f"{send['kind']} → {bounded(send['to'], LONGEST_PART)}" for send in sends[:_MOST_NAMED]]
    more = f", and {len(sends) - _MOST_NAMED} more" if len(sends) > _MOST_NAMED else ""
    other = "" if outbox["request_id"] in (request_id, None) else f" of {bounded(outbox['request_id'], LONGEST_PART)}"
    return f"{', '.join(named) or 'nothing'}{more}{other}: {_SENT}"


def _of_payload(facts: Mapping[str, Any], name: str) -> str:
    if name in facts:
        return to_json(facts[name])
    return f"{facts[f'{name}_size']:,} bytes, shown with --payloads"
