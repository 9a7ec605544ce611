"""``python -m tests.proofs.suite``: the tests that `make test` leaves out, since they take too long for each change.

They are marked with ``@pytest.mark.slow("why it takes so long")``, or with ``proof`` where no guard needs them. Those
that are marked as ``long`` repeat a proof on another engine or at another size: only ``--long`` runs them too.
``--json`` prints what became of each as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

TESTS: Final = Path(__file__).parents[1]
QUICK: Final = "not slow and not proof and not long"
"""What `make test` runs."""

PROOFS: Final = "(slow or proof) and not long"
ALL: Final = "slow or proof or long"
"""What is run before a release."""


MOST_UNSTEADY: Final = 5
"""Tests that may fail for want of a core. Where more fail, something is broken."""


class Outcomes:
    """A plugin of pytest that notes how each test ended. A test may fail more than once: in itself, and afterwards."""

    def __init__(self) -> None:
        self.by_test: dict[str, str] = {}
        self.unsteady: list[str] = []
        """Tests that failed beside others, as where a browser waits for a core, and passed when they ran alone."""

    def failed_again(self, alone: Callable[[Sequence[str], Outcomes], int]) -> int:
        """Run what has failed once more, ``alone``, and return the exit code of that. Where much fails, nothing is."""
        failed = [test for test, outcome in self.by_test.items() if outcome == "failed"]
        if len(failed) > MOST_UNSTEADY:
            return pytest.ExitCode.TESTS_FAILED
        again = Outcomes()
        code = alone(failed, again)
        self.unsteady = [test for test in failed if again.by_test.get(test) == "passed"]
        self.by_test |= again.by_test
        return pytest.ExitCode.TESTS_FAILED if len(self.unsteady) < len(failed) else code

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self.by_test[report.nodeid] = max(report.outcome, self.by_test.get(report.nodeid, ""), key=_WORST.index)


_WORST: Final = ("", "passed", "skipped", "failed")


def workers() -> int:
    """Return one for each core, and one more: many of these tests wait for queues, installations and timers."""
    return len(os.sched_getaffinity(0)) + 1


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.suite", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print how each test ended as JSON")
    parser.add_argument("--long", action="store_true", help="also the tests that repeat others")
    given = parser.parse_args(arguments)
    outcomes = Outcomes()
    with contextlib.redirect_stdout(sys.stderr) if given.json else contextlib.nullcontext():
        code = pytest.main(
            [str(TESTS), "-q", "-m", ALL if given.long else PROOFS, "-n", str(workers()), "--dist=worksteal"],
            plugins=[outcomes],
        )
        if code == pytest.ExitCode.TESTS_FAILED:
            code = outcomes.failed_again(_alone)
    if given.json:
        sys.stdout.write(json.dumps(_as_json(outcomes, code)) + "\n")
    return int(code)


def _alone(tests: Sequence[str], outcomes: Outcomes) -> int:
    """Run tests one after the other, with nothing beside them."""
    return pytest.main(["-q", "-n", "0", *tests], plugins=[outcomes])


def _as_json(outcomes: Outcomes, code: int) -> dict[str, Any]:
    return {
        "ok": code == 0,
        "lines": [f"             {test} failed beside others, and passed alone" for test in outcomes.unsteady],
        "figures": Counter(outcomes.by_test.values()),
        "checks": [{"name": test, "ok": outcome != "failed"} for test, outcome in sorted(outcomes.by_test.items())],
    }


if __name__ == "__main__":
    sys.exit(main())
