"""Records and notifications as AWS makes them, for tests: by hand from a few words, or at random."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.envelope import Envelope, normalize

QUEUE_ARN = "arn:aws:sqs:eu-west-1:123456789012:carts"
TOPIC_ARN = "arn:aws:sns:eu-west-1:123456789012:cart-events"
FUNCTION_ARN = "arn:aws:lambda:eu-west-1:123456789012:function:price-cart"

NONE: Mapping[str, Attribute] = {}
EVERY_TYPE = {
    "shop": Attribute.string("berlin"),
    "price": Attribute.number(42),
    "weight": Attribute("Number.kg", "1.50"),
    "etag": Attribute.binary(b"\x00\x01\xfe\xff"),
    "photo": Attribute("Binary.png", "iVBORw0="),
    "tags": Attribute.array(["gift", 1, True, None]),
    "note": Attribute("String.markdown", "*soon* ☕"),
}


def sqs_record(body: str, sent: Mapping[str, Attribute] = NONE, /, **fields: Any) -> dict[str, Any]:
    """A record of an SQS trigger; ``fields`` replace its own."""
    return {
        "messageId": "m-1",
        "receiptHandle": "handle-1",
        "body": body,
        "attributes": {"ApproximateReceiveCount": "2", "SentTimestamp": "1767323045678", "SenderId": "shop"},
        "messageAttributes": attributes_to(Attribute.to_sqs_record, sent),
        "md5OfBody": "900150983cd24fb0d6963f7d28e17f72",
        "eventSource": "aws:sqs",
        "eventSourceARN": QUEUE_ARN,
        "awsRegion": "eu-west-1",
    } | fields


def sns_notification(message: str, sent: Mapping[str, Attribute] = NONE, /, **fields: Any) -> dict[str, Any]:
    """What SNS makes of a message; ``fields`` replace its own."""
    return {
        "Type": "Notification",
        "MessageId": "n-1",
        "TopicArn": TOPIC_ARN,
        "Message": message,
        "Timestamp": "2026-01-02T03:04:05.601Z",
        "SignatureVersion": "1",
        "Signature": "c2lnbmVk",
        "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService.pem",
        "UnsubscribeURL": "https://sns.eu-west-1.amazonaws.com/?Action=Unsubscribe",
        "MessageAttributes": attributes_to(Attribute.to_notification, sent),
    } | fields


def without(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def only(event: object) -> Envelope:
    """The one envelope of an event that holds one good record."""
    (found,) = normalize(event)
    assert isinstance(found, Envelope), found
    return found


# -- at random -------------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)

_labels = st.sampled_from(["", ".label", ".a.b"])
_numbers = st.integers().map(str) | st.decimals(allow_nan=False, allow_infinity=False).map(str)
any_attribute = st.one_of(
    st.builds(lambda label, text: Attribute(f"String{label}", text), _labels, texts),
    st.builds(lambda label, text: Attribute(f"Number{label}", text), _labels, _numbers),
    st.builds(lambda label, data: Attribute(f"Binary{label}", Attribute.binary(data).value), _labels, st.binary()),
    st.lists(texts | st.booleans() | st.integers(), max_size=3).map(Attribute.array),
)
_names = st.text("abcdefgXYZ0123._-", min_size=1, max_size=12)
any_attributes = st.dictionaries(_names, any_attribute, max_size=5)

any_body = texts | any_json.map(json.dumps)
direct_records = st.builds(sqs_record, any_body, any_attributes)
notifications = st.builds(sns_notification, any_body, any_attributes)
layouts: st.SearchStrategy[int | None] = st.sampled_from([None, 2])
sns_records = st.builds(
    lambda notification, extras, indent: sqs_record(json.dumps(notification, indent=indent), extras),
    notifications,
    any_attributes,
    layouts,
)
good_records = direct_records | sns_records
