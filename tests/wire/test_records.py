from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard.errors import EnvelopeError
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import BadRecord, normalize
from flowguard.wire.records import find_records, open_invocation, open_record, record_id
from tests.make_records import EVERY_TYPE, FUNCTION_ARN, TOPIC_ARN, sns_notification, sqs_record, without

RECORD = sqs_record("tea")
PRINTED = {"MessageId": "m-1", "ReceiptHandle": "handle-1", "Body": "tea"}
SNS = sns_notification("tea", EVERY_TYPE)
FROM_SNS = {
    "EventSource": "aws:sns",
    "EventVersion": "1.0",
    "EventSubscriptionArn": f"{TOPIC_ARN}:subscription-1",
    "Sns": SNS,
}


# -- finding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "places"),
    [
        ({"Records": [RECORD, RECORD]}, ["Records[0]", "Records[1]"]),
        ({"Records": [RECORD], "unknown": 1}, ["Records[0]"]),
        ({"Records": [None, RECORD]}, ["Records[0]", "Records[1]"]),
        ({"Records": [{"messageId": "m-1", "body": "tea"}]}, ["Records[0]"]),
        ({"Records": []}, []),
        ({"Messages": [PRINTED]}, ["Messages[0]"]),
        ({"Messages": [PRINTED], "ResponseMetadata": {}}, ["Messages[0]"]),
        ([RECORD, FROM_SNS, PRINTED], ["[0]", "[1]", "[2]"]),
        (RECORD, ["record"]),
        (PRINTED, ["record"]),
        (FROM_SNS, ["record"]),
        (without(RECORD, "eventSource"), ["record"]),
        ({"eventSource": "aws:kafka", "records": {}}, []),
        ({"eventSource": "aws:amq", "messages": []}, ["record"]),
    ],
)
def test_records_are_found_in_every_kind_of_event(event: object, places: list[str]) -> None:
    found = find_records(event)
    assert found is not None
    assert [place for place, _ in found] == places


@pytest.mark.parametrize(
    "payload",
    [
        {"cart_id": "cart-1001"},
        {"Records": [{"cart_id": "cart-1001"}]},
        {"Records": [], "cart_id": "cart-1001"},
        {"Records": "none"},
        {"Messages": ["hello"]},
        {"Messages": []},
        {"Messages": [PRINTED], "cart_id": "cart-1001"},
        {"messageId": "m-1", "body": "a mail, perhaps"},
        {"eventSource": "shop"},
        {"detail-type": "Cart submitted", "source": "shop", "detail": {}},
        [],
        [1, 2],
        [{"cart_id": "cart-1001"}],
        "two packs of tea",
        5,
        None,
    ],
)
def test_any_other_json_is_a_payload(payload: object) -> None:
    assert find_records(payload) is None


@pytest.mark.parametrize(
    ("record", "expected"),
    [(RECORD, "m-1"), (PRINTED, "m-1"), ({"messageId": 5}, None), ({"messageId": ""}, None), ({}, None), (None, None)],
)
def test_a_records_id_is_its_message_id(record: object, expected: str | None) -> None:
    assert record_id(record) == expected


# -- opening ---------------------------------------------------------------------------------------------------------


def test_a_record_of_sqs_is_opened_as_it_is() -> None:
    record = sqs_record("tea", EVERY_TYPE, aFieldOfNextYear={"x": 1})
    opened = open_record(record, "Records[0]")
    assert opened.record is record
    assert opened.attributes == EVERY_TYPE


def test_what_a_hand_written_record_leaves_out_is_filled_in() -> None:
    opened = open_record({"messageId": "m-1", "body": "tea", "attributes": None}, "Records[0]")
    assert opened.record == {
        "messageId": "m-1",
        "body": "tea",
        "attributes": {},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
    }


def test_what_receive_message_prints_is_opened_as_the_record_a_trigger_would_bring() -> None:
    printed: dict[str, Any] = PRINTED | {
        "MD5OfBody": "72ab8af56bddab33b269c5964b26620a",
        "MD5OfMessageAttributes": "4e9a2b1c",
        "Attributes": {"SentTimestamp": "1767323045678"},
        "MessageAttributes": {
            "shop": {"StringValue": "berlin", "DataType": "String"},
            "etag": {"BinaryValue": "AP8=", "DataType": "Binary.sha"},
        },
        "AFieldOfNextYear": {"x": 1},
    }
    assert open_record(printed, "Messages[0]").record == {
        "messageId": "m-1",
        "receiptHandle": "handle-1",
        "body": "tea",
        "md5OfBody": "72ab8af56bddab33b269c5964b26620a",
        "md5OfMessageAttributes": "4e9a2b1c",
        "attributes": {"SentTimestamp": "1767323045678"},
        "messageAttributes": {
            "shop": Attribute.string("berlin").to_sqs_record(),
            "etag": Attribute("Binary.sha", "AP8=").to_sqs_record(),
        },
        "aFieldOfNextYear": {"x": 1},
        "eventSource": "aws:sqs",
    }


def test_a_call_by_sns_is_opened_with_the_notification_in_the_body() -> None:
    record = open_record(FROM_SNS, "Records[0]").record
    assert json.loads(record.pop("body")) == SNS
    assert record == {
        "messageId": "n-1",
        "attributes": {},
        "messageAttributes": {},
        "eventSource": "aws:sns",
        "eventSourceARN": f"{TOPIC_ARN}:subscription-1",
        "awsRegion": "eu-west-1",
        "EventVersion": "1.0",
    }


def test_a_payload_is_opened_as_a_record_of_the_function() -> None:
    opened = open_invocation({"cart_id": "cart-1001"}, "invocation-1", FUNCTION_ARN, 1767323045678)
    assert opened.record == {
        "messageId": "invocation-1",
        "body": '{"cart_id":"cart-1001"}',
        "attributes": {"SentTimestamp": "1767323045678"},
        "messageAttributes": {},
        "eventSource": "aws:lambda",
        "eventSourceARN": FUNCTION_ARN,
        "awsRegion": "eu-west-1",
    }


def test_an_invocation_without_an_id_is_named_after_its_payload() -> None:
    tea, tea_again, cup = (open_invocation(text, None, None, None).name for text in ("tea", "tea", "cup"))
    assert tea == tea_again != cup
    assert tea.startswith("invocation-")


@pytest.mark.parametrize(
    ("record", "name", "field", "problem"),
    [
        (None, "Records[3]", "(all of it)", "expected a record of SQS or SNS, got null"),
        ([], "Records[3]", "(all of it)", "got an array"),
        ({"cart_id": "1"}, "Records[3]", "(all of it)", "got an object without eventSource"),
        ({"eventSource": "aws:s3"}, "Records[3]", "eventSource", "aws:s3 records are not messages"),
        ({"EventSource": "aws:ses"}, "Records[3]", "eventSource", "aws:ses records are not messages"),
        ({"eventSource": "aws:sqs", "body": "tea"}, "Records[3]", "messageId", "missing"),
        (RECORD | {"messageId": 5}, "Records[3]", "messageId", "expected text, got a number"),
        (RECORD | {"messageAttributes": []}, "m-1", "messageAttributes", "expected an object of attributes"),
        (without(PRINTED, "Body"), "m-1", "Body", "missing"),
        ({"EventSource": "aws:sns"}, "Records[3]", "Sns", "expected a notification, got null"),
        ({"EventSource": "aws:sns", "Sns": without(SNS, "Message")}, "n-1", "Sns.Message", "missing"),
    ],
)
def test_what_cannot_be_opened_is_named(record: Any, name: str, field: str, problem: str) -> None:
    with pytest.raises(EnvelopeError) as caught:
        open_record(record, "Records[3]")
    assert (caught.value.record, caught.value.field) == (name, field)
    assert problem in caught.value.problem


def test_a_call_by_sns_that_is_not_json_is_named() -> None:
    record = {"EventSource": "aws:sns", "Sns": SNS | {"AFieldOfNextYear": float("nan")}}
    with pytest.raises(EnvelopeError, match="n-1: Sns: is not JSON"):
        open_record(record, "Records[0]")


@pytest.mark.parametrize("payload", [object(), {"price": float("nan")}, {"tags": {"gift"}}])
def test_a_payload_that_is_not_json_is_named(payload: object) -> None:
    with pytest.raises(EnvelopeError, match="invocation-1: payload: is not JSON"):
        open_invocation(payload, "invocation-1", None, None)


def test_a_long_source_is_not_repeated_in_full() -> None:
    with pytest.raises(EnvelopeError, match="records are not messages") as caught:
        open_record({"eventSource": f"aws:{'x' * 250_000}"}, "record")
    assert len(str(caught.value)) < 500


# -- what is hardly a record -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        {"Records": 5},
        {"Records": {"a": RECORD}},
        without(RECORD, "messageId", "eventSource"),
        without(PRINTED, "MessageId"),
        [{"messageId": "m-1"}],
        {"Messages": [{"MessageId": "m-1"}]},
    ],
)
def test_what_names_no_message_is_a_payload(event: Any) -> None:
    assert find_records(event) is None


def test_a_record_that_its_queue_hands_out_is_one_without_its_source_or_text() -> None:
    handed = {"messageId": "m-1", "receiptHandle": "handle-1"}
    assert find_records(handed) == [("record", handed)]


@pytest.mark.parametrize("other", [{"messageId": 5}, {"body": 7}])
def test_what_is_printed_counts_where_a_message_has_both_forms(other: dict[str, Any]) -> None:
    opened = open_record({**PRINTED, **other}, "record")
    assert (opened.record["messageId"], opened.record["body"]) == ("m-1", "tea")


def test_an_empty_id_is_none() -> None:
    assert record_id({"MessageId": ""}) is None


def test_another_services_record_is_none_whatever_it_has() -> None:
    with pytest.raises(EnvelopeError, match="aws:s3 records are not messages"):
        open_record({"eventSource": "aws:s3", "messageId": "m-1", "body": "tea"}, "record")


@pytest.mark.parametrize("field", ["attributes", "messageAttributes", "eventSource"])
def test_what_a_record_by_hand_leaves_out_is_filled_in_and_nothing_else(field: str) -> None:
    full = {**RECORD, "attributes": {"SentTimestamp": "5"}}
    empty: dict[str, Any] = {"attributes": {}, "messageAttributes": {}, "eventSource": "aws:sqs"}
    assert open_record(without(full, field), "record").record == full | {field: empty[field]}


def test_a_notification_that_names_no_subscription_came_by_its_topic() -> None:
    opened = open_record(without(FROM_SNS, "EventSubscriptionArn"), "record")
    assert opened.record["eventSourceARN"] == TOPIC_ARN


def test_a_notification_as_a_payload_keeps_its_id_where_the_invocation_has_none() -> None:
    assert open_invocation(SNS, None, None, None).record["messageId"] == SNS["MessageId"]
    assert open_invocation(SNS, "i-1", None, None).record["messageId"] == "i-1"


def test_a_payload_that_is_no_json_is_named_by_its_invocation_if_that_has_an_id() -> None:
    for invocation, name in (("i-1", "i-1"), (None, "invocation")):
        with pytest.raises(EnvelopeError, match="is not JSON") as refused:
            open_invocation({"price": float("nan")}, invocation, None, None)
        assert refused.value.record == name


def test_an_invocation_of_what_is_no_function_names_none() -> None:
    assert "eventSourceARN" not in open_invocation({}, "i-1", "orders", None).record


def test_a_record_with_an_empty_id_has_none() -> None:
    with pytest.raises(EnvelopeError, match="record: messageId: missing"):
        open_record({**RECORD, "messageId": ""}, "record")


def test_what_s3_hands_to_a_function_itself_is_refused_with_the_way_that_works() -> None:
    [bad] = normalize({"Records": [{"eventSource": "aws:s3", "s3": {}}]})
    assert isinstance(bad, BadRecord)
    assert bad.error.problem.endswith(
        "let the bucket send its notifications to the flow's queue, or its events to EventBridge"
    )


def test_what_another_service_hands_to_a_function_is_refused_without_that_way() -> None:
    [bad] = normalize({"Records": [{"eventSource": "aws:codecommit"}]})
    assert isinstance(bad, BadRecord)
    assert bad.error.problem.endswith("and direct invocations")
