"""The other proofs are run in processes of their own, and what they print of each check is kept."""

from __future__ import annotations

from threading import Barrier

import pytest

from tests.proofs.prove import others
from tests.proofs.prove.others import DEPLOYED, RECALL, TESTS, Other, Outcome, run


@pytest.mark.proof("explores a handler in a process of its own")
def test_the_lines_of_a_proof_are_there_to_be_printed() -> None:
    recall = Other("recall", "tests.proofs.recall", ("--only", "adds without a condition"), (), "figures", "holds")
    outcome = run(recall, long=False)
    assert (outcome.holds, outcome.checks, outcome.broken) == (True, 1, ())
    (line,) = outcome.lines
    assert line.startswith("bug   adds without a condition")
    assert "right line" in line


def test_lanes_run_beside_each_other_and_after_what_needs_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    meeting = Barrier(2, timeout=10)

    def meets(other: Other, *, long: bool) -> Outcome:
        begun.append(other.name)
        if other is not TESTS:
            meeting.wait()
        return Outcome(other.module, long, {}, 0, (), 0)

    monkeypatch.setattr(others, "run", meets)
    monkeypatch.setattr(others, "LANES", (((TESTS,),), ((RECALL,), (DEPLOYED,))))
    assert list(others.run_all(long=True)) == ["tests", "recall", "deployed"]
    assert begun[0] == "tests"
