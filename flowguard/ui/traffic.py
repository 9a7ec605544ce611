"""The traffic of a flow: how many runs are at each stage, and on the way between two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from flowguard.operate.run_rows import is_late, is_left
from flowguard.protocol.run import ENDED, RunItem, Status
from flowguard.protocol.waiting import WaitEnd

AT_WORK: Final = "at work"
LEFT: Final = "left"
ON_THE_WAY: Final = "on the way"
WAITING: Final = "waiting"
LATE: Final = "late"
DONE: Final = "done"
FAILED: Final = "failed"


@dataclass
class Traffic:
    """Counts of runs by their stage and what they do there, and of waits by the stage after them too.

    ``read`` counts the items of the table that were read, ``unreadable`` those of them that are no run of this version;
    ``is_whole`` says whether there were no more.
    """

    at: Counter[tuple[str, str]] = field(default_factory=Counter)
    between: Counter[tuple[str, str]] = field(default_factory=Counter)
    read: int = 0
    unreadable: int = 0
    is_whole: bool = True

    def add(self, item: RunItem, now: int) -> None:
        """Count a run."""
        self.at[item.stage, _what(item, now)] += 1
        if is_late(item, now):
            self.at[item.stage, LATE] += 1
        wait = item.wait if item.status is Status.WAITING else None
        if wait is not None and wait.plan is not None:
            self.between[item.stage, wait.plan.stage_at(wait.end or WaitEnd.ANSWERED)] += 1

    def of_stage(self, stage: str) -> Mapping[str, int]:
        """Return what the runs at a stage do, with their numbers."""
        return {state: number for (at, state), number in self.at.items() if at == stage}

    @property
    def runs(self) -> int:
        """Return the number of runs."""
        return sum(number for (_, state), number in self.at.items() if state != LATE)


def _what(item: RunItem, now: int) -> str:
    if item.status in ENDED:
        return DONE if item.status is Status.COMPLETED else FAILED
    if item.status is Status.WAITING:
        return WAITING
    if item.done:
        return ON_THE_WAY
    return LEFT if is_left(item, now) else AT_WORK
