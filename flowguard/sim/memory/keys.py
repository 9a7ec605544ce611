"""The keys by which a table or index is ordered, and the key conditions of a Query."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from flowguard.sim.limits.fault import Fault, invalid
from flowguard.sim.limits.items import check_key_size
from flowguard.sim.memory.comparing import begins, upper_not_below
from flowguard.sim.memory.grammar import Check, Given, Names, Reader, Values, only
from flowguard.sim.memory.values import ORDERED, Item, Value, order, stored_item, tag_of, weight

Key: TypeAlias = tuple[Any, ...]
"""The contents of the key attributes, the partition's first."""


class WrongKeyType(Fault):
    """A key attribute has another type than the table's. A transaction is cancelled for it."""

    def __init__(self, message: str) -> None:
        super().__init__("ValidationException", message)


@dataclass(frozen=True, slots=True)
class Schema:
    """The key attributes of a table or index with their types. The partition's comes first."""

    types: tuple[tuple[str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.types)

    def given(self, key: Mapping[str, Any]) -> Item:
        """Read a ``Key`` parameter. It has to have these attributes and nothing else."""
        item = stored_item(key)
        if item.keys() != {name for name, _ in self.types}:
            raise invalid("The provided key element does not match the schema")
        if any(kind not in item[name] for name, kind in self.types):
            raise invalid("The provided key element does not match the schema")
        self._refuse_empty(item)
        return item

    def of(self, item: Item) -> Key:
        return tuple(item[name][kind] for name, kind in self.types)

    def check(self, item: Item) -> None:
        """Check that an item to be put has a usable key."""
        for name, kind in self.types:
            if name not in item:
                raise invalid(f"One or more parameter values were invalid: Missing the key {name} in the item")
            if kind not in item[name]:
                raise WrongKeyType(
                    f"One or more parameter values were invalid: Type mismatch for key {name} "
                    f"expected: {kind} actual: {tag_of(item[name])}"
                )
        self._refuse_empty(item)

    def has(self, item: Item) -> bool:
        """Answer whether an index over these attributes holds the item."""
        return all(kind in item.get(name, {}) for name, kind in self.types)

    def _refuse_empty(self, item: Item) -> None:
        for name, kind in self.types:
            if not item[name][kind]:
                raise invalid(
                    "One or more parameter values are not valid. The AttributeValue for a key attribute "
                    f"cannot contain an empty string value. Key: {name}"
                )

    def check_sizes(self, item: Item) -> None:
        """Check that the key attributes are no larger than keys may be. An index may lack some of them."""
        for place, (name, kind) in enumerate(self.types):
            if kind in item.get(name, {}):
                check_key_size(weight(item[name]), place)

    def order(self, item: Item) -> tuple[Any, ...]:
        return tuple(order(item[name]) for name, _ in self.types)


_TEXTS: Final = frozenset({"S", "B"})
_SIGNS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class KeyTest:
    """One comparison of a key attribute with given values."""

    attribute: str
    sign: str
    given: tuple[str, ...]

    def holds(self, value: Value, values: Values) -> bool:
        ordered, others = order(value), [values[name] for name in self.given]
        if any(tag_of(other) not in value for other in others):
            raise invalid(
                "One or more parameter values were invalid: Condition parameter type does not match schema type"
            )
        if self.sign == "begins_with":
            return begins(value, others[0])
        if self.sign == "BETWEEN":
            return bool(order(others[0]) <= ordered <= order(others[1]))
        return _SIGNS[self.sign](ordered, order(others[0]))


@dataclass(frozen=True, slots=True)
class KeyCondition:
    tests: tuple[KeyTest, ...]
    checks: tuple[Check, ...]
    names: frozenset[str]
    values: frozenset[str]

    def fits(self, schema: Schema) -> None:
        """Check that the condition fits the schema.

        It needs one equality on the partition's key, and may have one comparison of the sort key.
        """
        by_name = {test.attribute: test for test in self.tests}
        if len(by_name) < len(self.tests):
            raise invalid("KeyConditionExpressions must only contain one condition per key")
        partition = schema.names[0]
        if partition not in by_name:
            raise invalid(f"Query condition missed key schema element: {partition}")
        if by_name[partition].sign != "=":
            raise invalid("Query key condition not supported")
        if others := by_name.keys() - set(schema.names):
            missed = schema.names[1] if len(schema.names) > 1 else min(others)
            raise invalid(f"Query condition missed key schema element: {missed}")

    def holds(self, item: Item, values: Values) -> bool:
        return all(test.holds(item[test.attribute], values) for test in self.tests)


@lru_cache(maxsize=1024)
def key_condition(kind: str, text: str, names: Names) -> KeyCondition:
    reader = Reader(kind, text, names)
    tests = _conjunction(reader)
    reader.end()
    if len(tests) > 2:
        raise reader.wrong("Conditions can be of length 1 or 2 only")
    checks: list[Check] = []
    for test in tests:
        for name in test.given:
            checks += only(Given(name), _TEXTS if test.sign == "begins_with" else ORDERED, test.sign, kind)
        if test.sign == "BETWEEN":
            low, high = test.given
            checks.append(upper_not_below(low, high, kind))
    return KeyCondition(tuple(tests), tuple(checks), frozenset(reader.names_used), frozenset(reader.values_used))


def _conjunction(reader: Reader) -> list[KeyTest]:
    tests = _test(reader)
    while reader.takes("AND"):
        tests += _test(reader)
    return tests


def _test(reader: Reader) -> list[KeyTest]:
    if reader.takes("("):
        tests = _conjunction(reader)
        reader.expect(")")
        return tests
    if reader.next() == "begins_with" and reader.next(1) == "(":
        reader.take()
        reader.take()
        attribute = _attribute(reader)
        reader.expect(",")
        given = reader.given().name
        reader.expect(")")
        return [KeyTest(attribute, "begins_with", (given,))]
    attribute = _attribute(reader)
    if reader.takes("BETWEEN"):
        low = reader.given().name
        reader.expect("AND")
        return [KeyTest(attribute, "BETWEEN", (low, reader.given().name))]
    if reader.next() not in _SIGNS:
        raise reader.wrong(f"Invalid operator used in KeyConditionExpression: {reader.next()}")
    return [KeyTest(attribute, reader.take(), (reader.given().name,))]


def _attribute(reader: Reader) -> str:
    path = reader.path()
    if len(path) != 1:
        raise reader.wrong("KeyConditionExpressions cannot have conditions on nested attributes")
    return str(path[0])
