"""Lambda events made from a place and a payload, in the shapes that AWS sends.

Two events made from the same arguments are equal and stand for the same message, delivered twice. To tell two messages
with equal payloads apart, give each a ``message_id``.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from flowguard.payload.encoding import Payload, encode, encode_json
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.notification import to_timestamp

Event = dict[str, Any]
Attributes = Mapping[str, Attribute | str | int | float | Decimal | bytes]
"""Plain values become the attribute of their kind: text a String, a number a Number, bytes a Binary."""

SENT_AT = 1_767_225_600_000
"""2026-01-01T00:00:00Z in ms: also where a :class:`flowguard.testing.ManualClock` starts."""

_WHERE = "eu-west-1:123456789012"
_SUBSCRIPTION = "5d85613a-56c1-44e3-a3ff-8ce6fc95d10c"
_SIGNED = {"SignatureVersion": "1", "Signature": "RVhBTVBMRQ=="}
_CERTIFICATE = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0000000000000000.pem"


def sqs_event(
    queue: str,
    payload: Payload,
    *,
    attributes: Attributes | None = None,
    message_id: str | None = None,
    sent_at: int = SENT_AT,
    receive_count: int = 1,
    group: str | None = None,
) -> Event:
    """Make the event that a queue hands to its function.

    ``queue`` is a name or an ARN; ``sent_at`` is ms since 1970. A queue whose name ends in ``.fifo`` says a message
    group, ``group``, as well. ``attributes`` are message attributes. ``message_id`` is SQS's, made from the queue and
    the payload by default. ``receive_count`` counts this delivery too.
    """
    body, arn = encode(payload), _arn("sqs", queue)
    record_id = message_id or _id(arn, body)
    system = {
        "ApproximateReceiveCount": str(receive_count),
        "SentTimestamp": str(sent_at),
        "SenderId": "AROAEXAMPLE:sender",
        "ApproximateFirstReceiveTimestamp": str(sent_at),
    }
    if arn.endswith(".fifo"):
        system |= {"SequenceNumber": f"{sent_at:020d}", "MessageDeduplicationId": record_id}
        group = group or "group-1"
    if group is not None:
        system["MessageGroupId"] = group
    record = {
        "messageId": record_id,
        "receiptHandle": f"handle-{record_id}-{receive_count}",
        "body": body,
        "attributes": system,
        "messageAttributes": attributes_to(Attribute.to_sqs_record, _attributes(attributes)),
        "md5OfBody": hashlib.md5(body.encode(), usedforsecurity=False).hexdigest(),
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": arn.split(":")[3],
    }
    return {"Records": [record]}


def sns_event(
    topic: str,
    payload: Payload,
    *,
    attributes: Attributes | None = None,
    message_id: str | None = None,
    published_at: int = SENT_AT,
    subject: str | None = None,
) -> Event:
    """Make the event that a topic hands to a function that subscribes to it. ``topic`` is a name or an ARN.

    ``published_at`` is ms since 1970. ``attributes`` are message attributes, ``subject`` is the notification's.
    ``message_id`` is SNS's, made from the topic and the payload by default.
    """
    arn = _arn("sns", topic)
    notification = {
        **_notification(arn, payload, attributes, message_id, published_at),
        "Subject": subject,
        "SigningCertUrl": _CERTIFICATE,
        "UnsubscribeUrl": _unsubscribe(arn),
    }
    record = {
        "EventSource": "aws:sns",
        "EventVersion": "1.0",
        "EventSubscriptionArn": f"{arn}:{_SUBSCRIPTION}",
        "Sns": notification,
    }
    return {"Records": [record]}


def sns_to_sqs_event(
    queue: str,
    payload: Payload,
    *,
    topic: str = "topic",
    attributes: Attributes | None = None,
    message_id: str | None = None,
    published_at: int = SENT_AT,
    subject: str | None = None,
    **of_the_queue: Any,
) -> Event:
    """Make the event that a queue which subscribes to a topic hands to its function.

    ``topic``, ``attributes``, ``published_at`` and ``subject`` are as in :func:`sns_event`. ``message_id`` is SNS's,
    the same in every queue. ``of_the_queue`` is what :func:`sqs_event` takes beside.
    """
    arn = _arn("sns", topic)
    notification = {
        **_notification(arn, payload, attributes, message_id, published_at),
        **({} if subject is None else {"Subject": subject}),
        "SigningCertURL": _CERTIFICATE,
        "UnsubscribeURL": _unsubscribe(arn),
    }
    return sqs_event(queue, json.dumps(notification, indent=2), **{"sent_at": published_at, **of_the_queue})


def bus_event(
    detail: BaseModel | dict[str, Any],
    *,
    source: str = "shop",
    detail_type: str = "Event",
    event_id: str | None = None,
    time: int = SENT_AT,
    resources: tuple[str, ...] = (),
) -> Event:
    """Make the event that EventBridge hands to a function, or as JSON to a queue or topic: ``sqs_event(queue, event)``.

    ``source``, ``detail_type`` and ``resources`` (ARNs) are the sender's. ``event_id`` is a UUID. ``time`` is ms since
    1970; EventBridge writes whole seconds.
    """
    text = encode(detail)
    return {
        "version": "0",
        "id": event_id or _id(f"{source} {detail_type}", text),
        "detail-type": detail_type,
        "source": source,
        "account": _WHERE.partition(":")[2],
        "time": f"{to_timestamp(time)[:-5]}Z",
        "region": _WHERE.partition(":")[0],
        "resources": list(resources),
        "detail": json.loads(text),
    }


def invocation(payload: Payload) -> Any:
    """Make the event of a direct call to a function. It is the payload as JSON has it."""
    return json.loads(encode_json(payload))


def batch(*events: Event) -> Event:
    """Combine the records of several events in one, in order."""
    return {"Records": [record for event in events for record in event["Records"]]}


# -- the parts ---------------------------------------------------------------------------------------------------------


def _notification(
    arn: str, payload: Payload, attributes: Attributes | None, message_id: str | None, published_at: int
) -> dict[str, Any]:
    text = encode(payload)
    return {
        "Type": "Notification",
        "MessageId": message_id or _id(arn, text),
        "TopicArn": arn,
        "Message": text,
        "Timestamp": to_timestamp(published_at),
        **_SIGNED,
        "MessageAttributes": attributes_to(Attribute.to_notification, _attributes(attributes)),
    }


def _arn(service: str, name: str) -> str:
    return name if name.startswith("arn:") else f"arn:aws:{service}:{_WHERE}:{name}"


def _unsubscribe(arn: str) -> str:
    return f"https://sns.eu-west-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn={arn}:{_SUBSCRIPTION}"


def _id(arn: str, text: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{arn}\n{text}"))


def _attributes(given: Attributes | None) -> dict[str, Attribute]:
    return {name: _attribute(value) for name, value in (given or {}).items()}


def _attribute(value: Attribute | str | float | Decimal | bytes) -> Attribute:
    match value:
        case Attribute():
            return value
        case str():
            return Attribute.string(value)
        case bytes():
            return Attribute.binary(value)
        case _:
            return Attribute.number(value)
