"""What was accepted ends, and what was committed is sent: I6, I7, I14."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from flowguard.events import Event
from flowguard.flow import AnyFlow
from flowguard.outbox import Kind as SendKind
from flowguard.run import RunItem, Status
from flowguard.testing.explorer.history import History
from flowguard.testing.explorer.problem import Problem

_PASSED_BY: Final = (Event.STALE, Event.SUPERSEDED, Event.IGNORED, Event.DONE, Event.DUPLICATE)


def requests_are_settled(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """I6: at rest each accepted request is COMPLETED, FAILED with one dead letter, or has been passed by."""
    seen = {(one.key, one.item.request_id) for one in history.versions if one.item is not None}
    passed = {
        (f"run#{happening.message.flow}#{happening.message.object_id}", happening.message.request_id)
        for _, happening in history.told(*_PASSED_BY)
        if happening.message
    }
    for key, item in history.latest().items():
        if item.status is Status.RUNNING:
            yield Problem("I6", key, f"nothing is under way any more, and the run stands at hop {item.hop}")
        if item.status is Status.FAILED and len(dead := _dead(history, key, item)) != 1:
            yield Problem("I6", key, "a failed run has one dead letter", 1, len(dead))
    for key, request in dict.fromkeys(history.requests):
        if (key, request) not in seen and (key, request) not in passed:
            yield Problem("I6", key, f"the request {request} was accepted and left no trace", request)


def _dead(history: History, key: str, item: RunItem) -> set[tuple[str, int, int]]:
    """Copies once, and without those that were redriven before it failed again."""
    redriven = {
        (one.message.hop, one.message.redrive)
        for one in history.redriven
        if (one.message.hop, one.message.redrive) <= (item.hop, item.redrive)
    }
    return {
        (message.to, place.hop, place.redrive)
        for message in history.posted
        if (message.run, message.id) == (key, item.request_id)
        and message.is_letter
        and ((place := message.place).hop, place.redrive) not in redriven
    }


def outboxes_are_sent(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """I7: of each commit at least once, what carries the run on after everything else."""
    sent: dict[str, int] = {}
    for number, message in enumerate(history.posted):
        for own in _ids(message.id, message.place.hop, message.place.redrive):
            sent.setdefault(own, number)
    latest = history.latest()
    for version in history.versions:
        item = version.item
        if item is None or not item.done or item.outbox is None or item.outbox.request_id != item.request_id:
            continue
        now = latest.get(version.key)
        yield from _sent(version.key, item, sent, superseded=now is not None and now.request_id != item.request_id)


def _sent(key: str, item: RunItem, sent: dict[str, int], *, superseded: bool) -> Iterator[Problem]:
    sends = item.outbox.sends if item.outbox is not None else ()
    last = [send for send in sends if send.kind is SendKind.NEXT]
    sides = [send for send in sends if send.kind in (SendKind.SIDE, SendKind.COMPLETE)]
    for send in [*sides, *([] if superseded else last)]:
        if send.id not in sent:
            yield Problem("I7", f"{key} → {send.to}", f"{send.kind} was committed and never sent", send.id)
    latest = max((sent[send.id] for send in sides if send.id in sent), default=-1)
    if any(sent.get(then.id, latest) < latest for then in last):
        yield Problem("I7", key, "the next hop's message went before another of the same commit")


def _ids(own: str | None, hop: int, redrive: int) -> list[str]:
    """The ids of a send: a side message's own; a next hop's is that of the hop which it begins."""
    if own is None:
        return []
    return [own, f"{own}.{hop}r{redrive}" if redrive else f"{own}.{hop}"]


def success_stays(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """I14: a lost answer to an applied write never turns success into failure. That a run failed at all although only
    answers were lost is seen by its end."""
    completed: set[tuple[str, str]] = set()
    for key, item in ((one.key, one.item) for one in history.versions):
        if item is None:  # expired: what comes then is new
            completed = {one for one in completed if one[0] != key}
        elif item.status is Status.COMPLETED:
            completed.add((key, item.request_id))
        elif (key, item.request_id) in completed:
            yield Problem("I14", key, "a completed run was opened or failed again", "COMPLETED", item.status.value)
            completed.discard((key, item.request_id))
