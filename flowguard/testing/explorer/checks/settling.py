"""Checks that what was accepted ends and what was committed is sent (I6 and I7, I14 and I15)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from flowguard.errors import Cancelled
from flowguard.events import EventType
from flowguard.flow import AnyFlow
from flowguard.protocol.outbox import Kind as SendKind
from flowguard.protocol.outbox import Send
from flowguard.protocol.run import RunItem, Status
from flowguard.sim.posted_messages import Posted
from flowguard.testing.explorer.checks.failures import is_undone
from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.checks.standing import Standing
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.parked import is_of_another_release, parked
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import CANCELLED, FLOW_STAGE, PLACE, REQUEST_ID, Place

_Own: TypeAlias = tuple[str, ...]
"""What tells a committed send from others: its id; of a next hop's message its request id, object, stage and hop."""

_PASSED_BY: Final = (
    EventType.STALE,
    EventType.SUPERSEDED,
    EventType.IGNORED,
    EventType.ATTACHED,
    EventType.KEPT,
    EventType.DONE,
    EventType.DUPLICATE,
)


def requests_are_settled(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check I6 and I15: at rest each accepted request is settled, and no run waits.

    It is COMPLETED, FAILED with one dead letter, or has been passed by. One that came too deep in a chain, or from
    another release, is a dead letter, and has no run.
    """
    seen = {(version.key, version.item.request_id) for version in history.versions if version.item is not None}
    passed = {
        (f"run#{event.message.flow}#{event.message.object_id}", event.message.request_id)
        for _, event in history.events(*_PASSED_BY)
        if event.message
    }
    standing = Standing.of(history, flows)
    for key, item in history.latest().items():
        if item.status is Status.RUNNING and not standing.waits(history, key, item):
            yield Problem("I6", key, f"nothing is under way any more, and the run stands at hop {item.hop}")
        if item.status is Status.WAITING and not _may_wait(history, standing, key, item):
            yield Problem("I15", key, f"nothing is under way any more, and the run waits for ever at hop {item.hop}")
        if standing.dead_letters:
            continue
        if item.status is Status.FAILED:
            yield from _letters(key, item, _dead(history, key, item))
    settled = seen | passed | _never_begun(history, flows)
    if standing.dead_letters:
        settled |= _kept_too_deep(history, flows)
    for key, request in dict.fromkeys(history.requests):
        if (key, request) not in settled and not standing.run_table:
            yield Problem("I6", key, f"the request {request} was accepted and left no trace", request)


def _never_begun(history: History, flows: Sequence[AnyFlow]) -> set[tuple[str, str]]:
    """Return the requests that are dead letters and have no run, each after the key of the run that it wants.

    Those came too deep in a chain, or from another release.
    """
    return {
        (message.run, message.id)
        for message in history.posted
        if message.is_letter
        and message.id is not None
        and (_is_too_deep(_flow_of(message), message.place, flows) or is_of_another_release(message.place))
    }


def _kept_too_deep(history: History, flows: Sequence[AnyFlow]) -> set[tuple[str, str]]:
    """Return the requests that came too deep and whose dead letter was refused: the killed queue keeps the records."""
    last = {delivery.record: delivery for delivery in history.deliveries}
    return {
        (f"run#{message.flow}#{message.object_id}", message.request_id)
        for delivery in last.values()
        if delivery.from_dlq and not delivery.acked
        for event in delivery.events
        if (message := event.message) is not None
        and _is_too_deep(message.flow, Place(hop=message.hop, depth=message.depth), flows)
    }


def _flow_of(message: Posted) -> str:
    return message.attributes[FLOW_STAGE].value.partition("/")[0]


def _is_too_deep(flow: str, place: Place, flows: Sequence[AnyFlow]) -> bool:
    most = {known.name: known.max_depth for known in flows}
    return place.hop == 1 and place.depth > most.get(flow, place.depth)


def _letters(key: str, item: RunItem, dead: Collection[tuple[str, int, int]]) -> Iterator[Problem]:
    """Check that a failed run has one dead letter for each hop that failed: for the one that it gave up, too.

    What was cancelled leaves none.
    """
    failed = item.own_failure
    if failed is not None:
        given_up, wanted = sum(hop == failed.hop for _, hop, _ in dead), int(failed.error.type != Cancelled.__name__)
        if given_up != wanted:
            yield Problem("I6", key, f"a run that gave up hop {failed.hop} has one dead letter of it", wanted, given_up)
    others = sum(failed is None or hop != failed.hop for _, hop, _ in dead)
    is_over = is_undone(item) or (failed is None and _was_cancelled(item))
    if others != (wanted := 0 if is_over else 1):
        yield Problem("I6", key, "a failed run has one dead letter", wanted, others)


def _was_cancelled(item: RunItem) -> bool:
    """Answer whether a failed run was cancelled. One that its cancelled request has begun has no note of it."""
    by_its_request = item.error is not None and item.error.startswith(f"{Cancelled.__name__}: ")
    return item.cancelled_because is not None or by_its_request


def _may_wait(history: History, standing: Standing, key: str, item: RunItem) -> bool:
    """Answer whether a run that waits stands where it may: its deadline is parked, or the message after its wait."""
    kept = [parked(posted) for posted in history.posted if posted.run == key]
    has_deadline = any(send is not None and send.id.endswith(f".{SendKind.DEADLINE}") for send in kept)
    return has_deadline or standing.waits(history, key, item)


def _dead(history: History, key: str, item: RunItem) -> set[tuple[str, int, int]]:
    """Return the run's dead letters. Copies count once.

    Letters that were sent back before the run failed again do not count. It makes no difference who sent them back.
    Those of more redrives than there were are of an earlier run with its request id, whose item has expired.
    """
    sent_back = [
        (each.message.hop, each.message.redrive)
        for each in history.redriven
        if (each.key, each.message.request_id) == (key, item.request_id)
    ]
    most = max([item.redrive, *(redrive for _, redrive in sent_back)]) + 1
    redriven = {place for place in sent_back if place <= (item.hop, item.redrive)} | {
        (version.item.hop, version.item.redrive)
        for version in history.versions
        if version.key == key and version.item is not None and version.item.request_id == item.request_id
    }
    return {
        (message.to, place.hop, place.redrive)
        for message in history.posted
        if (message.run, message.id) == (key, item.request_id)
        and message.is_letter
        and ((place := message.place).hop, place.redrive) not in redriven
        and place.redrive <= most
    }


def outboxes_are_sent(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check I7: everything that a commit records is sent at least once.

    What carries the run on is sent after everything else. What its destination refuses for good is among the dead
    letters instead.
    """
    standing, latest = Standing.of(history, flows), history.latest()
    sent: dict[_Own, int] = {}
    for number, message in enumerate(history.posted):
        for identity in _owns(message):
            sent.setdefault(identity, number)
    for version in history.versions:
        item = version.item
        if item is None or not item.done or item.outbox is None or item.outbox.request_id != item.request_id:
            continue
        if item.reset_at is not None:  # what a reset left: the commit was before it, and in another history perhaps
            continue
        now = latest.get(version.key)
        superseded = now is not None and now.request_id != item.request_id
        sends = standing.to_be_sent(item.outbox.sends)
        yield from _sent(version.key, sends, sent, superseded=superseded)


def _sent(key: str, sends: Sequence[Send], sent: Mapping[_Own, int], *, superseded: bool) -> Iterator[Problem]:
    last = [send for send in sends if send.kind is SendKind.NEXT]
    sides = [send for send in sends if send.kind in (SendKind.SIDE, SendKind.COMPLETE)]
    sides += [send for send in sends if last and send.kind is SendKind.DEAD]
    for send in [*sides, *([] if superseded else last)]:
        if _own(send) not in sent:
            yield Problem("I7", f"{key} → {send.to}", f"{send.kind} was committed and never sent", send.id)
    latest = max((sent[_own(send)] for send in sides if _own(send) in sent), default=-1)
    asks = [send for send in sends if send.kind is SendKind.ASK]
    if any(sent.get(_own(then), latest) < latest for then in [*last, *asks]):
        yield Problem("I7", key, "the next hop's message, or an ask, went before another of the same commit")


def _own(send: Send) -> _Own:
    """Return what identifies a send.

    A next hop's message is identified by the hop that it begins, a dead letter by its redrive, a cancelled request by
    its request, any other by its id.
    """
    if send.kind in (SendKind.NEXT, SendKind.DEAD):
        texts = {name: attribute.value for name, attribute in send.attributes.items()}
        place = Place.parse(texts[PLACE])
        hop = _hop(texts[REQUEST_ID], texts[FLOW_STAGE], place)
        return hop if send.kind is SendKind.NEXT else (*hop, str(place.redrive))
    return next(_cancelled(send.attributes), (send.id,))


def _cancelled(attributes: Mapping[str, Attribute]) -> Iterator[_Own]:
    """Yield the identity of each request that is sent again, as cancelled. Nothing of other sends."""
    attribute = attributes.get(PLACE)
    if (
        attribute is not None
        and f'"{CANCELLED}"' in attribute.value
        and (place := Place.parse(attribute.value)).cancelled is not None
    ):
        yield *_hop(attributes[REQUEST_ID].value, attributes[FLOW_STAGE].value, place), CANCELLED


def _hop(request: str, stage: str, place: Place) -> _Own:
    return request, str(place.object_id), stage, str(place.hop)


def _owns(message: Posted) -> Iterator[_Own]:
    """Yield what identifies a message that was sent or parked."""
    if (kept := parked(message)) is not None:
        yield (kept.id,)
        yield from _cancelled(kept.attributes)
    elif message.id is not None:
        yield (message.id,)
        yield from _cancelled(message.attributes)
        if (stage := message.attributes.get(FLOW_STAGE)) is not None:
            hop = _hop(message.id, stage.value, message.place)
            yield hop
            if message.is_letter:
                yield *hop, str(message.place.redrive)


def success_stays(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check I14: a lost answer to an applied write never turns success into failure.

    That a run failed at all although only answers were lost shows in the comparison of its end with the undisturbed
    one.
    """
    completed: set[tuple[str, str]] = set()
    for key, item in ((version.key, version.item) for version in history.versions):
        if item is None:  # expired: a later version is of a new run
            completed = {run for run in completed if run[0] != key}
            continue
        completed = {run for run in completed if run[0] != key or run[1] == item.request_id}  # an id may be used again
        if item.status is Status.COMPLETED:
            completed.add((key, item.request_id))
        elif (key, item.request_id) in completed:
            yield Problem("I14", key, "a completed run was opened or failed again", "COMPLETED", item.status.value)
            completed.discard((key, item.request_id))
