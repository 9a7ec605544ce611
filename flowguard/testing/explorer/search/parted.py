"""Violations with the step at which their schedules part from the undisturbed run that ends most alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flowguard.testing.explorer.checks.equivalence import differences
from flowguard.testing.explorer.record.history import CallRecord, History
from flowguard.testing.explorer.record.schedule import OF_ANSWERS, OF_CODE
from flowguard.testing.explorer.report.findings import Violation
from flowguard.testing.explorer.report.parting import first_other, parting
from flowguard.testing.explorer.report.sides import is_of_ends
from flowguard.testing.explorer.search.right_ends import RightEnds
from flowguard.testing.explorer.search.runs import Runs


class Parted:
    """The undisturbed orders, of which one is run once more for a violation."""

    def __init__(self, runs: Runs, right: RightEnds) -> None:
        self._runs = runs
        self._right = right

    def with_step(self, violation: Violation, history: History, first: History | None) -> Violation:
        """Return the violation of a history with the step at which that parts. ``first`` is the first undisturbed run.

        Where answers do not come, the code changes, or an invocation gets several records, the undisturbed run makes
        other calls.
        """
        places = [problem.where for problem in violation.problems if is_of_ends(problem)]
        if not places or first is None or self._runs.is_batched or history.schedule.has(OF_ANSWERS | OF_CODE):
            return violation
        return replace(violation, parts_at=parting(history, self._nearest(history, first), places))

    def stop_of(self, history: History, violations: Sequence[Violation], first: History) -> CallRecord | None:
        """Return the call before which a debugger stops. None where an exception is what is wrong.

        It is that at which what differs is written, or else the first one that is not made undisturbed.
        """
        steps = [violation.parts_at for violation in violations if violation.parts_at is not None]
        numbers = [step.call for step in steps if step.call is not None]
        if not numbers and not self._runs.is_batched:
            other = first_other(history.calls, first.calls)
            numbers = [other.call] if other is not None and other.call is not None else []
        return history.calls[min(numbers) - 1] if numbers else None

    def _nearest(self, history: History, first: History) -> History:
        """Return the undisturbed run whose end is most like that of a history."""
        if len(self._right.ends) < 2 or not self._right.ordered:
            return first
        end = self._runs.end(history)
        nearest = min(self._right.ordered, key=lambda ordered: len(differences(end, ordered.end)))
        if not nearest.schedule.choices:
            return first
        count = self._runs.count
        again = self._runs.run_one_by_one(nearest.schedule)
        self._runs.count = count  # it was run before
        return again
