"""One small case, end to end: who is killed, by what, and what is printed of it."""

from __future__ import annotations

import pytest

from tests.proofs.prove.cases import CASES
from tests.proofs.prove.harmless import HARMLESS
from tests.proofs.prove.hunt import Hunt
from tests.proofs.prove.judge import Effort
from tests.proofs.prove.mutant import Mutant
from tests.proofs.prove.mutants import Mutants
from tests.proofs.prove.report import Fate, Figures, Line, case_lines, lines
from tests.proofs.prove.witnesses import Witnesses


@pytest.fixture(scope="module")
def mutants() -> Mutants:
    return Mutants()


def named(mutants: Mutants, name: str) -> Mutant:
    return next(one for one in mutants.all if one.name == name)


@pytest.mark.proof("hunts three mutants")
def test_a_guard_is_missed_and_an_ornament_is_not(mutants: Mutants) -> None:
    cases = [case for case in CASES if case.name == "plain-sqs"]
    fence = named(mutants, "expressions.CLAIM_FIRST_HOP: SET lease_until = :lease_until → left out")
    ending = named(mutants, "worker.ending.acked: Ending(ack=True) → left out")
    unmet = named(mutants, "aws.sender._fifo: send.group → forced false")
    hunt = Hunt(mutants, cases, 1, Effort(most=5))
    hunt.watch()
    assert hunt.truths[0].report.ok, str(hunt.truths[0].report)
    hunt.run([fence, ending, unmet], {})
    witnesses = Witnesses(mutants, 1)
    witnesses.ask([unmet])
    assert witnesses.failing == []
    found = {line.mutant.name: line for line in lines(hunt, witnesses, [fence, ending, unmet], {})}
    assert [line.fate for line in found.values()] == [Fate.KILLED, Fate.KILLED, Fate.TESTED]
    kill = found[ending.name].kill
    assert kill is not None
    assert (kill.case, kill.schedule, kill.schedules) == ("plain-sqs", "none", 1)
    assert f"{ending.place}  worker.ending.acked: Ending(ack=True) → left out" in str(found[ending.name])
    (line,) = case_lines(cases[0], hunt.truths[0])
    assert "0 violations" in line
    seconds = {"flows": 1.4, "mutants explored": 2.2}
    figures = Figures(cases, hunt.truths, list(found.values()), sum(hunt.tried.values()), {}, [], [], seconds)
    assert figures.is_good
    assert "2 killed by the explorer, 1 by tests, 0 named as harmless, 0 neither, of 3" in str(figures)
    assert str(figures).endswith("seconds      4: flows 1, mutants explored 2")


@pytest.mark.slow("explores mutants")
@pytest.mark.parametrize(
    ("is_killed", "reason", "met", "fate"),
    [
        (False, "it says why", 3, Fate.HARMLESS),
        (False, None, 3, Fate.SURVIVED),
        (False, None, 0, Fate.NOT_MET),
        (True, "it says why", 3, Fate.NOT_HARMLESS),
    ],
)
def test_fates(mutants: Mutants, is_killed: bool, reason: str | None, met: int, fate: Fate) -> None:
    from tests.proofs.prove.hunt import Kill
    from tests.proofs.prove.judge import Verdict

    one = named(mutants, "worker.ending.acked: Ending(ack=True) → left out")
    hunt = Hunt(mutants, [], 1)
    if is_killed:
        hunt.kills[one.number] = Kill("case", "d1", Verdict("I1", "it"), 4)
    hunt.met = lambda number: met  # type: ignore[method-assign]  # what the exploration would have counted
    (line,) = lines(hunt, Witnesses(mutants, 1), [one], {} if reason is None else {one.name: reason})
    assert isinstance(line, Line)
    assert line.fate is fate
    assert line.fate.is_good == (fate is Fate.HARMLESS)


@pytest.mark.slow("makes all mutants")
def test_the_harmless_are_mutants_and_say_why(mutants: Mutants) -> None:
    names = [one.name for one in mutants.all]
    assert len(set(names)) == len(names)
    assert [name for name in HARMLESS if name not in set(names)] == []
    assert all(len(reason) > 20 for reason in HARMLESS.values())
