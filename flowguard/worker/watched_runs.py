"""Where the run of a request stands, for the client that has sent it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import Any

from flowguard.errors import CannotOpen, TextGone
from flowguard.flow import ATTACH, IGNORE, AnyFlow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.callers import StoredEnd
from flowguard.protocol.run import ENDED, RunItem, Status
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.watch_link import WatchLink
from flowguard.worker.ports import Store


class Progress(StrEnum):
    """Where a request stands."""

    ACCEPTED = "accepted"
    """Its message is in the queue, and no run of it has begun."""
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    SUPERSEDED = "superseded"
    """A newer request has the object. Whether this one ended before that is not known any more."""
    IGNORED = "ignored"
    """Another run had the object, and the flow ignores what is requested meanwhile."""
    FORGOTTEN = "forgotten"
    """Nothing is known of it any more: its run item has expired, or its object was forgotten."""


class Watched(NamedTuple):
    """What is seen of a request. ``error`` is the type of the error with which its run has failed."""

    progress: Progress
    result: Any = None
    error: str | None = None
    shows_result: bool = True

    @property
    def is_over(self) -> bool:
        return self.progress not in (Progress.ACCEPTED, Progress.RUNNING, Progress.WAITING)


def watched(store: Store, flow: AnyFlow, link: WatchLink, now: int, may_show: Callable[[], bool]) -> Watched:
    """Read where a request stands: one consistent read while it goes on, and a second one of its end.

    A result that may not be shown is not read: ``may_show`` is asked where there is one. A link of a key whose object
    is forgotten names none.
    """
    if not link.object_id:
        return Watched(Progress.FORGOTTEN)
    address = AnswerAddress(flow.name, ObjectId(link.object_id), RequestId(""), 0, 0, "")
    item = store.waits.groups.run(address)
    if item is None:
        # a message lies in its queues for as long as the retention, and a run item lives for twice that
        has_expired = now - link.requested_at > flow.retention // timedelta(milliseconds=1)
        return Watched(Progress.FORGOTTEN if has_expired else Progress.ACCEPTED)
    progress = _progress(item, flow, link)
    if progress is not Progress.DONE:
        return Watched(progress)
    has_result = item.status is Status.COMPLETED
    if has_result and not may_show():
        return Watched(Progress.DONE, shows_result=False)
    try:
        end = store.callers.stored_end(flow.name, ObjectId(link.object_id))
    except (TextGone, CannotOpen) as error:
        return Watched(Progress.DONE if has_result else Progress.FAILED, error=type(error).__name__)
    if end is None or end.request_id != item.request_id:
        return Watched(Progress.RUNNING)  # it was reset, or a newer run has begun between the two reads: look again
    if end.status == Status.COMPLETED and not (has_result or may_show()):  # it had failed at the first read
        return Watched(Progress.DONE, shows_result=False)
    return _ended(end)


def _progress(item: RunItem, flow: AnyFlow, link: WatchLink) -> Progress:
    """Return where the request stands by the item. DONE stands for each end that is to be read."""
    is_over = item.status in ENDED and item.reset_at is None
    if item.request_id == link.request_id:
        if is_over:
            return Progress.DONE
        return Progress.WAITING if item.status is Status.WAITING else Progress.RUNNING
    if flow.on_conflict is ATTACH:
        is_good = is_over and item.committed_at >= flow.fresh_since(link.requested_at)
        return Progress.DONE if is_good else Progress.ACCEPTED
    if item.requested_at >= link.requested_at:
        return Progress.SUPERSEDED
    if flow.on_conflict is IGNORE and not (is_over and item.committed_at < link.requested_at):
        return Progress.IGNORED
    return Progress.ACCEPTED


def _ended(end: StoredEnd) -> Watched:
    if end.status != Status.COMPLETED:
        return Watched(Progress.FAILED, error=str(end.error).partition(":")[0])
    return Watched(Progress.DONE, json.loads(end.result or "null"))
