"""The expressions of one DynamoDB call, bound to the names and values that come with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol

from flowguard.sim.limits.fault import invalid
from flowguard.sim.limits.items import check_text
from flowguard.sim.memory.conditions import ConditionExpression, condition
from flowguard.sim.memory.grammar import Check, Names, Reader, Values
from flowguard.sim.memory.keys import KeyCondition, key_condition
from flowguard.sim.memory.paths import Path, meeting
from flowguard.sim.memory.updates import UpdateExpression, update
from flowguard.sim.memory.values import Item, stored

Params = Mapping[str, Any]


class _Parsed(Protocol):
    @property
    def checks(self) -> tuple[Check, ...]: ...
    @property
    def names(self) -> frozenset[str]: ...
    @property
    def values(self) -> frozenset[str]: ...


@dataclass(frozen=True, slots=True)
class Projection:
    paths: tuple[Path, ...]
    names: frozenset[str]
    checks: tuple[Check, ...] = ()
    values: frozenset[str] = frozenset()


@lru_cache(maxsize=1024)
def projection(kind: str, text: str, names: Names) -> Projection:
    reader = Reader(kind, text, names)
    paths = [reader.path()]
    while reader.takes(","):
        paths.append(reader.path())
    reader.end()
    if problem := meeting(paths):
        raise reader.wrong(problem)
    return Projection(tuple(paths), frozenset(reader.names_used))


_PARSERS: Final[Mapping[str, Callable[[str, str, Names], _Parsed]]] = {
    "ConditionExpression": condition,
    "UpdateExpression": update,
    "KeyConditionExpression": key_condition,
    "FilterExpression": condition,
    "ProjectionExpression": projection,
}


@dataclass(frozen=True, slots=True)
class Bound:
    """The expressions and values of one call. ``values`` are in normal form."""

    values: Values
    condition: ConditionExpression | None
    update: UpdateExpression | None
    key: KeyCondition | None
    filter: ConditionExpression | None
    projection: Projection | None

    def holds(self, item: Item | None) -> bool:
        """Answer whether the condition holds for the item, or for its absence."""
        return self.condition is None or self.condition.holds(item or {}, self.values)


def bind(params: Params) -> Bound:
    """Parse a call's expressions and check their values.

    Raises a ValidationException for all that is wrong before any item has been looked at.
    """
    names: Mapping[str, str] = params.get("ExpressionAttributeNames", {})
    values = {name: stored(value) for name, value in params.get("ExpressionAttributeValues", {}).items()}
    frozen = tuple((name, check_text(meant)) for name, meant in names.items())
    parsed: dict[str, Any] = {
        kind: parse(kind, params[kind], frozen) for kind, parse in _PARSERS.items() if params.get(kind) is not None
    }
    _all_used(
        "ExpressionAttributeNames",
        params,
        frozenset[str]().union(*(expression.names for expression in parsed.values())),
    )
    used = frozenset[str]().union(*(expression.values for expression in parsed.values()))
    if missing := used - values.keys():
        raise invalid(
            "Invalid expression: An expression attribute value used in expression is not defined; "
            f"attribute value: {min(missing)}"
        )
    _all_used("ExpressionAttributeValues", params, used)
    for expression in parsed.values():
        for check in expression.checks:
            check(values)
    return Bound(
        values,
        parsed.get("ConditionExpression"),
        parsed.get("UpdateExpression"),
        parsed.get("KeyConditionExpression"),
        parsed.get("FilterExpression"),
        parsed.get("ProjectionExpression"),
    )


def _all_used(kind: str, params: Params, used: frozenset[str]) -> None:
    if kind not in params:
        return
    if not params[kind]:
        raise invalid(f"{kind} must not be empty")
    if unused := params[kind].keys() - used:
        raise invalid(f"Value provided in {kind} unused in expressions: keys: {{{', '.join(sorted(unused))}}}")
