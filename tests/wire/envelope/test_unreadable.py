"""What cannot be read is named, and harms no other record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard.errors import EnvelopeError
from flowguard.wire.envelope import BadRecord, Envelope, normalize, normalize_record
from tests.make_records import TOPIC_ARN, sns_notification, sqs_record, without


@pytest.mark.parametrize(
    ("record", "field", "problem"),
    [
        (without(sqs_record("tea"), "body"), "body", "missing"),
        (sqs_record("tea", body=None), "body", "missing"),
        (sqs_record("tea", body={"cart_id": 1}), "body", "expected text, got an object"),
        (sqs_record("tea", attributes=[]), "attributes", "expected an object, got an array"),
        (sqs_record("tea", attributes={"SentTimestamp": "soon"}), "attributes.SentTimestamp", "'soon'"),
        (sqs_record("tea", attributes={"SentTimestamp": "9" * 15}), "attributes.SentTimestamp", "whole number"),
        (sqs_record("tea", attributes={"ApproximateReceiveCount": 1}), "attributes.ApproximateReceiveCount", "as text"),
        (sqs_record("tea", attributes={"MessageGroupId": 1}), "attributes.MessageGroupId", "expected text"),
        (sqs_record("tea", messageAttributes={"a": {"dataType": "Foo"}}), "messageAttributes.a.dataType", "'Foo'"),
        (
            sqs_record(json.dumps(sns_notification("tea", MessageAttributes={"a": {"Type": "Number", "Value": "x"}}))),
            "body.MessageAttributes.a.Value",
            "'x' is not a number",
        ),
        (sqs_record(json.dumps(sns_notification("tea"))[:200]), "body", "begins as a notification"),
        ({"eventSource": "aws:lambda", "messageId": "m-1"}, "body", "missing"),
    ],
)
def test_a_bad_record_is_an_error_that_names_record_and_field(record: Any, field: str, problem: str) -> None:
    with pytest.raises(EnvelopeError) as caught:
        normalize_record(record)
    assert (caught.value.record, caught.value.field) == ("m-1", field)
    assert problem in caught.value.problem


def test_an_attribute_of_a_call_by_sns_is_named_where_it_stands() -> None:
    sns = sns_notification("tea", MessageAttributes={"a": {"Type": "Number"}})
    with pytest.raises(EnvelopeError, match=r"n-1: Sns\.MessageAttributes\.a\.Value: missing"):
        normalize_record({"EventSource": "aws:sns", "Sns": sns})


def test_a_bad_record_is_answered_as_its_own_failure() -> None:
    bad = without(sqs_record("tea"), "body")
    good, found, last = normalize({"Records": [sqs_record("tea"), bad, sqs_record("cup")]})
    assert isinstance(found, BadRecord)
    assert (found.record_id, found.index, found.raw) == ("m-1", 1, bad)
    assert isinstance(good, Envelope)
    assert isinstance(last, Envelope)
    assert (good.message, last.message) == ("tea", "cup")


def test_records_of_every_kind_may_share_a_batch() -> None:
    sns = {"EventSource": "aws:sns", "EventSubscriptionArn": TOPIC_ARN, "Sns": sns_notification("d")}
    printed = {"MessageId": "m-3", "ReceiptHandle": "h", "Body": "c"}
    of_s3 = {"eventSource": "aws:s3", "s3": {}}
    found = normalize([sqs_record("a"), sqs_record(json.dumps(sns_notification("b"))), printed, of_s3, sns])
    assert [each.message if isinstance(each, Envelope) else None for each in found] == ["a", "b", "c", None, "d"]
