"""What a call touches."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.types import Binary

from flowguard.sim.calls import ApiCall
from flowguard.testing.explorer.record.touched import ADDED, Place, Touched, is_reading, places_of

ADD: dict[str, Any] = {
    "TableName": "t",
    "Key": {"id": {"S": "a"}},
    "UpdateExpression": "ADD n :n",
    "ExpressionAttributeValues": {":n": {"N": "1"}},
}
NO_CLIENT: Any = None
ITEM = ("dynamodb", "t", "a")


def touched(service: str, operation: str, **params: Any) -> tuple[Place, ...]:
    return places_of(ApiCall(service, operation, params, 1, NO_CLIENT), "target", {"t": "id", "u": "day"})


@pytest.mark.parametrize(
    ("operation", "params", "places"),
    [
        ("GetItem", {"TableName": "t", "Key": {"id": {"S": "a"}}}, (ITEM,)),
        ("GetItem", {"TableName": "t", "Key": {"id": "a"}}, (ITEM,)),
        ("GetItem", {"TableName": "t", "Key": {"id": {"N": "1.0"}}}, (("dynamodb", "t", "1"),)),
        ("GetItem", {"TableName": "t", "Key": {"id": Decimal(1)}}, (("dynamodb", "t", "1"),)),
        ("GetItem", {"TableName": "unknown", "Key": {"id": {"S": "a"}}}, (("dynamodb", "unknown"),)),
        ("PutItem", {"TableName": "t", "Item": {"id": {"S": "a"}, "n": {"N": "1"}}}, (ITEM,)),
        ("Scan", {"TableName": "t"}, (("dynamodb", "t"),)),
        (
            "Query",
            {"TableName": "t", "KeyConditionExpression": "#i = :i", "ExpressionAttributeNames": {"#i": "id"}}
            | {"ExpressionAttributeValues": {":i": {"S": "a"}}},
            (ITEM,),
        ),
        (
            "Query",
            {"TableName": "t", "IndexName": "by-day", "KeyConditionExpression": "id = :i"}
            | {"ExpressionAttributeValues": {":i": {"S": "a"}}},
            (("dynamodb", "t"),),
        ),
        (
            "TransactWriteItems",
            {"TransactItems": [{"Put": {"TableName": "u", "Item": {"day": {"S": "m"}}}}, {"Update": ADD}]},
            (("dynamodb", "u", "m"), (*ITEM, ADDED)),
        ),
        (
            "BatchWriteItem",
            {
                "RequestItems": {
                    "t": [{"PutRequest": {"Item": {"id": {"S": "a"}}}}, {"DeleteRequest": {"Key": {"id": "b"}}}]
                }
            },
            (ITEM, ("dynamodb", "t", "b")),
        ),
        ("BatchGetItem", {"RequestItems": {"t": {"Keys": [{"id": {"S": "a"}}]}}}, (ITEM,)),
        ("ExecuteStatement", {"Statement": "UPDATE t SET n = 1 WHERE id = 'a'"}, (("dynamodb",),)),
        ("GetItem", {"TableName": "arn:aws:dynamodb:us-east-1:1:table/t", "Key": {"id": {"S": "a"}}}, (ITEM,)),
        ("GetItem", {"TableName": "t", "Key": {"id": Binary(b"a")}}, (("dynamodb", "t", "b'a'"),)),
        ("GetItem", {"TableName": "t", "Key": {"id": {"N": "no number"}}}, (("dynamodb",),)),
        ("GetItem", {"TableName": "t", "Key": {"id": {}}}, (("dynamodb",),)),
        ("GetItem", {"TableName": "t", "Key": {"id": {"S": "+"}}}, (("dynamodb", "t", "+"),)),
        ("ListTables", {}, (("dynamodb",),)),
        ("UpdateItem", ADD, ((*ITEM, ADDED),)),
        ("UpdateItem", {**ADD, "ConditionExpression": "attribute_exists(id)"}, (ITEM,)),
        ("UpdateItem", {**ADD, "ReturnValues": "ALL_NEW"}, (ITEM,)),
        ("UpdateItem", {**ADD, "UpdateExpression": "ADD n :n SET m = :n"}, (ITEM,)),
        ("UpdateItem", {**ADD, "UpdateExpression": "SET n = :n"}, (ITEM,)),
        ("UpdateItem", {**ADD, "ExpressionAttributeValues": {":n": {"SS": ["x"]}}}, (ITEM,)),
        ("UpdateItem", {**ADD, "ExpressionAttributeValues": {":n": 1}}, ((*ITEM, ADDED),)),
    ],
)
def test_an_item_is_a_place_by_its_hash_key(operation: str, params: dict[str, Any], places: tuple[Place, ...]) -> None:
    assert touched("dynamodb", operation, **params) == places


@pytest.mark.parametrize(
    ("service", "operation", "params", "places"),
    [
        ("sqs", "SendMessage", {"QueueUrl": "https://sqs/1/orders"}, (("sqs", "orders", ADDED),)),
        ("sqs", "ReceiveMessage", {"QueueUrl": "https://sqs/1/orders"}, (("sqs", "orders"),)),
        ("sqs", "SendMessage", {"QueueUrl": "https://sqs/1/orders.fifo"}, (("sqs", "orders.fifo"),)),
        ("sqs", "PurgeQueue", {"QueueUrl": "https://sqs/1/orders"}, (("sqs", "orders"),)),
        ("sqs", "ListQueues", {}, (("sqs",),)),
        ("sns", "Publish", {}, (("sns", "target", ADDED),)),
        ("ses", "SendEmail", {}, (("ses", "target", ADDED),)),
        ("s3", "PutObject", {"Bucket": "b", "Key": "k"}, (("s3", "b", "k"),)),
        ("s3", "ListObjectsV2", {"Bucket": "b"}, (("s3", "b"),)),
        ("s3", "ListBuckets", {}, (("s3",),)),
        ("s3", "CopyObject", {"Bucket": "b", "Key": "k", "CopySource": "c/k"}, (("s3",),)),
        ("ssm", "PutParameter", {}, (("ssm",),)),
        ("scheduler", "CreateSchedule", {"Name": "s", "GroupName": "g"}, (("scheduler", "g", "s"),)),
        ("scheduler", "CreateSchedule", {"Name": "s"}, (("scheduler", "default", "s"),)),
        ("scheduler", "ListSchedules", {}, (("scheduler",),)),
    ],
)
def test_what_is_sent_comes_in_any_order_but_to_fifo(
    service: str, operation: str, params: dict[str, Any], places: tuple[Place, ...]
) -> None:
    assert touched(service, operation, **params) == places


@pytest.mark.parametrize(("operation", "reads"), [("GetItem", True), ("ReceiveMessage", False)])
def test_who_receives_a_message_takes_it(operation: str, *, reads: bool) -> None:
    assert is_reading(operation, is_read=True) is reads
    assert not is_reading(operation, is_read=False)


def of(place: Place, *, is_read: bool = False) -> Touched:
    found = Touched()
    found.add([place], is_read=is_read)
    return found


@pytest.mark.parametrize(
    ("one", "other", "meets"),
    [
        (of(ITEM), of(ITEM), True),
        (of(ITEM), of(ITEM, is_read=True), True),
        (of(ITEM, is_read=True), of(ITEM, is_read=True), False),
        (of(ITEM), of(("dynamodb", "t", "b")), False),
        (of(ITEM), of(("dynamodb", "t"), is_read=True), True),
        (of(ITEM), of(("dynamodb",)), True),
        (of((*ITEM, ADDED)), of((*ITEM, ADDED)), False),
        (of((*ITEM, ADDED)), of(ITEM), True),
        (of((*ITEM, ADDED)), of(ITEM, is_read=True), True),
        (of(("dynamodb", "t", "+")), of(("dynamodb", "t", "+")), True),
    ],
)
def test_two_meet_where_either_writes_what_the_other_touches(one: Touched, other: Touched, meets: bool) -> None:
    assert (one.meets(other), other.meets(one)) == (meets, meets)
