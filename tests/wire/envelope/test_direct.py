"""A message that was sent to the queue itself."""

from __future__ import annotations

import hashlib
import json

import pytest

from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Source, normalize_record
from flowguard.wire.notification import UNKNOWN_QUEUE
from tests.make_records import EVERY_TYPE, QUEUE_ARN, only, sqs_record, without


def test_a_direct_message_gains_a_notification() -> None:
    record = only({"Records": [sqs_record("tea", {"shop": Attribute.string("berlin")})]}).record
    assert json.loads(record["body"]) == {
        "Type": "Notification",
        "MessageId": "m-1",
        "TopicArn": QUEUE_ARN,
        "Message": "tea",
        "Timestamp": "2026-01-02T03:04:05.678Z",
        "MessageAttributes": {"shop": {"Type": "String", "Value": "berlin"}},
    }


def test_its_attributes_move_into_the_notification_and_all_else_stays() -> None:
    given_record = sqs_record("tea", EVERY_TYPE, aFieldOfNextYear={"x": 1})
    envelope = only(given_record)
    assert envelope.attributes == EVERY_TYPE
    assert envelope.extras() == {}
    assert envelope.record["messageAttributes"] == {}
    assert without(envelope.record, "body", "messageAttributes") == without(given_record, "body", "messageAttributes")


def test_its_checksum_stays_that_of_the_text_that_was_sent() -> None:
    sent = sqs_record("tea", md5OfBody=hashlib.md5(b"tea").hexdigest())  # noqa: S324 - what SQS computes
    envelope = only(sent)
    assert envelope.record["md5OfBody"] == hashlib.md5(envelope.message.encode()).hexdigest()  # noqa: S324


@pytest.mark.parametrize(
    "body",
    [
        "",
        "tea",
        "☕ \u2028 \x00",
        "5",
        "null",
        "[1, 2]",
        '{"cart_id": 1',
        '{"a": 1}',
        '{"Type":"Notification","Message":"x"}',
    ],
)
def test_its_body_may_be_any_text(body: str) -> None:
    envelope = only(sqs_record(body))
    assert envelope.message == body
    assert json.loads(envelope.record["body"])["Message"] == body
    assert envelope.source is Source.SQS


def test_the_fields_of_a_fifo_queue_are_kept() -> None:
    fields = {"SequenceNumber": "188900", "MessageGroupId": "cart-1001", "MessageDeduplicationId": "d-1"}
    envelope = only(sqs_record("tea", attributes=fields, eventSourceARN=QUEUE_ARN + ".fifo"))
    assert envelope.record["attributes"] == fields
    assert envelope.group_id == "cart-1001"
    assert envelope.is_fifo


def test_a_group_alone_makes_no_fifo_queue() -> None:
    assert not only(sqs_record("tea", attributes={"MessageGroupId": "tenant-1"})).is_fifo


@pytest.mark.parametrize("arn", [None, "carts", "arn:aws:sns:eu-west-1:123456789012:carts"])
def test_no_queues_arn_a_placeholder_says_that_the_notification_is_ours(arn: str | None) -> None:
    envelope = only(sqs_record("tea", eventSourceARN=arn))
    assert json.loads(envelope.record["body"])["TopicArn"] == UNKNOWN_QUEUE
    assert envelope.queue is None
    assert only(envelope.record).record == envelope.record


def test_the_envelope_reads_what_sqs_says() -> None:
    envelope = only(sqs_record("tea"))
    assert envelope.message_id == "m-1"
    assert envelope.receipt_handle == "handle-1"
    assert envelope.sent_at == 1767323045678
    assert envelope.receive_count == 2
    assert (envelope.queue_arn, envelope.queue) == (QUEUE_ARN, "carts")
    assert (envelope.sns_message_id, envelope.topic_arn, envelope.published_at) == (None, None, None)
    assert (envelope.group_id, envelope.subject) == (None, None)


def test_what_sqs_does_not_say_is_none() -> None:
    envelope = only({"Records": [{"messageId": "m-1", "body": "tea"}]})
    assert (envelope.sent_at, envelope.receive_count, envelope.receipt_handle) == (None, 1, None)
    assert json.loads(envelope.record["body"])["Timestamp"] == "1970-01-01T00:00:00.000Z"


def test_what_sqs_moved_to_a_dead_letter_queue_remembers_the_queue_before() -> None:
    source = "arn:aws:sqs:eu-west-1:123456789012:carts"
    event = {
        "messageId": "m-1",
        "body": "{}",
        "attributes": {"DeadLetterQueueSourceArn": source},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:carts-dlq",
    }
    envelope = normalize_record(event)
    assert json.loads(envelope.record["body"])["TopicArn"] == source
    assert envelope.queue == "carts-dlq"
