"""The other proofs are run in processes of their own, and what they print of each check is kept."""

from __future__ import annotations

import pytest

from tests.proofs.prove.others import Other, run


@pytest.mark.proof("explores a handler in a process of its own")
def test_the_lines_of_a_proof_are_there_to_be_printed() -> None:
    recall = Other("recall", "tests.proofs.recall", ("--only", "adds without a condition"), (), "figures", "holds")
    outcome = run(recall, long=False)
    assert (outcome.holds, outcome.checks, outcome.broken) == (True, 1, ())
    (line,) = outcome.lines
    assert line.startswith("bug   adds without a condition")
    assert "right line" in line
