"""DynamoDB's values in one normal form, so that equal values are equal dicts.

They are written as in the low-level API. Numbers are texts without needless digits, sets are sorted lists without
repetitions. A value is never changed once it is stored, so items share their parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, Final, TypeAlias

from flowguard.sim.limits.fault import invalid
from flowguard.sim.limits.items import DEEPEST, check_text, too_deep

Value: TypeAlias = dict[str, Any]
"""One value with its type: ``{"N": "1"}``."""

Item: TypeAlias = dict[str, Value]

TAGS: Final = frozenset({"S", "N", "B", "BOOL", "NULL", "M", "L", "SS", "NS", "BS"})
SETS: Final = frozenset({"SS", "NS", "BS"})
ORDERED: Final = frozenset({"S", "N", "B"})
"""The types that ``<`` knows."""

MOST_DIGITS: Final = 38
EXACT: Final = Context(prec=2 * MOST_DIGITS + 260)

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


# -- into the normal form


def stored(value: Any, depth: int = 0) -> Value:
    """Copy a value into normal form, ``depth`` maps and lists down. What is no value is a ValidationException."""
    if (type(value) is not dict and not isinstance(value, Mapping)) or len(value) != 1:  # to ask for a dict is quick
        raise invalid("Supplied AttributeValue has more than one datatypes set, must contain exactly one")
    ((tag, content),) = value.items()
    if tag not in TAGS:
        raise invalid("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
    if tag in _NESTED:
        if depth == DEEPEST:
            raise too_deep()
        return {tag: _NESTED[tag](content, depth + 1)}
    return {tag: _NORMAL[tag](content)}


def stored_item(item: Mapping[str, Any], depth: int = 0) -> Item:
    if "" in item:
        raise invalid("One or more parameter values were invalid: attribute names must not be empty")
    return {check_text(name): stored(value, depth) for name, value in item.items()}


def number_text(text: Any) -> str:
    """Return the one text of a number. ``"1.0"`` is ``"1"`` and ``"-0"`` is ``"0"``."""
    if not isinstance(text, str):
        raise invalid("A value provided cannot be converted into a number")
    if text.isdecimal() and text.isascii() and len(text) <= MOST_DIGITS and (text[0] != "0" or text == "0"):
        return text
    if not _NUMBER.fullmatch(text):
        raise invalid("A value provided cannot be converted into a number")
    return decimal_text(Decimal(text))


def decimal_text(number: Decimal) -> str:
    """Return the text of a number. It has up to 38 digits, and is from 1E-130 to 9.9E+125."""
    plain = number.normalize(EXACT)
    if not plain:
        return "0"
    if len(plain.as_tuple().digits) > MOST_DIGITS:
        raise invalid("Attempting to store more than 38 significant digits in a Number")
    if plain.adjusted() > 125:
        raise invalid("Number overflow. Attempting to store a number with magnitude larger than supported range")
    if plain.adjusted() < -130:
        raise invalid("Number underflow. Attempting to store a number with magnitude smaller than supported range")
    return format(plain, "f")


@lru_cache(maxsize=8192)
def decimal(text: str) -> Decimal:
    return Decimal(text)


def set_of(tag: str, members: list[Any]) -> Value:
    """Build a set from members that are in normal form already."""
    return {tag: sorted(set(members), key=decimal if tag == "NS" else None)}


def _text(content: Any) -> str:
    if not isinstance(content, str):
        raise invalid("Unexpected value type in payload")
    return content if content.isascii() else check_text(content)


def _binary(content: Any) -> bytes:
    return content.encode() if isinstance(content, str) else bytes(content)


def _null(content: Any) -> bool:
    if content is not True:
        raise invalid(
            "One or more parameter values were invalid: Null attribute value types must have the value of true"
        )
    return True


def _set(tag: str, normal: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def read(content: Any) -> list[Any]:
        members = [normal(member) for member in content]
        if not members:
            raise invalid("One or more parameter values were invalid: A set may not be empty")
        distinct: list[Any] = set_of(tag, members)[tag]
        if len(distinct) != len(members):
            raise invalid(f"One or more parameter values were invalid: Input collection {members} contains duplicates.")
        return distinct

    return read


_NORMAL: Final[Mapping[str, Callable[[Any], Any]]] = {
    "S": _text,
    "N": number_text,
    "B": _binary,
    "BOOL": bool,
    "NULL": _null,
    "SS": _set("SS", _text),
    "NS": _set("NS", number_text),
    "BS": _set("BS", _binary),
}

_NESTED: Final[Mapping[str, Callable[[Any, int], Any]]] = {
    "M": stored_item,
    "L": lambda content, depth: [stored(value, depth) for value in content],
}


# -- what can be asked of them


def shown(value: Value) -> Value:
    """Copy a value for the caller, who may change what was answered."""
    ((tag, content),) = value.items()
    if tag == "M":
        return {tag: shown_item(content)}
    if tag == "L":
        return {tag: [shown(member) for member in content]}
    return {tag: list(content) if tag in SETS else content}


def shown_item(item: Item) -> Item:
    return {name: shown(value) for name, value in item.items()}


def tag_of(value: Value) -> str:
    return next(iter(value))


def order(value: Value) -> Any:
    """Return what sorts values of one ordered type."""
    ((tag, content),) = value.items()
    return decimal(content) if tag == "N" else content


def length(value: Value | None) -> int | None:
    """Return what the expression function ``size`` returns. None where a value has no size."""
    match value:
        case {"S": str(text)}:
            return len(text)
        case {"B": content} | {"M": content} | {"L": content} | {"SS": content} | {"NS": content} | {"BS": content}:
            return len(content)
        case _:
            return None


def weight(value: Value) -> int:
    """Return the bytes that count towards an item's 400 KB. Numbers are counted as the service does it."""
    ((tag, content),) = value.items()
    return _WEIGHTS[tag](content)


def item_weight(item: Item) -> int:
    total = 0
    for name, value in item.items():  # no generator: each write weighs its item
        ((tag, content),) = value.items()
        total += _text_weight(name) + _WEIGHTS[tag](content)
    return total


def _text_weight(content: str) -> int:
    return len(content) if content.isascii() else len(content.encode())


@lru_cache(maxsize=8192)
def _number_weight(content: str) -> int:
    """Return the bytes of a number: two digits in each, those before and after the point apart, and one more.

    The documents count digits across the point; the service does not.
    """
    whole, _, part = content.removeprefix("-").partition(".")
    whole = whole.lstrip("0") if part else whole.strip("0")
    part = part if whole else part.lstrip("0")
    return 1 + (len(whole) + 1) // 2 + (len(part) + 1) // 2 + content.startswith("-")


def _set_weight(member: Callable[[Any], int]) -> Callable[[list[Any]], int]:
    return lambda content: sum(map(member, content))


_WEIGHTS: Final[Mapping[str, Callable[[Any], int]]] = {
    "S": _text_weight,
    "N": _number_weight,
    "B": len,
    "BOOL": lambda _: 1,
    "NULL": lambda _: 1,
    "M": lambda content: 3 + item_weight(content) + len(content),
    "L": lambda content: 3 + sum(map(weight, content)) + len(content),
    "SS": _set_weight(_text_weight),
    "NS": _set_weight(_number_weight),
    "BS": _set_weight(len),
}
