"""Scans answer as they are told to: in another order, or in pages."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.project.declared import TableIndex
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.scans import Scans, TurnsScans
from flowguard.sim.table_keys import create_table


@pytest.mark.parametrize(
    ("scans", "pages"),
    [
        (Scans.FORWARDS, [["a", "b", "c"]]),
        (Scans.BACKWARDS, [["c", "b", "a"]]),
        (Scans.IN_PAGES, [["a"], ["b"], ["c"], []]),
    ],
)
def test_a_scan_answers_as_it_is_told_to(scans: Scans, pages: list[list[str]]) -> None:
    assert [names(page) for page in scanned(scans)] == pages


@pytest.mark.parametrize(
    ("scans", "pages"), [(Scans.BACKWARDS, [["c", "b"], ["a"]]), (Scans.IN_PAGES, [["a", "b"], ["c"]])]
)
def test_a_limit_and_where_to_go_on_are_kept(scans: Scans, pages: list[list[str]]) -> None:
    assert [names(page) for page in scanned(scans, PaginationConfig={"PageSize": 2})] == pages


def test_queries_keep_their_order() -> None:
    with MemoryAWS() as aws:
        dynamodb: Any = filled(aws)
        aws.scans = Scans.BACKWARDS
        assert isinstance(aws, TurnsScans)
        answer = dynamodb.query(
            TableName="t", KeyConditionExpression="pk = :p", ExpressionAttributeValues={":p": {"S": "p"}}
        )
        assert names(answer) == ["a", "b", "c"]


@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize(
    ("scans", "forward", "order"),
    [
        (Scans.FORWARDS, True, "abcd"),
        (Scans.FORWARDS, False, "dcba"),
        (Scans.BACKWARDS, True, "bacd"),
        (Scans.BACKWARDS, False, "dcab"),
    ],
)
def test_items_of_one_key_in_an_index_come_in_another_order(scans: Scans, forward: bool, order: str, size: int) -> None:
    """The first two have one day."""
    with MemoryAWS() as aws:
        dynamodb: Any = aws.client("dynamodb")
        index = TableIndex("by-day", ("who", "day"), ("S", "N"))
        create_table(dynamodb, "t", "pk", "sk", indexes=(index,))
        for name, day in zip("abcd", "1123", strict=True):
            item = {"pk": {"S": "p"}, "sk": {"S": name}, "who": {"S": "ann"}, "day": {"N": day}}
            dynamodb.put_item(TableName="t", Item=item)
        aws.scans = scans
        asked: Any = {
            "TableName": "t",
            "IndexName": "by-day",
            "KeyConditionExpression": "who = :w",
            "ExpressionAttributeValues": {":w": {"S": "ann"}},
            "ScanIndexForward": forward,
        }
        pages = dynamodb.get_paginator("query").paginate(**asked, PaginationConfig={"PageSize": size})
        assert "".join(name for page in pages for name in names(page)) == order


def test_no_index_is_read_consistently_but_a_local_one() -> None:
    """DynamoDB Local refuses it as well: tests/aws/test_run_index_costs.py."""
    with MemoryAWS() as aws:
        dynamodb: Any = aws.client("dynamodb")
        local = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "day", "KeyType": "RANGE"}]
        dynamodb.create_table(
            TableName="t",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "day")],
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            LocalSecondaryIndexes=[{"IndexName": "local", "KeySchema": local, "Projection": {"ProjectionType": "ALL"}}],
            GlobalSecondaryIndexes=[
                {"IndexName": "global", "KeySchema": local, "Projection": {"ProjectionType": "ALL"}}
            ],
        )
        for about in ({"IndexName": "local", "ConsistentRead": True}, {"IndexName": "global"}):
            assert dynamodb.scan(TableName="t", **about)["Items"] == []
        with pytest.raises(ClientError, match="Consistent reads are not supported on global secondary indexes"):
            dynamodb.scan(TableName="t", IndexName="global", ConsistentRead=True)


def scanned(scans: Scans, **about: Any) -> list[Any]:
    with MemoryAWS() as aws:
        dynamodb: Any = filled(aws)
        aws.scans = scans
        assert aws.scans is scans
        return [*dynamodb.get_paginator("scan").paginate(TableName="t", **about)]


def filled(aws: MemoryAWS) -> Any:
    aws.create_business_table("t", "pk", "sk")
    dynamodb: Any = aws.client("dynamodb")
    for name in "bca":
        dynamodb.put_item(TableName="t", Item={"pk": {"S": "p"}, "sk": {"S": name}})
    return dynamodb


def names(page: Any) -> list[str]:
    return [item["sk"]["S"] for item in page["Items"]]
