"""Recorded writes in DynamoDB's own form: numbers, and nothing said that DynamoDB would refuse."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from flowguard.aws.writes import from_item, to_item, write_action
from flowguard.errors import WriteInvalid
from flowguard.items.writes import Condition, Delete, Put, Update, Write

KEY = {"id": {"S": "c1"}}
FREE = Condition("attribute_not_exists(id)")
OPEN = Condition("#s = :open", {"#s": "status"}, {":open": "open"})
ADD = Condition("ADD n :one", {}, {":one": 1})

SAID_OF_OPEN = {
    "ConditionExpression": "#s = :open",
    "ExpressionAttributeNames": {"#s": "status"},
    "ExpressionAttributeValues": {":open": {"S": "open"}},
    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
}

ACTIONS: list[tuple[Write, Any]] = [
    (Put("carts", {"id": "c1"}), {"Put": {"TableName": "carts", "Item": KEY}}),
    (Put("carts", {"id": "c1"}, OPEN), {"Put": {"TableName": "carts", "Item": KEY, **SAID_OF_OPEN}}),
    (
        Put("carts", {"id": "c1"}, FREE),
        {
            "Put": {
                "TableName": "carts",
                "Item": KEY,
                "ConditionExpression": "attribute_not_exists(id)",
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        },
    ),
    (Delete("carts", {"id": "c1"}), {"Delete": {"TableName": "carts", "Key": KEY}}),
    (Delete("carts", {"id": "c1"}, OPEN), {"Delete": {"TableName": "carts", "Key": KEY, **SAID_OF_OPEN}}),
    (
        Update("carts", {"id": "c1"}, ADD),
        {
            "Update": {
                "TableName": "carts",
                "Key": KEY,
                "UpdateExpression": "ADD n :one",
                "ExpressionAttributeValues": {":one": {"N": "1"}},
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        },
    ),
    (
        Update("carts", {"id": "c1"}, ADD, OPEN),
        {
            "Update": {
                "TableName": "carts",
                "Key": KEY,
                "UpdateExpression": "ADD n :one",
                **SAID_OF_OPEN,
                "ExpressionAttributeValues": {":one": {"N": "1"}, ":open": {"S": "open"}},
            }
        },
    ),
]


@pytest.mark.parametrize(("write", "action"), ACTIONS)
def test_an_action_says_no_more_than_its_write(write: Write, action: Any) -> None:
    """DynamoDB refuses an expression, names or values that are there and empty."""
    assert write_action(write) == action


def test_a_float_is_stored_by_its_shortest_text_however_deep_it_lies() -> None:
    lines = [{"price": 0.1, "tags": ("new", 1.5)}]
    stored = to_item({"id": "c1", "total": 0.3, "lines": lines})
    price, tags = {"N": "0.1"}, {"L": [{"S": "new"}, {"N": "1.5"}]}
    assert stored == {"id": {"S": "c1"}, "total": {"N": "0.3"}, "lines": {"L": [{"M": {"price": price, "tags": tags}}]}}
    assert from_item(stored) == {
        "id": "c1",
        "total": Decimal("0.3"),
        "lines": [{"price": Decimal("0.1"), "tags": ["new", Decimal("1.5")]}],
    }


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
REFUSED = "that DynamoDB cannot hold"
NO_NUMBER = "infinite, no number, or too long; write None, or text"


class Colour(Enum):
    RED = "red"


NO_SET = "a set is of texts, of numbers or of bytes, and not empty; leave it out, or write a list"


class Line(BaseModel):
    sku: str


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (NOON, f"'at' is a datetime {REFUSED}; write its .isoformat(), or put a pydantic model"),
        (
            [{"until": NOON.time()}],
            f"'at.0.until' is a time {REFUSED}; write its .isoformat(), or put a pydantic model",
        ),
        (float("nan"), f"'at' is a float {REFUSED}: {NO_NUMBER}"),
        (float("-inf"), f"'at' is a float {REFUSED}: {NO_NUMBER}"),
        ({"total": Decimal("-Infinity")}, f"'at.total' is a Decimal {REFUSED}: {NO_NUMBER}"),
        (Decimal("1." + "1" * 40), f"'at' is a Decimal {REFUSED}: {NO_NUMBER}"),
        (10**40, f"'at' is an int {REFUSED}: {NO_NUMBER}"),
        ({"a", 1}, f"'at' is a set {REFUSED}; {NO_SET}"),
        (set(), f"'at' is a set {REFUSED}; {NO_SET}"),
        ([{"tags": frozenset()}], f"'at.0.tags' is a frozenset {REFUSED}; {NO_SET}"),
        (Colour.RED, f"'at' is a Colour {REFUSED}; write its .value, or put a pydantic model"),
        (UUID(int=1), f"'at' is a UUID {REFUSED}; write it as text, as number or as bytes"),
        (Line(sku="tea"), f"'at' is a Line {REFUSED}; write its .model_dump(mode='json')"),
    ],
)
def test_what_dynamodb_cannot_hold_is_named_and_not_shown(value: Any, said: str) -> None:
    """The error's text goes to logs and dead letters: it has the attribute and the type, and no value."""
    with pytest.raises(WriteInvalid) as refused:
        write_action(Put("carts", {"id": "c1", "at": value}))
    assert str(refused.value) == f"a recorded write to 'carts' cannot be stored: {said}"


@pytest.mark.parametrize(
    "value", [b"\x00", [b"\x00", {"a": b"\xff"}], {b"\x00", b"\xff"}, {"a", "b"}, {Decimal(1)}, [None, True, "a", {}]]
)
def test_what_was_stored_comes_back_in_pythons_own_types(value: Any) -> None:
    stored = Put("carts", {"at": value})
    found = from_item(write_action(stored)["Put"]["Item"])
    assert found == {"at": value}
    assert "Binary" not in repr(found)


UNNAMED: Any = {"id": "c1", 5: "five"}


@pytest.mark.parametrize(("lines", "where"), [(UNNAMED, "'lines'"), ([UNNAMED], "'lines.0'")])
def test_a_name_that_is_no_text_is_named_by_where_it_stands(lines: Any, where: str) -> None:
    with pytest.raises(
        WriteInvalid, match=f"cannot be stored: {where} has a name that is an int: DynamoDB's are texts"
    ):
        write_action(Put("carts", {"id": "c1", "lines": lines}))


@pytest.mark.parametrize(
    "write",
    [
        Put("carts", UNNAMED),
        Update("carts", {"id": NOON}, ADD),
        Update("carts", {"id": "c1"}, Condition("SET at = :at", {}, {":at": NOON})),
        Delete("carts", {"id": "c1"}, Condition("at = :at", {}, {":at": NOON})),
    ],
)
def test_it_is_refused_wherever_it_stands(write: Write) -> None:
    with pytest.raises(WriteInvalid, match="a recorded write to 'carts' cannot be stored: "):
        write_action(write)


def test_a_change_of_nothing_is_refused() -> None:
    with pytest.raises(WriteInvalid, match="a recorded write to 'carts' cannot be stored: its change is empty"):
        write_action(Update("carts", {"id": "c1"}, Condition("")))


def test_what_contains_itself_is_refused_too() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(
        WriteInvalid, match=r"a recorded write to 'carts' cannot be stored: it is more than 64 levels deep"
    ):
        write_action(Put("carts", {"id": "c1", "lines": endless}))


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ("\ud800", "'at' is text with half"),
        (["a", "b\udfff"], "'at.1' is text with half"),
        ({"\ud800": 1}, "'at' has a name with half"),
        ({"a": {"b": "\ud83d"}}, "'at.a.b' is text with half"),
    ],
)
def test_half_a_surrogate_pair_is_refused_by_where_it_stands(value: Any, where: str) -> None:
    with pytest.raises(WriteInvalid, match=f"{where} a surrogate pair that DynamoDB cannot hold"):
        write_action(Put("carts", {"id": "c1", "at": value}))


@pytest.mark.parametrize("text", ["", "\0", "\x1b", "é", "\uffff", "\U0001f600", "\ud7ff\ue000"])
def test_every_other_text_is_stored_as_it_is(text: str) -> None:
    assert to_item({"at": text}) == {"at": {"S": text}}


@pytest.mark.parametrize("table", ["", None, 5, b"carts"])
def test_a_table_that_is_empty_or_no_text_is_refused(table: Any) -> None:
    with pytest.raises(WriteInvalid, match=r"^a recorded write cannot be stored: its table is empty, or no text$"):
        write_action(Put(table, {"id": "c1"}))


def nested(levels: int, kind: type[list[Any]] | type[dict[str, Any]]) -> Any:
    """``levels`` lists, or dicts, one in the other."""
    found: Any = kind()
    for _ in range(levels - 1):
        found = [found] if kind is list else {"a": found}
    return found


@pytest.mark.parametrize("kind", [list, dict])
def test_what_has_64_levels_is_stored_and_one_more_is_refused(kind: type[list[Any]] | type[dict[str, Any]]) -> None:
    assert to_item({"at": nested(64, kind)})["at"]
    with pytest.raises(RecursionError, match="more than 64 levels deep"):
        to_item({"at": nested(65, kind)})


def test_a_set_is_stored_as_its_values_are() -> None:
    assert sorted(to_item({"at": {0.1, 2}})["at"]["NS"]) == ["0.1", "2"]
    with pytest.raises(TypeError, match="'at' is a set that DynamoDB cannot hold"):
        to_item({"at": {"a\ud800"}})
