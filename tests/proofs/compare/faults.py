"""How many of the single faults of each kind break something in each way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from flowguard.testing.explorer.engine import in_memory
from flowguard.testing.explorer.ground import Ground
from flowguard.testing.explorer.plan import choices_in
from flowguard.testing.explorer.schedule import Kind, Schedule
from flowguard.testing.explorer.search import Search
from tests.proofs.compare.business import BOOKKEEPING, Way
from tests.proofs.compare.table import KINDS

COLUMNS: Final = {
    "duplicate": (Kind.DUPLICATED,),
    "seen twice": (Kind.SEEN_EARLY,),
    "held up": (Kind.HELD_UP,),
    "death": (Kind.DIES_BEFORE, Kind.DIES_AFTER),
    "error": (Kind.ERROR, Kind.THROTTLED, Kind.PARTIAL),
    "lost answer": (Kind.LOST, Kind.UNANSWERED),
}


def lines(ways: Iterable[Way]) -> Iterator[str]:
    """A row for each way: faults that break an invariant of the business, of those that were tried."""
    yield " " * 16 + "".join(f"{column:>13}" for column in COLUMNS)
    for way in ways:
        found = broken_by(way)
        yield f"  {way.name:14}" + "".join(f"{_cell(found, kinds):>13}" for kinds in COLUMNS.values())


def broken_by(way: Way) -> Mapping[Kind, tuple[int, int]]:
    """By kind of fault: how many break something, and how many there are."""
    tried: Counter[Kind] = Counter()
    broken: Counter[Kind] = Counter()
    with Ground(way.explored, way.messages, {}, in_memory, 0) as ground:
        search = Search(ground, way.invariants, BOOKKEEPING)
        for choice in list(choices_in(search.references())):
            _, found = search.check(Schedule((choice,)))
            tried[choice.kind] += 1
            broken[choice.kind] += any(rule in KINDS for rule, _, _ in found)
    return {kind: (broken[kind], times) for kind, times in tried.items()}


def _cell(found: Mapping[Kind, tuple[int, int]], kinds: Iterable[Kind]) -> str:
    broken, tried = (sum(found.get(kind, (0, 0))[place] for kind in kinds) for place in range(2))
    return f"{broken} of {tried}"
