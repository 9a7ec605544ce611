"""The history of a run as values and as words, from its item and from the rows of a full history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from flowguard.aws.history_rows import FullHistory, Told
from flowguard.operate.moments import iso
from flowguard.protocol.run import RunItem
from flowguard.protocol.run_history import Happened, How, read_history, run_digest
from flowguard.text.printable import LONGEST_PART, bounded

SAID: Final = {
    How.COMMITTED: "committed",
    How.WAITED: "committed, and waits",
    How.COMPLETED: "completed",
    How.FAILED: "failed for good",
    How.GAVE_UP: "failed for good, and goes on at on_failed",
    How.UNDONE: "ended what on_failed takes back",
    How.RETRIED: "failed, and is tried again",
    How.TAKEN_OVER: "did not end before its lease; taken over",
    How.SUPERSEDED: "superseded by a newer request",
    How.RESET: "reset",
}

NO_ROWS: Final = FullHistory()
"""Of a run that has no full history."""


def history_facts(item: RunItem, full: FullHistory = NO_ROWS) -> list[dict[str, Any]]:
    """Return the history of this run and of those before it, oldest first, from the item and its rows."""
    run = run_digest(item.request_id, item.requested_at)
    return [
        {
            "run": "this" if (entry := line.happened).run == run else "earlier",
            "at": iso(entry.at),
            "stage": entry.stage,
            "hop": entry.hop,
            "attempt": entry.retry + 1,
            "redrive": entry.redrive,
            "epoch": entry.epoch,
            "verdict": entry.how.name.lower(),
            "ms": entry.ms,
            "error": line.error,
        }
        for line in _all_told(item, full)
    ]


def happened(fact: Mapping[str, Any]) -> str:
    """Say what a fact of the history is."""
    text = SAID[How[fact["verdict"].upper()]]
    earlier = "an earlier run: " if fact["run"] == "earlier" else ""
    error = "" if fact["error"] is None else f": {bounded(fact['error'], LONGEST_PART)}"
    return f"{earlier}{text}{error}"


def _all_told(item: RunItem, full: FullHistory) -> list[Told]:
    """Return what rows tell, with what only the item tells: of a time when the flow had no full history."""
    in_item = map(Told, read_history(item.history))
    if not full.told:
        return list(in_item)
    known = {(line.happened.run, line.happened.epoch) for line in full.told}
    first = _order(full.told[0]) if full.more else (0, 0)
    more = (line for line in in_item if (line.happened.run, line.happened.epoch) not in known and _order(line) >= first)
    return sorted((*full.told, *more), key=_order)


def _order(line: Told) -> tuple[int, int]:
    return line.happened.at, line.happened.epoch


def own_history(item: RunItem) -> Iterator[Happened]:
    """Yield what the item tells of this run."""
    run = run_digest(item.request_id, item.requested_at)
    yield from (entry for entry in read_history(item.history) if entry.run == run)
