"""Queries of an index: the engine in memory refuses what DynamoDB Local refuses, and answers what it answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from flowguard.project.declared import TableIndex
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.table_keys import create_table
from tests.aws.engines import on_dynamodb_local

INDEXES: Final = (
    TableIndex("by-day", ("who", "day"), ("S", "N")),
    TableIndex("by-who", ("who",), ("S",), keys_only=True),
)
ANN: Final = {":w": {"S": "ann"}}
OF_ANN: Final[dict[str, Any]] = {
    "IndexName": "by-day",
    "KeyConditionExpression": "who = :w",
    "ExpressionAttributeValues": ANN,
}
KEYS_ONLY: Final = {**OF_ANN, "IndexName": "by-who"}
ITEMS: Final = [("a", "ann", 1), ("b", "ann", 2), ("c", "ann", 2), ("d", "bob", 1), ("e", "ann", None)]


@pytest.fixture(scope="module", params=["memory", "dynamodb-local"])
def dynamodb(request: pytest.FixtureRequest) -> Iterator[Any]:
    with MemoryAWS() as aws:
        client: Any = aws.client("dynamodb")
        if request.param == "dynamodb-local":
            client = on_dynamodb_local(request.getfixturevalue("dynamodb_local_url")).dynamodb
        create_table(client, "visits", "id", indexes=INDEXES)
        for name, who, day in ITEMS:
            item = {"id": {"S": name}, "who": {"S": who}, "note": {"S": "n"}}
            client.put_item(TableName="visits", Item=item if day is None else item | {"day": {"N": str(day)}})
        yield client


def after(name: str, who: str = "ann", day: Any = "1", **more: Any) -> dict[str, Any]:
    return {"id": {"S": name}, "who": {"S": who}, "day": {"N": day}, **more}


REFUSED: Final[dict[str, dict[str, Any]]] = {
    "a start of another type": {**OF_ANN, "ExclusiveStartKey": {**after("a"), "day": {"S": "1"}}},
    "a start without a key": {**OF_ANN, "ExclusiveStartKey": {"id": {"S": "a"}}},
    "a start with more": {**OF_ANN, "ExclusiveStartKey": after("a", note={"S": "n"})},
    "an empty start": {**OF_ANN, "ExclusiveStartKey": {}},
    "a start with an empty key": {**OF_ANN, "ExclusiveStartKey": after("")},
    "a start of another partition": {**OF_ANN, "ExclusiveStartKey": after("d", "bob")},
    "a start out of the range": {
        **OF_ANN,
        "KeyConditionExpression": "who = :w AND #d > :d",
        "ExpressionAttributeNames": {"#d": "day"},
        "ExpressionAttributeValues": {**ANN, ":d": {"N": "1"}},
        "ExclusiveStartKey": after("a"),
    },
    "a filter by a key": {
        **OF_ANN,
        "FilterExpression": "#d = :d",
        "ExpressionAttributeNames": {"#d": "day"},
        "ExpressionAttributeValues": {**ANN, ":d": {"N": "1"}},
    },
    "what an index lacks": {**KEYS_ONLY, "ProjectionExpression": "note"},
    "all of what an index lacks": {**KEYS_ONLY, "Select": "ALL_ATTRIBUTES"},
    "what no index projects": {
        "KeyConditionExpression": "id = :w",
        "ExpressionAttributeValues": ANN,
        "Select": "ALL_PROJECTED_ATTRIBUTES",
    },
    "a count of parts": {**OF_ANN, "Select": "COUNT", "ProjectionExpression": "id"},
    "how a number begins": {
        **OF_ANN,
        "KeyConditionExpression": "who = :w AND begins_with(#d, :d)",
        "ExpressionAttributeNames": {"#d": "day"},
        "ExpressionAttributeValues": {**ANN, ":d": {"N": "1"}},
    },
    "bounds in the wrong order": {
        **OF_ANN,
        "KeyConditionExpression": "who = :w AND #d BETWEEN :d AND :e",
        "ExpressionAttributeNames": {"#d": "day"},
        "ExpressionAttributeValues": {**ANN, ":d": {"N": "2"}, ":e": {"N": "1"}},
    },
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(dynamodb: Any, case: str) -> None:
    with pytest.raises(ClientError, match="ValidationException"):
        dynamodb.query(TableName="visits", **REFUSED[case])


ANSWERED: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    "what has both keys": (OF_ANN, ["a", "b", "c"]),
    "what has the one key": ({**KEYS_ONLY, "ProjectionExpression": "id"}, ["a", "b", "c", "e"]),
    "what comes after": ({**OF_ANN, "ExclusiveStartKey": after("a")}, ["b", "c"]),
    "what comes after an item that is gone": ({**OF_ANN, "ExclusiveStartKey": after("aa")}, ["b", "c"]),
    "what comes after, backwards": (
        {**OF_ANN, "ExclusiveStartKey": after("b", day="2.0"), "ScanIndexForward": False},
        ["a"],
    ),
    "what has its keys in a text": (
        {
            **OF_ANN,
            "FilterExpression": "note = :n",
            "ExpressionAttributeValues": {**ANN, ":n": {"S": "n"}},
        },
        ["a", "b", "c"],
    ),
}


@pytest.mark.parametrize("case", ANSWERED)
def test_what_is_answered(dynamodb: Any, case: str) -> None:
    """Items of one key come in any order; the engine's is sorted here."""
    asked, names = ANSWERED[case]
    items = dynamodb.query(TableName="visits", **asked)["Items"]
    assert sorted(item["id"]["S"] for item in items) in (names, sorted({*names, "c"}))


def test_a_scan_may_filter_by_a_key(dynamodb: Any) -> None:
    asked: Any = {"FilterExpression": "who = :w", "ExpressionAttributeValues": {":w": {"S": "bob"}}}
    assert dynamodb.scan(TableName="visits", IndexName="by-day", **asked)["Count"] == 1


def test_a_table_says_which_indexes_it_has(dynamodb: Any) -> None:
    described = dynamodb.describe_table(TableName="visits")["Table"]["GlobalSecondaryIndexes"]
    shown = {index["IndexName"]: (index["IndexStatus"], index["Projection"]["ProjectionType"]) for index in described}
    assert shown == {"by-day": ("ACTIVE", "ALL"), "by-who": ("ACTIVE", "KEYS_ONLY")}
