"""Every message in one shape, that of SNS to SQS. SQS's fields are on top, a notification is in the body.

::

    Lambda event ─ find_records ─ open_record ─ find_notification ┬ found: the message is in it, the record stays
    or pasted JSON                                                └ none: the body is the message, ``record`` wraps it

The message may be an event of EventBridge: then its detail is the message, and the record keeps the whole event. So it
is with a notice that S3 itself sends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, assert_never

from flowguard.errors import EnvelopeError
from flowguard.names.at_aws import AS_IN_CODE, Names
from flowguard.startup.named_tuple import NamedTuple
from flowguard.startup.value import Value
from flowguard.text.printable import bounded
from flowguard.wire.attributes import Attribute, attributes_to, json_kind, read_attributes
from flowguard.wire.bus_event import BusEvent, find_bus_event
from flowguard.wire.kafka_records import KAFKA
from flowguard.wire.message import DEPTH, EVENT, PLACE, Place
from flowguard.wire.notification import (
    LAST_MOMENT,
    UNKNOWN_FUNCTION,
    UNKNOWN_QUEUE,
    arn_service,
    find_notification,
    from_timestamp,
    is_ours,
    new_notification,
    service_of,
    to_json,
)
from flowguard.wire.object_notices import ObjectNotice, find_object_notice
from flowguard.wire.records import (
    LAMBDA,
    SQS,
    Opened,
    find_records,
    open_invocation,
    open_record,
    record_id,
    unread_stream_record,
)
from flowguard.wire.stream_records import DYNAMODB, KINESIS
from flowguard.wire.tenant import read_tenant

MAX_ATTRIBUTES: Final = 10  # that SQS takes beside a body

_DEPTH_FIRST: Final = f'{{"{DEPTH}"'


class Source(StrEnum):
    """How the record came to the function."""

    SQS = "sqs"
    SNS_SQS = "sns-sqs"
    SNS_LAMBDA = "sns-lambda"
    INVOCATION = "lambda"
    KINESIS = "kinesis"
    DYNAMODB = "dynamodb"
    KAFKA = "kafka"

    @property
    def is_queue(self) -> bool:
        """Answer whether a queue delivered the record, which keeps it until it is acked."""
        match self:
            case Source.SQS | Source.SNS_SQS:
                return True
            case Source.SNS_LAMBDA | Source.INVOCATION | Source.KINESIS | Source.DYNAMODB | Source.KAFKA:
                return False
            case _:
                assert_never(self)

    @property
    def is_stream(self) -> bool:
        """Answer whether a stream delivered the record, and what is behind it waits until it is acked."""
        return self in _STREAM_SOURCES

    @property
    def takes_names(self) -> bool:
        """Answer whether the answer may name the records that failed. Others take an answer as a whole."""
        return self.is_queue or self.is_stream


_STREAM_SOURCES: Final = (Source.KINESIS, Source.DYNAMODB, Source.KAFKA)


class Envelope(NamedTuple):
    """A message that can be read.

    ``message`` is the sender's text, ``attributes`` are the sender's and a retry's. Of an ``event`` of EventBridge, or
    of one object in a notice of S3, the message is the detail.
    """

    received: dict[str, Any]  # the record of SQS, its body not yet wrapped
    source: Source
    message: str
    attributes: Mapping[str, Attribute]  # the notification's, and over them the record's own
    notification: Mapping[str, Any] | None  # the body, parsed; None where it is the message itself
    event: BusEvent | None = None
    names: Names = AS_IN_CODE
    """Of the queues and topics that it came through."""
    notice: ObjectNotice | None = None
    """What S3 itself says of several objects in one message, or of none. What it says of one is an ``event``."""

    @property
    def parts(self) -> tuple[Envelope, ...]:
        """Return an envelope for each message in it. That is itself, unless it is a notice of S3."""
        if self.notice is None:
            return (self,)
        return tuple(_of_event(self._replace(notice=None), event) for event in self.notice.events)

    @property
    def record(self) -> dict[str, Any]:
        """Return the normalised record. Normalising it again changes nothing.

        It is made only when asked for: few records are sent again.
        """
        if self.notification is None:
            return _wrap(self.received, self.attributes)
        return _corrected(self.received, self.notification) if is_ours(self.notification) else self.received

    def extras(self) -> dict[str, Attribute]:
        """Return the attributes on top of the normalised record: what a retry says beside the untouched message."""
        if self.notification is None:
            return {}
        return {name: self.attributes[name] for name in self.received["messageAttributes"]}

    @property
    def message_id(self) -> str:
        """Return SQS's message id. For what no queue delivered it is SNS's, the invocation's, or the place in a stream.

        Lambda knows the record by it.
        """
        return str(self.received["messageId"])

    @property
    def sns_message_id(self) -> str | None:
        """Return SNS's message id, the same in every copy. None for a message that SNS never saw."""
        return self._by_sns["MessageId"] if self._by_sns else None

    @property
    def own_id(self) -> str:
        """Return the request id of a message without an id attribute: that of its event, SNS message or record.

        A sequence number is unique in its shard alone, so the id of a stream's record has the stream and the shard too.
        """
        if self.source.is_stream:
            return self.first_id
        return (self.event.id if self.event else None) or self.sns_message_id or self.message_id

    @property
    def first_id(self) -> str:
        """Return the id of the message's first delivery, which its retries and dead letters carry in their body."""
        return str(self.notification["MessageId"]) if self.notification else self.message_id

    @property
    def topic_arn(self) -> str | None:
        """Return the ARN of the topic that published it, as the code has it."""
        return self.names.topic_in_code(self._by_sns["TopicArn"]) if self._by_sns else None

    @property
    def published_at(self) -> int | None:
        """Return when SNS took the message, in ms. None for a message that SNS never saw."""
        return from_timestamp(self._by_sns["Timestamp"]) if self._by_sns else None

    @property
    def _by_sns(self) -> Mapping[str, Any] | None:
        return None if self.notification is None or is_ours(self.notification) else self.notification

    @property
    def subject(self) -> str | None:
        return self.notification.get("Subject") if self.notification else None

    @property
    def sent_at(self) -> int | None:
        """Return when SQS took this record, in ms. Of a retry it is the time of the retry."""
        sent = self.received["attributes"].get("SentTimestamp")
        return None if sent is None else int(sent)

    @property
    def receive_count(self) -> int:
        return int(self.received["attributes"].get("ApproximateReceiveCount") or 1)

    @property
    def of_sqs(self) -> dict[str, Any]:
        """Return the attributes that SQS itself gives a record, such as ``SentTimestamp``."""
        attributes: dict[str, Any] = self.received["attributes"]
        return attributes

    @property
    def group_id(self) -> str | None:
        """Return a FIFO queue's message group, or a fair queue's tenant."""
        group: str | None = self.received["attributes"].get("MessageGroupId")
        return group

    @property
    def tenant(self) -> str | None:
        """Return the tenant whose its sender says it is. The group of a FIFO queue is none, or of an unknown one."""
        group = self.group_id
        return None if group is None or self.queue_arn is None or self.is_fifo else read_tenant(group)

    @property
    def receipt_handle(self) -> str | None:
        """Return the handle to delete the message or change its visibility. None where no queue delivered it."""
        handle = self.received.get("receiptHandle")
        return handle if isinstance(handle, str) else None

    @property
    def source_arn(self) -> str | None:
        """Return the ARN of the queue or stream that delivered it. None for what nothing brings again."""
        return str(self.received.get("eventSourceARN")) if self.source.is_stream else self.queue_arn

    @property
    def queue_arn(self) -> str | None:
        arn = self.received.get("eventSourceARN")
        return arn if isinstance(arn, str) and service_of(arn) == "sqs" else None

    @property
    def queue(self) -> str | None:
        """Return the queue's name in the code. One of another deployment has its account before its name."""
        return self.names.queue_of_arn(self.queue_arn) if self.queue_arn else None

    @property
    def came_through(self) -> str | None:
        """Return the name of the queue that SQS says the record came through: of one that it moved, the one before.

        Nothing of the message is read for it. None for a record that no queue delivered.
        """
        arn = self.arn_before
        return None if arn is None else self.names.queue_of_arn(arn)

    @property
    def arn_before(self) -> str | None:
        """Return the ARN of the queue that the record came through: of one that SQS moved, of the one before."""
        return _moved_from(self.received) or self.queue_arn

    @property
    def is_fifo(self) -> bool:
        """Answer whether it is from a FIFO queue, where one failed record holds up its group."""
        arn = self.received.get("eventSourceARN")
        return isinstance(arn, str) and arn.endswith(".fifo") and service_of(arn) == "sqs"

    @property
    def retried_in_place(self) -> bool:
        """Answer whether it is tried again as the same record.

        A copy would come out of order, or there is no queue to send one to. A stream would wait for it, so its records
        are tried again in the flow's own queue.
        """
        return self.is_fifo or self.source_arn is None


class BadRecord(Value):
    """A record that cannot be read. ``record_id`` is its message id where it has one, to be answered as a failure.

    ``envelope`` has its body and attributes as they came, where what cannot be read is inside its body.
    """

    record_id: str | None
    index: int
    raw: Any
    error: EnvelopeError
    envelope: Envelope | None = None


def normalize(
    event: object,
    *,
    invocation_id: str | None = None,
    function_arn: str | None = None,
    received_at: int | None = None,
    names: Names = AS_IN_CODE,
) -> list[Envelope | BadRecord]:
    """Read every record of a Lambda event or of pasted JSON, in order. Raises nothing: any JSON is legal here.

    What is no event of records is the payload of a direct invocation, and becomes one envelope; ``invocation_id``,
    ``function_arn`` and ``received_at`` (milliseconds) are its message id, origin and time of sending. ``names`` are
    those of the queues and topics at AWS.
    """
    records = find_records(event)
    if records is None:
        return [_read_invocation(event, invocation_id, function_arn, received_at)]
    read = [_read_or_bad(record, place, index) for index, (place, record) in enumerate(records)]
    return read if names.are_those_of_the_code else [_named(record, names) for record in read]


def _named(record: Envelope | BadRecord, names: Names) -> Envelope | BadRecord:
    if isinstance(record, Envelope):
        return record._replace(names=names)
    return record if record.envelope is None else record._replace(envelope=record.envelope._replace(names=names))


def normalize_record(record: object, *, place: str = "record") -> Envelope:
    """Read one record. Raises EnvelopeError where it is none; ``place`` names it where its id cannot."""
    return _read(open_record(record, place))


def resend(envelope: Envelope, extras: Mapping[str, Attribute]) -> tuple[str, dict[str, Attribute]]:
    """Return the body and attributes of a retry.

    The body is the original, untouched. Beside it are the extras, over those of earlier retries. Raises EnvelopeError
    where these are more attributes than SQS takes.
    """
    attributes = {**envelope.extras(), **extras}
    if len(attributes) > MAX_ATTRIBUTES:
        names = bounded(", ".join(attributes))
        problem = f"SQS takes {MAX_ATTRIBUTES}, this retry would have {len(attributes)}: {names}"
        raise EnvelopeError(envelope.message_id, "messageAttributes", problem)
    return envelope.record["body"], attributes


def plain(envelope: Envelope, extras: Mapping[str, Attribute]) -> tuple[str, dict[str, Attribute]] | None:
    """Return the message's text as it was sent, and all its attributes with the extras over them.

    None for what a topic has published, which would lose its origin.
    """
    if envelope.notification is None:
        return envelope.received["body"], {**envelope.attributes, **extras}
    if is_ours(envelope.notification):
        return envelope.notification["Message"], {**envelope.attributes, **extras}
    return None


def resend_alone(envelope: Envelope, extras: Mapping[str, Attribute]) -> str:
    """Return the body of a retry that can have no attributes beside it.

    The extras are inside, over the original's own.
    """
    notification = json.loads(envelope.record["body"])
    inside = {**envelope.extras(), **extras}
    notification["MessageAttributes"] = {
        **(notification.get("MessageAttributes") or {}),
        **attributes_to(Attribute.to_notification, inside),
    }
    return to_json(notification)


# -- reading one -----------------------------------------------------------------------------------------------------


def _read_or_bad(record: object, place: str, index: int) -> Envelope | BadRecord:
    try:
        opened = open_record(record, place)
    except EnvelopeError as error:
        unread = unread_stream_record(record)
        return BadRecord(record_id(record), index, record, error, None if unread is None else _unopened(unread))
    try:
        return _read(opened)
    except EnvelopeError as error:
        return BadRecord(record_id(record), index, record, error, _unopened(opened))


def _unopened(opened: Opened) -> Envelope | None:
    """Return the envelope of a body that cannot be read. None where no queue has it, or the record is malformed."""
    if opened.notification is not None:
        return None
    try:
        _check_attributes(opened.record["attributes"], opened.name)
        body = _body(opened.record, opened.name)
    except EnvelopeError:
        return None
    return Envelope(opened.record, _source(opened.record, None), body, opened.attributes, None)


def _read_invocation(payload: object, name: str | None, arn: str | None, at: int | None) -> Envelope | BadRecord:
    try:
        return _read(open_invocation(payload, name, arn, at))
    except EnvelopeError as error:
        return BadRecord(name, 0, payload, error)


def _read(opened: Opened) -> Envelope:
    name, record, extras, notification, where = opened
    _check_attributes(record["attributes"], name)
    if notification is None:
        body = _body(record, name)
        notification = find_notification(body, name)
        if notification is None:
            return _unwrapped(Envelope(record, _source(record, None), body, extras, None))
    sent = notification.get("MessageAttributes")
    attributes = read_attributes(sent, Attribute.of_notification, name, f"{where}.MessageAttributes")
    return _unwrapped(
        Envelope(record, _source(record, notification), notification["Message"], attributes | extras, notification)
    )


def _unwrapped(envelope: Envelope) -> Envelope:
    """Take the detail of an event as the message. A stage's message is a payload, whatever it looks like.

    So is what a stream holds.
    """
    if envelope.source.is_stream:
        return envelope
    place = envelope.attributes.get(PLACE)
    if place is not None and not _may_be_event(place.value):
        return envelope
    if (event := find_bus_event(envelope.message)) is not None:
        return _of_event(envelope, event)
    if (notice := find_object_notice(envelope.message)) is None:
        return envelope
    return _of_event(envelope, notice.events[0]) if len(notice.events) == 1 else envelope._replace(notice=notice)


def _of_event(envelope: Envelope, event: BusEvent) -> Envelope:
    return envelope._replace(message=event.detail, attributes={**event.attributes, **envelope.attributes}, event=event)


def _may_be_event(place: str) -> bool:
    """Answer whether the place says that the body is an event, or says nothing but a depth."""
    if EVENT not in place and not place.startswith(_DEPTH_FIRST) and "\\" not in place:  # most stages' messages
        return False
    try:
        return Place.parse(place).is_event or json.loads(place).keys() == {DEPTH}
    except ValueError:  # routing names what is wrong with it
        return False


def _wrap(record: dict[str, Any], attributes: Mapping[str, Attribute]) -> dict[str, Any]:
    """Wrap a direct SQS message in an SNS notification. Its attributes move there with it."""
    notification = new_notification(
        record["body"],
        message_id=record["messageId"],
        arn=_origin(record),
        sent_at=int(record["attributes"].get("SentTimestamp") or 0),
        attributes=attributes,
    )
    return {**record, "body": to_json(notification), "messageAttributes": {}}


def _corrected(record: dict[str, Any], notification: Mapping[str, Any]) -> dict[str, Any]:
    """Put the queue that SQS moved the record from into our notification. Without a move nothing changes.

    The notification came as a message's body, and anybody who may send to the queue can write one.
    """
    source = _moved_from(record)
    if source is None or source == notification["TopicArn"]:
        return record
    return {**record, "body": to_json({**notification, "TopicArn": source})}


def _origin(record: dict[str, Any]) -> str:
    """Return the ARN the message came through, or its placeholder.

    It tells our notification from one of SNS. Of a record that SQS moved to a dead-letter queue it is the queue before
    that: where it belongs.
    """
    if (source := _moved_from(record)) is not None:
        return source
    is_invocation = record["eventSource"] == LAMBDA
    arn = record.get("eventSourceARN")
    if isinstance(arn, str) and arn_service(arn) == ("lambda" if is_invocation else "sqs"):
        return arn
    return UNKNOWN_FUNCTION if is_invocation else UNKNOWN_QUEUE


def _moved_from(record: dict[str, Any]) -> str | None:
    """Return the queue that SQS's own attribute says it moved the record from. None where it did not move it."""
    if record["eventSource"] != SQS:
        return None
    arn: str | None = record["attributes"].get("DeadLetterQueueSourceArn")
    return arn if arn_service(arn) == "sqs" else None


_STREAMS: Final = {KINESIS: Source.KINESIS, DYNAMODB: Source.DYNAMODB, KAFKA: Source.KAFKA}


def _source(record: dict[str, Any], notification: dict[str, Any] | None) -> Source:
    match record["eventSource"]:
        case "aws:lambda":
            return Source.INVOCATION
        case "aws:sns":
            return Source.SNS_LAMBDA
        case str(stream) if stream in _STREAMS:
            return _STREAMS[stream]
        case _:
            return Source.SQS if notification is None or is_ours(notification) else Source.SNS_SQS


# -- what a record must have -----------------------------------------------------------------------------------------


def _body(record: dict[str, Any], name: str) -> str:
    body = record.get("body")
    if not isinstance(body, str):
        raise EnvelopeError(name, "body", "missing" if body is None else f"expected text, got {json_kind(body)}")
    return body


def _check_attributes(attributes: object, name: str) -> None:
    """Check the attributes that the envelope reads. The others pass through untouched."""
    if not isinstance(attributes, dict):
        raise EnvelopeError(name, "attributes", f"expected an object, got {json_kind(attributes)}")
    for field in ("SentTimestamp", "ApproximateReceiveCount"):
        value = attributes.get(field)
        if value is not None and not _is_count(value):
            problem = f"expected a whole number as text, got {str(value)[:40]!r}"
            raise EnvelopeError(name, f"attributes.{field}", problem)
    group = attributes.get("MessageGroupId")
    if not isinstance(group, str | None):
        raise EnvelopeError(name, "attributes.MessageGroupId", f"expected text, got {json_kind(group)}")


def _is_count(value: object) -> bool:
    return isinstance(value, str) and value.isdecimal() and len(value) <= _DIGITS and int(value) <= LAST_MOMENT


_DIGITS: Final = len(str(LAST_MOMENT))
