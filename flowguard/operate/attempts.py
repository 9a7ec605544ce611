"""The attempt of a hop that has failed, and the moment by which the next message was to come."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from flowguard.protocol.run import ENDED, RunItem, Status
from flowguard.worker.rests import NOTED_FROM

PARKED_AFTER: Final = 180_000
"""Milliseconds before a message can be parked: it is received three times first, 100 to 200 s apart."""

REST: Final = NOTED_FROM // timedelta(milliseconds=1)
"""The longest rest before an attempt, in ms, that the item does not have."""


def failed_attempt(item: RunItem) -> int:
    """Return the number of the attempt that has failed in a run at rest.

    The item of a record that stays in its queue has counted it already, and the worker as not killed.
    """
    return item.retry if item.kills < 0 else item.retry + 1


def may_be_parked(item: RunItem, now: int) -> bool:
    """Answer whether a message of the run may be parked. The item does not say it, for parking writes nothing.

    A cancelled run is left to its next message, wherever that is.
    """
    if item.status in ENDED:
        return False
    return item.cancelled_because is not None or now - _expected_at(item) >= PARKED_AFTER


def _expected_at(item: RunItem) -> int:
    """Return by when the run's next message was to come."""
    if item.status is Status.WAITING and item.wait is not None and item.wait.end is None:
        return item.wait.deadline
    if item.done:
        return item.committed_at
    if item.back_off is not None:
        return item.back_off.until
    put_off_until = 0 if item.burst is None else item.burst.until
    return max(put_off_until, item.lease_until + REST)
