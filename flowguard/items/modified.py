"""A change of an item by a function of what was read, as a write that holds only while the item is still that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from flowguard.errors import RunFailed, shown
from flowguard.items.writes import Check, Condition, Delete, Put, Update, Write, attribute_names

Change = Callable[[dict[str, Any] | None], Any]
"""Returns the item as it should be: a dict or a pydantic model; None for no item. It gets None where there is none."""

MOST_TRIES: Final = 10
"""How often a change is tried at most, in one attempt of a stage or one call of ``modify``."""

_MOST_COMPARED: Final = 100
"""Attributes."""

_MOST_OPERATORS: Final = 300
_MOST_PARTS: Final = (_MOST_OPERATORS + 1) // 2
"""Of a condition. Each has an operator, and all but one an ``AND``."""

_LONGEST_EXPRESSION: Final = 4_096


def modified(
    table: str,
    key: Mapping[str, Any],
    before: Mapping[str, Any] | None,
    wanted: Mapping[str, Any] | None,
    *,
    compare: Sequence[str] = (),
    tries: int = 0,
) -> Write:
    """Return the write that makes ``wanted`` of ``before``. Its condition is that the item is still what was found.

    ``compare`` names the attributes that decide; by default all that were found. Attributes that the change adds must
    still be absent. Raises :class:`RunFailed` for a change of the key, and for more attributes than expressions hold.
    """
    still = _Still(table, key, before, compare, tries)
    if wanted is None:
        return still.check() if before is None else Delete(table, key, still.condition())
    if other := [name for name, value in key.items() if not _is_same(value, wanted.get(name, value))]:
        raise RunFailed(f"the change of an item of {shown(table)} changes its key ({other[0]}); nothing was written")
    if before is None:
        return Put(table, {**key, **wanted}, still.condition())
    return still.changed({name: value for name, value in wanted.items() if name not in key})


def check_tries(tries: object) -> None:
    """Raise :class:`RunFailed` for a number of tries that is none."""
    if type(tries) is not int or not 1 <= tries <= MOST_TRIES:
        raise RunFailed(f"tries is {shown(tries)}; write a whole number from 1 to {MOST_TRIES}. Nothing was written")


class _Still:
    """The condition that an item is still what was found, and the expressions that share its aliases."""

    def __init__(
        self,
        table: str,
        key: Mapping[str, Any],
        before: Mapping[str, Any] | None,
        compare: Sequence[str],
        tries: int,
    ) -> None:
        self._table = table
        self._key = key
        self._found = {} if before is None else {name: value for name, value in before.items() if name not in key}
        self._tries = tries
        self._names: dict[str, str] = {"#key": next(iter(key), "")}
        self._values: dict[str, Any] = {}
        named = attribute_names(compare, "compare", "the names of attributes: compare=('version',)")
        deciding = named or tuple(self._found)
        if len(deciding) > _MOST_COMPARED:
            raise RunFailed(
                f"an item of {shown(table)} has {len(deciding)} attributes, and a condition compares at most "
                f"{_MOST_COMPARED}; name those that decide: compare=('version',)"
            )
        self._parts = ["attribute_exists(#key)" if before is not None else "attribute_not_exists(#key)"]
        self._parts += [self._equal(name) for name in deciding]

    def _equal(self, name: str) -> str:
        alias = self._alias(name)
        if name not in self._found:
            return f"attribute_not_exists({alias})"
        return f"{alias} = {self._value(self._found[name])}"

    def condition(self) -> Condition:
        return Condition(" AND ".join(self._parts), self._names, self._values, tries=self._tries)

    def check(self) -> Check:
        return Check(self._table, self._key, self.condition())

    def changed(self, wanted: Mapping[str, Any]) -> Write:
        """Return an update of what differs. Where nothing does, the item must only stay as it is."""
        before = self._found
        changes = {
            name: value for name, value in wanted.items() if name not in before or not _is_same(before[name], value)
        }
        removed = [name for name in before if name not in wanted]
        if not changes and not removed:
            return self.check()
        added = [f"attribute_not_exists({self._alias(name)})" for name in changes if name not in before]
        sets = [f"{self._alias(name)} = {self._value(value)}" for name, value in changes.items()]
        removes = [self._alias(name) for name in removed]
        change = (f"SET {', '.join(sets)} " if sets else "") + (f"REMOVE {', '.join(removes)}" if removes else "")
        self._parts += added
        condition = " AND ".join(self._parts)
        if len(self._parts) > _MOST_PARTS or max(len(condition), len(change)) > _LONGEST_EXPRESSION:
            raise RunFailed(
                f"the change of an item of {shown(self._table)} writes {len(changes) + len(removed)} attributes and "
                f"{len(self._parts) - 1} have to be as they were, more than an expression of DynamoDB holds; "
                f"keep those that change together in one, a map"
            )
        return Update(
            self._table,
            self._key,
            Condition(change.strip(), self._names, self._values),
            Condition(condition, tries=self._tries),
        )

    def _alias(self, name: str) -> str:
        alias = f"#n{len(self._names)}"
        self._names[alias] = name
        return alias

    def _value(self, value: Any) -> str:
        self._values[f":v{len(self._values)}"] = value
        return f":v{len(self._values) - 1}"


def _is_same(stored: Any, wanted: Any) -> bool:
    """Answer whether DynamoDB would store the two alike. In Python 1 is True, and there they are of two types."""
    if isinstance(stored, bool) or isinstance(wanted, bool):
        return stored is wanted
    if isinstance(stored, Mapping) and isinstance(wanted, Mapping):
        return stored.keys() == wanted.keys() and all(_is_same(stored[name], wanted[name]) for name in stored)
    if isinstance(stored, list | tuple) and isinstance(wanted, list | tuple):
        return len(stored) == len(wanted) and all(map(_is_same, stored, wanted))
    return bool(stored == wanted)
