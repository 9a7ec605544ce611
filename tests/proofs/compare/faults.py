"""How many of the single faults of each kind break something in each way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from flowguard.sim.engines import in_memory
from flowguard.testing.explorer.record.schedule import FaultKind, Schedule
from flowguard.testing.explorer.run.sandbox import Sandbox
from flowguard.testing.explorer.search.next_schedules import choices_in
from flowguard.testing.explorer.search.runs import Runs
from flowguard.testing.explorer.search.search import Search
from tests.proofs.compare.business import Way
from tests.proofs.compare.table import KINDS

COLUMNS: Final = {
    "duplicate": (FaultKind.DUPLICATED,),
    "seen twice": (FaultKind.SEEN_EARLY,),
    "held up": (FaultKind.HELD_UP,),
    "death": (FaultKind.DIES_BEFORE, FaultKind.DIES_AFTER),
    "error": (FaultKind.ERROR, FaultKind.THROTTLED, FaultKind.PARTIAL),
    "lost answer": (FaultKind.LOST, FaultKind.UNANSWERED),
}


def lines(ways: Iterable[Way]) -> Iterator[str]:
    """A row for each way: faults that break an invariant of the business, of those that were tried."""
    yield " " * 16 + "".join(f"{column:>13}" for column in COLUMNS)
    for way in ways:
        found = broken_by(way)
        yield f"  {way.name:14}" + "".join(f"{_cell(found, kinds):>13}" for kinds in COLUMNS.values())


def broken_by(way: Way) -> Mapping[FaultKind, tuple[int, int]]:
    """By kind of fault: how many break something, and how many there are."""
    tried: Counter[FaultKind] = Counter()
    broken: Counter[FaultKind] = Counter()
    with Sandbox(way.explored, way.messages, {}, in_memory, 0) as sandbox:
        search = Search(Runs(sandbox, way.free), way.invariants)
        for choice in list(choices_in(search.references())):
            _, found = search.check(Schedule((choice,)))
            tried[choice.kind] += 1
            broken[choice.kind] += any(rule in KINDS for rule, _, _ in found)
    return {kind: (broken[kind], times) for kind, times in tried.items()}


def _cell(found: Mapping[FaultKind, tuple[int, int]], kinds: Iterable[FaultKind]) -> str:
    broken, tried = (sum(found.get(kind, (0, 0))[place] for kind in kinds) for place in range(2))
    return f"{broken} of {tried}"
