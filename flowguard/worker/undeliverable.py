"""Dead letters of messages that their destination refuses for good. Nothing that was committed is lost.

::

    outbox ── side message ──▶ emails: no such queue      parked with "unsent": where it was to go, under which id
           ── next hop ──────▶ ship-order: access denied  parked as a dead letter of that stage, with "to"
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flowguard.destinations import Destination, parse_destination
from flowguard.flow import AnyFlow
from flowguard.names.ids import ObjectId, RequestId, refused_character
from flowguard.protocol.outbox import Kind, Send
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import (
    FLOW_STAGE,
    OWN_ATTRIBUTES,
    PLACE,
    REQUEST_ID,
    REQUESTED_AT,
    ErrorNote,
    Message,
    Place,
)
from flowguard.wire.notification import to_json
from flowguard.wire.signing import UNSIGNED, Signer, signed_attributes
from flowguard.wire.tenant import TENANT, of_tenant, read_tenant


class Undeliverable(NamedTuple):
    """The attributes of a parked side message: all that is needed to send it later.

    ``escaped`` says that the letter's body is the message's as a JSON string: functions and buses take texts that no
    queue takes.
    """

    kind: Kind
    to: Destination
    id: str
    attributes: Mapping[str, Attribute]
    group: str | None = None
    escaped: bool = False
    tenant: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return what stands under ``unsent`` in the ``flowguard`` attribute."""
        attributes = {name: [a.type, a.value] for name, a in self.attributes.items()}
        return {
            "kind": self.kind.value,
            "to": str(self.to),
            "id": self.id,
            "attributes": attributes,
            **({"group": self.group} if self.group is not None else {}),
            **({"escaped": True} if self.escaped else {}),
            **of_tenant(self.tenant),
        }

    @classmethod
    def parse(cls, data: object) -> Undeliverable:
        """Read what :meth:`as_json` wrote. Raises ValueError where it is anything else."""
        match data:
            case {"kind": str(kind), "to": str(to), "id": str(send_id), "attributes": dict(attributes), **more} if (
                send_id
            ):
                read = {str(name): _attribute(pair) for name, pair in attributes.items()}
                group, escaped = _group(more.get("group")), more.get("escaped") is True
                tenant = read_tenant(more.get(TENANT))
                return cls(_kind(kind), parse_destination(to), send_id, read, group, escaped, tenant)
            case _:
                raise ValueError("has an 'unsent' without kind, to, id and attributes")

    @classmethod
    def of(cls, attributes: Mapping[str, Attribute]) -> Undeliverable | None:
        """Read it from a letter's own attributes; None where the letter is of another kind. Raises ValueError."""
        place = _said(attributes)
        return cls.parse(place["unsent"]) if "unsent" in place else None

    def covered(self, body: str) -> str:
        """Return what a signature covers beside the letter's place.

        It covers the body, where that is to go, and under which id.
        """
        return json.dumps([body, self.as_json()], sort_keys=True, separators=(",", ":"))

    def send(self, body: str, to: Destination | None = None) -> Send:
        """Build the send to the original destination, or to another one. ``body`` is the letter's.

        Raises :class:`flowguard.errors.RunFailed` or :class:`flowguard.errors.TooLarge` where no service takes it, and
        ValueError where the body is not what the letter says it is.
        """
        place = to if to is not None else self.to
        text = _unescaped(body) if self.escaped else body
        return Send(self.kind, place, text, self.id, self.attributes, group=self.group, tenant=self.tenant).checked()


def bound_for(attributes: Mapping[str, Attribute]) -> Destination | None:
    """Return where a next hop's message was to go, which its inbox refused. None where the letter does not say it.

    Raises ValueError for what is no destination.
    """
    destination = _said(attributes).get("to")
    if destination is not None and not isinstance(destination, str):
        raise ValueError("has a 'to' that is not text")
    return None if destination is None else parse_destination(destination)


def park(flow: AnyFlow, message: Message, send: Send, error: ErrorNote, signer: Signer = UNSIGNED) -> Send:
    """Build the dead letter of a send that was refused for good. ``message`` is of the hop that sent it.

    Raises :class:`flowguard.errors.RunFailed` or :class:`flowguard.errors.TooLarge` where it fits into no queue.
    """
    if send.kind is Kind.NEXT:
        body, attributes = send.body, _next_hop(send, error, signer)
    else:
        body, attributes = _side(message, send, error, signer)
    group = message.object_id or message.request_id
    return Send(Kind.DEAD, flow.dead_letters, body, _letter_id(send), attributes, group=group).checked()


def _letter_id(send: Send) -> str:
    """Return the letter's id. A look at a wait sends its deadline on under the same id: its time tells these apart.

    A FIFO queue would drop the later letter, without which the wait never ends.
    """
    at = f".{send.attributes[REQUESTED_AT].value}" if send.kind is Kind.DEADLINE else ""
    return f"{send.id}{at}.unsent"


def _unescaped(body: str) -> str:
    data = json.loads(body)
    if not isinstance(data, str):
        raise ValueError("has an 'unsent' whose body is not a JSON string")
    return data


def _side(message: Message, send: Send, error: ErrorNote, signer: Signer) -> tuple[str, dict[str, Attribute]]:
    """Build the letter's body and attributes. A signature covers the body as it lies there."""
    escaped = not send.body or refused_character(send.body) is not None
    body = to_json(send.body) if escaped else send.body
    unsent = Undeliverable(send.kind, send.to, send.id, send.attributes, send.group, escaped, send.tenant)
    about = message._replace(
        body=unsent.covered(body),
        sealed=None,
        retry=0,
        reply_to=None,
        first_error=error,
        last_error=None,
        attempts=None,
    )
    attributes = signed_attributes(about, signer)
    return body, {**attributes, PLACE: _with(attributes[PLACE], unsent=unsent.as_json())}


def _next_hop(send: Send, error: ErrorNote, signer: Signer) -> dict[str, Attribute]:
    """Build the message to the hop that was not reached. Its claim waits for it."""
    texts = {name: attribute.value for name, attribute in send.attributes.items()}
    place = Place.parse(texts[PLACE])
    flow, _, stage = texts[FLOW_STAGE].partition("/")
    onward = Message(
        flow=flow,
        stage=stage,
        version=place.version or 1,
        object_id=place.object_id or ObjectId(""),
        request_id=RequestId(texts[REQUEST_ID]),
        requested_at=int(texts[REQUESTED_AT]),
        body=send.body,
        sealed=send.body if place.is_sealed else None,
        hop=place.hop,
        reply_to=place.reply_to,
        carried={name: a for name, a in send.attributes.items() if name not in OWN_ATTRIBUTES},
        resumed=place.resumed,
        answer_to=place.answer_to,
        trace=place.trace,
        depth=place.depth,
        tenant=place.tenant,
    )
    again = onward.redriven(error)._replace(attempts=None)
    attributes = {**signed_attributes(again, signer), **again.carried}
    return {**attributes, PLACE: _with(attributes[PLACE], to=str(send.to))}


def _with(place: Attribute, **more: Any) -> Attribute:
    return Attribute.string(json.dumps({**json.loads(place.value), **more}, separators=(",", ":")))


def _attribute(pair: object) -> Attribute:
    match pair:
        case [str(kind), str(value)]:
            return Attribute(kind, value)
        case _:
            raise ValueError("has an 'unsent' with an attribute that is not [type, value]")


def _said(attributes: Mapping[str, Attribute]) -> dict[str, Any]:
    """Read the ``flowguard`` attribute. Nothing is read where it is broken, which its other readers report."""
    try:
        place = json.loads(attributes[PLACE].value) if PLACE in attributes else {}
    except (ValueError, RecursionError):
        return {}
    return place if isinstance(place, dict) else {}


def _kind(text: str) -> Kind:
    if text not in (Kind.SIDE, Kind.COMPLETE, Kind.ASK, Kind.DEADLINE):
        raise ValueError(f"has an 'unsent' of kind {text[:40]!r}; it is side, complete, ask or deadline")
    return Kind(text)


def _group(group: object) -> str | None:
    if group is not None and not isinstance(group, str):
        raise ValueError("has an 'unsent' whose group is not text")
    return group
