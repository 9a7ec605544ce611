"""Checks of what a function receives and what it answers (I11 and I12)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from flowguard.events import Event, EventType
from flowguard.flow import AnyFlow
from flowguard.protocol.group_cancel import GroupCancelOrder
from flowguard.protocol.run_orders import CancelOrder, GroupOrder, ResetOrder, read_order
from flowguard.testing.explorer.checks.problem import UNDISTURBED, Problem
from flowguard.testing.explorer.checks.standing import LOST, PARKED
from flowguard.testing.explorer.record.history import DeliveryRecord, History
from flowguard.testing.explorer.record.question import PARTIES
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import OWN_ATTRIBUTES

_MUST_STAY: Final = frozenset(
    {EventType.NOT_SENT, EventType.BROKEN, EventType.BUSY, EventType.EARLY, EventType.RETURNED}
)

_MAY_STAY: Final = _MUST_STAY | {
    EventType.CONTINUED,
    EventType.PUT_OFF,
    EventType.FENCED,
    EventType.IN_LINE,
    EventType.RETRIED,
    EventType.UNROUTABLE,
    EventType.UNREADABLE,
    EventType.UNTRUSTED,
}


def messages_stay_as_they_were(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check I11: every delivery of a message says what its first delivery said.

    This holds for a retry, a redrive and a copy alike, not for what cancels or resets the run. Normalising a normalised
    record changes nothing.
    """
    first: dict[tuple[object, ...], tuple[str, Mapping[str, Attribute]]] = {}
    for delivery in history.deliveries:
        if delivery.envelope is None:
            continue
        if not _is_stable(json.dumps(delivery.envelope.record, sort_keys=True)):
            yield Problem("I11", delivery.queue or "a function", "normalising the normalised record changes it")
        message = next((event.message for event in delivery.events if event.message is not None), None)
        if message is None or message.cancelled is not None or delivery.settles or _is_order(delivery.envelope):
            continue
        if delivery.record in history.forged:
            continue
        key = message.flow, message.object_id, message.request_id, message.requested_at, message.hop
        content = _said(delivery.envelope)
        if content != first.setdefault(key, content):
            text = f"hop {message.hop} of {message.request_id} comes with another payload or other attributes"
            yield Problem("I11", f"{message.flow}/{message.stage}", text, first[key], content)


def _is_order(envelope: Envelope) -> bool:
    """Answer whether a message is an order to reset or cancel a run or to ask or cancel a group."""
    return isinstance(read_order(envelope), CancelOrder | GroupCancelOrder | GroupOrder | ResetOrder)


def _said(envelope: Envelope) -> tuple[str, Mapping[str, Attribute]]:
    theirs = {name: attribute for name, attribute in envelope.attributes.items() if name not in OWN_ATTRIBUTES}
    return envelope.message, theirs


@lru_cache(maxsize=4096)
def _is_stable(record: str) -> bool:
    (again,) = normalize({"Records": [json.loads(record)]})
    return isinstance(again, Envelope) and json.dumps(again.record, sort_keys=True) == record


def nothing_breaks_undisturbed(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check that no function breaks where nothing goes wrong.

    If one did, each schedule would fail alike and none would differ.
    """
    for _, event in history.events(EventType.BROKEN):
        if not history.schedule.choices and event.message is not None:
            where = f"{event.message.flow}/{event.message.stage}"
            yield Problem(UNDISTURBED, where, f"breaks though nothing goes wrong: {event.facts.get('why')}")


def answers_name_what_is_left(history: History, flows: Sequence[AnyFlow]) -> Iterator[Problem]:
    """Check I12: batchItemFailures lists exactly the records to be delivered again."""
    for delivery in history.deliveries:
        if delivery.died or not delivery.events:
            continue
        where, events = (
            delivery.queue or "a function",
            {event.type for event in delivery.events if not _is_given_up(delivery, event)},
        )
        if others := [name for name in delivery.failures if name != delivery.message_id]:
            yield Problem(
                "I12", where, "a record that it was not given is listed", delivery.message_id, ", ".join(others)
            )
        if delivery.queue == PARTIES or delivery.is_request:
            events -= {EventType.NOT_SENT}  # the copy of the answer in the flow's own queue repairs that
        if delivery.acked and (unsettled := events & _MUST_STAY):
            yield Problem("I12", where, f"a record was acked, though {_words(unsettled)}")
        is_early = delivery.settles and any(map(_waits_for_its_hop, delivery.events))
        if delivery.acked and is_early:
            yield Problem("I12", where, "an answer was acked, though the hop that waits for it was not committed")
        is_held = any(event.facts.get("is_held") for event in delivery.events)
        if delivery.failures and not (is_early or is_held or events & _MAY_STAY or _goes_on(history, delivery)):
            yield Problem("I12", where, f"a record is to be delivered again, though {_last(delivery)}")


def _waits_for_its_hop(event: Event) -> bool:
    """Answer whether an answer finds that the hop that waits for it is not committed. It may have replaced another."""
    return event.facts.get("verdict") == AnswerVerdict.EARLY and not event.facts.get("replaces")


def _goes_on(history: History, delivery: DeliveryRecord) -> bool:
    """Answer whether an answer for many has come so far as this invocation had time, and the next one goes on."""
    return any(str(history.calls[number - 1].site) == "keep the place" for number in delivery.calls)


def _is_given_up(delivery: DeliveryRecord, event: Event) -> bool:
    """Answer whether a later event settles a message that was not sent.

    That is: the message was parked, it or its letter was lost for good, or it was a retry whose run was to end instead.
    Another worker may have the object by then.
    """
    if event.type is not EventType.NOT_SENT:
        return False
    later = delivery.events[delivery.events.index(event) + 1 :]
    ids = [str(after.facts.get("id")) for after in later if after.type.value in (PARKED, LOST)]
    return any(str(event.facts.get("id")).startswith(name) for name in ids) or any(
        after.type in (EventType.FAILED, EventType.FENCED) for after in later
    )


def _words(events: frozenset[EventType] | set[EventType]) -> str:
    return "it was " + " and ".join(sorted(event.value.replace("_", " ") for event in events))


def _last(delivery: DeliveryRecord) -> str:
    return _words({delivery.events[-1].type})
