"""What the explorer finds in each way, as rows side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flowguard.sim.engines import in_memory
from flowguard.testing.explorer import Report, Schedule, Violation, explore
from flowguard.testing.explorer.checks.problem import EQUIVALENCE
from flowguard.testing.explorer.run.driver import run
from flowguard.testing.explorer.run.sandbox import Sandbox
from tests.proofs.compare.business import Way

KINDS: Final = {
    "nothing_is_applied_twice": "applied twice",
    "nothing_is_lost": "lost",
    "the_newest_stays": "older over newer",
    "all_is_taken_back": "stays charged",
    "nothing_is_taken_back_twice": "back twice",
}


@dataclass(frozen=True, slots=True)
class Row:
    """``dynamodb`` and ``sqs`` count the calls of the undisturbed run."""

    way: str
    report: Report
    dynamodb: int
    sqs: int

    def of_kind(self, kind: str) -> list[Violation]:
        """Those of one kind, the shortest schedule first."""
        found = [one for one in self.report.violations if KINDS.get(one.rule) == kind]
        return sorted(found, key=lambda one: one.schedule.count("."))

    @property
    def kinds(self) -> set[str]:
        """All kinds that were found. What breaks no invariant, and ends differently, is of the kind ``another end``."""
        found = {KINDS.get(one.rule, one.rule) for one in self.report.violations}
        return found - {EQUIVALENCE} or ({"another end"} if found else set())


def row(way: Way, *, bound: int = 0, walks: int = 0) -> Row:
    dynamodb, sqs = undisturbed(way)
    budget: Any = {"bound": bound, "walks": walks, "most": 100, "for_good": False}
    return Row(way.name, explore(**way.arguments, **budget, any_order=True), dynamodb, sqs)


def undisturbed(way: Way) -> tuple[int, int]:
    """The calls of DynamoDB, and those of SQS."""
    with Sandbox(way.explored, way.messages, {}, in_memory, 0) as sandbox:
        services = [made.service for made in run(sandbox, Schedule()).calls]
    return services.count("dynamodb"), services.count("sqs")


def lines(rows: Sequence[Row], kinds: Sequence[str]) -> Iterator[str]:
    """A table, then the shortest schedule of each kind in each way."""
    yield "                  schedules  calls of DynamoDB  of SQS" + "".join(f"{kind:>19}" for kind in kinds)
    for one in rows:
        cells = "".join(f"{_times(one.of_kind(kind)):>19}" for kind in kinds)
        yield f"  {one.way:14}{one.report.schedules:11}{one.dynamodb:19}{one.sqs:8}{cells}"
    yield ""
    for one in rows:
        for kind in kinds:
            yield from _shortest(one, kind)
        for other in sorted(one.kinds - set(kinds)):
            yield f"  {one.way}, {other}"


def _times(found: Sequence[Violation]) -> str:
    return str(sum(one.times for one in found) or "-")


def _shortest(one: Row, kind: str) -> Iterator[str]:
    found = one.of_kind(kind)
    if found:
        yield f"  {one.way}, {kind}: {found[0].schedule}"
        yield from (f"      {text}" for text in found[0].struck)
