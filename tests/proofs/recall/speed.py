"""How long the usual searches take: one flow or handler, two messages, and the defaults of a user."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from flowguard.testing.explorer import explore
from tests.proofs.recall import cases, flows, sound
from tests.proofs.recall.case import TABLES, Case


class Search(NamedTuple):
    """What a search took. ``cpu`` and ``wall`` are seconds."""

    name: str
    schedules: int
    cpu: float
    wall: float

    def __str__(self) -> str:
        took = f"{self.cpu:6.1f} CPU s{self.wall:6.1f} s{self.schedules / self.cpu:6.0f} a CPU second"
        return f"{self.name:<22}{self.schedules:5} schedules{took}"


_TWO: Final = (flows.PAID, flows.OTHER_PAID)
USUAL: Final[Sequence[Case]] = (
    Case("a plain handler", cases._of(sound.puts_once), (cases.ORDER, cases.OTHER)),
    Case("a flow of one stage", flows.CountsWithTheStep, _TWO),
    Case("a flow of two stages", flows.AddsUp, _TWO),
)


def search(case: Case, *, seconds: float | None = None) -> Search:
    """Explore a case with the defaults, and measure it."""
    cpu, wall = time.process_time(), time.perf_counter()
    report = explore(case.of, case.messages, **{"tables": TABLES, "seconds": seconds, **case.about})
    return Search(case.kind, report.schedules, time.process_time() - cpu, time.perf_counter() - wall)
