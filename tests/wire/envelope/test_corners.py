"""What becomes of odd records, and of messages that are sent again without room beside them."""

from __future__ import annotations

import json

import pytest

from flowguard.testing import sns_event, sns_to_sqs_event, sqs_event
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import BadRecord, Envelope, normalize, plain, resend, resend_alone
from flowguard.wire.message import PLACE
from flowguard.wire.notification import LAST_MOMENT, UNKNOWN_FUNCTION
from tests.make_records import EVERY_TYPE, only, sqs_record
from tests.wire.envelope.test_bus import EVENT
from tests.wire.envelope.test_moved import BEFORE, moved, ours

EXTRA = {"x": Attribute.string("1")}


def test_a_handle_that_is_no_text_is_none() -> None:
    assert only({**sqs_record("tea"), "receiptHandle": 7}).receipt_handle is None


def test_a_retry_that_goes_plain_has_all_attributes_with_the_extras_over_them() -> None:
    first = only(sqs_event("orders", "tea", attributes={"a": "1", "x": "0"}))
    body, attributes = resend(first, {"y": Attribute.string("2")})
    theirs = {"a": Attribute.string("1"), **EXTRA}
    assert plain(first, EXTRA) == ("tea", theirs)
    again = only(sqs_event("orders", body, attributes=attributes))
    assert plain(again, EXTRA) == ("tea", {**theirs, "y": Attribute.string("2")})


def test_a_retry_alone_has_inside_what_the_message_and_earlier_retries_had() -> None:
    first = only(sqs_event("orders", "tea", attributes={"a": "1"}))
    body, attributes = resend(first, {"y": Attribute.string("2")})
    again = only(sqs_event("orders", resend_alone(only(sqs_event("orders", body, attributes=attributes)), EXTRA)))
    assert {name: one.value for name, one in again.attributes.items()} == {"a": "1", "y": "2", "x": "1"}


def test_a_retry_alone_of_a_message_without_attributes_has_the_extras() -> None:
    published = json.loads(only(sns_to_sqs_event("orders", "tea")).record["body"])
    first = only(sqs_record(json.dumps({name: published[name] for name in published if name != "MessageAttributes"})))
    assert only(sqs_event("orders", resend_alone(first, EXTRA))).attributes == EXTRA
    assert only(sqs_record(ours(BEFORE))).attributes == EVERY_TYPE


def test_a_notification_that_sns_handed_over_and_that_cannot_be_read_was_in_no_queue() -> None:
    event = sns_event("placed", "tea")
    event["Records"][0]["Sns"]["MessageAttributes"] = {"a": 7}
    [bad] = normalize(event)
    assert isinstance(bad, BadRecord)
    assert bad.envelope is None


def test_a_notification_that_names_its_queue_already_stays_byte_by_byte() -> None:
    spaced = json.dumps(json.loads(ours(BEFORE)), indent=1)
    assert only(moved(spaced)).record["body"] == spaced


@pytest.mark.parametrize("place", ['{"event"', '{"depth":', '{"event":true}}'])
def test_a_broken_place_makes_no_event_of_a_body(place: str) -> None:
    envelope = only(sqs_event("orders", EVENT, attributes={PLACE: place}))
    assert envelope.event is None


def test_a_time_of_thousands_of_digits_is_none() -> None:
    record = sqs_record("tea")
    [bad] = normalize({"Records": [{**record, "attributes": {"SentTimestamp": "9" * 5_000}}]})
    assert isinstance(bad, BadRecord)


@pytest.mark.parametrize(("sent", "is_time"), [(LAST_MOMENT, True), (LAST_MOMENT + 1, False)])
def test_a_time_is_read_up_to_the_last_moment(sent: int, is_time: bool) -> None:
    record = sqs_record("tea")
    [envelope] = normalize({"Records": [{**record, "attributes": {"SentTimestamp": str(sent)}}]})
    assert isinstance(envelope, BadRecord) is not is_time


def test_a_notification_of_sns_stays_as_it_is_wherever_sqs_moved_its_record_from() -> None:
    published = only(sns_to_sqs_event("orders", "tea")).record["body"]
    record = moved(published)
    assert only(record).record == record


def test_the_first_id_is_that_of_the_notification_if_there_is_one() -> None:
    assert only(sqs_record(ours(BEFORE))).first_id == "m-0"
    record = sqs_record("tea")
    assert only(record).first_id == record["messageId"]


def test_what_no_queue_delivered_is_from_no_fifo_queue() -> None:
    [called] = normalize({"order_id": "o1"}, invocation_id="i-1")
    assert isinstance(called, Envelope)
    assert not called.is_fifo
    assert not only(sqs_record("tea", eventSourceARN="arn:aws:sns:eu-west-1:123456789012:teas.fifo")).is_fifo


def test_a_record_of_a_function_that_nobody_names_is_of_no_queue() -> None:
    record = {**sqs_record("tea"), "eventSource": "aws:lambda"}
    del record["eventSourceARN"]
    assert json.loads(only(record).record["body"])["TopicArn"] == UNKNOWN_FUNCTION
