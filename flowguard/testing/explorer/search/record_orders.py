"""Ends that depend on the order of records, which no standard queue keeps.

Plain functions have to end alike in every order. Runs of flows have to end as in some order of whole runs: an
interleaving of two of them may end otherwise, as where one reads at its first hop what another one changes before its
second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from flowguard.testing.explorer.checks.equivalence import End, differences, nearest
from flowguard.testing.explorer.checks.leaked_state import interleaving_problem, order_problem
from flowguard.testing.explorer.checks.problem import EQUIVALENCE, Problem
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import Choice, Schedule
from flowguard.testing.explorer.search.found_violations import Found
from flowguard.testing.explorer.search.kept_state import KeptState
from flowguard.testing.explorer.search.next_schedules import reorderings
from flowguard.testing.explorer.search.right_ends import OrderedEnd, RightEnds
from flowguard.testing.explorer.search.runs import Runs

_Place: TypeAlias = tuple[str, str]
_Judged: TypeAlias = tuple[Schedule, Callable[[End], Sequence[Problem]]]
"""An order, and how its end differs from those that are right."""


class RecordOrders:
    """Judges the ends of the undisturbed orders by one another."""

    def __init__(self, runs: Runs, right: RightEnds, kept: KeptState) -> None:
        self._runs = runs
        self._right = right
        self._kept = kept
        self._moving: set[_Place] | None = None

    def judge(self, first: History, collected: Found, only: Schedule | None = None) -> None:
        """Find the first order with an end that is wrong, or judge ``only`` this one."""
        if len(self._right.ends) == 1:
            return
        reference = self._runs.end(first)
        for schedule, differ in self._of_flows() if self._runs.sandbox.flows else self._of_functions(first, reference):
            if only not in (None, schedule):
                continue
            history = self._runs.run(schedule)
            problems = self._lasting(differ(self._runs.end(history)), reference)
            if problems and not self._kept.is_to_blame(history):
                of = interleaving_problem if self._runs.sandbox.flows else order_problem
                collected.add(of(problems), history, self._right.undisturbed)
                return

    def _of_functions(self, first: History, reference: End) -> Iterator[_Judged]:
        """Yield the orders of a plain function's records. Each has to end like the first."""
        for choice in reorderings(first):
            yield Schedule((choice,)), lambda end: differences(end, reference)

    def _of_flows(self) -> Iterator[_Judged]:
        """Yield the orders that end as none of whole runs does. Of requests for one object ``on_conflict`` decides."""
        ordered = self._right.ordered
        whole = {order.end.digest: order.end for order in ordered if order.is_whole}
        for order in sorted(ordered, key=_length) if whole else ():
            if not order.of_one_object and order.end.digest not in whole:
                yield order.schedule, lambda end: nearest(end, whole.values())

    def _lasting(self, differ: Sequence[Problem], reference: End) -> list[Problem]:
        """Return the differences that the time alone does not make."""
        if differ and self._moving is None:
            self._moving = {
                _place(difference) for difference in differences(self._runs.end(self._runs.run_later()), reference)
            }
        return [
            problem for problem in differ if problem.rule == EQUIVALENCE and _place(problem) not in (self._moving or ())
        ]


def _length(order: OrderedEnd) -> tuple[int, tuple[Choice, ...]]:
    return len(order.schedule.choices), order.schedule.choices


def _place(problem: Problem) -> _Place:
    """Return what a problem is about: an attribute of an item, or all messages of a destination."""
    return problem.where, "" if problem.text.startswith(("message ", "times ")) else problem.text
