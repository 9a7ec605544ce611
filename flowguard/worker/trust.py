"""Checks of what a message claims about itself. They come before anything is claimed, sent or written."""

from __future__ import annotations

import json
from typing import Any

from flowguard.destinations import parse_destination
from flowguard.errors import RunFailed, Untrusted, shown
from flowguard.flow import AnyFlow
from flowguard.names.at_aws import is_foreign
from flowguard.names.ids import RequestId
from flowguard.payload.encoding import decode
from flowguard.protocol.group_cancel import GroupCancelOrder
from flowguard.protocol.run_orders import RunOrder
from flowguard.stage import AnyStage
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.envelope import Envelope
from flowguard.wire.home import Home, is_local
from flowguard.wire.message import FLOW_STAGE, PLACE, REQUEST_ID, Message, Place
from flowguard.wire.signing import SETTING, UNSIGNED, Signer, is_claim, statement
from flowguard.worker.record_sources import BELIEVED, Channel, NamedQueues, RecordKind, Signature


class Trust(NamedTuple):
    """What one function believes. ``function_arn`` is its own, where Lambda says it.

    ``gets_given_up`` says that SQS gives it the records that it gives up.
    """

    signer: Signer = UNSIGNED
    function_arn: str | None = None
    gets_given_up: bool = False

    def judge(self, envelope: Envelope, flow: AnyFlow, message: Message, place: Place, queues: NamedQueues) -> None:
        """Raise :class:`Untrusted` for what the message may not say. Its body is not read.

        ``message`` is what the attributes say; its object is empty where they name none. ``queues`` are those of the
        function's flows.
        """
        stage = flow.by_name.get(message.stage)
        self._check_source(envelope, flow, stage, RecordKind.of(message), queues)
        signed = self._is_signed(envelope, flow, message, place)
        _check_entry(envelope, flow, stage, message)
        _check_sealed(envelope, flow, message)
        if message.reply_to is not None and not signed:
            self._check_reply_to(envelope, flow, message.reply_to)

    def check_order(self, envelope: Envelope, flow: AnyFlow, order: RunOrder, queues: NamedQueues) -> None:
        """Raise :class:`Untrusted` for an order, answer or deadline that is not the flow's own."""
        kind = RecordKind.of_order(order)
        self._check_source(envelope, flow, flow.entry(), kind, queues)
        if flow.trust_senders and isinstance(order, GroupCancelOrder):
            _check_bound(envelope, order, kind)
        if flow.trust_senders or (BELIEVED[kind].signed is Signature.WITH_KEYS and not self.signer.is_required):
            return
        if problem := self.signer.problem(order.statement, order.address.signature):
            fix = f"; set {SETTING}, or let {flow.name} say trust_senders=True" if not self.signer.is_on else ""
            raise _untrusted(envelope, f"{PLACE}.sig", f"{kind.value}: {problem}{fix}")

    def _check_source(
        self, envelope: Envelope, flow: AnyFlow, stage: AnyStage | None, kind: RecordKind, queues: NamedQueues
    ) -> None:
        believed, channels = BELIEVED[kind].origins, queues.origins(envelope, flow, stage)
        is_given_up = self.gets_given_up and channels == {Channel.UNNAMED} and not is_foreign(envelope.came_through)
        if believed & channels or is_given_up:
            return
        came = _way_of(envelope)
        only = " or ".join(sorted(origin.value for origin in believed))
        problem = f"{kind.value} of {flow.name} came through {came}, and is believed only from {only}"
        raise Untrusted(envelope.message_id, "eventSourceARN", problem)

    def _is_signed(self, envelope: Envelope, flow: AnyFlow, message: Message, place: Place) -> bool:
        """Answer whether a valid signature stands there.

        Where they are required, a wrong one is refused in any message.
        """
        required = self.signer.is_required and not flow.trust_senders
        if place.signature is None and not (required and is_claim(message)):
            return False
        given = envelope.attributes.get(REQUEST_ID)
        request_id = "" if given is None else given.value
        text = statement(message, version=place.version, object_id=place.object_id or "", request_id=request_id)
        problem = self.signer.problem(text, place.signature)
        if problem is not None and required:
            why = f"{problem}, and messages with a hop, retry, redrive or reply_to of their own need one"
            raise _untrusted(envelope, f"{PLACE}.sig", f"{why}; is the sender's FLOWGUARD_SIGNING_KEYS this one?")
        return problem is None

    def _check_reply_to(self, envelope: Envelope, flow: AnyFlow, reply_to: str) -> None:
        to = parse_destination(reply_to)
        if flow.reply_to is not None:
            if to not in flow.reply_to:
                fix = f"is not in the reply_to=(…) of {flow.name}; add it there, or sign messages"
                raise _untrusted(envelope, f"{PLACE}.reply_to", f"{shown(reply_to)} {fix}")
        elif not is_local(to, Home.of(self.function_arn, envelope.queue_arn)):
            fix = f"is not known to be in this account and region; add it to the reply_to=(…) of {flow.name}, or sign"
            raise _untrusted(envelope, f"{PLACE}.reply_to", f"{shown(reply_to)} {fix} messages")


STRICT = Trust()
"""For messages that are not signed, in a function whose ARN is not known."""


def _way_of(envelope: Envelope) -> str:
    """Say through what the record came, as AWS says it."""
    if envelope.source.is_stream:
        return "a stream"
    return "a topic" if envelope.came_through is None else f"the queue {shown(envelope.came_through)}"


def _check_entry(envelope: Envelope, flow: AnyFlow, stage: AnyStage | None, message: Message) -> None:
    """Raise :class:`Untrusted` for a request at a stage where none enters. A later hop may name one that is gone."""
    if message.hop == 1 and (stage is None or stage.name not in flow.entries):
        allowed = ", ".join(flow.entries)
        fix = f"let it enter at {allowed}, or name that stage in the flow's entries=(…)"
        problem = f"a first hop at {shown(message.stage)}, where no request enters {flow.name}; {fix}"
        raise _untrusted(envelope, FLOW_STAGE, problem)


def _check_sealed(envelope: Envelope, flow: AnyFlow, message: Message) -> None:
    """Raise :class:`Untrusted` for a plain request where only sealed ones are taken. A cancelled one has no payload."""
    if flow.sealed_only and message.hop == 1 and message.sealed is None and message.cancelled is None:
        problem = f"its body is not sealed, and {flow.name} takes sealed requests only; send it with FlowClient"
        raise _untrusted(envelope, PLACE, problem)


def trusted_payload(envelope: Envelope, flow: AnyFlow, message: Message) -> Any:
    """Return the payload where it was decoded, else None. It must name the object that the message is for.

    Raises :class:`Untrusted` for another object.
    """
    if not message.object_id:
        return None
    stage = flow.by_name.get(message.stage)
    payload: Any = None
    named: str | None = None
    if not isinstance(flow.object_id, str):
        named = message.request_id
    elif message.hop == 1 and stage is not None:
        payload, named = _named(flow, stage, message)
    if named is not None and named != message.object_id:
        whose = f"the payload's {flow.object_id!r}" if isinstance(flow.object_id, str) else "the request id"
        problem = f"it names the object {shown(message.object_id)}, and that is not {whose}; leave it out"
        raise _untrusted(envelope, f"{PLACE}.object", problem)
    return payload


def _named(flow: AnyFlow, stage: AnyStage, message: Message) -> tuple[Any, str | None]:
    """Return the payload where it can be decoded, and the object that it names.

    None stands for what cannot be found.
    """
    payload: Any = None
    try:
        payload = decode(stage.payload, message.body, what="the payload")
    except Exception:  # a model's own validator may raise anything; the stage will meet it again, and say so
        try:
            data = json.loads(message.body)
        except (ValueError, RecursionError):
            return None, None
    else:
        data = payload
    try:
        return payload, flow.object_of(data, RequestId(""))
    except RunFailed:
        return payload, None


def _check_bound(envelope: Envelope, order: GroupCancelOrder, kind: RecordKind) -> None:
    """Raise :class:`Untrusted` where the keys of the requests do not say that they went to the queue of the order."""
    if not order.group.is_bound:
        raise _untrusted(envelope, PLACE, f"{kind.value}: its requests did not go to {shown(order.group.to)}")


def _untrusted(envelope: Envelope, field: str, problem: str) -> Untrusted:
    return Untrusted(envelope.message_id, f"attributes.{field}", problem)
