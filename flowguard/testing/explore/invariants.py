"""What has to hold after each schedule: flowguard's own promises, and the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from flowguard.events import Event
from flowguard.flow import AnyFlow
from flowguard.outbox import Kind as SendKind
from flowguard.run import RunItem, Status
from flowguard.testing.explore.history import History, Version
from flowguard.testing.explore.problem import EXPLODED, Problem
from flowguard.testing.explore.view import View

Invariant: TypeAlias = Callable[[View], object]
"""Looks at the end of a schedule. Raises (``assert`` will do), or answers what is wrong, or None, or True."""

_PASSED_BY: Final = (Event.STALE, Event.SUPERSEDED, Event.IGNORED, Event.DONE, Event.DUPLICATE)


def invariant(function: Invariant) -> Invariant:
    """Marks a function beside a flow as one that ``flowguard explore`` checks."""
    function.__flowguard_invariant__ = True  # type: ignore[attr-defined]  # a mark
    return function


def is_invariant(value: object) -> bool:
    """Whether it was marked."""
    return callable(value) and getattr(value, "__flowguard_invariant__", False) is True


def broken(history: History, flows: Sequence[AnyFlow], users: Iterable[Invariant]) -> Iterator[Problem]:
    """Everything that does not hold."""
    if not history.at_rest:
        yield Problem(EXPLODED, "queues", "messages still come after hundreds of deliveries")
    for key in dict.fromkeys(version.key for version in history.versions):
        yield from _of_item(key, [version for version in history.versions if version.key == key])
    yield from _outboxes(history)
    yield from _settled(history)
    yield from _retries(history, flows)
    view = View(history)
    for function in users:
        if (why := _verdict(function, view)) is not None:
            yield Problem(getattr(function, "__name__", "invariant"), "the user's invariant", why)


def _verdict(function: Invariant, view: View) -> str | None:
    try:
        answer = function(view)
    except Exception as error:  # an invariant may say it in any way
        return str(error) or f"{type(error).__name__} was raised"
    if answer is False:
        return "it does not hold"
    return None if answer is None or answer is True else str(answer)


# -- a run item, version after version ---------------------------------------------------------------------------------


def _of_item(key: str, versions: Sequence[Version]) -> Iterator[Problem]:
    before: RunItem | None = None
    owners: dict[int, RunItem] = {}
    for version in versions:
        item = version.item
        if item is None:
            continue
        if before is None or item.epoch != before.epoch:
            owners[version.worker] = item
            yield from _claimed(key, before, item)
        elif _is_commit(before, item):
            yield from _committed(key, before, item, owners.get(version.worker))
        before = item


def _is_commit(before: RunItem, item: RunItem) -> bool:
    """Not what other writes change meanwhile, such as an answer that comes in."""
    facts = (before.done, before.committed_at, before.status), (item.done, item.committed_at, item.status)
    return item.done and facts[0] != facts[1]


def _claimed(key: str, before: RunItem | None, item: RunItem) -> Iterator[Problem]:
    if before is None:
        return
    if item.epoch < before.epoch:
        yield Problem("I2", key, "the epoch went back", before.epoch, item.epoch)
    was, now = (before.requested_at, before.request_id), (item.requested_at, item.request_id)
    if now < was:
        yield Problem("I5", key, "an older request took over from a newer one", was, now)
    if item.request_id == before.request_id and (item.redrive, item.hop) < (before.redrive, before.hop):
        yield Problem("I3", key, "the run went back to an earlier hop", before.hop, item.hop)


def _committed(key: str, before: RunItem, item: RunItem, claim: RunItem | None) -> Iterator[Problem]:
    if claim is None or claim.request_id != before.request_id:
        yield Problem("I1", key, "a write was applied under the request id of another run", before.request_id, claim)
    elif (claim.epoch, claim.owner) != (before.epoch, before.owner):
        yield Problem("I2", key, "a worker that no longer owned the hop committed it", before.epoch, claim.epoch)
    if before.done:
        yield Problem("I3", key, f"hop {before.hop} was committed twice", 1, 2)
    if before.status is Status.COMPLETED and item.status is Status.FAILED:
        yield Problem("I14", key, "a lost answer turned success into failure", before.status.value, item.status.value)


# -- what was committed was sent ---------------------------------------------------------------------------------------


def _outboxes(history: History) -> Iterator[Problem]:
    """Of each commit at least once, what carries the run on after everything else."""
    sent: dict[str, int] = {}
    for place, message in enumerate(history.posted):
        for own in _ids(message.id, message.place.hop, message.place.redrive):
            sent.setdefault(own, place)
    for version in history.versions:
        item = version.item
        if item is None or not item.done or item.outbox is None:
            continue
        if item.outbox.request_id != item.request_id:
            continue
        last = [send for send in item.outbox.sends if send.kind is SendKind.NEXT]
        sides = [send for send in item.outbox.sends if send.kind in (SendKind.SIDE, SendKind.COMPLETE)]
        superseded = history.latest()[version.key].request_id != item.request_id if history.latest() else False
        unsent = [send for send in [*sides, *([] if superseded else last)] if send.id not in sent]
        for send in unsent:
            yield Problem("I7", f"{version.key} → {send.to}", f"{send.kind} was committed and never sent", send.id)
        early = [send for send in sides for then in last if sent.get(then.id, -1) >= 0 and send.id in sent]
        if any(sent[then.id] < sent[send.id] for then in last if then.id in sent for send in early):
            yield Problem("I7", version.key, "the next hop's message went before another of the same commit")


def _ids(own: str | None, hop: int, redrive: int) -> list[str]:
    """The ids of a send: a side message's own; a next hop's is that of the hop which sent it."""
    if own is None:
        return []
    return [own, f"{own}.{hop}r{redrive}" if redrive else f"{own}.{hop}"]


# -- every request is settled ------------------------------------------------------------------------------------------


def _settled(history: History) -> Iterator[Problem]:
    seen: dict[tuple[str, str], str] = {}
    passed = {
        (f"run#{happening.message.flow}#{happening.message.object_id}", happening.message.request_id)
        for _, happening in history.told(*_PASSED_BY)
        if happening.message
    }
    for version in history.versions:
        if version.item is not None:
            seen[version.key, version.item.request_id] = version.item.status.value
    for key, item in history.latest().items():
        if item.status is Status.RUNNING:
            yield Problem("I6", key, f"nothing is under way any more, and the run stands at hop {item.hop}")
        if item.status is Status.FAILED and len(dead := _dead(history, item.request_id)) != 1:
            yield Problem("I6", key, "a failed run has one dead letter", 1, len(dead))
    for key, request in dict.fromkeys(history.requests):
        if not any(run == request for _, run in seen) and (key, request) not in passed:
            yield Problem("I6", key, f"the request {request} was accepted and left no trace", request)


def _dead(history: History, request_id: str) -> set[tuple[str, int, int]]:
    return {
        (message.to, message.place.hop, message.place.redrive)
        for message in history.posted
        if message.id == request_id and message.place.redrive > 0
    }


def _retries(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    most = {
        f"{flow.name}/{stage.name}": max(
            [stage.retry.attempts, *(policy.attempts for policy in stage.retry.for_errors.values())]
        )
        for flow in flows
        for stage in flow.stages
    }
    for message in history.posted:
        stage = message.attributes.get("flowstage")
        if stage is not None and message.place.retry >= most.get(stage.value, 1_000):
            yield Problem("I10", stage.value, "tried more often than its policy says", most[stage.value])
