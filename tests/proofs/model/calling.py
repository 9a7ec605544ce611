"""What the store does to the lists of callers, to the end of the run before, and for a reset, as values."""

from __future__ import annotations

from flowguard.names.ids import Owner, RequestId
from flowguard.protocol import claims
from flowguard.protocol.callers import Caller, Callers, LeftEnd, StoredEnd, caller_key
from flowguard.protocol.run import ENDED, Cancellation, Claim, Commit, RunItem, Status
from flowguard.wire.message import Message

RESET = "reset"
"""Who owns the hop of a run that was reset: no worker."""


def attached(item: RunItem | None, term: str, caller: Caller, *, looks: bool = True) -> RunItem | None:
    """The item with the caller in its list; None where that is not open any more."""
    if item is None or item.callers is None or (looks and item.callers.term != term):
        return None
    held = {caller.key: caller.to_text(), **item.callers.held}
    return item._replace(callers=item.callers._replace(held=held))


def with_rows(item: RunItem | None, term: str) -> RunItem | None:
    """The item that says that there are rows; None where its list is not open any more."""
    if item is None or item.callers is None or item.callers.term != term:
        return None
    return item._replace(callers=item.callers._replace(rows=True))


def as_found(item: RunItem | None, message: Message) -> RunItem | None:
    """The item as the claim of a first hop finds it: with the end that was the last one."""
    if item is None or message.hop > 1 or item.answered is None or item.answered_by is None:
        return item
    return item if item.left_end is not None else item._replace(left_end=_left_end(item))


def _left_end(item: RunItem) -> LeftEnd:
    assert item.answered is not None
    assert item.answered_by is not None
    status = Status.COMPLETED if item.error is None else Status.FAILED
    end = StoredEnd(item.answered_by, item.committed_at, status.value, item.result, item.error)
    return LeftEnd(item.answered_by, item.committed_at, item.answered, lambda: end)


def committed(found: RunItem, claim: Claim, commit: Commit, *, closes: bool = True) -> RunItem:
    """The item as a commit leaves it, as far as callers go."""
    answered = claims.answered_askers(claim, commit)
    after = found._replace(
        askers={key: text for key, text in found.askers.items() if key not in answered},
        left_end=None,
        error=None if commit.error is None else str(commit.error),
        first_message=commit.first_message or (found.first_message if commit.leaves_first_message else None),
    )
    if not commit.closes_list:
        return after
    return after._replace(
        answered=found.callers or Callers(found.owner),
        answered_by=found.request_id,
        answered_key=caller_key(found.request_id, found.requested_at),
        callers=None if closes else found.callers,
    )


def reset(item: RunItem, now: int, *, fences: bool) -> RunItem:
    """The item of a run that was reset."""
    fenced = item._replace(epoch=item.epoch + 1, owner=Owner(RESET), lease_until=now) if fences else item
    return fenced._replace(reset_at=now, reset_by=RESET)


def cancelled(
    item: RunItem | None, at: int, why: str, now: int, only: RequestId | None, *, fences: bool, asks: bool
) -> tuple[RunItem | None, RunItem | None]:
    """The item after a cancellation, and the reply."""
    if item is None or item.status in ENDED or item.own_failure is not None or item.requested_at > at:
        return item, None
    if asks and only is not None and (item.request_id, item.requested_at) != (only, at):
        return item, None
    if item.cancelled_because is not None and item.cancellation is not None and item.cancellation.at >= at:
        return item, _at_rest(item)
    after = item._replace(cancellation=Cancellation(item.request_id, at, why))
    if item.wait is not None and claims.is_waiting(item):
        after = after._replace(wait=item.wait._replace(timed_out=True))
    elif fences:
        after = after._replace(epoch=item.epoch + 1, lease_until=now)
    return after, _at_rest(after)


def _at_rest(item: RunItem) -> RunItem:
    """The item as the store reads it: with its wait's plan where it waits."""
    if item.wait is None or item.status is Status.WAITING:
        return item
    return item._replace(wait=item.wait._replace(plan=None))


def terms(item: RunItem | None) -> set[str]:
    """The names of lists that somebody may still know."""
    if item is None:
        return set()
    return {callers.term for callers in (item.callers, item.answered) if callers is not None}
