"""The payload of a direct invocation."""

from __future__ import annotations

import json

import pytest

from flowguard.wire.envelope import BadRecord, Envelope, Source, normalize
from flowguard.wire.notification import UNKNOWN_FUNCTION, new_notification
from tests.make_records import EVERY_TYPE, FUNCTION_ARN, only, sns_notification, without


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"cart_id": "cart-1001"}, '{"cart_id":"cart-1001"}'),
        ({"Type": "Notification", "Message": "ö"}, '{"Type":"Notification","Message":"ö"}'),
        ([1, 2], "[1,2]"),
        ("tea", "tea"),
        ("", ""),
        (5, "5"),
        (None, "null"),
        ({}, "{}"),
    ],
)
def test_a_payload_is_the_message_as_json_and_text_as_it_is(payload: object, message: str) -> None:
    (envelope,) = normalize(payload, invocation_id="i-1", function_arn=FUNCTION_ARN, received_at=1767323045678)
    assert isinstance(envelope, Envelope)
    assert envelope.source is Source.INVOCATION
    assert (envelope.message, envelope.message_id) == (message, "i-1")
    assert (envelope.sent_at, envelope.queue, envelope.sns_message_id) == (1767323045678, None, None)
    assert json.loads(envelope.record["body"])["TopicArn"] == FUNCTION_ARN
    assert only(envelope.record).record == envelope.record


def test_a_payload_that_is_a_notification_brings_attributes_along() -> None:
    payload = new_notification("tea", message_id="x-1", arn=FUNCTION_ARN, sent_at=5, attributes=EVERY_TYPE)
    (envelope,) = normalize(payload, invocation_id="i-1")
    assert isinstance(envelope, Envelope)
    assert (envelope.message, envelope.attributes) == ("tea", EVERY_TYPE)
    assert (envelope.message_id, envelope.sns_message_id) == ("i-1", None)
    assert envelope.source is Source.INVOCATION


def test_without_an_arn_a_placeholder_says_that_it_was_an_invocation() -> None:
    assert json.loads(only({"cart_id": 1}).record["body"])["TopicArn"] == UNKNOWN_FUNCTION


def test_a_broken_notification_as_payload_is_a_bad_record() -> None:
    (bad,) = normalize(without(sns_notification("tea"), "Message"), invocation_id="i-1")
    assert isinstance(bad, BadRecord)
    assert (bad.record_id, bad.error.field) == ("i-1", "payload.Message")
