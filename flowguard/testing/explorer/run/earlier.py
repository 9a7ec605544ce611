"""Earlier states of tables, which a read with eventual consistency may still answer with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from flowguard.sim.calls import ApiCall, Response
from flowguard.sim.engine import Snapshots
from flowguard.testing.explorer.record.history import CallRecord

BEHIND: Final = 1_000
"""How long after a write a read may not see it, ms."""

_READS: Final = frozenset({"GetItem", "Query", "Scan"})


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

    def may_be_behind(self, call: ApiCall, target: str, now: int, calls: Iterable[CallRecord]) -> bool:
        """Answer whether a read may not see a write yet that was made before it."""
        if self._engine is None or call.service != "dynamodb" or call.operation not in _READS:
            return False
        if call.params.get("ConsistentRead"):
            return False
        written = (one for one in calls if one.service == "dynamodb" and one.applied and not one.is_read)
        return any(now - one.at <= BEHIND and target in one.target.split(", ") for one in written)

    def read(self, table: str, proceed: Callable[[], Response]) -> Response | None:
        """Make a read on the state before the last write to the table. None where that is not known."""
        if self._engine is None or table not in self._before:
            return None
        now = self._engine.snapshot()
        self._engine.restore(self._before[table])
        try:
            return proceed()
        finally:
            self._engine.restore(now)
