"""Writes to the user's own tables. A handler records them; they are applied with its commit, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

MOST_WRITES = 99
"""A DynamoDB transaction holds a hundred actions; one of them is the run item's own."""


class Condition(NamedTuple):
    """A condition as DynamoDB writes it, with its ``#names`` and ``:values``."""

    expression: str
    names: Mapping[str, str] = {}
    values: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Put:
    """The whole item is written."""

    table: str
    item: Mapping[str, Any]
    condition: Condition | None = None


class Update(NamedTuple):
    """The item under ``key`` is changed by an update expression; an accumulating one is applied exactly once."""

    table: str
    key: Mapping[str, Any]
    change: Condition
    condition: Condition | None = None


@dataclass(frozen=True)
class Delete:
    """The item under ``key`` is removed."""

    table: str
    key: Mapping[str, Any]
    condition: Condition | None = None


Write = Put | Update | Delete
