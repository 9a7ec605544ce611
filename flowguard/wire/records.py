"""The records of an event. Each is opened as the record that an SQS trigger hands over, whatever the event is.

A new source is read here: its mark in :func:`find_records`, its function beside ``_open_sns``.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

from flowguard.errors import EnvelopeError
from flowguard.startup.named_tuple import NamedTuple
from flowguard.text.printable import LONGEST_PART, bounded
from flowguard.wire.attributes import Attribute, attributes_to, json_kind, read_attributes
from flowguard.wire.kafka_records import is_kafka_event, kafka_records
from flowguard.wire.notification import (
    arn_service,
    check_notification,
    claims_to_be_notification,
    new_notification,
    to_json,
)
from flowguard.wire.stream_records import is_stream, is_windowed, position_of, read_stream_record

SQS: Final = "aws:sqs"
SNS: Final = "aws:sns"
LAMBDA: Final = "aws:lambda"
S3: Final = "aws:s3"
_PRINTED: Final = "receive-message"


class Opened(NamedTuple):
    """A record in the form of SQS. ``notification`` is set where it is known without reading the body."""

    name: str  # what errors call the record
    record: dict[str, Any]
    attributes: dict[str, Attribute]  # the record's own, beside the body
    notification: dict[str, Any] | None = None
    where: str = "body"  # the field that holds the notification


# -- finding ---------------------------------------------------------------------------------------------------------


def find_records(event: object) -> list[tuple[str, object]] | None:
    """List each record with its place in the event, in order.

    None where the event is a payload and holds no records at all.
    """
    if isinstance(event, list):
        return _listed(event, "")
    if not isinstance(event, dict):
        return None
    if is_windowed(event):
        return [("event", event)]
    if is_kafka_event(event):
        return kafka_records(event)
    if "Records" in event:
        return [] if event == {"Records": []} else _listed(event["Records"], "Records")
    if "Messages" in event and event.keys() <= {"Messages", "ResponseMetadata"}:
        return _listed(event["Messages"], "Messages")
    return [("record", event)] if _kind(event) and not _too_little(event) else None


def record_id(record: object) -> str | None:
    """Return the record's message id, if it has one, or its place in its stream. The answer names it by that.

    Lambda needs it where the record failed.
    """
    if not isinstance(record, dict):
        return None
    message_id = record.get("messageId") or record.get("MessageId") or position_of(record)
    return message_id if isinstance(message_id, str) else None


def _listed(records: object, name: str) -> list[tuple[str, object]] | None:
    if not isinstance(records, list) or not any(_kind(record) for record in records):
        return None
    return [(f"{name}[{place}]", record) for place, record in enumerate(records)]


def _kind(record: object) -> str | None:
    """Return the service that made the record; None where it is no record."""
    if not isinstance(record, dict):
        return None
    source = record.get("eventSource") or record.get("EventSource")
    if isinstance(source, str) and source.startswith("aws:"):
        return source
    if "messageId" in record and ("receiptHandle" in record or "body" in record):
        return SQS
    return _PRINTED if "MessageId" in record and "ReceiptHandle" in record else None


def _too_little(record: dict[str, Any]) -> bool:
    """Answer whether the object lacks the fields of a record.

    ``{"messageId": …, "body": …}`` will do for a record among records; alone it may be anyone's payload.
    """
    return not record.keys() & {"eventSource", "EventSource", "receiptHandle", "ReceiptHandle"}


# -- opening ---------------------------------------------------------------------------------------------------------


def open_record(record: object, place: str) -> Opened:
    """Open one record. Raises EnvelopeError for what is no message; ``place`` names a record that has no id."""
    kind = _kind(record)
    if isinstance(record, dict) and is_windowed(record):
        problem = (
            "its mapping gathers windows and wants a state back, which a flow has none of; set none of the mapping"
        )
        raise EnvelopeError(place, "window", problem)
    if not isinstance(record, dict) or kind is None:
        seen = "an object without eventSource" if isinstance(record, dict) else json_kind(record)
        raise EnvelopeError(place, "(all of it)", f"expected a record of SQS or SNS, got {seen}")
    if kind in (SQS, LAMBDA) or ("body" in record and (kind == SNS or is_stream(kind))):
        return _open_sqs(record, kind, place)
    if kind == _PRINTED:
        return _open_printed(record, place)
    if kind == SNS:
        return _open_sns(record, place)
    if is_stream(kind):
        return _open_stream(record, kind, place)
    source = bounded(kind, LONGEST_PART)
    read = "SQS, SNS, Kinesis, DynamoDB streams, Kafka, and direct invocations"
    problem = f"{source} records are not messages: flowguard reads those of {read}"
    if kind == S3:
        problem += "; let the bucket send its notifications to the flow's queue, or its events to EventBridge"
    raise EnvelopeError(record_id(record) or place, "eventSource", problem)


def _open_sqs(record: dict[str, Any], kind: str, place: str) -> Opened:
    """Open the record of an SQS trigger, or one normalised before. What a hand-written one leaves out is filled in."""
    name = _name(record, "messageId", place)
    attributes = read_attributes(record.get("messageAttributes"), Attribute.of_sqs_record, name, "messageAttributes")
    get = record.get
    if get("attributes") is None or get("messageAttributes") is None or get("eventSource") is None:
        expected = {"attributes": {}, "messageAttributes": {}, "eventSource": kind}
        record = record | {field: value for field, value in expected.items() if get(field) is None}
    return Opened(name, record, attributes)


def _open_printed(message: dict[str, Any], place: str) -> Opened:
    """Open what ``aws sqs receive-message`` prints. boto3 answers the same capitalised fields."""
    name = _name(message, "MessageId", place)
    if "Body" not in message:
        raise EnvelopeError(name, "Body", "missing")
    sent = message.get("MessageAttributes")
    attributes = read_attributes(sent, Attribute.of_receive_message, name, "MessageAttributes")
    record = {_uncapitalised(field): value for field, value in message.items()}
    record |= {  # its own fields count, whatever it has under the names of a trigger's record
        "messageId": name,
        "body": message["Body"],
        "attributes": {} if message.get("Attributes") is None else message["Attributes"],
        "messageAttributes": attributes_to(Attribute.to_sqs_record, attributes),
        "eventSource": SQS,
    }
    return Opened(name, record, attributes)


def _uncapitalised(field: str) -> str:
    """Change ``MD5OfBody`` to ``md5OfBody``."""
    return f"md5{field[3:]}" if field.startswith("MD5") else field[:1].lower() + field[1:]


def _open_sns(record: dict[str, Any], place: str) -> Opened:
    """Open the record of a function that SNS invoked itself.

    The notification is beside the record's other fields, parsed already.
    """
    sns = record.get("Sns")
    notification = check_notification(sns, record_id(sns) or place, "Sns")
    arn = record.get("EventSubscriptionArn") or notification["TopicArn"]
    kept = {key: value for key, value in record.items() if key not in ("EventSource", "EventSubscriptionArn", "Sns")}
    name = notification["MessageId"]
    made = _made_record(name, _text(notification, name, "Sns"), SNS, arn)
    return Opened(name, kept | made, {}, notification, "Sns")


def _open_stream(record: dict[str, Any], kind: str, place: str) -> Opened:
    """Open the record of a stream: its text is wrapped under the record's id, without any attribute."""
    read = read_stream_record(record, kind, place)
    notification = new_notification(read.text, message_id=read.id, arn=read.arn, sent_at=read.at, attributes={})
    kept = {key: value for key, value in record.items() if key not in ("kinesis", "dynamodb", "kafka")}
    made = _made_record(read.position, to_json(notification), kind, read.arn)
    made["attributes"] = {"SentTimestamp": str(read.at)}
    if read.partition_key is not None:
        made["attributes"]["partitionKey"] = read.partition_key
    return Opened(read.position, kept | made, {}, notification)


def unread_stream_record(record: object) -> Opened | None:
    """Return a stream's record that cannot be read, with all of it as its body. None for what no stream brought.

    Such a record holds up its stream, so it has to be parked as it came.
    """
    if not isinstance(record, dict) or (position := position_of(record)) is None:
        return None
    try:
        made = _made_record(position, to_json(record), record["eventSource"], record.get("eventSourceARN"))
        return Opened(position, made, {})
    except (TypeError, ValueError, RecursionError):  # NaN, for one
        return None


def open_invocation(payload: object, invocation_id: str | None, arn: str | None, received_at: int | None) -> Opened:
    """Open a direct invocation. A payload that is a notification is the message; any other is the message's text."""
    name = invocation_id or "invocation"
    notification = None
    if claims_to_be_notification(payload):
        notification = check_notification(payload, name, "payload")
        name = invocation_id or notification["MessageId"]
    body = payload if isinstance(payload, str) else _text(payload, name, "payload")
    name = name if invocation_id or notification else _id_of(body)
    record = _made_record(name, body, LAMBDA, arn)
    if received_at is not None:
        record["attributes"] = {"SentTimestamp": str(received_at)}
    return Opened(name, record, {}, notification, "payload")


def _id_of(body: str) -> str:
    """Make an id for an invocation that came without one. The same payload has the same, another payload another."""
    return f"invocation-{sha256(to_json(body).encode()).hexdigest()[:16]}"


def _text(value: object, name: str, field: str) -> str:
    try:
        return to_json(value)
    except (TypeError, ValueError, RecursionError) as wrong:  # NaN, for one: Python reads it, but no one else
        raise EnvelopeError(name, field, f"is not JSON: {wrong}") from None


def _made_record(message_id: str, body: str, source: str, arn: object) -> dict[str, Any]:
    """Make the record of a message that no queue delivered. It has no receipt handle and no checksum."""
    record = {
        "messageId": message_id,
        "body": body,
        "attributes": {},
        "messageAttributes": {},
        "eventSource": source,
    }
    if isinstance(arn, str) and arn_service(arn):
        record |= {"eventSourceARN": arn, "awsRegion": arn.split(":")[3]}
    return record


def _name(record: dict[str, Any], field: str, place: str) -> str:
    value = record.get(field)
    if value is None or value == "":
        raise EnvelopeError(place, field, "missing")
    if not isinstance(value, str):
        raise EnvelopeError(place, field, f"expected text, got {json_kind(value)}")
    return value
