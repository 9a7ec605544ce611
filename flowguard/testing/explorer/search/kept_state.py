"""Ends that are right only where each record finds a new process: what modules keep is to blame."""

from __future__ import annotations

from dataclasses import replace

from flowguard.testing.explorer.checks.equivalence import nearest
from flowguard.testing.explorer.checks.leaked_state import state_problem
from flowguard.testing.explorer.checks.problem import EQUIVALENCE
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.testing.explorer.report.diagnosis import diagnose
from flowguard.testing.explorer.report.findings import Violation
from flowguard.testing.explorer.search.found_violations import Found
from flowguard.testing.explorer.search.next_schedules import reorderings
from flowguard.testing.explorer.search.right_ends import RightEnds
from flowguard.testing.explorer.search.runs import Runs


class KeptState:
    """Judges what modules keep of a record, by the ends without it."""

    def __init__(self, runs: Runs, right: RightEnds) -> None:
        self._runs = runs
        self._right = right
        self._alone: set[str] = set()

    def judge(self, first: History, collected: Found) -> None:
        """Find what a record leaves in a module for the next one. New processes would not have it."""
        if not first.kept:
            return
        orders = (Schedule(), *(Schedule((choice,)) for choice in reorderings(first)))
        ends = [self._runs.end(self._runs.run_without_memory(schedule)) for schedule in orders]
        self._alone = {end.digest for end in ends} | self._right.ends.keys()
        if ends[0].digest not in self._right.ends:
            differ = nearest(self._runs.end(first), ends[:1])
            collected.add(state_problem(first.kept, differ), first, self._right.undisturbed)

    def is_to_blame(self, history: History) -> bool:
        """Answer whether an end is wrong only because of what a module kept."""
        if not (history.kept and self._alone):
            return False
        return self._runs.end(self._runs.run_without_memory(history.schedule)).digest in self._alone

    def named(self, violation: Violation, history: History) -> Violation:
        """Return a violation under the name of its cause where that is what a module keeps."""
        if violation.rule != EQUIVALENCE or not self.is_to_blame(history):
            return violation
        problem = state_problem(history.kept, violation.problems)
        likely = diagnose(history, self._right.undisturbed, problem)
        return replace(violation, problems=(problem,), site=likely.site, fix=likely.text, option="")
