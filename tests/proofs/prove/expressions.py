"""The mutants of DynamoDB's expressions: their text is read, and loses one condition or one action at a time.

::

    a = :a AND (b < :b OR c = :c)
    ──────                          true:     (a = :a OR NOT a = :a) AND (…)
                b < :b              false:    … ((b < :b AND NOT b < :b) OR c = :c)
                b < :b              flipped:  b <= :b
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_MARK = re.compile(r"\x01(\d+)\x02")
_TOKEN = re.compile(r"[#:]?[A-Za-z_0-9.#]+|<>|<=|>=|[=<>(),+\-]")
_FLIPPED: Final = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_CLAUSE = re.compile(r"\b(SET|REMOVE|ADD|DELETE)\b")


@dataclass(frozen=True)
class Text:
    """An expression without its marks, and for each character the line of the source that it stands in."""

    text: str
    lines: Sequence[int]

    @classmethod
    def marked(cls, marked: str) -> Text:
        parts = _MARK.split(marked)
        text, line = "", 0
        lines: list[int] = []
        for place, part in enumerate(parts):
            if place % 2:
                line = int(part)
            else:
                text, lines = text + part, [*lines, *[line] * len(part)]
        return cls(text, lines)


@dataclass(frozen=True)
class Loss:
    """The expression after it lost something. ``guard`` is what it lost, ``line`` where that stood."""

    guard: str
    change: str
    line: int
    after: str


@dataclass(frozen=True)
class _Token:
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class _Part:
    """``parts`` are the operands of an AND or OR; anything else is one condition."""

    operator: str
    start: int
    end: int
    parts: tuple[_Part, ...] = ()


def condition_losses(whole: Text) -> Iterator[Loss]:
    """Each operand of each AND true, of each OR false; each order strict where it was not, and the other way round."""
    text = whole.text
    parser = _Parser(text)
    for node in _nodes(parser.either()):
        for part in node.parts:
            own = text[part.start : part.end]
            operator, change = ("OR", "true") if node.operator == "AND" else ("AND", "false")
            after = f"{text[: part.start]}({own} {operator} NOT {own}){text[part.end :]}"
            yield Loss(own, change, whole.lines[part.start], after)
    for token in parser.tokens:
        if token.text in _FLIPPED:
            flipped = _FLIPPED[token.text]
            after = text[: token.start] + flipped + text[token.end :]
            before, behind = parser.beside(token)
            own = f"{before} {token.text} {behind}"
            yield Loss(own, f"becomes {before} {flipped} {behind}", whole.lines[token.start], after)


def comparisons(text: str) -> list[str]:
    """Return the single comparisons of a condition, as they are and flipped: on these each of its mutants depends."""
    parser = _Parser(text)
    found: list[str] = []
    for one in _nodes(parser.either()):
        if not one.parts:
            own = text[one.start : one.end]
            found.append(own)
            for token in parser.tokens:
                if token.text in _FLIPPED and one.start <= token.start < one.end:
                    found.append(own[: token.start - one.start] + _FLIPPED[token.text] + own[token.end - one.start :])
    return list(dict.fromkeys(found))


def update_losses(whole: Text) -> Iterator[Loss]:
    """Each action left out; each number that is added left out."""
    clauses = list(_clauses(whole.text))
    for clause, (keyword, actions) in enumerate(clauses):
        for place, (action, start) in enumerate(actions):
            rest = [*actions[:place], *actions[place + 1 :]]
            line = whole.lines[start]
            if rest or len(clauses) > 1:
                yield Loss(f"{keyword} {action}", "left out", line, _joined(clauses, clause, keyword, rest))
            plain, plus, _ = action.partition(" + ")
            if plus:
                less = [*actions[:place], (plain, start), *actions[place + 1 :]]
                yield Loss(f"{keyword} {action}", f"becomes {plain}", line, _joined(clauses, clause, keyword, less))


def is_update(text: str) -> bool:
    return re.match(r"(SET|REMOVE|ADD|DELETE) \S", text) is not None


def marked_constants(path: str) -> dict[str, Any]:
    """What a module of constants defines, its texts with marks of their lines."""
    tree = ast.parse(Path(path).read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for constant in ast.walk(node.value):
                if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                    constant.value = f"\x01{constant.lineno}\x02{constant.value}"
    found: dict[str, Any] = {}
    exec(compile(tree, path, "exec"), found)  # noqa: S102 - the module itself, read from its own file
    return found


# -- reading conditions ------------------------------------------------------------------------------------------------


class _Parser:
    """By descent, as DynamoDB binds: OR least, then AND, then NOT."""

    def __init__(self, text: str) -> None:
        self.tokens = [_Token(found[0], found.start(), found.end()) for found in _TOKEN.finditer(text)]
        self._place = 0

    def beside(self, token: _Token) -> tuple[str, str]:
        place = self.tokens.index(token)
        return self.tokens[place - 1].text, self.tokens[place + 1].text

    def either(self) -> _Part:
        return self._several("OR", self._both)

    def _both(self) -> _Part:
        return self._several("AND", self._one)

    def _several(self, operator: str, part: Any) -> _Part:
        parts = [part()]
        while self._next() == operator:
            self._place += 1
            parts.append(part())
        if len(parts) == 1:
            only: _Part = parts[0]
            return only
        return _Part(operator, parts[0].start, parts[-1].end, tuple(parts))

    def _one(self) -> _Part:
        first = self.tokens[self._place]
        if first.text == "NOT":
            self._place += 1
            inner = self._one()
            return _Part("NOT", first.start, inner.end, ())
        if first.text == "(":
            self._place += 1
            inside = self.either()
            end = self.tokens[self._place].end
            self._place += 1
            return _Part(inside.operator, first.start, end, inside.parts)
        return self._plain(first)

    def _plain(self, first: _Token) -> _Part:
        """A comparison or a function: whatever comes before the next AND, OR or closing parenthesis."""
        depth = 0
        while self._next() and not (depth == 0 and self._next() in {"AND", "OR", ")"}):
            depth += {"(": 1, ")": -1}.get(self._next(), 0)
            self._place += 1
        return _Part("", first.start, self.tokens[self._place - 1].end)

    def _next(self) -> str:
        return self.tokens[self._place].text if self._place < len(self.tokens) else ""


def _nodes(part: _Part) -> Iterator[_Part]:
    yield part
    for one in part.parts:
        yield from _nodes(one)


# -- reading updates ---------------------------------------------------------------------------------------------------

_Actions = list[tuple[str, int]]


def _clauses(text: str) -> Iterator[tuple[str, _Actions]]:
    """``SET a = :a, b = :b`` as its word, and the actions with their places."""
    found = list(_CLAUSE.finditer(text))
    ends = [*(one.start() for one in found[1:]), len(text)]
    for clause, end in zip(found, ends, strict=True):
        yield clause[1], list(_actions(text, clause.end(), end))


def _actions(text: str, start: int, end: int) -> Iterator[tuple[str, int]]:
    depth, begun = 0, start
    for place in range(start, end + 1):
        here = text[place] if place < end else ","
        depth += {"(": 1, ")": -1}.get(here, 0)
        if here == "," and depth == 0:
            action = text[begun:place]
            yield action.strip(), begun + len(action) - len(action.lstrip())
            begun = place + 1


def _joined(clauses: Sequence[tuple[str, _Actions]], changed: int, keyword: str, actions: _Actions) -> str:
    new = [(keyword, actions) if place == changed else one for place, one in enumerate(clauses)]
    return " ".join(f"{word} {', '.join(action for action, _ in several)}" for word, several in new if several)
