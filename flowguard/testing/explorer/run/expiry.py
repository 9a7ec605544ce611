"""Expired items and rows are removed as early as DynamoDB may, or never."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from flowguard.aws.items import run_key
from flowguard.aws.writes import from_item
from flowguard.names.ids import ObjectId
from flowguard.sim.final_state import plain
from flowguard.testing.explorer.record.history import History, Version
from flowguard.testing.explorer.record.schedule import OF_EXPIRY, Schedule
from flowguard.testing.explorer.run.sandbox import Sandbox
from flowguard.testing.explorer.run.time_to_live import has_expired

MOST_LATE: Final = 2
"""How often in a schedule something comes as late as it can: a copy is sent one retention after the first, and read one
retention after that (docs/decisions/0003). No more is promised."""

OF_A_QUEUE: Final = timedelta(days=4)
"""How long SQS keeps a message where nobody has said otherwise: that of plain functions."""

_BEFORE_THE_END: Final = 1_000
"""ms"""

_RUN: Final = run_key("", ObjectId(""))["sk"]


def last_moment(sandbox: Sandbox, sent_at: int) -> int:
    """Return the last moment at which a record sent at this time can be delivered."""
    kept = min((flow.retention for flow in sandbox.flows), default=OF_A_QUEUE)
    return sent_at + kept // timedelta(milliseconds=1) - _BEFORE_THE_END


class Expiry:
    """The removal in one schedule of expired run items, rows of every kind beside them, and items of the user.

    DynamoDB removes it some time after its ``ttl``, often days. Here that is at once, or never where the schedule says
    so. A ``ttl`` is in seconds, so it is looked for once in each. ``history`` is the one that notes it.
    """

    def __init__(
        self, sandbox: Sandbox, schedule: Schedule, history: History, note: Callable[[None, str], object]
    ) -> None:
        self._sandbox, self._note = sandbox, note
        self.history = history
        self._stays = any(choice.kind in OF_EXPIRY for choice in schedule.choices)
        self._looked_at = sandbox.start // 1000

    def remove(self) -> None:
        """Remove what has expired by now. The calls are not counted as those of the worker that is at work."""
        invocation, now = self._sandbox.invocation, self._sandbox.now() // 1000
        if now == self._looked_at:
            return
        self._looked_at = now
        worker, invocation.worker = invocation.worker, None
        try:
            self._remove_until(now)
        finally:
            invocation.worker = worker

    def _remove_until(self, now: int) -> None:
        for table, attribute in self._sandbox.ttl.items():
            for raw in list(self._sandbox.items_of(table)):
                if has_expired(raw, attribute, now):
                    self._of_user(table, raw)
        for raw in list(self._sandbox.run_items()):
            if int(raw.get("ttl", {"N": now})["N"]) < now:
                self.history.expired += 1
                if not self._stays:
                    self._remove(raw)

    def _of_user(self, table: str, raw: Any) -> None:
        self.history.expired += 1
        if self._stays:
            return
        key = {name: raw[name] for name in self._sandbox.key_of(table)}
        self._sandbox.dynamodb.delete_item(TableName=table, Key=key)
        self.history.removed.append((table, raw))
        named = ", ".join(f"{name} {plain(part)}" for name, part in from_item(key).items())
        self._note(None, f"{table}, {named} has expired, and is removed")

    def _remove(self, raw: Any) -> None:
        key = {"pk": raw["pk"], "sk": raw["sk"]}
        self._sandbox.dynamodb.delete_item(TableName=self._sandbox.settings.table, Key=key)
        if raw["sk"] == _RUN:
            self.history.versions.append(Version(raw["pk"]["S"], len(self.history.calls), 0, None))
            self._note(None, f"{raw['pk']['S']} has expired, and is removed")
