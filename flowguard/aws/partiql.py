"""The writes of run items as PartiQL statements, made from their expressions.

``BatchExecuteStatement`` takes 25 statements in one request and no expressions. So that the protocol's conditions stand
in one place, a statement is translated from the very call of ``UpdateItem`` that it stands for: nothing here knows what
a claim or a commit compares. What PartiQL cannot say raises :class:`Unsayable`, and is written by that call instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from flowguard.aws.expressions import ABSENT, ALWAYS_THERE
from flowguard.startup.named_tuple import NamedTuple

LONGEST_STATEMENT: Final = 8_192
"""Characters of a statement that DynamoDB takes."""

_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,255}", re.ASCII)
_SAFE_TABLE: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}", re.ASCII)

_TOKEN: Final = re.compile(r":\w+|#?\w+(?:\.#?\w+)*|<>|<=|>=|[-+=<>(),]", re.ASCII)
_KEYWORDS: Final = frozenset({"AND", "OR", "NOT"})
_MISSING: Final = {"attribute_exists": "IS NOT MISSING", "attribute_not_exists": "IS MISSING"}
_FUNCTION: Final = re.compile(r"(\w+)\(", re.ASCII)
_FUNCTIONS: Final = frozenset({*_MISSING, "size"})
_SECTION: Final = re.compile(r"\b(SET|REMOVE|ADD|DELETE) ")
_AMONG: Final = re.compile(r"(?P<path>[\w#.]+) IN \((?P<values>[^)]+)\)", re.ASCII)
_SUM: Final = re.compile(r"if_not_exists\((?P<path>[\w#.]+), (?P<start>:\w+)\)(?: \+ (?P<more>:\w+))?", re.ASCII)


class Unsayable(Exception):
    """PartiQL has no statement for the write."""


class _Text(NamedTuple):
    """A part of a statement. ``values`` names its parameters in order."""

    text: str
    values: tuple[str, ...]


class Parsed(NamedTuple):
    """The assignments and removals of an update expression, as text."""

    assigned: tuple[tuple[str, str], ...]
    removed: tuple[str, ...]


def update_statement(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statement of a batch that writes what the call of UpdateItem would, where the item is there.

    Where there is none, it fails as a condition does, without an item. A failed condition brings the item.
    """
    values, key = call["ExpressionAttributeValues"], call["Key"]
    names = tuple(call["ExpressionAttributeNames"].items())
    returns = call.get("ReturnValues") == "ALL_OLD"
    expressions = (call["UpdateExpression"], call["ConditionExpression"])
    statement = _updating(call["TableName"], *expressions, names, tuple(key), returns)
    parameters = [values[name] if name in values else key[name] for name in statement.values]
    return {"Statement": statement.text, "Parameters": parameters, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


@lru_cache(maxsize=512)
def _updating(
    table: str, update: str, condition: str, names: tuple[tuple[str, str], ...], key: tuple[str, ...], returns: bool
) -> _Text:
    change, holds, meant = _update_text(update), _condition_text(condition), dict(names)
    where = " AND ".join([*(f'"{name}" = ?' for name in key), f"({holds.text})"])
    text = f'UPDATE "{_table(table)}" {_named(change.text, meant)} WHERE {_named(where, meant)}'
    return _short(_Text(f"{text} RETURNING ALL OLD *" if returns else text, (*change.values, *key, *holds.values)))


def insert_statement(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statement of a batch that writes what the call of UpdateItem would, where no item is there.

    Where there is one, its code is DuplicateItem, and nothing is written.
    """
    key, values = call["Key"], call["ExpressionAttributeValues"]
    names = tuple(call["ExpressionAttributeNames"].items())
    statement = _inserting(call["TableName"], call["UpdateExpression"], names, tuple(key))
    begun = [
        values[start] if more is None else _sum(values[start], values[more])
        for _, start, more in _begun(call["UpdateExpression"])
    ]
    return {"Statement": statement.text, "Parameters": [*key.values(), *begun]}


@lru_cache(maxsize=512)
def _inserting(table: str, update: str, names: tuple[tuple[str, str], ...], key: tuple[str, ...]) -> _Text:
    meant = dict(names)
    attributes = (*key, *(meant.get(name, name) for name, _, _ in _begun(update)))
    for name in attributes:
        _check_name(name)
    entries = ", ".join(f"'{name}': ?" for name in attributes)
    return _short(_Text(f'INSERT INTO "{_table(table)}" VALUE {{{entries}}}', attributes))


def _short(statement: _Text) -> _Text:
    if len(statement.text) > LONGEST_STATEMENT:
        raise Unsayable(f"the statement has {len(statement.text):,} characters")
    return statement


def _table(name: str) -> str:
    if not _SAFE_TABLE.fullmatch(name):
        raise Unsayable("the table is not given by a plain name")
    return name


def _check_name(name: str) -> None:
    """Check that the name can be quoted. One may come from a message, so that none with a quote in it gets by."""
    if not _SAFE_NAME.fullmatch(name):
        raise Unsayable("an attribute has a name that would have to be escaped")


def _named(text: str, names: Mapping[str, str]) -> str:
    """Return the text with the attributes' own names for their placeholders."""
    for placeholder, name in names.items():
        if (quoted := f'"{placeholder}"') in text:
            _check_name(name)
            text = text.replace(quoted, f'"{name}"')
    return text


# -- updates


@lru_cache(maxsize=512)
def parsed(update: str) -> Parsed:
    """Read an update expression."""
    assigned: list[tuple[str, str]] = []
    removed: list[str] = []
    _, *parts = _SECTION.split(update)
    for section, text in zip(parts[::2], parts[1::2], strict=True):
        if section == "SET":
            assigned += [
                (name, value) for name, _, value in (assignment.partition(" = ") for assignment in _split(text))
            ]
        elif section == "REMOVE":
            removed += _split(text)
        else:
            raise Unsayable(f"{section} has no equal")
    return Parsed(tuple(assigned), tuple(removed))


def _split(text: str) -> Iterator[str]:
    """Yield what stands between the commas that no parenthesis holds."""
    depth = start = 0
    for place, sign in enumerate(text):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    yield text[start:].strip()


@lru_cache(maxsize=512)
def _update_text(update: str) -> _Text:
    actions = parsed(update)
    values: list[str] = []
    parts = [f"SET {_path(name)} = {_assigned(value, values)}" for name, value in actions.assigned]
    parts += [f"REMOVE {_path(name)}" for name in actions.removed]
    return _Text(" ".join(parts), tuple(values))


def _assigned(value: str, values: list[str]) -> str:
    """Return what SET assigns to an item that is there."""
    if (match := _SUM.fullmatch(value)) is None:
        if not value.startswith(":"):
            raise Unsayable(f"an assignment of {value}")
        values.append(value)
        return "?"
    if match["path"] not in ALWAYS_THERE or match["more"] is None:
        raise Unsayable("a value for where the attribute is missing")
    values.append(match["more"])
    return f"{_path(match['path'])} + ?"


@lru_cache(maxsize=512)
def _begun(update: str) -> tuple[tuple[str, str, str | None], ...]:
    """Return what SET assigns where there is no item. Each entry names an attribute, its value, and what is added."""
    begun: list[tuple[str, str, str | None]] = []
    for name, value in parsed(update).assigned:
        match = _SUM.fullmatch(value)
        begun.append((name, value, None) if match is None else (name, match["start"], match["more"]))
    return tuple(begun)


def _sum(first: Any, other: Any) -> Any:
    return {"N": str(int(first["N"]) + int(other["N"]))}


# -- conditions


@lru_cache(maxsize=64)
def _condition_text(condition: str) -> _Text:
    """Translate a condition on an item that is there."""
    values: list[str] = []
    if unknown := set(_FUNCTION.findall(condition)) - _FUNCTIONS:
        raise Unsayable(f"the function {min(unknown)}")
    tokens = _TOKEN.findall(_AMONG.sub(_either, condition.removeprefix(f"{ABSENT} OR ")))
    return _Text(" ".join(_translated(iter(tokens), values)), tuple(values))


def _translated(tokens: Iterator[str], values: list[str]) -> Iterator[str]:
    for part in tokens:
        if part.startswith(":"):
            values.append(part)
            yield "?"
        elif part in _MISSING:
            yield f"{_path(_argument(tokens))} {_MISSING[part]}"
        elif part == "size":
            yield f"size({_path(_argument(tokens))})"
        elif part in _KEYWORDS or not (part[0].isalpha() or part[0] == "#"):
            yield part
        else:
            yield _path(part)


def _either(match: re.Match[str]) -> str:
    """Return the comparison with each of a list."""
    equals = [f"{match['path']} = {value.strip()}" for value in match["values"].split(",")]
    return f"({' OR '.join(equals)})"


def _argument(tokens: Iterator[str]) -> str:
    """Take the one argument of a function with its parentheses."""
    _, argument, _ = next(tokens), next(tokens), next(tokens)
    return argument


def _path(path: str) -> str:
    return ".".join(f'"{part}"' for part in path.split("."))
