"""Answers and deadlines: messages that reach a flow's functions and are for no stage. They settle a wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from flowguard.protocol.groups import GROUP
from flowguard.protocol.outbox import Kind
from flowguard.protocol.run_orders import ANSWER, order_parts
from flowguard.protocol.waiting import DEADLINE
from flowguard.testing.explorer.record.history import History
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import PLACE, REQUEST_ID

OF_STAGES: Final = frozenset({"claim", "commit", "release", "note the back-off", "note the kills", "tell"})
"""The steps that write a run item for a stage's message. Any other is of an answer, a deadline or an order."""


def address_in(attributes: Mapping[str, Attribute]) -> AnswerAddress | None:
    """Return the address that an answer or deadline carries.

    None for a stage's message, and for an address that cannot be read.
    """
    attribute = attributes.get(PLACE)
    return None if attribute is None else _address(attribute.value)


@lru_cache(maxsize=1024)
def _address(text: str) -> AnswerAddress | None:
    key, data = order_parts(text) or ("", {})
    try:
        return AnswerAddress.parse(data[key]) if key in (ANSWER, DEADLINE) else None
    except ValueError:
        return None


def is_deadline(address: AnswerAddress) -> bool:
    """Answer whether the address is that of a deadline."""
    return address.name == DEADLINE


def asks_a_group(attributes: Mapping[str, Attribute]) -> bool:
    """Answer whether a message is that of a group, which asks its requests."""
    place = attributes.get(PLACE)
    return place is not None and (order_parts(place.value) or ("", {}))[0] == GROUP


def asked_as(attributes: Mapping[str, Attribute]) -> tuple[str, str]:
    """Return what names an ask: its id, and its place with where the answer goes.

    A flow may name its requests by their payload, so that two runs ask under one id.
    """
    request, place = attributes.get(REQUEST_ID), attributes.get(PLACE)
    return "" if request is None else request.value, "" if place is None else place.value


def asks_in(history: History) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """Yield what names each ask that was committed, with the key and the request id of its run."""
    for version in history.versions:
        item = version.item
        if item is None or not item.done or item.outbox is None or item.outbox.request_id != item.request_id:
            continue
        for send in item.outbox.sends:
            if send.kind is Kind.ASK:
                yield asked_as(send.attributes), (version.key, item.request_id)
