"""Dead letters of three kinds, as they are read.

A *parked* letter was written by flowguard and carries everything for its return: the next redrive, retry 0, the error.
An *unsent* one was written by flowguard too: a message of a commit that its destination refused for good. A *raw* one
was moved by SQS itself, for its function was killed too often; it is as it was sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from flowguard.destinations import Destination
from flowguard.errors import EnvelopeError, PayloadInvalid, RunFailed
from flowguard.flow import AnyFlow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.payload.encoding import decode
from flowguard.protocol.run_orders import order_parts
from flowguard.text.printable import bounded
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, Source, normalize_record
from flowguard.wire.message import FLOW_STAGE, PLACE, REQUEST_ID, REQUESTED_AT, ErrorNote, Message, Place
from flowguard.wire.notification import UNKNOWN_QUEUE, arn_service
from flowguard.wire.records import open_record
from flowguard.wire.stream_letters import readable_now, stream_letter_problem
from flowguard.worker.record_sources import RecordKind
from flowguard.worker.routing import Routes
from flowguard.worker.undeliverable import Undeliverable, bound_for

_NO_JSON: Final = "it is no JSON, which is right only where the stage takes text: --flow-class knows that"
_PAYLOAD_INVALID: Final = PayloadInvalid.__name__


@dataclass(frozen=True)
class Letter:
    """One message of a queue of dead letters. Times are ms since 1970.

    ``message`` is what it says as it lies there. ``problem`` is why it cannot be read; then it is sent nowhere.
    ``source_arn`` is the queue that SQS moved it from, where SQS says so. ``flow`` is its class, where that is known.
    ``unsent`` is the send that the letter is, of which ``text`` is the body. ``bound_for`` is where a parked letter was
    to go whose inbox refused it. ``refusal`` is what its flow's class has against it.
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
    unsent: Undeliverable | None = None
    bound_for: Destination | None = None
    refusal: str | None = None

    @classmethod
    def read(cls, received: Mapping[str, Any], *, now: int, flow: AnyFlow | None = None) -> Letter:
        """Read what ReceiveMessage answered. Raises nothing: a letter that cannot be read is one too.

        With its flow's class a letter's object is found even where only the payload names it.
        """
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
        record = {**received, "EventSourceARN": source_arn} if source_arn else dict(received)
        try:
            if (unsent := letter._of_send(record)) is not None:
                return unsent
            if source_arn is None and (of_stream := stream_letter_problem(letter.text)) is not None:
                return replace(letter, problem=bounded(of_stream))
            if source_arn is None and not received.get("MessageAttributes"):
                record = readable_now(letter.text) or record
            return letter._of_message(record, now, flow)
        except (EnvelopeError, ValueError) as error:
            return replace(letter, problem=bounded(str(error)))

    def _of_send(self, record: dict[str, Any]) -> Letter | None:
        """Read the letter as an unsent message. None where it is of another kind.

        Its body is any text, so only the record's own attributes count.
        """
        opened = open_record(record, "record")
        unsent = Undeliverable.of(opened.attributes)
        if unsent is None:
            return None
        envelope = Envelope(opened.record, Source.SQS, self.text, opened.attributes, None)
        return replace(self, envelope=envelope, message=_message(envelope), unsent=unsent)

    def _of_message(self, record: dict[str, Any], now: int, flow: AnyFlow | None) -> Letter:
        envelope = normalize_record(record)
        message, refusal = _message(envelope), None
        if flow is not None and message.flow in ("", flow.name):
            arrival = Routes((flow,)).resolve(envelope, now, trust=None)
            refusal = None if arrival.problem is None else str(arrival.problem)
            message = arrival.message._replace(first_error=message.first_error)  # a run that begins anew has none
        else:
            flow = None
        attributes = {name: envelope.attributes[name] for name in envelope.received["messageAttributes"]}
        bound = bound_for(attributes) if self.source_arn is None else None
        read = replace(self, text=envelope.message, envelope=envelope, message=message, flow=flow, bound_for=bound)
        return replace(read, refusal=refusal)

    @property
    def is_parked(self) -> bool:
        """Answer whether flowguard wrote it, to be sent back as it is."""
        m = self.message
        return m is not None and m.redrive > 0 and m.retry == 0 and self.source_arn is None and self.unsent is None

    @property
    def unread_because(self) -> str | None:
        """Say why its stage cannot read it. None where it can, as far as is known.

        Where the flow's class is known, that is asked. Elsewhere the letter's errors say it, or that it names no
        object; of what SQS gave up, that it is no JSON.
        """
        if self.message is None or self.unsent is not None or order_parts(self.place_text) is not None:
            return None
        if self.flow is not None:
            return self.refusal or _refusal(self.flow, self.message)
        if not self.is_parked:
            return (
                None
                if self.message.sealed is not None or _is_json(self.message.body)
                else "it is no JSON, unless the stage takes text (--flow-class knows)"
            )
        for error in (self.last_error, self.error):
            if error is not None and (error.type == _PAYLOAD_INVALID or not self.message.object_id):
                return f"{error.type}: {error.text}"
        return None if self.message.object_id else "it names no object"

    @property
    def kind(self) -> str:
        """Name the kind of the letter. It is ``unreadable``, ``unsent``, ``parked`` or ``raw``."""
        if self.message is None:
            return "unreadable"
        return "unsent" if self.unsent is not None else "parked" if self.is_parked else "raw"

    @property
    def to(self) -> Destination | None:
        """Return where it was to go, as far as the letter says so."""
        return self.unsent.to if self.unsent is not None else self.bound_for

    @property
    def error(self) -> ErrorNote | None:
        """Return the first error. None where a function was killed before it could say one."""
        return self.message.first_error if self.message is not None else None

    @property
    def last_error(self) -> ErrorNote | None:
        """Return the error that made it a dead letter, where that is not the first one."""
        return Place.parse(self.place_text).last_error

    @property
    def place_text(self) -> str:
        """Return the text of the letter's ``flowguard`` attribute. An empty object where it has none."""
        attribute = self.envelope.attributes.get(PLACE) if self.envelope is not None else None
        return attribute.value if attribute is not None else "{}"

    @property
    def object_id(self) -> str | None:
        """Return the letter's object, or the one that its payload seems to name. None where there is neither."""
        if self.message is None:
            return None
        if self.message.object_id:
            return self.message.object_id
        return Place.parse(self.place_text).seems

    @property
    def home_arn(self) -> str | None:
        """Return the queue that the letter came through.

        It is what SQS says, or else what a letter says that flowguard parked. The body is a sender's text. What it says
        of the queue counts only where it lies as flowguard parked it.
        """
        if not self.is_parked or self.envelope is None or self.envelope.notification is None:
            return self.source_arn
        arn: str = self.envelope.notification["TopicArn"]
        return None if arn_service(arn) != "sqs" or arn == UNKNOWN_QUEUE else arn

    @property
    def carried(self) -> dict[str, Attribute]:
        """Return what goes along with all that its run sends. Nothing where its flow is not known.

        Beside what its message carries that is the lane of the queue which it came through.
        """
        if self.flow is None or self.message is None or self.envelope is None:
            return {}
        queue = None if self.home_arn is None else self.envelope.names.queue_of_arn(self.home_arn)
        return self.flow.carried_from(self.envelope.attributes, self.message.stage, queue)

    def returning(self) -> Message:
        """Return the message as it is sent back. Raises ValueError where it cannot be read.

        A parked message has its redrive number already. A request goes back as a request: as a redrive it would let
        its sender reopen a run that has failed.
        """
        if self.message is None:
            raise ValueError(self.problem or "it cannot be read")
        if self.is_parked or self.is_request(self.message):
            return self.message
        return self.message._replace(redrive=self.message.redrive + 1, retry=0, since=0, turn=None)

    def is_request(self, message: Message) -> bool:
        """Answer whether its message is a request as anybody may send one, without a signature."""
        return RecordKind.of(message) is RecordKind.REQUEST and Place.parse(self.place_text).signature is None

    def facts(self, now: int) -> dict[str, Any]:
        """Return what is shown of the letter.

        These are ids, place, error and age in seconds, never the payload, which is ``text``.
        """
        return {
            "message_id": self.message_id,
            "kind": self.kind,
            **_place(self.message),
            "object_id": self.object_id,
            "to": None if self.to is None else str(self.to),
            "send_kind": None if self.unsent is None else self.unsent.kind.value,
            "send_id": None if self.unsent is None else self.unsent.id,
            "error": _error(self.error),
            "last_error": _error(self.last_error),
            "problem": self.problem,
            "age": max(0, (now - self.sent_at) // 1000),
            "receive_count": self.receive_count,
            "bytes": len(self.text.encode("utf-8", "surrogatepass")),
        }


def _error(note: ErrorNote | None) -> dict[str, Any] | None:
    return None if note is None else {"type": note.type, "text": note.text, "at": note.at}


def _place(message: Message | None) -> dict[str, Any]:
    names = ("flow", "stage", "object_id", "request_id", "requested_at", "hop", "retry", "redrive")
    return {name: None if (value := getattr(message, name, None)) == "" else value for name in names}


def _sent_at(envelope: Envelope) -> int:
    by_bus = envelope.event.time if envelope.event is not None else None
    return by_bus or envelope.published_at or envelope.sent_at or 0


def _message(envelope: Envelope) -> Message:
    """Read the message as routing does, without knowing the flow.

    Raises ValueError for attributes that cannot be read.
    """
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
        request_id=RequestId(read.get(REQUEST_ID) or envelope.own_id),
        requested_at=int(at) if at is not None else _sent_at(envelope),
        body="" if place.is_sealed else envelope.message,
        sealed=envelope.message if place.is_sealed else None,
        hop=place.hop,
        retry=place.retry,
        redrive=place.redrive,
        reply_to=place.reply_to,
        first_error=place.first_error,
        resumed=place.resumed,
        answer_to=place.answer_to,
        cancelled=place.cancelled,
        since=place.since,
        depth=place.depth,
        tenant=place.tenant or envelope.tenant,
        turn=place.turn,
    )


def _refusal(flow: AnyFlow, message: Message) -> str | None:
    """Say why the class cannot read the stage's message. The answers after a wait are in the run item.

    What is sealed is not opened for it.
    """
    if message.resumed or message.sealed is not None:
        return None
    stage = flow.stage(message.stage)
    try:
        decode(stage.payload, message.body, what=f"the payload of {stage.name}")
    except Exception as error:  # RunFailed, or whatever a model's own validator raises
        return (
            str(error) if isinstance(error, RunFailed) else f"a validator of its payload raises {type(error).__name__}"
        )
    return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
