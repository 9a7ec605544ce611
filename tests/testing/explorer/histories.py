"""The history of one schedule, as the checks of the explorer get it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flowguard.testing.explorer.driver import run
from flowguard.testing.explorer.engine import in_memory
from flowguard.testing.explorer.ground import Ground
from flowguard.testing.explorer.history import History
from flowguard.testing.explorer.schedule import Schedule


def history_of(
    flows: Any, messages: Sequence[Any], schedule: str, *, tables: Mapping[str, str] | None = None
) -> History:
    several = list(flows) if isinstance(flows, (list, tuple)) else [flows]
    with Ground(several, messages, tables or {}, in_memory, 0) as ground:
        return run(ground, Schedule.parse(schedule))
