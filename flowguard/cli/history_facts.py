"""What a run's item tells of its past, as values and as words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from flowguard.cli.moments import iso
from flowguard.protocol.run import RunItem
from flowguard.protocol.run_history import Happened, How, read_history, run_digest

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


def history_facts(item: RunItem) -> list[dict[str, Any]]:
    """Return what the item tells of this run and the runs before it, the oldest first."""
    own = run_digest(item.request_id, item.requested_at)
    return [
        {
            "run": "this" if one.run == own else "earlier",
            "at": iso(one.at),
            "stage": one.stage,
            "hop": one.hop,
            "attempt": one.retry + 1,
            "redrive": one.redrive,
            "epoch": one.epoch,
            "verdict": one.how.name.lower(),
            "ms": one.ms,
        }
        for one in read_history(item.history)
    ]


def own_history(item: RunItem) -> Iterator[Happened]:
    """Yield what the item tells of this run."""
    own = run_digest(item.request_id, item.requested_at)
    yield from (one for one in read_history(item.history) if one.run == own)
