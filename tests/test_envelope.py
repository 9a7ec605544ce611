from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowguard.attributes import Attribute, attributes_to
from flowguard.envelope import BadRecord, Envelope, Source, normalize, normalize_record, resend
from flowguard.errors import EnvelopeError
from flowguard.local.embedded import EmbeddedAWS
from flowguard.notification import UNKNOWN_FUNCTION, UNKNOWN_QUEUE, new_notification
from tests.make_records import (
    EVERY_TYPE,
    FUNCTION_ARN,
    QUEUE_ARN,
    TOPIC_ARN,
    any_attributes,
    any_body,
    any_json,
    good_records,
    notifications,
    only,
    sns_notification,
    sqs_record,
    without,
)

SAMPLES = Path(__file__).parents[1] / "samples" / "envelopes"
RETRIED = {"uniquerequestid": Attribute.string("r-1"), "retry": Attribute.number(1)}


# -- a message sent to the queue itself ------------------------------------------------------------------------------


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
def test_without_a_queues_arn_a_placeholder_says_that_the_notification_is_ours(arn: str | None) -> None:
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


# -- a message of SNS ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("indent", [None, 2])
def test_a_message_through_sns_stays_as_it_is(indent: int | None) -> None:
    record = sqs_record(json.dumps(sns_notification("tea", EVERY_TYPE, Subject="Cart"), indent=indent))
    envelope = only({"Records": [record]})
    assert envelope.record is record
    assert envelope.source is Source.SNS_SQS
    assert (envelope.message, envelope.attributes, envelope.subject) == ("tea", EVERY_TYPE, "Cart")
    assert (envelope.sns_message_id, envelope.topic_arn) == ("n-1", TOPIC_ARN)
    assert envelope.published_at == 1767323045601


def test_raw_delivery_reads_as_a_direct_message() -> None:
    envelope = only(sqs_record("tea", {"tags": Attribute.array(["gift"])}))
    assert envelope.source is Source.SQS
    assert envelope.attributes == {"tags": Attribute("String.Array", '["gift"]')}


def test_a_function_that_sns_calls_itself_gets_the_same_shape() -> None:
    sns = sns_notification("tea", EVERY_TYPE, Subject=None)
    envelope = only({"Records": [{"EventSource": "aws:sns", "EventSubscriptionArn": f"{TOPIC_ARN}:s", "Sns": sns}]})
    assert envelope.source is Source.SNS_LAMBDA
    assert (envelope.message, envelope.attributes, envelope.subject) == ("tea", EVERY_TYPE, None)
    assert (envelope.message_id, envelope.sns_message_id) == ("n-1", "n-1")
    assert json.loads(envelope.record["body"]) == sns
    again = only(envelope.record)
    assert (again.record, again.source) == (envelope.record, Source.SNS_LAMBDA)


# -- a direct invocation ---------------------------------------------------------------------------------------------


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


# -- a retry ---------------------------------------------------------------------------------------------------------


def received(sent: tuple[str, dict[str, Attribute]]) -> dict[str, Any]:
    """The record of a message that was sent with this body and these attributes."""
    return sqs_record(sent[0], sent[1], messageId="m-2")


def test_a_retry_is_the_untouched_original_with_extras_beside_it() -> None:
    first = only(sqs_record("tea", EVERY_TYPE))
    retry = only(received(resend(first, RETRIED)))
    assert (retry.message, retry.attributes) == ("tea", EVERY_TYPE | RETRIED)
    assert retry.extras() == RETRIED
    assert retry.record["body"] == first.record["body"]
    assert (retry.message_id, retry.source, retry.sns_message_id) == ("m-2", Source.SQS, None)


def test_a_retry_of_a_message_of_sns_keeps_its_very_text() -> None:
    body = json.dumps(sns_notification("tea", EVERY_TYPE), indent=2)
    retry = only(received(resend(only(sqs_record(body)), RETRIED)))
    assert retry.record["body"] == body
    assert (retry.sns_message_id, retry.published_at) == ("n-1", 1767323045601)


def test_an_extra_wins_over_the_senders_attribute_of_that_name() -> None:
    first = only(sqs_record("tea", {"retry": Attribute.string("never"), "shop": Attribute.string("berlin")}))
    retry = only(received(resend(first, RETRIED)))
    assert retry.attributes == RETRIED | {"shop": Attribute.string("berlin")}


def test_extras_of_earlier_retries_stay_unless_said_anew() -> None:
    second = only(received(resend(only(sqs_record("tea")), RETRIED)))
    assert resend(second, {"retry": Attribute.number(2)})[1] == RETRIED | {"retry": Attribute.number(2)}


def test_more_extras_than_sqs_takes_are_refused_by_name() -> None:
    extras = {f"extra-{number}": Attribute.number(number) for number in range(9)}
    retry = only(received(resend(only(sqs_record("tea")), RETRIED)))
    with pytest.raises(EnvelopeError, match=r"m-2: messageAttributes: SQS takes 10, .* 11: uniquerequestid, .*extra-8"):
        resend(retry, extras)


# -- what cannot be read ---------------------------------------------------------------------------------------------


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


# -- properties ------------------------------------------------------------------------------------------------------


@given(good_records)
def test_normalising_twice_changes_nothing(record: dict[str, Any]) -> None:
    once = only(record)
    twice = only(once.record)
    assert json.dumps(twice.record) == json.dumps(once.record)
    assert (twice.message, twice.attributes, twice.source) == (once.message, once.attributes, once.source)
    assert normalize(json.loads(json.dumps({"Records": [once.record]}))) == [twice]


@given(any_json)
def test_a_payload_normalised_twice_changes_nothing(payload: object) -> None:
    once = only(payload)
    assert json.dumps(only(once.record).record) == json.dumps(once.record)


@given(any_body, any_attributes)
def test_nothing_of_a_direct_message_is_lost(body: str, attributes: dict[str, Attribute]) -> None:
    notification = json.loads(only(sqs_record(body, attributes)).record["body"])
    assert notification["Message"] == body
    assert notification["MessageAttributes"] == attributes_to(Attribute.to_notification, attributes)


@given(good_records, any_attributes)
def test_a_retry_keeps_every_attribute_its_type_and_bytes(record: dict[str, Any], extras: dict[str, Attribute]) -> None:
    first = only(record)
    second = only(received(resend(first, extras)))
    assert (second.message, second.attributes) == (first.message, {**first.attributes, **extras})
    third = only(received(resend(second, {})))
    assert (third.message, third.attributes, third.extras()) == (second.message, second.attributes, second.extras())


@given(st.lists(good_records | any_json, max_size=5))
def test_one_record_never_changes_another(records: list[Any]) -> None:
    anchor = sqs_record("tea")
    found = normalize({"Records": [anchor, *records]})
    assert len(found) == len(records) + 1
    for record, each in zip(records, found[1:], strict=True):
        (alone,) = normalize([anchor, record])[1:]
        assert type(each) is type(alone)
        assert not isinstance(each, Envelope) or each == alone


@given(good_records)
def test_the_event_is_left_as_it_was(record: dict[str, Any]) -> None:
    before = copy.deepcopy(record)
    only(record).record["a new field"] = 1
    record.pop("a new field", None)
    assert record == before


def spoiled(value: Any) -> st.SearchStrategy[Any]:
    """The value with one part of it, at any depth, replaced by any JSON or left out."""
    if not isinstance(value, dict) or not value:
        return any_json
    return any_json | st.sampled_from(sorted(value)).flatmap(
        lambda name: spoiled(value[name]).map(lambda part: {**value, name: part}) | st.just(without(value, name))
    )


SNS_CALLS = notifications.map(lambda sns: {"EventSource": "aws:sns", "Sns": sns})
PRINTED = st.builds(
    lambda body, attributes: {
        "MessageId": "m-1",
        "ReceiptHandle": "h",
        "Body": body,
        "MessageAttributes": attributes_to(Attribute.to_sqs_api, attributes),
    },
    any_body,
    any_attributes,
)
SPOILED = st.one_of(
    (good_records | SNS_CALLS | PRINTED).flatmap(spoiled),
    notifications.flatmap(spoiled).map(json.dumps).map(sqs_record),
    notifications.flatmap(spoiled),
)


@given(SPOILED)
def test_whatever_is_spoiled_is_an_envelope_or_a_bad_record(event: Any) -> None:
    for each in (*normalize(event), *normalize({"Records": [sqs_record("tea"), event]})):
        if isinstance(each, BadRecord):
            assert str(each.error)
        else:
            assert only(each.record).record == each.record
            assert readable(each)


def readable(envelope: Envelope) -> list[Any]:
    names = [name for name, value in vars(Envelope).items() if isinstance(value, property)]
    return [envelope.extras(), *(getattr(envelope, name) for name in names)]


@given(st.text('{}[]":,\\ TopicArnNotification', max_size=60).map(lambda text: f'{{"TopicArn"{text}'))
def test_text_that_is_almost_json_is_never_a_crash(body: str) -> None:
    assert len(normalize({"Records": [sqs_record(body)]})) == 1


# -- the samples -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_every_sample_can_be_read(path: Path) -> None:
    found = normalize(json.loads(path.read_text(encoding="utf-8")))
    assert found
    for each in found:
        assert isinstance(each, Envelope), each
        assert only(each.record).record == each.record


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("bad/*.json")), ids=lambda path: path.stem)
def test_every_bad_sample_holds_one_bad_record(path: Path) -> None:
    found = normalize(json.loads(path.read_text(encoding="utf-8")))
    assert [type(each) for each in found].count(BadRecord) == 1


@pytest.mark.parametrize(
    ("sample", "source"),
    [
        ("direct-sqs", Source.SQS),
        ("sns-to-sqs", Source.SNS_SQS),
        ("raw-delivery", Source.SQS),
        ("retry", Source.SQS),
        ("sns-to-lambda", Source.SNS_LAMBDA),
        ("invocation", Source.INVOCATION),
        ("receive-message", Source.SQS),
    ],
)
def test_the_same_cart_comes_out_of_every_shape(sample: str, source: Source) -> None:
    envelope = only(json.loads((SAMPLES / f"{sample}.json").read_text(encoding="utf-8")))
    assert envelope.source is source
    assert json.loads(envelope.message)["cart_id"] == "cart-1001"


# -- through SQS and SNS ---------------------------------------------------------------------------------------------


@pytest.fixture
def queue(embedded: EmbeddedAWS) -> str:
    return embedded.client("sqs").create_queue(QueueName="carts")["QueueUrl"]


def receive(embedded: EmbeddedAWS, queue: str) -> Envelope:
    answer = embedded.client("sqs").receive_message(
        QueueUrl=queue, MessageAttributeNames=["All"], AttributeNames=["All"], MaxNumberOfMessages=1
    )
    return only(answer)


def send(embedded: EmbeddedAWS, queue: str, body: str, attributes: dict[str, Attribute]) -> None:
    wire = attributes_to(Attribute.to_sqs_api, attributes)
    embedded.client("sqs").send_message(QueueUrl=queue, MessageBody=body, MessageAttributes=wire)


def test_a_direct_message_and_its_retries_keep_everything_through_sqs(embedded: EmbeddedAWS, queue: str) -> None:
    send(embedded, queue, '{"cart_id":"cart-1001","note":"ä ☕"}', EVERY_TYPE)
    first = receive(embedded, queue)
    assert first.attributes == EVERY_TYPE
    send(embedded, queue, *resend(first, RETRIED))
    second = receive(embedded, queue)
    send(embedded, queue, *resend(second, {"retry": Attribute.number(2)}))
    third = receive(embedded, queue)
    assert third.message == '{"cart_id":"cart-1001","note":"ä ☕"}'
    assert third.attributes == EVERY_TYPE | RETRIED | {"retry": Attribute.number(2)}
    assert third.attributes["etag"].data == b"\x00\x01\xfe\xff"
    assert len({first.message_id, second.message_id, third.message_id}) == 3


@pytest.mark.parametrize("raw", [False, True], ids=["wrapped", "raw"])
def test_a_message_through_sns_and_its_retry_keep_everything(embedded: EmbeddedAWS, queue: str, *, raw: bool) -> None:
    # moto cannot hand over bytes that came by raw delivery
    sent = {name: attribute for name, attribute in EVERY_TYPE.items() if not (raw and attribute.is_binary)}
    publish(embedded, "two packs of tea ☕", sent, raw=raw)
    first = receive(embedded, queue)
    assert first.source is (Source.SQS if raw else Source.SNS_SQS)
    send(embedded, queue, *resend(first, RETRIED))
    retry = receive(embedded, queue)
    assert (retry.message, retry.attributes) == ("two packs of tea ☕", sent | RETRIED)
    assert (retry.sns_message_id is None) is raw


def publish(embedded: EmbeddedAWS, message: str, attributes: dict[str, Attribute], *, raw: bool) -> None:
    """Through a topic to which the queue is subscribed."""
    sns = embedded.client("sns")
    topic = sns.create_topic(Name="cart-events")["TopicArn"]
    queue_arn = topic.replace(":sns:", ":sqs:").replace("cart-events", "carts")
    how = {"RawMessageDelivery": str(raw).lower()}
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue_arn, Attributes=how)
    wire = attributes_to(Attribute.to_sns_api, attributes)
    sns.publish(TopicArn=topic, Message=message, MessageAttributes=wire)


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
