"""Scans answer as they are told to: in another order, or in pages."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.scans import Scans, TurnsScans


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
