"""Writes to the user's own tables. A handler records them; they are applied with its commit, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flowguard.errors import RunFailed, shown
from flowguard.startup.named_tuple import NamedTuple
from flowguard.startup.value import Value

_MOST_ACTIONS = 100
"""Of a DynamoDB transaction."""

MOST_WRITES = _MOST_ACTIONS - 1
"""The run item's own action is beside them."""


class Condition(NamedTuple):
    """A condition as DynamoDB writes it, with its ``#names`` and ``:values``, and what follows where it does not hold.

    By default the attempt fails, and is tried again. With ``reject`` the run ends FAILED. With ``go_on``, a name, the
    handler runs again without the write, and reads under that name which item refused it. With ``tries`` the handler
    runs again at once, up to so often, and makes the write anew of what it reads then.
    """

    expression: str
    names: Mapping[str, str] = {}
    values: Mapping[str, Any] = {}
    reject: bool = False
    go_on: str | None = None
    tries: int = 0


class Put(Value):
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


class Delete(Value):
    """The item under ``key`` is removed."""

    table: str
    key: Mapping[str, Any]
    condition: Condition | None = None


class Check(NamedTuple):
    """The item under ``key`` stays as it is, and must match the condition when the rest is written."""

    table: str
    key: Mapping[str, Any]
    condition: Condition


Write = Put | Update | Delete | Check


def same_item(writes: Sequence[Write], write: Write) -> Write | None:
    """Return the first of the writes that is to the same item. None where none is, as far as their keys show.

    A put does not say which of its attributes are the key: it is compared by the key of an update or a delete.
    """
    return next(
        (earlier for earlier in writes if earlier.table == write.table and _are_of_one_item(earlier, write)), None
    )


def attribute_names(given: object, option: str, instead: str) -> tuple[str, ...]:
    """Return the names of attributes that an option was given: one as a text, or several.

    Raises :class:`RunFailed` for what names none, with what to write instead.
    """
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, tuple | list) or not all(type(name) is str and name for name in names):
        raise RunFailed(f"{option} is {shown(given)}; write {instead}. Nothing was written")
    return tuple(names)


def key_of(*writes: Write) -> Mapping[str, Any]:
    """Return the key that the first of them that has one names."""
    return next((write.key for write in writes if not isinstance(write, Put)), {})


def verb(write: Write) -> str:
    """Return the word of the step's method that recorded the write."""
    return type(write).__name__.lower()


def _are_of_one_item(first: Write, other: Write) -> bool:
    if isinstance(first, Put):
        return not isinstance(other, Put) and _has(first.item, other.key)
    return _has(other.item, first.key) if isinstance(other, Put) else first.key == other.key


def _has(item: Mapping[str, Any], key: Mapping[str, Any]) -> bool:
    return bool(key) and all(name in item and item[name] == value for name, value in key.items())
