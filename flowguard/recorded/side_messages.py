"""The messages that a handler records. They are sent after its commit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from flowguard.destinations import Destination, Queue, destination, form_problem
from flowguard.errors import RunFailed, shown
from flowguard.names.ids import ObjectId, RequestId
from flowguard.payload.codec import Codec
from flowguard.payload.encoding import Payload, encode
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run_orders import cancel_attributes, reset_attributes
from flowguard.retry import LONGEST_SQS_DELAY
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.attributes import Attribute, attributes_of
from flowguard.wire.cancel_reason import reason
from flowguard.wire.message import PLACE, REQUEST_ID, REQUESTED_AT, Message, with_depth
from flowguard.wire.send_ids import IdKind, id_of
from flowguard.wire.signing import Signer, check_signs, signed_attributes
from flowguard.wire.tenant import tenant_for, tenant_in


class Startable(Protocol):
    """A flow that a stage can start, as seen from below it."""

    @property
    def name(self) -> str: ...

    @property
    def answers(self) -> Destination: ...

    @property
    def on_conflict(self) -> OnConflict: ...

    @property
    def trust_senders(self) -> bool: ...

    @property
    def codec(self) -> Codec | None: ...

    def entrance(self, carried: Mapping[str, Attribute] = ...) -> tuple[str, Destination]: ...

    def request(
        self,
        payload: Payload,
        *,
        request_id: RequestId | Callable[[], RequestId],
        requested_at: int,
        object_id: str | None = None,
        reply_to: Destination | None = None,
        signed: bool = False,
        lane: str | None = None,
        carried: Mapping[str, Attribute] = ...,
    ) -> tuple[Message, Destination]: ...


class Needless(NamedTuple):
    """The messages that cancel runs which are needed no more, and how many runs these are at most."""

    sends: Sequence[Send]
    runs: int


class SideMessages:
    """Records the messages of one attempt, in their order. Their ids are the same in each attempt."""

    def __init__(self, message: Message, signer: Signer, committed_at: int) -> None:
        self.recorded: list[Send] = []
        self._message = message
        self._signer = signer
        self._committed_at = committed_at

    def send(
        self,
        to: Destination | str,
        payload: Payload,
        attributes: Mapping[str, Attribute | str],
        delay: int,
        group: str | None,
    ) -> None:
        """Record a message for a destination outside. Raises :class:`RunFailed` for one that no service takes."""
        where, given = destination(to), attributes_of(attributes)
        if problem := form_problem(where):
            raise RunFailed(f"a message cannot be sent: {problem}")
        if delay:
            _check_delay(where, delay)
        body, message_id = encode(payload), self._next_id()
        sent = {
            REQUEST_ID: Attribute.string(message_id),
            REQUESTED_AT: Attribute.number(self._committed_at),
            **self._message.carried,
            **given,
        }
        tenant = tenant_for(where, group, self._message.tenant)
        deep = with_depth(sent, self._message.depth + 1, tenant)
        # an older release reads no tenant in an outbox, so none stands there that the attribute says
        kept = None if tenant_in(deep.get(PLACE)) == tenant else tenant
        self._add(Send(Kind.SIDE, where, body, message_id, deep, delay, group, kept))

    def start(
        self,
        flow: Startable,
        payload: Payload,
        object_id: str | None,
        reply_to: Destination | str | None,
        lane: str | None = None,
    ) -> None:
        """Record the request that starts another flow. Its lane is by default that of this run."""
        message, inbox = flow.request(
            payload,
            request_id=self._next_id,
            requested_at=self._committed_at,
            object_id=object_id,
            reply_to=None if reply_to is None else destination(reply_to),
            signed=self._signer.is_on,
            lane=lane,
            carried=self._message.carried,
        )
        deeper = message.below(self._message)
        attributes = {**self._message.carried, **message.carried, **signed_attributes(deeper, self._signer)}
        self._add(Send(Kind.SIDE, inbox, message.text, self._next_id(), attributes, group=message.object_id))

    def reset(self, flow: Startable, object_id: str) -> None:
        """Record the order to reset another flow's run."""
        if flow.on_conflict is not OnConflict.ATTACH:
            raise RunFailed(f"{flow.name} keeps no result that could be reset; say keep_result=… or on_conflict=ATTACH")
        if not flow.trust_senders:
            check_signs(self._signer, flow.name, "orders to reset")
        message_id, to = self._next_id(), flow.answers
        attributes = {
            **self._message.carried,
            **reset_attributes(flow.name, ObjectId(object_id), message_id, self._committed_at, self._signer),
        }
        self._add(Send(Kind.SIDE, to, "{}", message_id, attributes))

    def cancel(self, flow: Startable, object_id: str, why: str) -> None:
        """Record the order to cancel another flow's run. It goes where that flow's requests go."""
        text, message_id, (stage, inbox) = reason(why), self._next_id(), flow.entrance(self._message.carried)
        named, at = ObjectId(object_id), self._committed_at
        attributes = {
            **self._message.carried,
            **cancel_attributes(flow.name, stage, named, message_id, at, text, self._signer),
        }
        self._add(Send(Kind.SIDE, inbox, "{}", message_id, attributes, group=object_id))

    def cancel_children(self, cancelled: Callable[[str], Needless], why: str) -> int:
        """Record what cancels the runs that are needed no more. Return how many runs; none where it is done already."""
        known, needless = {send.id for send in self.recorded}, cancelled(reason(why))
        more = [send for send in needless.sends if send.id not in known]
        for send in more:
            self._add(send)
        return needless.runs if more else 0

    def _add(self, send: Send) -> None:
        self.recorded.append(send.checked())

    def _next_id(self) -> RequestId:
        return RequestId(id_of(IdKind.SEND, self._message, len(self.recorded)))


def _check_delay(to: Destination, delay: int) -> None:
    if fix := _whole_seconds(delay):
        raise RunFailed(f"a message to {to} has a delay of {shown(delay)}; write whole seconds: delay={fix}")
    if not isinstance(to, Queue) or to.fifo:
        raise RunFailed(f"a message to {to} cannot be delayed; only standard queues do that")
    if not 0 <= delay <= LONGEST_SQS_DELAY.total_seconds():
        raise RunFailed(f"a message to {to} cannot be delayed by {delay} s; SQS delays by 0 to 900")


def _whole_seconds(delay: object) -> str | None:
    """Return what to write in place of a delay that is no whole number of seconds. None for one that is."""
    if type(delay) is int:
        return None
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    return f"{math.ceil(seconds)}" if isinstance(seconds, float) and math.isfinite(seconds) else "30"
