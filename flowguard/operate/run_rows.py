"""Rows of lists of runs: what each says, and which come first."""

from __future__ import annotations

from typing import Any

from flowguard.aws.run_reader import RunReader, SeenRun
from flowguard.operate.moments import iso
from flowguard.operate.run_facts import is_put_off, place_facts, standing, stored_text
from flowguard.protocol.run import ENDED, RunItem, Status


def quiet_since(item: RunItem, now: int) -> int | None:
    """Return when a worker last had the run. None while a worker has it."""
    if item.done:
        return item.committed_at
    return None if item.lease_until > now else item.lease_until


def is_late(item: RunItem, now: int) -> bool:
    """Answer whether the run waits, and its deadline is over."""
    wait = item.wait if item.status is Status.WAITING else None
    return wait is not None and wait.end is None and wait.deadline < now


def is_left(item: RunItem, now: int) -> bool:
    """Answer whether a hop has begun and not ended, no worker has it, and no attempt is to come."""
    rests = (item.back_off is not None and item.back_off.until >= now) or is_put_off(item, now)
    return item.status is Status.RUNNING and not item.done and item.lease_until <= now and not rests


def urgency(item: RunItem, now: int) -> tuple[int, int]:
    """Return the key by which a list of runs is sorted.

    Late waits come first, then runs that no worker has, failed ones, other waits, and the rest.
    """
    if item.status is Status.WAITING and item.wait is not None:
        return (0 if is_late(item, now) else 3), item.wait.deadline
    since = quiet_since(item, now)
    rank = 1 if is_left(item, now) else 2 if item.status is Status.FAILED else 5 if item.status in ENDED else 4
    return rank, now if since is None else since


def row_facts(seen: SeenRun, runs: RunReader, now: int) -> dict[str, Any]:
    """Return what a list says of a run, as JSON values."""
    item = seen.item
    since = quiet_since(item, now)
    failed = item.status is Status.FAILED
    return {
        **place_facts(seen),
        "attempt": item.retry + 1,
        "requested_at": iso(item.requested_at),
        "quiet_since": None if since is None else iso(since),
        "deadline": iso(item.wait.deadline) if item.wait is not None and item.status is Status.WAITING else None,
        "late": is_late(item, now),
        "now": (stored_text(seen, runs, "error") if failed else None) or standing(item, now),
    }
