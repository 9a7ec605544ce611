"""The AWS in memory goes back to any of its moments, and tells equal states by an equal key."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from flowguard.clock import ManualClock
from flowguard.sim.calls import Recorder, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.memory.not_in_memory import NotInMemory


@pytest.fixture(autouse=True)
def carts(aws: MemoryAWS) -> None:
    aws.create_business_table("carts", "id")


def put(aws: MemoryAWS, name: str, **attributes: Any) -> None:
    aws.client("dynamodb").put_item(TableName="carts", Item={"id": {"S": name}, **attributes})


def everything(aws: MemoryAWS) -> Any:
    """One write of each service."""
    url, topic = aws.create_queue("q"), aws.create_topic("t")
    aws.subscribe(topic, url)
    put(aws, "c1")
    published = aws.client("sns").publish(TopicArn=topic, Message="x")["MessageId"]
    received = aws.client("sqs").receive_message(QueueUrl=url)["Messages"][0]["ReceiptHandle"]
    entry: Any = {"Source": "s", "DetailType": "d", "Detail": "{}"}
    event = aws.client("events").put_events(Entries=[entry])["Entries"][0]["EventId"]
    aws.client("lambda").invoke(FunctionName="f", InvocationType="Event", Payload=b'{"a":1}')
    schedule(aws)
    aws.client("s3").create_bucket(Bucket="b")
    aws.client("s3").put_object(Bucket="b", Key="k", Body=b"data")
    return published, received, event, aws.state_key()


def schedule(aws: MemoryAWS) -> None:
    target: Any = {"Arn": "arn:aws:sqs:us-east-1:1:q", "RoleArn": "arn:aws:iam::1:role/x", "Input": "{}"}
    aws.client("scheduler").create_schedule(
        Name="later", ScheduleExpression="at(2026-01-01T00:00:00)", FlexibleTimeWindow={"Mode": "OFF"}, Target=target
    )


def test_the_same_beginning_has_the_same_end_ids_included(aws: MemoryAWS) -> None:
    before = aws.snapshot()
    first = everything(aws)
    aws.restore(before)
    assert aws.items("carts") == []
    assert (aws.events, aws.invocations, aws.schedules) == ((), (), ())
    assert everything(aws) == first


def test_a_snapshot_stays_as_it_was_however_often_it_is_restored(aws: MemoryAWS) -> None:
    everything(aws)
    after, key = aws.snapshot(), aws.state_key()
    for _ in range(2):
        put(aws, "c2")
        put(aws, "c1", n={"N": "1"})
        aws.client("sqs").purge_queue(QueueUrl=aws.create_queue("q"))
        assert aws.state_key() != key
        aws.restore(after)
        assert aws.state_key() == key
        assert len(aws.messages("q")) == 1


def test_an_answer_is_the_callers_own(aws: MemoryAWS) -> None:
    put(aws, "c1", tags={"L": [{"S": "a"}]})
    for _ in range(2):
        item = aws.client("dynamodb").get_item(TableName="carts", Key={"id": {"S": "c1"}})["Item"]
        assert item["tags"]["L"] == [{"S": "a"}]
        item["tags"]["L"].append({"S": "b"})


def test_the_key_leaves_out_ids_and_what_it_is_told_to(aws: MemoryAWS, clock: ManualClock) -> None:
    url, start = aws.create_queue("q"), aws.snapshot()
    put(aws, "c1", owner={"S": "one"})
    aws.client("sqs").send_message(QueueUrl=url, MessageBody="x", DelaySeconds=5)
    one, all_of_it = aws.state_key(without=["owner"]), aws.state_key()
    aws.restore(start)
    clock.advance(seconds=60)
    aws.client("sqs").send_message(QueueUrl=url, MessageBody="x", DelaySeconds=5)
    put(aws, "c1", owner={"S": "other"})
    assert aws.state_key(without=["owner"]) == one
    assert aws.state_key() != all_of_it
    clock.advance(seconds=1)
    assert aws.state_key(without=["owner"]) != one, "it is due sooner"


# -- what else there is


def test_a_schedule_exists_once(aws: MemoryAWS) -> None:
    schedule(aws)
    with pytest.raises(aws.client("scheduler").exceptions.ConflictException):
        schedule(aws)


def test_a_function_answers_by_its_callback(aws: MemoryAWS) -> None:
    aws.on_invoke("double", lambda event: event["n"] * 2)
    answer = aws.client("lambda").invoke(FunctionName="double", Payload=json.dumps({"n": 21}).encode())
    assert json.loads(answer["Payload"].read()) == 42
    assert aws.invocations[0]["Payload"] == {"n": 21}


def test_an_object_is_read_back(aws: MemoryAWS) -> None:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="b")
    s3.put_object(Bucket="b", Key="k", Body="text")
    assert s3.get_object(Bucket="b", Key="k")["Body"].read() == b"text"
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(Bucket="b", Key="other")


def test_pages_of_a_query_join_up(aws: MemoryAWS) -> None:
    aws.create_business_table("lines", "cart", "line")
    dynamodb = aws.client("dynamodb")
    for n in (3, 1, 2, 5, 4):
        dynamodb.put_item(TableName="lines", Item={"cart": {"S": "c1"}, "line": {"S": f"l{n}"}})
    dynamodb.put_item(TableName="lines", Item={"cart": {"S": "c2"}, "line": {"S": "l1"}})
    for forward, names in ((True, ["l1", "l2", "l3", "l4"]), (False, ["l4", "l3", "l2", "l1"])):
        pages = dynamodb.get_paginator("query").paginate(
            TableName="lines",
            KeyConditionExpression="cart = :c AND line BETWEEN :a AND :b",
            ExpressionAttributeValues={":c": {"S": "c1"}, ":a": {"S": "l1"}, ":b": {"S": "l4"}},
            ScanIndexForward=forward,
            PaginationConfig={"PageSize": 3},
        )
        assert [item["line"]["S"] for page in pages for item in page["Items"]] == names
    scanned = dynamodb.get_paginator("scan").paginate(TableName="lines", PaginationConfig={"PageSize": 4})
    assert len([item for page in scanned for item in page["Items"]]) == 6


def test_a_table_resource_speaks_plain_python(aws: MemoryAWS) -> None:
    table = boto3.resource("dynamodb").Table("carts")
    table.put_item(Item={"id": "c1", "n": 1, "tags": {"a"}})
    table.update_item(Key={"id": "c1"}, UpdateExpression="ADD n :one", ExpressionAttributeValues={":one": 1})
    assert table.get_item(Key={"id": "c1"})["Item"] == {"id": "c1", "n": 2, "tags": {"a"}}


def test_a_call_is_seen_by_interceptors_outside(aws: MemoryAWS) -> None:
    with intercept(Recorder()) as calls:
        put(aws, "c1")
    assert calls.count("dynamodb", "PutItem") == 1


@pytest.mark.parametrize("service", ["dynamodb", "kinesis"])
def test_what_is_not_there_is_named_with_what_is(aws: MemoryAWS, service: str) -> None:
    client: Any = aws.client(service)
    with pytest.raises(NotInMemory) as missing:
        client.list_backups() if service == "dynamodb" else client.list_streams()
    assert service in str(missing.value)
    assert {"dynamodb": "PutItem", "kinesis": "sqs"}[service] in missing.value.there


def test_a_parameter_that_would_be_ignored_is_named(aws: MemoryAWS) -> None:
    with pytest.raises(NotInMemory, match="Expected"):
        aws.client("dynamodb").put_item(TableName="carts", Item={"id": {"S": "c"}}, Expected={})


def test_a_table_that_is_missing_says_so(aws: MemoryAWS) -> None:
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        aws.client("dynamodb").get_item(TableName="nowhere", Key={"id": {"S": "c"}})
