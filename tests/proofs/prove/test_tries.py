"""What is tried on a mutant depends on the tables that name it: schedules, then tests, then the other schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest

from tests.proofs.prove import tries as in_order
from tests.proofs.prove.__main__ import FEW
from tests.proofs.prove.cases import CASES, SHIPPED, SINGLES, with_few_schedules
from tests.proofs.prove.hunt import Hunt, Kill, _cut
from tests.proofs.prove.judge import Verdict
from tests.proofs.prove.mutant import Mutant
from tests.proofs.prove.mutants import Mutants
from tests.proofs.prove.parts import Parts
from tests.proofs.prove.remembered import EXPLORER
from tests.proofs.prove.tries import Limits, try_all
from tests.proofs.prove.witnesses import Witnesses

UNLISTED = "worker.ending.acked: Ending(ack=True) → left out"
TESTED = "aws.sender._fifo: send.group → forced false"
HARMLESS = "worker.turned_away.TurnedAway._refused: case Verdict.BUSY → never taken"


@dataclass
class FakeHunt:
    """A mutant is dead after so many schedules. Notes which were tried, each with its limit."""

    after: int
    tried: list[dict[int, int | None]] = field(default_factory=list)
    kills: dict[int, Kill] = field(default_factory=dict)

    def run(self, chosen: Sequence[Mutant], limits: Mapping[int, int]) -> None:
        self.tried.append({one.number: limits.get(one.number) for one in chosen})
        for one in chosen:
            if self.after <= limits.get(one.number, 600):
                self.kills[one.number] = Kill("case", "d1", Verdict("I1", "it"), self.after)


@dataclass
class FakeWitnesses:
    """``test`` notices all mutants, or none does."""

    test: str | None
    asked: list[int] = field(default_factory=list)
    noticed: dict[int, str | None] = field(default_factory=dict)

    def ask(self, chosen: Sequence[Mutant]) -> None:
        self.asked = [one.number for one in chosen]
        self.noticed = dict.fromkeys(self.asked, self.test)


@pytest.fixture(scope="module")
def mutants() -> dict[str, Mutant]:
    return {one.name: one for one in Mutants().all}


SOME = Limits(12, 12)


def tries(mutant: Mutant, after: int, test: str | None, limits: Limits = SOME) -> tuple[list[int | None], bool]:
    """How many schedules were tried on it each time, None where all were, and whether its tests were asked."""
    hunt, witnesses, parts = FakeHunt(after), FakeWitnesses(test), Parts()
    try_all(cast("Hunt", hunt), cast("Witnesses", witnesses), [mutant], limits, parts)
    assert list(parts.seconds) == ["mutants explored", "mutants tested", "the rest explored"]
    return [tried[mutant.number] for tried in hunt.tried if mutant.number in tried], bool(witnesses.asked)


@pytest.mark.slow("explores mutants")
@pytest.mark.parametrize(
    ("name", "after", "test", "expected"),
    [
        (UNLISTED, 500, None, ([None], False)),
        (UNLISTED, 700, None, ([None], True)),
        (TESTED, 12, "test", ([12], False)),
        (TESTED, 13, "test", ([12], True)),
        (TESTED, 13, None, ([12, None], True)),
        (HARMLESS, 13, None, ([12], False)),
    ],
)
def test_what_a_mutant_meets(
    mutants: Mapping[str, Mutant], name: str, after: int, test: str | None, expected: tuple[list[int | None], bool]
) -> None:
    assert tries(mutants[name], after, test) == expected


@pytest.mark.slow("makes all mutants")
@pytest.mark.parametrize(
    ("name", "test", "expected"),
    [
        (UNLISTED, None, ([None], False)),
        (TESTED, "test", ([0], True)),
        (TESTED, None, ([0, None], True)),
        (HARMLESS, None, ([12], False)),
    ],
)
def test_without_a_schedule_before_the_tests_what_they_leave_is_explored_in_full(
    mutants: Mapping[str, Mutant], name: str, test: str | None, expected: tuple[list[int | None], bool]
) -> None:
    assert tries(mutants[name], 13, test, FEW)[0] == expected[0]
    assert tries(mutants[name], 500, test, FEW) == expected


def test_a_plan_of_no_schedules_has_none() -> None:
    assert _cut([(0, ["none", "d1"]), (1, None)], 0) == []


@pytest.mark.slow("makes all mutants")
def test_what_only_the_explorer_noticed_the_last_time_is_explored_before_its_tests(
    mutants: dict[str, Mutant], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_order, "remembered", lambda: {TESTED: EXPLORER})
    hunt, witnesses, mutant = FakeHunt(600), FakeWitnesses(None), mutants[TESTED]
    try_all(cast(Hunt, hunt), cast(Witnesses, witnesses), [mutant], FEW, Parts())
    assert hunt.tried[0] == {mutant.number: None}
    assert witnesses.asked == []


def test_ci_explores_shipped_flows_as_a_release_does_and_some_faults_of_others() -> None:
    few = with_few_schedules(CASES)
    assert [case.name for case in few] == [case.name for case in CASES]
    assert few[-len(SHIPPED) :] == [*SHIPPED]
    assert all(0 < (case.share or 0) <= SINGLES for case in few[: -len(SHIPPED)])
