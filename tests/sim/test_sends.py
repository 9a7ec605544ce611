"""One table knows the operations that send: where to, what, and which of it was accepted."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import botocore.session
import pytest

from flowguard.sim.calls import ApiCall
from flowguard.sim.delivery_trace import Sent, sent
from flowguard.sim.moto import EmbeddedAWS
from flowguard.sim.posted_messages import posted
from flowguard.sim.sends import SENDS, sending

QUEUE = "https://sqs.us-east-1.amazonaws.com/123456789012/carts"
TOPIC = "arn:aws:sns:us-east-1:123456789012:news"
OWN = {"uniquerequestid": {"DataType": "String", "StringValue": "r1"}}
TARGET = {"Arn": "arn:aws:sqs:us-east-1:123456789012:later", "RoleArn": "arn:aws:iam::123456789012:role/r"}
AT = {"Name": "s", "FlexibleTimeWindow": {"Mode": "OFF"}, "Target": {**TARGET, "Input": "{}"}}
DETAIL = '{"flowguard": {"uniquerequestid": "r1"}}'

CASES: list[tuple[str, dict[str, Any], dict[str, Any], list[tuple[str, str, str | None]]]] = [
    ("SendMessage", {"QueueUrl": QUEUE, "MessageBody": "a", "MessageAttributes": OWN}, {}, [("sqs:carts", "a", "r1")]),
    (
        "SendMessageBatch",
        {"QueueUrl": QUEUE, "Entries": [{"Id": "1", "MessageBody": "a"}, {"Id": "2", "MessageBody": "b"}]},
        {"Failed": [{"Id": "1"}]},
        [("sqs:carts", "b", None)],
    ),
    ("Publish", {"TopicArn": TOPIC, "Message": "a"}, {}, [("sns:news", "a", None)]),
    ("Publish", {"TargetArn": TOPIC, "Message": "a"}, {}, [("sns:news", "a", None)]),
    (
        "PublishBatch",
        {"TopicArn": TOPIC, "PublishBatchRequestEntries": [{"Id": "1", "Message": "a"}, {"Id": "2", "Message": "b"}]},
        {"Failed": [{"Id": "2"}]},
        [("sns:news", "a", None)],
    ),
    (
        "PutEvents",
        {
            "Entries": [
                {"DetailType": "t", "Detail": "{}"},
                {"EventBusName": "shop", "DetailType": "t", "Detail": DETAIL},
            ]
        },
        {"Entries": [{"ErrorCode": "InternalFailure"}, {"EventId": "1"}], "FailedEntryCount": 1},
        [("events:shop", DETAIL, "r1")],
    ),
    ("Invoke", {"FunctionName": "price", "Payload": DETAIL.encode()}, {}, [("lambda:price", DETAIL, "r1")]),
    ("CreateSchedule", {**AT, "ScheduleExpression": "at(2026-01-01T00:00:00)"}, {}, [("sqs:later", "{}", None)]),
    ("CreateSchedule", {**AT, "ScheduleExpression": "rate(1 day)"}, {}, []),
]


@pytest.fixture(scope="module")
def aws() -> Any:
    with EmbeddedAWS() as found:
        yield found


def call(aws: Any, operation: str, params: dict[str, Any]) -> ApiCall:
    return ApiCall(SENDS[operation].service, operation, params, 1, aws.client(SENDS[operation].service))


@pytest.mark.parametrize(("operation", "params", "answer", "expected"), CASES)
def test_what_was_accepted_is_read_alike_from_each_operation(
    aws: EmbeddedAWS, operation: str, params: dict[str, Any], answer: dict[str, Any], expected: list[Any]
) -> None:
    found = posted(call(aws, operation, params), answer, call=1)
    assert [(one.to, one.body, one.id) for one in found] == expected


def test_each_operation_has_a_case() -> None:
    assert {operation for operation, *_ in CASES} == set(SENDS)


def test_a_trace_leaves_out_events_that_the_bus_refused(aws: EmbeddedAWS) -> None:
    operation, params, answer, _ = next(case for case in CASES if case[0] == "PutEvents")
    assert sent(call(aws, operation, params), answer) == [Sent("events:t", 0, None)]


def test_an_operation_of_the_same_name_of_another_service_sends_nothing() -> None:
    assert sending("iot-data", "Publish") is None
    assert sending("sns", "Publish") is SENDS["Publish"]


def test_each_is_an_operation_of_its_service_whose_entries_have_that_name() -> None:
    session = botocore.session.get_session()
    for name, one in SENDS.items():
        shape = session.get_service_model(one.service).operation_model(name).input_shape
        assert shape is not None
        assert one.batch is None or one.batch in shape.members


def test_a_batch_keeps_its_entries_when_some_are_left_out(aws: EmbeddedAWS) -> None:
    _, params, _, _ = next(case for case in CASES if case[0] == "SendMessageBatch")
    seen: list[Any] = []
    one = dataclasses.replace(call(aws, "SendMessageBatch", params))

    def proceed() -> Any:
        seen.append([entry["Id"] for entry in params["Entries"]])
        return {"Successful": []}

    SENDS["SendMessageBatch"].in_part(one, proceed, {1})
    assert SENDS["SendMessageBatch"].in_part(one, proceed, {1, 2}) == {}, "no call without an entry"
    assert seen == [["2"]]
    assert [entry["Id"] for entry in params["Entries"]] == ["1", "2"]


@pytest.mark.parametrize(
    ("place", "is_letter"),
    [
        ({"redrive": 1}, True),
        ({"redrive": 1, "retry": 1}, False),
        ({"redrive": 1, "since": 1_800_000_000_000}, False),
        ({"hop": 2}, False),
    ],
)
def test_a_letter_is_told_from_a_redrive_that_is_tried_again_or_goes_back(
    place: dict[str, int], is_letter: bool, aws: EmbeddedAWS
) -> None:
    attributes = {"flowguard": {"DataType": "String", "StringValue": json.dumps({"version": 1, "hop": 1, **place})}}
    params = {"QueueUrl": QUEUE, "MessageBody": "a", "MessageAttributes": {**OWN, **attributes}}
    [message] = posted(call(aws, "SendMessage", params), {}, call=1)
    assert message.is_letter is is_letter
