"""Recorded writes as actions of a DynamoDB transaction, and what a cancelled one says about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Final, assert_never

from pydantic import BaseModel

from flowguard.errors import ConditionFailed, ConditionRejected, ItemChanged, NotHeld, WriteInvalid
from flowguard.items.writes import Check, Condition, Delete, Put, Update, Write
from flowguard.names.at_aws import AS_IN_CODE, Names
from flowguard.startup.late_pattern import late_pattern

if TYPE_CHECKING:
    from boto3.dynamodb.types import TypeDeserializer, TypeSerializer


_MOST_LEVELS: Final = 64
"""DynamoDB refuses far less by its own words; what is deeper would not even get there."""

_HALF_A_PAIR: Final = late_pattern("[\ud800-\udfff]")


@cache
def _types() -> tuple[TypeSerializer, TypeDeserializer]:
    from boto3.dynamodb import types  # loads all of boto3, which a function that records no writes does not need

    return types.TypeSerializer(), types.TypeDeserializer()


def to_item(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert plain Python to DynamoDB's low-level form. Floats become Decimals by their shortest text.

    Raises TypeError for what DynamoDB cannot hold, with the attribute and its type: never with its value.
    """
    return {_text(name): _to_value(name, value) for name, value in values.items()}


def from_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an item back to plain Python. Numbers come back as Decimals, bytes as bytes."""
    _, deserializer = _types()
    return {name: _plain(deserializer.deserialize(value)) for name, value in item.items()}


def _plain(value: Any) -> Any:
    """Return bytes in place of boto3's own type for them, which no model takes for bytes."""
    match value:
        case dict():
            return {name: _plain(part) for name, part in value.items()}
        case list():
            return [_plain(part) for part in value]
        case set():
            return {_plain(part) for part in value}
        case str() | Decimal() | bool() | None:
            return value
        case _:
            return bytes(value)


def write_action(write: Write, names: Names = AS_IN_CODE) -> Any:
    """Return one action of ``TransactItems`` that asks for the item where its condition does not hold.

    ``names`` say what its table is called at AWS.

    Raises :class:`flowguard.errors.WriteInvalid` for a value that DynamoDB cannot hold, and for a table, expression or
    alias that is no text.
    """
    if not _is_text(write.table) or not write.table:
        raise WriteInvalid("a recorded write cannot be stored: its table is empty, or no text")
    try:
        return _action(write, names.table(write.table))
    except (TypeError, RecursionError) as error:
        raise WriteInvalid(f"a recorded write to {write.table[:80]!a} cannot be stored: {error}") from None


def _action(write: Write, table: str) -> Any:
    match write:
        case Put(_, item, condition):
            return {"Put": {"TableName": table, "Item": to_item(item), **_condition(condition)}}
        case Update(_, key, change, condition):
            if not change.expression:
                raise TypeError("its change is empty")
            both = Condition(
                condition.expression if condition else "",
                {**change.names, **(condition.names if condition else {})},
                {**change.values, **(condition.values if condition else {})},
            )
            action = {"TableName": table, "Key": to_item(key), "UpdateExpression": change.expression}
            return {"Update": {**action, **_condition(both)}}
        case Delete(_, key, condition):
            return {"Delete": {"TableName": table, "Key": to_item(key), **_condition(condition)}}
        case Check(_, key, condition):
            return {"ConditionCheck": {"TableName": table, "Key": to_item(key), **_condition(condition)}}
        case _:
            assert_never(write)


def condition_failure(
    writes: Sequence[Write], reasons: Sequence[Any]
) -> ConditionFailed | ConditionRejected | NotHeld | None:
    """Return what follows from the recorded writes whose conditions did not hold. None where all of them held.

    The handler is called again only where each of them says so. What rejects comes before what is tried again later.
    """
    failed = [
        (write.condition, write.table, _shown_item(reason))
        for write, reason in zip(writes, reasons, strict=False)
        if reason.get("Code") == "ConditionalCheckFailed" and write.condition is not None
    ]
    for condition, table, item in failed:
        if condition.reject:
            return ConditionRejected(table, condition.expression, item)
    for condition, table, item in failed:
        if condition.go_on is None and not condition.tries:
            return ConditionFailed(table, condition.expression, item)
    refused = {condition.go_on: item for condition, _, item in failed if condition.go_on is not None}
    changed = [ItemChanged(table, condition.tries, item) for condition, table, item in failed if condition.tries]
    return NotHeld(refused, min(changed, key=lambda change: change.tries, default=None)) if failed else None


def _shown_item(reason: Any) -> dict[str, Any] | None:
    item = reason.get("Item")
    return from_item(item) if item else None


def _condition(condition: Condition | None) -> dict[str, Any]:
    if condition is None:
        return {}
    arguments: dict[str, Any] = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    if not _is_text(condition.expression):
        raise TypeError(f"its condition is {_kind(condition.expression)}, and no text")
    if not all(map(_is_text, (*condition.names, *condition.names.values()))):
        raise TypeError("an alias of its names= stands for what is no text")
    if condition.expression:
        arguments["ConditionExpression"] = condition.expression
    if condition.names:
        arguments["ExpressionAttributeNames"] = dict(condition.names)
    if condition.values:
        arguments["ExpressionAttributeValues"] = to_item(condition.values)
    return arguments


def _to_value(name: str, value: Any) -> Any:
    serializer, _ = _types()
    try:
        return serializer.serialize(_storable(value))
    except (TypeError, ArithmeticError):
        for part, member in _parts(name, value):
            _to_value(f"{name}.{part}", member)
        raise TypeError(f"{name[:200]!a} is {_problem(value)}") from None


def _problem(value: object) -> str:
    """Describe what DynamoDB cannot hold by its kind, with the fix. The value itself is not repeated."""
    match value:
        case str():
            return "text with half a surrogate pair that DynamoDB cannot hold; replace that character"
        case int() | float() | Decimal():
            return f"{_kind(value)} that DynamoDB cannot hold: infinite, no number, or too long; write None, or text"
        case date() | time():
            return f"{_kind(value)} that DynamoDB cannot hold; write its .isoformat(), or put a pydantic model"
        case Enum():
            return f"{_kind(value)} that DynamoDB cannot hold; write its .value, or put a pydantic model"
        case BaseModel():
            return f"{_kind(value)} that DynamoDB cannot hold; write its .model_dump(mode='json')"
        case set() | frozenset():
            kinds = "a set is of texts, of numbers or of bytes, and not empty; leave it out, or write a list"
            return f"{_kind(value)} that DynamoDB cannot hold; {kinds}"
        case _:
            return f"{_kind(value)} that DynamoDB cannot hold; write it as text, as number or as bytes"


def _kind(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIO' else 'a'} {kind}"


def _parts(name: str, value: Any) -> Iterable[tuple[object, Any]]:
    match value:
        case dict():
            return [(_text(part, ascii(name[:200])), member) for part, member in value.items()]
        case list() | tuple():
            return enumerate(value)
        case _:
            return ()


def _text(name: object, within: str = "it") -> str:
    if not isinstance(name, str):
        raise TypeError(f"{within} has a name that is {_kind(name)}: DynamoDB's are texts")
    if not _is_unicode(name):
        raise TypeError(f"{within} has a name with half a surrogate pair that DynamoDB cannot hold")
    return name


def _storable(value: Any, level: int = 1) -> Any:
    """Convert the value to what boto3's serializer takes.

    Raises TypeError where it cannot, and RecursionError where the value is too deep.
    """
    match value:
        case float() | Decimal():
            return _finite(Decimal(str(value)))
        case str() if not _is_unicode(value):
            raise TypeError
        case dict() | list() | tuple() if level > _MOST_LEVELS:
            raise RecursionError(f"it is more than {_MOST_LEVELS} levels deep")
        case dict():
            return {_text(name): _storable(part, level + 1) for name, part in value.items()}
        case list() | tuple():
            return [_storable(part, level + 1) for part in value]
        case set() | frozenset() if not value:
            raise TypeError
        case set() | frozenset():
            return {_storable(part) for part in value}  # of texts, numbers or bytes: it has no levels below it
        case _:
            return value


def _finite(number: Decimal) -> Decimal:
    if not number.is_finite():
        raise TypeError
    return number


def _is_text(value: object) -> bool:
    """Answer whether what is declared to be text is text. Code that nobody type-checked writes it too."""
    return isinstance(value, str)


def _is_unicode(text: str) -> bool:
    """Answer whether the text has no half of a surrogate pair.

    Half a pair is no character: DynamoDB refuses the whole request for it.
    """
    return text.isascii() or _HALF_A_PAIR.search(text) is None
