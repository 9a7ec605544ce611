"""The parts of a condition. There are functions of item and values that compare, and checks of the values alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from flowguard.sim.limits.fault import invalid
from flowguard.sim.memory.grammar import Check, Read, Values
from flowguard.sim.memory.values import ORDERED, TAGS, Item, Value, order, tag_of

Test: TypeAlias = Callable[[Item, Values], bool]


def either(left: Test, right: Test) -> Test:
    return lambda item, values: left(item, values) or right(item, values)


def both(left: Test, right: Test) -> Test:
    return lambda item, values: left(item, values) and right(item, values)


def negated(test: Test) -> Test:
    return lambda item, values: not test(item, values)


def equal(left: Read, right: Read) -> Test:
    """Build a test of equality. A missing value equals nothing."""
    return lambda item, values: (value := left(item, values)) is not None and value == right(item, values)


def ordered(left: Read, right: Read, compare: Callable[[Any, Any], bool]) -> Test:
    """Build a test of order. Only values of one type have an order, and a missing value has none."""

    def holds(item: Item, values: Values) -> bool:
        a, b = left(item, values), right(item, values)
        if a is None or b is None or (tag := tag_of(a)) not in b or tag not in ORDERED:
            return False
        return compare(order(a), order(b))

    return holds


def begins(value: Value | None, prefix: Value | None) -> bool:
    match value, prefix:
        case ({"S": content}, {"S": start}) | ({"B": content}, {"B": start}):
            return bool(content.startswith(start))
        case _:
            return False


def contains(whole: Value | None, part: Value | None) -> bool:
    match whole, part:
        case ({"S": content}, {"S": inner}) | ({"B": content}, {"B": inner}):
            return inner in content
        case ({"SS": content}, {"S": inner}) | ({"NS": content}, {"N": inner}) | ({"BS": content}, {"B": inner}):
            return inner in content
        case {"L": content}, _:
            return part in content
        case _:
            return False


# -- checks of the given values


def upper_not_below(low: str, high: str, kind: str) -> Check:
    def check(values: Values) -> None:
        if tag_of(values[low]) != tag_of(values[high]):
            raise invalid(f"Invalid {kind}: The BETWEEN operator requires same data type for lower and upper bounds")
        if order(values[high]) < order(values[low]):
            raise invalid(
                f"Invalid {kind}: The BETWEEN operator requires upper bound to be greater than or equal to lower bound"
            )

    return check


def type_name(name: str, kind: str) -> Check:
    def check(values: Values) -> None:
        if values[name].get("S") not in TAGS:
            raise invalid(f"Invalid {kind}: Invalid attribute type name found; valid types: {sorted(TAGS)}")

    return check
