"""What a dead letter is, and in which form it goes back.

There are two kinds. A *parked* letter was written by flowguard and says everything for its return: the next redrive,
retry 0, the error. A *raw* one was moved by SQS itself, for its function was killed too often; it is as it was sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from flowguard.attributes import Attribute
from flowguard.envelope import Envelope, normalize_record, resend
from flowguard.errors import EnvelopeError
from flowguard.flow import AnyFlow
from flowguard.ids import ObjectId, RequestId
from flowguard.message import FLOW_STAGE, PLACE, REQUEST_ID, REQUESTED_AT, ErrorNote, Message, Place
from flowguard.notification import UNKNOWN_QUEUE, arn_service, is_ours
from flowguard.routing import Routes


@dataclass(frozen=True)
class Letter:
    """One message of a queue of dead letters. Times are ms since 1970.

    ``message`` is what it says as it lies there. ``problem`` is why it cannot be read; then it is sent nowhere.
    ``source_arn`` is the queue that SQS moved it from, where SQS says so. ``flow`` is its class, where that is known.
    """

    message_id: str
    sent_at: int
    receive_count: int
    group_id: str | None
    source_arn: str | None
    text: str
    envelope: Envelope | None = None
    message: Message | None = None
    problem: str | None = None
    flow: AnyFlow | None = None

    @classmethod
    def read(cls, received: Mapping[str, Any], *, now: int, flow: AnyFlow | None = None) -> Letter:
        """What ReceiveMessage answered. With its flow's class a letter's object is found even where only the payload
        names it. Raises nothing: a letter that cannot be read is one too."""
        by_sqs: Mapping[str, str] = received.get("Attributes") or {}
        source_arn = by_sqs.get("DeadLetterQueueSourceArn")
        letter = cls(
            message_id=received["MessageId"],
            sent_at=int(by_sqs.get("SentTimestamp") or 0),
            receive_count=int(by_sqs.get("ApproximateReceiveCount") or 1),
            group_id=by_sqs.get("MessageGroupId"),
            source_arn=source_arn,
            text=received["Body"],
        )
        try:
            envelope = normalize_record({**received, "EventSourceARN": source_arn} if source_arn else dict(received))
            message = _message(envelope)
            if flow is None or message.flow not in ("", flow.name):
                return replace(letter, text=envelope.message, envelope=envelope, message=message)
            message = Routes((flow,)).resolve(envelope, now).message
        except (EnvelopeError, ValueError) as error:
            return replace(letter, problem=str(error))
        return replace(letter, text=envelope.message, envelope=envelope, message=message, flow=flow)

    @property
    def is_parked(self) -> bool:
        """Written by flowguard, to be sent back as it is."""
        m = self.message
        return m is not None and m.redrive > 0 and m.retry == 0 and self.source_arn is None

    @property
    def error(self) -> ErrorNote | None:
        """The first error. None where a function was killed before it could say one."""
        return self.message.first_error if self.message is not None else None

    @property
    def home_arn(self) -> str | None:
        """The queue that it came through, as far as the letter itself tells."""
        seen = None if self.envelope is None else self.envelope.notification
        if seen is not None and is_ours(seen) and arn_service(seen["TopicArn"]) == "sqs":
            arn: str = seen["TopicArn"]
            if arn != UNKNOWN_QUEUE:
                return arn
        return self.source_arn

    def returning(self) -> Message:
        """The message as it is sent back. Raises ValueError where it cannot be read."""
        if self.message is None:
            raise ValueError(self.problem or "it cannot be read")
        return self.message if self.is_parked else self.message._replace(redrive=self.message.redrive + 1, retry=0)

    def resent(self) -> tuple[str, dict[str, Attribute]]:
        """Body and attributes with which it is sent back: a parked one as it is, a raw one as the next redrive."""
        m = self.returning()
        assert self.envelope is not None  # noqa: S101 - a message was read from it
        if self.is_parked:
            return resend(self.envelope, {})
        said = self.envelope.attributes.get(PLACE)
        place = json.loads(said.value) if said is not None else {}
        place = {name: value for name, value in place.items() if name != "retry"} | {"redrive": m.redrive}
        extras = {
            REQUEST_ID: Attribute.string(m.request_id),
            REQUESTED_AT: Attribute.number(m.requested_at),
            PLACE: Attribute.string(json.dumps(place, separators=(",", ":"))),
        }
        if m.flow:
            extras[FLOW_STAGE] = Attribute.string(f"{m.flow}/{m.stage}")
        return resend(self.envelope, extras)

    def facts(self, now: int) -> dict[str, Any]:
        """What is shown of it: ids, place, error, age in seconds. Never the payload, which is ``text``."""
        error = self.error
        return {
            "message_id": self.message_id,
            "kind": "unreadable" if self.message is None else "parked" if self.is_parked else "raw",
            **_place(self.message),
            "error": {"type": error.type, "text": error.text, "at": error.at} if error else None,
            "problem": self.problem,
            "age": max(0, (now - self.sent_at) // 1000),
            "receive_count": self.receive_count,
            "bytes": len(self.text.encode("utf-8", "surrogatepass")),
        }


def _place(message: Message | None) -> dict[str, Any]:
    names = ("flow", "stage", "object_id", "request_id", "requested_at", "hop", "retry", "redrive")
    return {name: None if (value := getattr(message, name, None)) == "" else value for name in names}


def _message(envelope: Envelope) -> Message:
    """As routing reads it, without knowing the flow. Raises ValueError for attributes that cannot be read."""
    read = {name: attribute.value for name, attribute in envelope.attributes.items()}
    flow, _, stage = read.get(FLOW_STAGE, "").partition("/")
    place = Place.parse(read[PLACE]) if PLACE in read else Place()
    at = read.get(REQUESTED_AT)
    if at is not None and not at.isdecimal():
        raise ValueError(f"its {REQUESTED_AT} {at[:40]!r} is not whole milliseconds since 1970")
    return Message(
        flow=flow,
        stage=stage,
        version=place.version or 1,
        object_id=place.object_id or ObjectId(""),
        request_id=RequestId(read.get(REQUEST_ID) or envelope.sns_message_id or envelope.message_id),
        requested_at=int(at) if at is not None else envelope.published_at or envelope.sent_at or 0,
        body=envelope.message,
        hop=place.hop,
        retry=place.retry,
        redrive=place.redrive,
        reply_to=place.reply_to,
        first_error=place.first_error,
    )
