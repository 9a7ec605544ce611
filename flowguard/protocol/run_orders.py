"""What a message brings for a run and is no stage's message: an answer, a deadline or an order.

Its address stands in the ``flowguard`` attribute, under a key that says which of them it is::

    {"answer": {"flow": …, "object": …, "request": …, "at": …, "hop": …, "name": …, "sig": …}}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from flowguard.errors import EnvelopeError
from flowguard.failed import Failed
from flowguard.names.ids import ObjectId, RequestId
from flowguard.payload.encoding import encode_json
from flowguard.protocol.group_cancel import CANCEL_GROUP, GroupCancelOrder
from flowguard.protocol.groups import GROUP, Member
from flowguard.protocol.waiting import DEADLINE, GivenAnswer, Use
from flowguard.startup.late_pattern import late_pattern
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute
from flowguard.wire.cancel_reason import read_reason
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import FLOW_STAGE, LATEST_TIME, PLACE, REQUEST_ID, REQUESTED_AT, SEALED, ErrorNote
from flowguard.wire.sealed_end import SealedEnd
from flowguard.wire.signing import Signer
from flowguard.wire.tenant import TENANT, read_tenant

ANSWER: Final = "answer"
"""The key of the address that an answer is for."""

USE: Final = "use"
"""The key under which the copy of an answer that is kept says how it is used."""

CANCEL: Final = "cancel"
"""The key of an order to cancel, and the name in its address, which belongs to no run that waits."""

RESET: Final = "reset"
"""The same of an order to reset."""

_TIME: Final = late_pattern("[0-9]{1,15}")
"""Milliseconds as they are written in attributes."""


class ArrivedAnswer(NamedTuple):
    """An answer with the address that it is for. The function that asked wrote the address.

    ``use`` says how it is used, of one that is kept. One that is ``sealed`` has no answer before it is opened.
    """

    address: AnswerAddress
    answer: GivenAnswer
    use: Use | None = None
    sealed: SealedEnd | None = None

    @property
    def statement(self) -> str:
        """Return what its signature covers."""
        return answer_statement(self.address, self.use)


class ArrivedDeadline(NamedTuple):
    """The message of a wait's deadline, with its times in ms. The item has the last word.

    ``tenant`` is the waiting run's. One of the first form, whose signature covers no tenant, says nothing of it.
    """

    address: AnswerAddress
    moment: int = 0
    since: int = 0
    tenant: str | None = None

    @property
    def statement(self) -> str:
        """Return what its signature covers."""
        return deadline_statement(self.address, self.tenant)


class GroupOrder(NamedTuple):
    """A message of a group. ``address`` is of the first request that it asks."""

    address: AnswerAddress
    member: Member

    @property
    def statement(self) -> str:
        """Return what its signature covers."""
        return self.address.statement


class CancelOrder(NamedTuple):
    """An order to cancel. ``address`` has the flow, the object, and the order's own id and time."""

    address: AnswerAddress
    why: str

    @property
    def statement(self) -> str:
        """Return what its signature covers, unambiguous and in ASCII."""
        return json.dumps([self.address.statement, self.why], separators=(",", ":"))


class ResetOrder(NamedTuple):
    """An order to reset. ``address`` has the flow, the object, and the order's own id and time."""

    address: AnswerAddress

    @property
    def statement(self) -> str:
        """Return what its signature covers."""
        return self.address.statement


RunOrder: TypeAlias = ArrivedAnswer | ArrivedDeadline | GroupOrder | GroupCancelOrder | CancelOrder | ResetOrder
"""What is for a run and no stage's message. Its signature covers its statement."""


def answer_statement(address: AnswerAddress, use: Use | None) -> str:
    """Return what the signature of an answer covers.

    That is its address, and of a copy of one that is kept also how it is used. A party that is asked knows the signed
    address. It cannot say by that what a kept answer is used for.
    """
    return address.statement if use is None else json.dumps([address.statement, *use], separators=(",", ":"))


def deadline_statement(address: AnswerAddress, tenant: str | None) -> str:
    """Return what the signature of a deadline covers: its address, and the tenant where it names one."""
    return address.statement if tenant is None else json.dumps([address.statement, tenant], separators=(",", ":"))


def failed_answer(kind: str, text: str) -> GivenAnswer:
    """Make the answer that says that something failed."""
    note = ErrorNote.storable(kind, text, 0)
    return GivenAnswer(Failed(type=note.type, text=note.text).model_dump_json(), failed=True)


# -- reading one


def read_order(envelope: Envelope) -> RunOrder | None:
    """Read what the record brings for a run. None for a stage's message.

    Raises :class:`EnvelopeError` for one that cannot be read.
    """
    place = envelope.attributes.get(PLACE)
    if place is None or (parts := order_parts(place.value)) is None:
        return None
    key, data = parts
    try:
        return _READERS[key](data, envelope)
    except (ValueError, RecursionError) as error:
        raise EnvelopeError(envelope.message_id, f"attributes.{PLACE}", str(error)) from None


def order_parts(place: str) -> tuple[str, Mapping[str, Any]] | None:
    """Return the key of what an attribute's text brings for a run, and all that stands beside it.

    None for a stage's message.
    """
    if _KEYS.search(place) is None:
        return None
    try:
        data = json.loads(place)
    except (ValueError, RecursionError):
        return None  # the reader of messages says so
    key = next((key for key in _READERS if key in data), None) if isinstance(data, dict) else None
    return None if key is None else (key, data)


def order_signature(place: str) -> str | None:
    """Return the signature in what an attribute's text brings for a run. None where there is none."""
    parts = order_parts(place)
    address = None if parts is None else parts[1][parts[0]]
    signature = address.get("sig") if isinstance(address, dict) else None
    return signature if isinstance(signature, str) else None


def _read_reset(data: Mapping[str, Any], envelope: Envelope) -> ResetOrder:
    return ResetOrder(_named(data[RESET], RESET))


def _read_cancel(data: Mapping[str, Any], envelope: Envelope) -> CancelOrder:
    address = _named(data[CANCEL], CANCEL)
    return CancelOrder(address, read_reason(data[CANCEL].get("why")))


def _read_group(data: Mapping[str, Any], envelope: Envelope) -> GroupOrder:
    address = AnswerAddress.parse(data[GROUP])
    if (member := Member.parse(address.name)) is None:
        raise ValueError("names no request of a group")
    return GroupOrder(address, member)


def _read_group_cancel(data: Mapping[str, Any], envelope: Envelope) -> GroupCancelOrder:
    return GroupCancelOrder.parse(data[CANCEL_GROUP], envelope.attributes)


def _read_answer(data: Mapping[str, Any], envelope: Envelope) -> ArrivedAnswer:
    address, use = AnswerAddress.parse(data[ANSWER]), _use(data.get(USE))
    if data.get(SEALED) is True:
        return ArrivedAnswer(address, GivenAnswer(""), use, SealedEnd.read(envelope.message))
    return ArrivedAnswer(address, answer_of(envelope.message), use)


def _read_deadline(data: Mapping[str, Any], envelope: Envelope) -> ArrivedDeadline:
    address, moment = _named(data[DEADLINE], DEADLINE), _moment(envelope.message)
    return ArrivedDeadline(address, moment, _sent_at(envelope), read_tenant(data[DEADLINE].get(TENANT)))


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any], Envelope], RunOrder]]] = {
    RESET: _read_reset,
    CANCEL: _read_cancel,
    GROUP: _read_group,
    CANCEL_GROUP: _read_group_cancel,
    ANSWER: _read_answer,
    DEADLINE: _read_deadline,
}
"""By the key, the first that stands there."""

_KEYS: Final = late_pattern("|".join(f'"{key}"' for key in _READERS))
"""Tells most messages of stages from these without reading their JSON."""


def _named(address: object, name: str) -> AnswerAddress:
    """Read an address that has the name whatever it says: its signature cannot be taken for that of an answer."""
    return AnswerAddress.parse({**address, "name": name} if isinstance(address, dict) else address)


def answer_of(text: str) -> GivenAnswer:
    """Read a Complete message as an answer. Raises ValueError for what is no end of a run."""
    match json.loads(text):
        case {"status": "COMPLETED", **rest}:
            return GivenAnswer(encode_json(rest.get("result")))
        case {"status": "FAILED" | "SUPERSEDED" | "IGNORED", "error": str(error)}:
            kind, colon, words = error.partition(": ")
            return failed_answer(kind if colon else "Failed", words if colon else error)
        case _:
            raise ValueError("is an answer whose body is no end of a run: {'status': 'COMPLETED', 'result': …}")


def _use(parts: object) -> Use | None:
    match parts:
        case [str(awaited_id), str(by), str(user)]:
            return Use(awaited_id, by, user)
        case _:
            return None


def _moment(text: str) -> int:
    """Return the time of a deadline as its message says it. 0 where it says none."""
    body = json.loads(text)
    moment = body.get(DEADLINE) if isinstance(body, dict) else None
    return max(0, min(moment, LATEST_TIME)) if type(moment) is int else 0


def _sent_at(envelope: Envelope) -> int:
    """Return when a deadline was sent as its message says it, in ms. 0 where it says none."""
    sent = envelope.attributes.get(REQUESTED_AT)
    return int(sent.value) if sent is not None and _TIME.fullmatch(sent.value) else 0


# -- writing one


def order_attributes(message_id: str, at: int, place: Mapping[str, Any]) -> dict[str, Attribute]:
    """Return the attributes of a message with this id and time (ms) that is no stage's, and says ``place``."""
    return {
        REQUEST_ID: Attribute.string(message_id),
        REQUESTED_AT: Attribute.number(at),
        PLACE: Attribute.string(json.dumps(place, separators=(",", ":"))),
    }


def reset_attributes(flow: str, object_id: ObjectId, message_id: str, at: int, signer: Signer) -> dict[str, Attribute]:
    """Return the attributes of an order to reset of this id and time (ms), signed where messages are."""
    order = ResetOrder(AnswerAddress(flow, object_id, RequestId(message_id), at, 1, RESET))
    return order_attributes(message_id, at, {RESET: _signed(order, signer).as_json()})


def cancel_attributes(
    flow: str, stage: str, object_id: ObjectId, message_id: str, at: int, why: str, signer: Signer
) -> dict[str, Attribute]:
    """Return the attributes of an order to cancel of this id and time (ms), signed where messages are.

    It goes where the requests of ``stage`` do, and names that stage as they do: an inbox may filter by it.
    """
    order = CancelOrder(AnswerAddress(flow, object_id, RequestId(message_id), at, 1, CANCEL), why)
    attributes = order_attributes(message_id, at, {CANCEL: {**_signed(order, signer).as_json(), "why": why}})
    return {FLOW_STAGE: Attribute.string(f"{flow}/{stage}"), **attributes}


def _signed(order: CancelOrder | ResetOrder, signer: Signer) -> AnswerAddress:
    return order.address._replace(signature=signer.sign(order.statement))
