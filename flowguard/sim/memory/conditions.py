"""Condition and filter expressions. Each is parsed once for a text and its names into a function of item and values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from flowguard.sim.limits.items import MOST_OPERANDS
from flowguard.sim.memory.comparing import (
    Test,
    begins,
    both,
    contains,
    either,
    equal,
    negated,
    ordered,
    type_name,
    upper_not_below,
)
from flowguard.sim.memory.grammar import (
    At,
    Call,
    Check,
    Given,
    Names,
    Operand,
    Read,
    Reader,
    only,
    reading,
    size_of,
)
from flowguard.sim.memory.values import ORDERED, SETS

_SIZED: Final = frozenset({"S", "B", "M", "L"}) | SETS
_TEXTS: Final = frozenset({"S", "B"})
_OPERANDS: Final = {"size": 1}
_PREDICATES: Final = {
    "attribute_exists": 1,
    "attribute_not_exists": 1,
    "attribute_type": 2,
    "begins_with": 2,
    "contains": 2,
}
_ORDERINGS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPARISONS: Final = frozenset({"=", "<>", *_ORDERINGS})


@dataclass(frozen=True, slots=True)
class ConditionExpression:
    """A parsed condition. ``checks`` refuse values of the wrong type; ``names`` and ``values`` are its placeholders."""

    holds: Test
    checks: tuple[Check, ...]
    names: frozenset[str]
    values: frozenset[str]
    attributes: frozenset[str]


@lru_cache(maxsize=4096)
def condition(kind: str, text: str, names: Names) -> ConditionExpression:
    reader = Reader(kind, text, names)
    parser = _ConditionParser(reader)
    holds = parser.test(parser.either())
    reader.end()
    used = map(frozenset[str], (reader.names_used, reader.values_used, reader.attributes))
    return ConditionExpression(holds, tuple(parser.checks), *used)


@dataclass(frozen=True, slots=True)
class _Group:
    """What stood in parentheses."""

    inside: Test | Operand


_Part: TypeAlias = Test | Operand | _Group


class _ConditionParser:
    """A recursive-descent parser. OR binds least, then AND, then NOT.

    A part may be an operand until something compares it.
    """

    def __init__(self, reader: Reader) -> None:
        self.checks: list[Check] = []
        self._reader = reader

    def either(self) -> _Part:
        part = self._both()
        while self._reader.takes("OR"):
            part = either(self.test(part), self.test(self._both()))
        return part

    def _both(self) -> _Part:
        part = self._negated()
        while self._reader.takes("AND"):
            part = both(self.test(part), self.test(self._negated()))
        return part

    def _negated(self) -> _Part:
        if self._reader.takes("NOT"):
            return negated(self.test(self._negated()))
        return self._compared()

    def _compared(self) -> _Part:
        part = self._primary()
        if self._reader.next() in _COMPARISONS:
            return self._comparison(self._operand(part))
        if self._reader.takes("BETWEEN"):
            return self._between(self._operand(part))
        if self._reader.takes("IN"):
            return self._among(self._operand(part))
        return part

    def _primary(self) -> _Part:
        if self._reader.next() == "(":
            self._reader.take()
            inside = self.either()
            self._reader.expect(")")
            if isinstance(inside, _Group):
                raise self._reader.redundant()
            return _Group(inside)
        if self._reader.next() in _PREDICATES and self._reader.next(1) == "(":
            return self._predicate(self._reader.call({**_PREDICATES, **_OPERANDS}))
        return self._reader.operand(_OPERANDS)

    def test(self, part: _Part) -> Test:
        inside = part.inside if isinstance(part, _Group) else part
        if isinstance(inside, At | Given | Call):
            raise self._reader.unexpected()
        return inside

    def _operand(self, part: _Part) -> Operand:
        inside = part.inside if isinstance(part, _Group) else part
        if not isinstance(inside, At | Given | Call):
            raise self._reader.unexpected()
        return inside

    # -- what compares operands

    def _comparison(self, left: Operand) -> Test:
        sign, right = self._reader.take(), self._reader.operand(_OPERANDS)
        self._distinct(sign, left, right)
        if sign in _ORDERINGS:
            self._ordered(sign, left, right)
            return ordered(self._read(left), self._read(right), _ORDERINGS[sign])
        test = equal(self._read(left), self._read(right))
        return test if sign == "=" else negated(test)

    def _between(self, value: Operand) -> Test:
        low = self._reader.operand(_OPERANDS)
        self._reader.expect("AND")
        high = self._reader.operand(_OPERANDS)
        self._distinct("BETWEEN", value, low, high)
        self._ordered("BETWEEN", value, low, high)
        if isinstance(low, Given) and isinstance(high, Given):
            self.checks.append(upper_not_below(low.name, high.name, self._reader.kind))
        read = self._read(value)
        return both(
            ordered(read, self._read(low), operator.ge),
            ordered(read, self._read(high), operator.le),
        )

    def _among(self, value: Operand) -> Test:
        self._reader.expect("(")
        options = [self._reader.operand(_OPERANDS)]
        while self._reader.takes(","):
            options.append(self._reader.operand(_OPERANDS))
        self._reader.expect(")")
        if len(options) > MOST_OPERANDS:
            raise self._reader.wrong(
                f"The IN operator is provided with too many operands; number of operands: {len(options)}"
            )
        self._distinct("IN", value, *options)
        read, reads = self._read(value), [self._read(option) for option in options]
        return lambda item, values: (
            (actual := read(item, values)) is not None and any(actual == option(item, values) for option in reads)
        )

    def _predicate(self, call: Call) -> Test:
        subject, *others = call.operands
        self._distinct(call.function, subject, *others)
        read = self._read(subject)
        match call.function, others:
            case "attribute_exists" | "attribute_not_exists", _:
                if not isinstance(subject, At):
                    raise self._reader.wrong(
                        f"Operator or function requires a document path; operator or function: {call.function}"
                    )
                exists = call.function == "attribute_exists"
                return lambda item, values: (read(item, values) is not None) is exists
            case "attribute_type", [Given(name)]:
                self.checks.append(type_name(name, self._reader.kind))
                return lambda item, values: values[name]["S"] in (read(item, values) or ())
            case "begins_with", [prefix]:
                self.checks += only(subject, _TEXTS, "begins_with", self._reader.kind)
                self.checks += only(prefix, _TEXTS, "begins_with", self._reader.kind)
                start = self._read(prefix)
                return lambda item, values: begins(read(item, values), start(item, values))
            case "contains", [member]:
                inner = self._read(member)
                return lambda item, values: contains(read(item, values), inner(item, values))
            case _:
                raise self._reader.wrong(f"Incorrect operand for operator or function: {call.function}")

    # -- operands

    def _read(self, operand: Operand) -> Read:
        if not isinstance(operand, Call):
            return reading(operand)
        (sized,) = operand.operands
        if isinstance(sized, Call):
            raise self._reader.wrong("Incorrect operand type for operator or function; operator or function: size")
        self.checks += only(sized, _SIZED, "size", self._reader.kind)
        return size_of(reading(sized))

    def _ordered(self, sign: str, *operands: Operand) -> None:
        for operand in operands:
            self.checks += only(operand, ORDERED, sign, self._reader.kind)

    def _distinct(self, function: str, first: Operand, *others: Operand) -> None:
        if isinstance(first, At) and first in others:
            raise self._reader.wrong(
                "The first operand must be distinct from the remaining operands for this operator or function; "
                f"operator: {function}"
            )
