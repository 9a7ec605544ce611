"""The history of one schedule, as the checks of the explorer get it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flowguard.sim.engines import in_memory
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.testing.explorer.run.driver import run
from flowguard.testing.explorer.run.sandbox import Sandbox


def history_of(
    flows: Any, messages: Sequence[Any], schedule: str, *, tables: Mapping[str, str] | None = None
) -> History:
    several = list(flows) if isinstance(flows, (list, tuple)) else [flows]
    with Sandbox(several, messages, tables or {}, in_memory, 0) as sandbox:
        return run(sandbox, Schedule.parse(schedule))
