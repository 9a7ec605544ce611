"""Earlier states of tables, which a read with eventual consistency may still answer with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from flowguard.sim.calls import ApiCall, Response
from flowguard.sim.engine import Snapshots
from flowguard.testing.explorer.record.history import CallRecord

BEHIND: Final = 1_000
"""How long after a write a read may not see it, ms."""

_READS: Final = frozenset({"GetItem", "Query", "Scan"})
_OF_SEVERAL: Final = "BatchGetItem"
"""What reads several tables, each with a consistency of its own. No transaction of reads is ever behind."""


class EarlierStates:
    """The states before the last write to each table, by an engine that can go back."""

    def __init__(self, engine: Snapshots | None, *, are_kept: bool) -> None:
        self._engine = engine
        self._are_kept = are_kept
        self._before: dict[str, Any] = {}

    def keep(self, tables: Iterable[str]) -> None:
        """Keep the state as it is before a write to these tables."""
        if self._engine is not None and self._are_kept:
            self._before.update(dict.fromkeys(tables, self._engine.snapshot()))

    def may_be_behind(self, call: ApiCall, now: int, calls: Iterable[CallRecord]) -> bool:
        """Answer whether a read may not see a write yet that was made before it."""
        read = _eventual(call)
        if self._engine is None or not read:
            return False
        written = (made for made in calls if made.service == "dynamodb" and made.applied and not made.is_read)
        return any(now - made.at <= BEHIND and not read.isdisjoint(made.target.split(", ")) for made in written)

    def read(self, call: ApiCall, proceed: Callable[[], Response]) -> Response | None:
        """Make a read on the state before the last write to each table. None where that is not known."""
        behind = [table for table in sorted(_eventual(call)) if table in self._before]
        if not behind:
            return None
        if call.operation != _OF_SEVERAL:
            return self._read_before(behind[0], proceed)
        now = proceed()
        answers: Mapping[str, Any] = {table: self._read_before(table, proceed)["Responses"] for table in behind}
        return {
            **now,
            "Responses": {**now["Responses"], **{table: answer.get(table, []) for table, answer in answers.items()}},
        }

    def _read_before(self, table: str, proceed: Callable[[], Response]) -> Response:
        engine = self._engine
        assert engine is not None  # noqa: S101 - nothing is kept without one
        now = engine.snapshot()
        engine.restore(self._before[table])
        try:
            return proceed()
        finally:
            engine.restore(now)


def _eventual(call: ApiCall) -> frozenset[str]:
    """Return the tables that a call reads with eventual consistency."""
    if call.service != "dynamodb":
        return frozenset()
    if call.operation == _OF_SEVERAL:
        asked: Mapping[str, Any] = call.params.get("RequestItems", {})
        return frozenset(table for table, request in asked.items() if not request.get("ConsistentRead"))
    is_eventual = call.operation in _READS and not call.params.get("ConsistentRead")
    return frozenset({str(call.params.get("TableName"))}) if is_eventual else frozenset()
