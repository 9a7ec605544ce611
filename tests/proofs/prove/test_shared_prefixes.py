"""What a schedule repeats of the runs before it is what it would have done: in each case of the prover."""

from __future__ import annotations

from typing import Final

import pytest

from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.testing.explorer.run.driver import run
from flowguard.testing.explorer.run.sandbox import Sandbox
from tests.proofs.prove.cases import CASES
from tests.testing.explorer.run.test_shared_prefix import alone, assert_alike, schedules_of

SHARE: Final = 40
"""One of so many schedules is run both ways."""

NEVER_ALIKE: Final = ("sooner", "sooner-rejected")
"""Cases whose threads write in another order each time."""


@pytest.mark.proof("runs schedules of all cases twice")
@pytest.mark.parametrize("name", [case.name for case in CASES if case.name not in NEVER_ALIKE])
def test_a_history_is_that_of_the_whole_run(name: str) -> None:
    [case] = [case for case in CASES if case.name == name]
    with case.sandbox(Sandbox) as sandbox:
        flows = [flow for flow in case.flows if hasattr(flow, "stages")]
        first = run(sandbox, Schedule())
        for schedule in schedules_of(first, flows, SHARE):
            assert_alike(run(sandbox, schedule), alone(sandbox, schedule))
