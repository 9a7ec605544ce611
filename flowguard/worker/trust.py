"""Checks of what a message claims about itself. They come before anything is claimed, sent or written."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from flowguard.destinations import parse_destination
from flowguard.errors import RunFailed, Untrusted, shown
from flowguard.flow import AnyFlow
from flowguard.ids import RequestId
from flowguard.payloads import decode
from flowguard.stage import AnyStage
from flowguard.wire.envelope import Envelope
from flowguard.wire.home import Home, is_local
from flowguard.wire.message import FLOW_STAGE, PLACE, REQUEST_ID, Message, Place
from flowguard.wire.signing import UNSIGNED, Signer, is_claim, statement


class Trust(NamedTuple):
    """What one function believes. ``function_arn`` is its own, where Lambda says it."""

    signer: Signer = UNSIGNED
    function_arn: str | None = None

    def judge(self, envelope: Envelope, flow: AnyFlow, message: Message, place: Place) -> Any:
        """Raise :class:`Untrusted` for what the message may not say.

        Returns the payload where it was decoded, else None. ``message`` is what the attributes say; its object is empty
        where they name none.
        """
        signed = self._is_signed(envelope, message, place)
        stage = _stage(envelope, flow, message)
        if message.reply_to is not None and not signed:
            self._check_reply_to(envelope, flow, message.reply_to)
        return _checked_payload(envelope, flow, stage, message)

    def _is_signed(self, envelope: Envelope, message: Message, place: Place) -> bool:
        """Answer whether a valid signature stands there.

        Where they are required, a wrong one is refused in any message.
        """
        required = self.signer.is_required
        if place.signature is None and not (required and is_claim(message)):
            return False
        given = envelope.attributes.get(REQUEST_ID)
        own = "" if given is None else given.value
        said = statement(message, version=place.version, object_id=place.object_id or "", request_id=own)
        problem = self.signer.problem(said, place.signature)
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


def _stage(envelope: Envelope, flow: AnyFlow, message: Message) -> AnyStage | None:
    """Return the stage that the message is for; None where a later hop names one that is not there."""
    stage = next((stage for stage in flow.stages if stage.name == message.stage), None)
    if message.hop == 1 and (stage is None or stage.name not in flow.entries):
        allowed = ", ".join(flow.entries)
        fix = f"let it enter at {allowed}, or name that stage in the flow's entries=(…)"
        problem = f"a first hop at {shown(message.stage)}, where no request enters {flow.name}; {fix}"
        raise _untrusted(envelope, FLOW_STAGE, problem)
    return stage


def _checked_payload(envelope: Envelope, flow: AnyFlow, stage: AnyStage | None, message: Message) -> Any:
    if not message.object_id:
        return None
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
            found = json.loads(message.body)
        except (ValueError, RecursionError):
            return None, None
    else:
        found = payload
    try:
        return payload, flow.object_of(found, RequestId(""))
    except RunFailed:
        return payload, None


def _untrusted(envelope: Envelope, field: str, problem: str) -> Untrusted:
    return Untrusted(envelope.message_id, f"attributes.{field}", problem)
