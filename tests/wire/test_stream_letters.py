"""Dead letters of streams that can be sent nowhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard.destinations import Queue
from flowguard.testing import dynamodb_event, kinesis_event
from flowguard.wire.message import REQUEST_ID, REQUESTED_AT
from flowguard.wire.stream_letters import place_letter, stream_letter_problem
from flowguard.worker.dead_letters import Letter
from flowguard.worker.redriven_messages import sent_back

STREAM = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
QUEUE = "arn:aws:sqs:eu-west-1:123456789012:orders"
BATCH = {
    "shardId": "shardId-000000000001",
    "startSequenceNumber": "4959033827149025000",
    "endSequenceNumber": "4959033827149025004",
    "batchSize": 5,
    "streamArn": STREAM,
}
NOTICE = {"requestContext": {"condition": "RetryAttemptsExhausted"}, "version": "1.0", "KinesisBatchInfo": BATCH}


@pytest.mark.parametrize("name", ["KinesisBatchInfo", "DDBStreamBatchInfo"])
def test_a_notice_of_lambdas_names_the_records_that_it_has_given_up(name: str) -> None:
    notice = {"requestContext": {}, "version": "1.0", name: BATCH}
    assert stream_letter_problem(json.dumps(notice)) == (
        f"Lambda has given up 5 records of {STREAM}, shardId-000000000001, from 4959033827149025000 to "
        "4959033827149025004; they are in the stream alone"
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "KinesisBatchInfo", '"KinesisBatchInfo"', '["KinesisBatchInfo"]', '{"a":"KinesisBatchInfo"}'),
        json.dumps({"KinesisBatchInfo": BATCH}),
        json.dumps(NOTICE | {"requestContext": 1}),
        json.dumps(NOTICE | {"KinesisBatchInfo": "all"}),
        '{"KinesisBatchInfo":' * 100_000,
    ],
)
def test_another_text_is_no_such_notice(text: str) -> None:
    assert stream_letter_problem(text) is None


def test_a_notice_that_says_nothing_or_too_much_is_one_of_bounded_length() -> None:
    assert stream_letter_problem(json.dumps(NOTICE | {"KinesisBatchInfo": {}})) is not None
    long = stream_letter_problem(json.dumps(NOTICE | {"KinesisBatchInfo": dict.fromkeys(BATCH, "x" * 10_000)}))
    assert long is not None
    assert len(long) < 2_000


def test_the_letter_of_a_record_that_fits_into_none_says_where_it_is() -> None:
    letter = place_letter(f"{STREAM}:shardId-0;place=001.7", STREAM, 5_000, "too large")
    assert json.loads(letter)["leftInStream"]["stream"] == STREAM
    problem = f"the record {STREAM}:shardId-0;place=001.7 of 5000 ms is in its stream alone: too large"
    assert stream_letter_problem(letter) == problem
    assert Letter.read({"MessageId": "m-1", "ReceiptHandle": "r-1", "Body": letter}, now=0).kind == "unreadable"


@pytest.mark.parametrize(
    "value",
    [
        {"leftInStream": {"record": "r", "at": 1, "why": "w"}, "more": 1},
        {"leftInStream": {"record": 1, "at": 1, "why": "w"}},
        {"leftInStream": {"record": "r", "at": 1, "why": None}},
        {"leftInStream": {"record": "r", "why": "w"}},
        {"leftInStream": "r"},
    ],
)
def test_a_text_that_is_nearly_such_a_letter_is_none(value: dict[str, Any]) -> None:
    assert stream_letter_problem(json.dumps(value)) is None


def test_such_a_letter_is_bounded() -> None:
    problem = stream_letter_problem(place_letter("r" * 10_000, STREAM, None, "w" * 10_000))
    assert problem is not None
    assert len(problem) < 1_000


def record(event: Any, **changes: Any) -> str:
    return json.dumps({**event["Records"][0], **changes})


KEYS = {"order_id": {"S": "o1"}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (record(kinesis_event("orders", b"\xff", sequence="7")), "7: kinesis.data: is no text in UTF-8"),
        (record(kinesis_event("orders", b"x", sequence="7"), eventID=None), "7: eventID: missing"),
        (record(dynamodb_event("orders", KEYS, sequence="7"), eventName="UPSERT"), "7: eventName: 'UPSERT' is not one"),
    ],
)
def test_a_record_that_cannot_be_read_is_no_message_either(text: str, problem: str) -> None:
    found = stream_letter_problem(text)
    assert found is not None
    assert found.startswith(f"it is a record of a stream that cannot be read: {problem}")


@pytest.mark.parametrize(
    "text",
    [
        record(kinesis_event("orders", b"x")),
        record(kinesis_event("orders", b"\xff"), eventSource="aws:s3"),
        record(kinesis_event("orders", b"\xff"), eventSource=["aws:kinesis"]),
        record(kinesis_event("orders", b"\xff"), kinesis={}),
    ],
)
def test_a_record_that_can_be_read_or_is_of_no_stream_is_a_text_like_others(text: str) -> None:
    assert stream_letter_problem(text) is None


@pytest.mark.parametrize("text", [json.dumps(NOTICE), record(kinesis_event("orders", b"\xff"))])
def test_such_a_letter_is_sent_nowhere(text: str) -> None:
    letter = Letter.read({"MessageId": "m-1", "ReceiptHandle": "r-1", "Body": text}, now=0)
    assert letter.kind == "unreadable"
    assert letter.problem == stream_letter_problem(text)
    assert Letter.read({"MessageId": "m-1", "ReceiptHandle": "r-1", "Body": "{}"}, now=0).problem is None


@pytest.mark.parametrize("text", [json.dumps(NOTICE), record(kinesis_event("orders", b"\xff"))])
def test_a_message_may_have_such_a_text(text: str) -> None:
    """Whoever reads notices of Lambda's as requests finds theirs where SQS moved them."""
    received = {"MessageId": "m-1", "ReceiptHandle": "r-1", "Body": text}
    moved = {"DeadLetterQueueSourceArn": "arn:aws:sqs:eu-west-1:123456789012:notices"}
    assert Letter.read({**received, "Attributes": moved}, now=0).kind != "unreadable"


def test_a_record_that_a_later_release_can_read_goes_back_as_the_request_that_it_was() -> None:
    text = record(kinesis_event("orders", b'{"order_id": "o1"}', sequence="7", arrived_at=5_000))
    letter = Letter.read({"MessageId": "m-1", "ReceiptHandle": "r-1", "Body": text}, now=0)
    assert (letter.kind, letter.text) == ("raw", '{"order_id": "o1"}')
    back = sent_back(letter, Queue("orders"))
    assert json.loads(back.body)["Message"] == '{"order_id": "o1"}'
    assert back.attributes[REQUEST_ID].value == f"{STREAM}:shardId-000000000000;place=001.7"
    assert back.attributes[REQUESTED_AT].value == "5000"


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (record(kinesis_event("orders", b"x")), {"Attributes": {"DeadLetterQueueSourceArn": QUEUE}}),
        (
            record(kinesis_event("orders", b"x")),
            {"MessageAttributes": {"colour": {"DataType": "String", "StringValue": "red"}}},
        ),
        ('{"eventSource": "aws:s3"}', {}),
        ('["eventSource"]', {}),
        ('"eventSource"', {}),
        ('{"eventSource"', {}),
        ('{"order_id": "o1"}', {}),
    ],
)
def test_a_payload_that_looks_like_a_record_of_a_stream_stays_one(text: str, more: dict[str, object]) -> None:
    letter = Letter.read({"MessageId": "m-1", "ReceiptHandle": "r-1", "Body": text, **more}, now=0)
    assert (letter.problem, letter.text) == (None, text)
