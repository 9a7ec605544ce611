"""The undisturbed end and that of a schedule side by side: no more than what differs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from flowguard.testing.explorer.checks.problem import EQUIVALENCE, Problem

_OF_ENDS: Final = frozenset({EQUIVALENCE, "I14", "I20"})
"""The rules whose problems say how an end differs from an undisturbed one."""

_WIDEST: Final = 36
_BEFORE: Final = 8


class Side(NamedTuple):
    """One thing that differs. None stands for what is not there."""

    what: str
    undisturbed: Any
    here: Any


def sides(problems: Sequence[Problem]) -> list[Side]:
    """Return what differs between two ends. Of two bodies of a message each field that differs is one thing."""
    return [side for problem in problems if is_of_ends(problem) for side in _of_problem(problem)]


def is_of_ends(problem: Problem) -> bool:
    """Answer whether a problem is that an end differs from an undisturbed one."""
    return problem.rule in _OF_ENDS and (problem.expected, problem.found) != (None, None)


def shown_sides(rows: Sequence[Side]) -> list[str]:
    """Format two columns, with a line of heads."""
    texts = [(row.what, *_short(_text(row.undisturbed), _text(row.here))) for row in rows]
    lines = [("", "undisturbed", "this schedule"), *texts]
    widths = [max(len(line[column]) for line in lines) for column in (0, 1)]
    return [f"{what:{widths[0]}}  {left:{widths[1]}}  {right}".rstrip() for what, left, right in lines]


def _of_problem(problem: Problem) -> Iterator[Side]:
    what = f"{problem.where}, {problem.text}"
    left, right = _fields(problem.expected), _fields(problem.found)
    if left is None or right is None:
        yield Side(what, problem.expected, problem.found)
        return
    for name in sorted(left.keys() | right.keys()):
        if left.get(name) != right.get(name):
            yield Side(f"{what}: {name}", left.get(name), right.get(name))


def _fields(value: Any) -> dict[str, Any] | None:
    """Return the fields of the body of a message. None for what is no object as JSON."""
    try:
        body = json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _text(value: Any) -> str:
    return "nothing" if value is None else str(value)


def _short(left: str, right: str) -> tuple[str, str]:
    """Return two texts that fit into columns. Longer ones begin a little before the first place where they differ."""
    if max(len(left), len(right)) <= _WIDEST:
        return left, right
    same = next((place for place, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), 0)
    since = max(0, same - _BEFORE)
    return _cut(left, since), _cut(right, since)


def _cut(text: str, since: int) -> str:
    text = f"…{text[since + 1 :]}" if 0 < since < len(text) else text
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
