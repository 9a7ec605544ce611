"""The writes that a handler records. They are applied with its commit, or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

from flowguard.errors import RunFailed, TooManyWrites, shown
from flowguard.items.modified import Change, check_tries, modified
from flowguard.items.rows import row
from flowguard.items.writes import MOST_WRITES, Condition, Write, key_of, same_item, verb

RefusedWrites: TypeAlias = Mapping[str, Mapping[str, Any] | None]
"""Writes with ``else_go_on`` that did not hold, by that name, each with the item that it met (or None)."""

NOTHING_REFUSED: Final[RefusedWrites] = MappingProxyType({})


class ReadsTables(Protocol):
    """Consistent reads of the user's tables. ``again`` counts reads before, in vain: the next one waits a little."""

    def read(self, table: str, key: Mapping[str, Any], *, again: int = 0) -> dict[str, Any] | None: ...


class TableWrites:
    """Records writes for one transaction, and refuses what no transaction holds.

    Writes with ``else_go_on`` that did not hold before are left out.
    """

    def __init__(self, stage: str, refused: RefusedWrites) -> None:
        self.recorded: list[Write] = []
        self.are_apart = False
        """Whether they are those of a block that is applied by itself."""
        self._stage = stage
        self._refused = refused
        self._names: set[str] = set()

    def add(self, write: Write) -> None:
        """Record a write. Raises :class:`RunFailed` for one that the transaction cannot hold beside the others."""
        if write.condition is not None and write.condition.go_on in self._refused:
            return
        if len(self.recorded) == MOST_WRITES:
            raise TooManyWrites(self._stage, MOST_WRITES)
        if (before := same_item(self.recorded, write)) is not None:
            problem = (
                f"{verb(before)} and {verb(write)} of {shown(key_of(write, before))} in the table {shown(write.table)}"
            )
            raise RunFailed(f"{problem} are two writes to one item, which no transaction holds; record one with both")
        self.recorded.append(write)

    @contextmanager
    def apart(self) -> Iterator[list[Write]]:
        """Record the block's writes in the list that it is given, and not beside the others."""
        outer, inner = self.recorded, list[Write]()
        self.recorded, self.are_apart = inner, True
        try:
            yield inner
        finally:
            self.recorded, self.are_apart = outer, False

    def condition(
        self,
        expression: str | None,
        names: Mapping[str, str] | None,
        values: Mapping[str, Any] | None,
        else_reject: bool,
        else_go_on: str | None,
    ) -> Condition | None:
        """Return the condition of a write, None for a write without one. Raises :class:`RunFailed` for a bad one."""
        if problem := self._else_problem(expression, else_reject, else_go_on):
            raise RunFailed(f"{problem}. Nothing was written")
        if not expression:
            return None
        if else_go_on is not None:
            self._names.add(else_go_on)
        return Condition(expression, names or {}, values or {}, else_reject, else_go_on)

    def _else_problem(self, expression: str | None, else_reject: bool, else_go_on: str | None) -> str:
        if not expression and (else_reject or else_go_on is not None):
            return "a write says what is to happen if its condition does not hold, and has none; write condition=…"
        if else_go_on is None:
            return ""
        if self.are_apart:
            return (
                f"else_go_on={shown(else_go_on)} is within step.apply; catch ConditionFailed around the block instead"
            )
        if else_reject:
            return f"a write has else_reject and else_go_on={shown(else_go_on)}; write one of them"
        if not else_go_on or type(else_go_on) is not str:
            return f"else_go_on is {shown(else_go_on)}; write a name: else_go_on='stock'"
        if else_go_on in self._names:
            return f"two writes have else_go_on={shown(else_go_on)}; give each a name of its own"
        return ""


def read_and_change(
    tables: ReadsTables | None,
    table: str,
    key: Mapping[str, Any],
    change: Change,
    *,
    compare: Sequence[str],
    tries: int,
    again: int,
) -> tuple[Write, dict[str, Any] | None]:
    """Read an item, and return the write that ``change`` makes of it, with the item as it will be."""
    check_tries(tries)
    if not callable(change):
        raise RunFailed(
            f"step.modify({shown(table)}, …) has {shown(change)} for its change; write a function of the item"
        )
    if tables is None:
        raise RunFailed("step.modify reads a table, and this step has none: run the stage with FlowRunner")
    where = row(key, f"step.modify({shown(table)}, key, …)")
    item = tables.read(table, where, again=again)
    made = change(None if item is None else dict(item))
    wanted = None if made is None else row(made, f"the change in step.modify({shown(table)}, …)")
    write = modified(table, where, item, wanted, compare=compare, tries=tries)
    return write, None if wanted is None else {**where, **wanted}
