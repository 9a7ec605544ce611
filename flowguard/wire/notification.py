"""The notification in a message's body. It is JSON that SNS writes, and flowguard for what did not come from SNS.

It is recognised by its whole form and never by one key: a user's own JSON may well have a ``Type`` or a ``Message``.
Who made it is in its ``TopicArn``: SNS where that is a topic's, flowguard where it is that of a queue, a function or a
stream.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from time import gmtime, strftime
from typing import Any, Final

from flowguard.errors import EnvelopeError
from flowguard.startup.late_pattern import late_pattern
from flowguard.wire.attributes import Attribute, attributes_to, json_kind

# Stand for the ARN that a message came through where nobody said it (a pasted message, a hand-written test event).
UNKNOWN_QUEUE: Final = "arn:aws:sqs:unknown:000000000000:unknown"
UNKNOWN_FUNCTION: Final = "arn:aws:lambda:unknown:000000000000:function:unknown"

_OURS: Final = frozenset({"sqs", "lambda", "kinesis", "dynamodb", "kafka"})
_MAKERS: Final = _OURS | {"sns"}


def new_notification(
    message: str, *, message_id: str, arn: str, sent_at: int, attributes: Mapping[str, Attribute]
) -> dict[str, Any]:
    """Make a notification as SNS would. ``arn`` is of the queue, function or stream, ``sent_at`` is in milliseconds."""
    return {
        "Type": "Notification",
        "MessageId": message_id,
        "TopicArn": arn,
        "Message": message,
        "Timestamp": to_timestamp(sent_at),
        "MessageAttributes": attributes_to(Attribute.to_notification, attributes),
    }


def find_notification(body: str, record: str) -> dict[str, Any] | None:
    """Return the notification that the body is; None where it is none. Raises EnvelopeError where it is broken."""
    if '"TopicArn"' not in body:
        return None
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        if claims_to_be_notification(_leading_pairs(body)):
            raise EnvelopeError(record, "body", "begins as a notification, but is not whole JSON") from None
        return None
    if not claims_to_be_notification(fields):
        return None
    return check_notification(fields, record, "body")


def claims_to_be_notification(value: object) -> bool:
    """Answer whether the value has all that marks a notification.

    What is missing beside that is missing by mistake.
    """
    if not isinstance(value, dict) or arn_service(value.get("TopicArn")) not in _MAKERS:
        return False
    if not isinstance(value.get("MessageId"), str):
        return False
    if "Type" in value:
        return bool(value["Type"] == "Notification")
    return "Signature" in value and ("SigningCertURL" in value or "SigningCertUrl" in value)


def check_notification(fields: object, record: str, where: str) -> dict[str, Any]:
    """Check that a notification is whole, and return it.

    Its attributes are left to :meth:`Attribute.of_notification`. Raises EnvelopeError where it is not whole.
    """
    if not isinstance(fields, dict):
        raise EnvelopeError(record, where, f"expected a notification, got {json_kind(fields)}")
    for name in ("Type", "MessageId", "TopicArn", "Message", "Timestamp"):
        if not isinstance(value := fields.get(name), str):
            problem = "missing in this notification" if value is None else f"expected text, got {json_kind(value)}"
            raise EnvelopeError(record, f"{where}.{name}", problem)
    if wrong := _wrong_value(fields):
        raise EnvelopeError(record, f"{where}.{wrong[0]}", wrong[1])
    return fields


def is_ours(notification: Mapping[str, Any]) -> bool:
    """Answer whether flowguard made it, not SNS."""
    return arn_service(notification["TopicArn"]) in _OURS


def arn_service(arn: object) -> str | None:
    """Return an ARN's service, such as ``sqs`` for a queue's. None for what is no ARN."""
    return service_of(arn) if isinstance(arn, str) else None


@lru_cache(maxsize=64)
def service_of(arn: str) -> str | None:
    """Read the service from an ARN. It is remembered, since a function gets the same few ARNs with every record."""
    match arn.split(":", 5):
        case ["arn", _, service, _, _, resource] if resource:
            return service
        case _:
            return None


# -- time ------------------------------------------------------------------------------------------------------------

LAST_MOMENT: Final = 253_402_300_799_999  # the end of the year 9999, in milliseconds
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def to_timestamp(ms: int) -> str:
    """Write a time as SNS does: ``2026-01-02T03:04:05.678Z``."""
    seconds, rest = divmod(ms, 1000)
    return f"{strftime('%Y-%m-%dT%H:%M:%S', gmtime(seconds))}.{rest:03d}Z"


def from_timestamp(text: str) -> int:
    """Return the time in milliseconds. Raises ValueError where it is no time, or one without a time zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("no time zone")
    return (moment - _EPOCH) // _MILLISECOND


# -- JSON ------------------------------------------------------------------------------------------------------------

_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_encode_ascii: Final = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode
_UNSENDABLE: Final = late_pattern("[\ud800-\udfff\ufffe\uffff]")


def to_json(value: object) -> str:
    """Write short JSON that can be sent. SQS counts bytes, and refuses half a surrogate pair, U+FFFE and U+FFFF."""
    text = _encode(value)
    if not text.isascii() and _UNSENDABLE.search(text):
        return _encode_ascii(value)
    return text


# -- what is wrong with it -------------------------------------------------------------------------------------------


def _wrong_value(fields: dict[str, Any]) -> tuple[str, str] | None:
    if fields["Type"] != "Notification":
        return "Type", f"expected Notification, got {fields['Type'][:40]!r}"
    if not fields["MessageId"]:
        return "MessageId", "is empty"
    if arn_service(fields["TopicArn"]) not in _MAKERS:
        return "TopicArn", f"{fields['TopicArn'][:80]!r} is not the ARN of a topic"
    if not isinstance(fields.get("Subject"), str | None):
        return "Subject", f"expected text, got {json_kind(fields['Subject'])}"
    try:
        from_timestamp(fields["Timestamp"])
    except ValueError:
        return "Timestamp", f"{fields['Timestamp'][:40]!r} is not a time such as 2026-01-02T03:04:05.678Z"
    return None


_STRING: Final = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_PAIR: Final = late_pattern(rf"\s*[{{,]\s*{_STRING}\s*:\s*{_STRING}(?=\s*,)")


def _leading_pairs(text: str) -> dict[str, str]:
    """Read the text fields with which an object begins, as far as it goes. They tell what a cut one was."""
    pairs: dict[str, str] = {}
    at = 0
    while match := _PAIR.match(text, at):
        pairs[match[1]] = match[2]
        at = match.end()
    return pairs
