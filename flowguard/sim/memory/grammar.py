"""The parts of all expressions.

They are tokens, operands, and the names and values that are given beside the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from flowguard.sim.limits.fault import Fault, invalid
from flowguard.sim.limits.items import LONGEST_EXPRESSION, MOST_OPERATORS
from flowguard.sim.limits.texts import byte_size
from flowguard.sim.memory import paths
from flowguard.sim.memory.paths import Path
from flowguard.sim.memory.reserved import RESERVED
from flowguard.sim.memory.values import Item, Value, length, tag_of

Values: TypeAlias = Mapping[str, Value]
"""The values of a call by their placeholders, colon included."""

Names: TypeAlias = tuple[tuple[str, str], ...]
"""Placeholders of names and what they stand for: part of what an expression is parsed from."""

Read: TypeAlias = Callable[[Item, Values], Value | None]
Check: TypeAlias = Callable[[Values], None]
"""Refuses values that do not fit their places, whatever the item holds."""

_TOKEN = re.compile(r"\s*(?:([#:]?[A-Za-z_0-9][A-Za-z0-9_]*)|(<>|<=|>=|[=<>(),.\[\]+\-]))")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

KEYWORDS: Final = frozenset({"AND", "OR", "NOT", "BETWEEN", "IN", "SET", "REMOVE", "ADD", "DELETE"})

_OPERATORS: Final = frozenset({"AND", "OR", "NOT", "BETWEEN", "IN", "=", "<>", "<", "<=", ">", ">=", "+", "-"})


@dataclass(frozen=True, slots=True)
class At:
    """What the item holds at a path."""

    path: Path


@dataclass(frozen=True, slots=True)
class Given:
    """A value given beside the expression."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function of operands."""

    function: str
    operands: tuple[Operand, ...]


Operand: TypeAlias = At | Given | Call


class Reader:
    """Reads a text token by token and notes the placeholders in it. ``kind`` is the parameter's name."""

    def __init__(self, kind: str, text: str, names: Names) -> None:
        self.kind = kind
        self.names_used: set[str] = set()
        self.values_used: set[str] = set()
        self.attributes: set[str] = set()
        self._names = dict(names)
        if byte_size(text) > LONGEST_EXPRESSION:
            raise self.wrong(
                f"Expression size has exceeded the maximum allowed size; expression size: {byte_size(text)}"
            )
        self._tokens = self._split(text)
        self._place = 0
        if not self._tokens:
            raise self.wrong("The expression can not be empty;")

    def wrong(self, problem: str) -> Fault:
        return invalid(f"Invalid {self.kind}: {problem}")

    def _split(self, text: str) -> list[str]:
        tokens, place, text = [], 0, text.rstrip()
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise self.wrong(f'Syntax error; token: "{text[place:].strip()[:1]}"')
            tokens.append(match.group(1) or match.group(2))
            place = match.end()
        return tokens

    def next(self, ahead: int = 0) -> str:
        """Return the coming token, or an empty text at the end."""
        place = self._place + ahead
        return self._tokens[place] if place < len(self._tokens) else ""

    def take(self) -> str:
        token = self.next()
        self._place += 1
        return token

    def takes(self, token: str) -> bool:
        """Skip this token if it comes next, and answer whether it did. Keywords may be written in any case."""
        if self.next().upper() != token:
            return False
        self._place += 1
        return True

    def expect(self, token: str) -> None:
        if not self.takes(token):
            raise self.unexpected()

    def unexpected(self) -> Fault:
        return self.wrong(f'Syntax error; token: "{self.next() or "<EOF>"}"')

    def end(self) -> None:
        if self.next():
            raise self.unexpected()
        if (operators := self._operators()) > MOST_OPERATORS:
            raise self.wrong(f"The expression contains too many operators; operator count: {operators}")

    def _operators(self) -> int:
        """Count operators and functions. The ``AND`` of a ``BETWEEN`` is none, nor is the ``=`` of a ``SET``."""
        words = [token.upper() for token in self._tokens]
        functions = sum(token in FUNCTIONS and after == "(" for token, after in pairwise(self._tokens))
        counted = _OPERATORS - {"="} if self.kind == "UpdateExpression" else _OPERATORS
        return functions + sum(word in counted for word in words) - words.count("BETWEEN")

    # -- operands

    def operand(self, functions: Mapping[str, int]) -> Operand:
        """Read a path, a given value or a function call.

        ``functions`` are those that may be called, with their number of operands.
        """
        token = self.next()
        if token.startswith(":"):
            return self.given()
        if self.takes("("):
            return self._grouped(functions)
        if self.next(1) == "(" and _NAME.fullmatch(token) and token.upper() not in KEYWORDS:
            return self.call(functions)
        return At(self.path())

    def _grouped(self, functions: Mapping[str, int]) -> Operand:
        if self.next() == "(":
            raise self.redundant()
        operand = self.operand(functions)
        self.expect(")")
        return operand

    def redundant(self) -> Fault:
        return self.wrong("The expression has redundant parentheses;")

    def call(self, functions: Mapping[str, int]) -> Call:
        function = self.take()
        self.expect("(")
        operands = [self.operand(functions)]
        while self.takes(","):
            operands.append(self.operand(functions))
        self.expect(")")
        if function not in FUNCTIONS:
            raise self.wrong(f"Invalid function name; function: {function}")
        if function not in functions:
            raise self.wrong(f"The function is not allowed to be used this way in an expression; function: {function}")
        if len(operands) != functions[function]:
            raise self.wrong(
                "Incorrect number of operands for operator or function; "
                f"operator or function: {function}, number of operands: {len(operands)}"
            )
        return Call(function, tuple(operands))

    def given(self) -> Given:
        if not self.next().startswith(":"):
            raise self.unexpected()
        name = self.take()
        self.values_used.add(name)
        return Given(name)

    def path(self) -> Path:
        parts: list[str | int] = [self._name()]
        self.attributes.add(str(parts[0]))
        while self.next() in (".", "["):
            if self.take() == ".":
                parts.append(self._name())
            else:
                if not self.next().isdecimal():
                    raise self.unexpected()
                parts.append(int(self.take()))
                self.expect("]")
        return tuple(parts)

    def _name(self) -> str:
        token = self.next()
        if token.startswith("#"):
            if token not in self._names:
                raise self.wrong(
                    f"An expression attribute name used in the document path is not defined; attribute name: {token}"
                )
            self.names_used.add(token)
            return self._names[self.take()]
        if not _NAME.fullmatch(token) or token.upper() in KEYWORDS:
            raise self.unexpected()
        if token.upper() in RESERVED:
            raise self.wrong(f"Attribute name is a reserved keyword; reserved keyword: {token}")
        return self.take()


FUNCTIONS: Final = frozenset(
    {
        "attribute_exists",
        "attribute_not_exists",
        "attribute_type",
        "begins_with",
        "contains",
        "size",
        "if_not_exists",
        "list_append",
    }
)


def reading(operand: At | Given) -> Read:
    """Return the function that reads the operand's value from an item and the given values."""
    match operand:
        case Given(name):
            return lambda item, values: values[name]
        case At((str(name),)):
            return lambda item, values: item.get(name)
        case At(path):
            return lambda item, values: paths.found(item, path)


def size_of(read: Read) -> Read:
    def size(item: Item, values: Values) -> Value | None:
        count = length(read(item, values))
        return None if count is None else {"N": str(count)}

    return size


_RESULTS: Final = {"size": "N", "list_append": "L"}
"""The functions whose answers have one type, whatever the item holds."""


def only(operand: Operand, tags: frozenset[str], where: str, kind: str) -> list[Check]:
    """Return the checks that an operand's type is one of these.

    Only a given value needs one. The type of a function's result is checked at once.
    """

    def wrong(tag: str) -> Fault:
        return invalid(
            f"Invalid {kind}: Incorrect operand type for operator or function; "
            f"operator or function: {where}, operand type: {tag}"
        )

    def check(values: Values) -> None:
        if isinstance(operand, Given) and (tag := tag_of(values[operand.name])) not in tags:
            raise wrong(tag)

    if isinstance(operand, Call):
        result = _RESULTS.get(operand.function)
        if result is not None and result not in tags:
            raise wrong(result)
    return [check] if isinstance(operand, Given) else []
