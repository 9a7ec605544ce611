"""The judgement on the end of each run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from flowguard.testing.explorer.checks.equivalence import End
from flowguard.testing.explorer.checks.failures import failed_by_right
from flowguard.testing.explorer.checks.invariants import Invariant, broken
from flowguard.testing.explorer.checks.lateness import came_after_later, came_late, was_parked
from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.checks.standing import Standing
from flowguard.testing.explorer.checks.two_versions import of_cause
from flowguard.testing.explorer.checks.whole_runs import overtaken
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import (
    ALL_OLD,
    OF_ANSWERS,
    OF_CODE,
    OF_WEATHER,
    RAISED,
    Choice,
    FaultKind,
)
from flowguard.testing.explorer.search.outcomes import Judgement
from flowguard.testing.explorer.search.right_ends import Missing, RightEnds
from flowguard.testing.explorer.search.runs import Runs


class Judge:
    """Judges one run after the other. ``latest`` is the judgement on the last one.

    ``distinct`` are the digests of the ends that were compared, ``unjudged`` counts those that ended as no order does.
    Of the objects in ``not_compared`` runs may fail or not.
    """

    def __init__(
        self,
        runs: Runs,
        right: RightEnds,
        invariants: Sequence[Invariant],
        not_compared: Collection[str],
        *,
        any_order: bool,
        invariants_only: bool,
    ) -> None:
        self._runs, self._right = runs, right
        self._flows = runs.sandbox.all_flows
        self._invariants, self._not_compared = tuple(invariants), not_compared
        self._any_order, self._invariants_only = any_order, invariants_only
        self.latest = Judgement()
        self.distinct: set[str] = set()
        self.unjudged = 0

    def problems(self, history: History, first: History | None) -> list[Problem]:
        """Return what is wrong after a run. ``first`` is the undisturbed one."""
        problems = self._problems(history, first)
        return of_cause(history, problems) if history.schedule.has(OF_CODE) else problems

    def _problems(self, history: History, first: History | None) -> list[Problem]:
        invariants = () if history.drivers else self._invariants  # no handler of theirs has made that state
        self.latest = Judgement()
        problems = list(broken(history, self._flows, invariants, self._runs.same))
        if problems and history.schedule.has(OF_CODE):  # what either version declares is kept
            of_old = list(broken(history, self._flows[::-1], invariants, self._runs.same))
            problems = [problem for problem in problems if problem in of_old]
        if history.hung is not None or not history.at_rest:  # the end is that of a run that was broken off
            return problems
        if first is not None and history.drivers.keys() != first.drivers.keys():
            return problems  # what differs may follow from a driver that is not played
        end = self._runs.end(history)
        self.latest.digest = end.digest
        if self._invariants_only:
            self._count_end()
            return problems
        differ = self._differences(end, history)
        if differ is None:
            return problems
        self._count_end()
        if not differ or any(name in self._not_compared for name, _ in map(_object_of, end.failed)):
            return problems
        if not self._right.are_known:
            self.latest.is_unjudged = not self._any_order
            self.unjudged += self.latest.is_unjudged
            return problems
        return problems + (_of_weather(differ) if history.schedule.has(OF_WEATHER) else differ)

    def _count_end(self) -> None:
        self.latest.counts = True
        self.distinct.add(self.latest.digest)

    def _differences(self, end: End, history: History) -> list[Problem] | None:
        """Return how an end differs from the right ones. None where it is not compared: then no more orders are run."""
        missing, passed = tuple(_missing(history)), overtaken(history)
        so_far = self._right.differences_so_far(end, missing, passed)
        if so_far and self._is_of_no_order(history, so_far):
            return None
        self.latest.asked = missing, passed
        differ = self._right.differences(end, missing, passed)
        return None if differ and self._is_of_no_order(history, differ) else differ

    def _is_of_no_order(self, history: History, differ: Sequence[Problem]) -> bool:
        """Answer whether what went wrong led to an end by right that undisturbed records lead to in no order."""
        flows = self._flows
        return (
            Standing.of(history, flows).ends_elsewhere(history)
            or came_late(history)
            or was_parked(history, flows)
            or came_after_later(history, flows, self._later())
            or (_may_fail(history) and (_has_failed(differ) or failed_by_right(history)))
        )

    def _later(self) -> list[int]:
        """Return when later messages come."""
        sandbox = self._runs.sandbox
        return [sandbox.start + coming.after for coming in sandbox.coming if coming.after]

    def is_whole(self, history: History) -> bool:
        """Answer whether all was looked at that may be wrong after a run, so that none found is none there.

        An end that is compared with a part of the right ones, or with none, may be wrong.
        """
        if history.lacks or not self.latest.digest:
            return False
        return self._invariants_only or self._right.are_known


def _object_of(run: tuple[str, str]) -> tuple[str, str]:
    """Return the object and the request of a run, by the key of its item."""
    key, request = run
    return key.split("#", 2)[-1], request


def _missing(history: History) -> Iterator[Missing]:
    """Yield the answers that do not come in time. With those that were given up they are another set."""
    missing = frozenset(choice for choice in history.schedule.choices if choice.kind in OF_ANSWERS)
    yield missing
    if history.schedule.has(OF_CODE):
        yield missing | {ALL_OLD}
    not_retried = {Choice(number, FaultKind.MISSING) for number in history.not_retried}
    if not_retried - missing:
        yield missing | not_retried


def _of_weather(differ: Sequence[Problem]) -> list[Problem]:
    """Name the promise that is broken where a run failed in an outage that its own stage did not fail."""
    return [replace(problem, rule="I20") if problem.rule == "I14" else problem for problem in differ]


def _has_failed(differ: Sequence[Problem]) -> bool:
    """Answer whether a run failed that does not fail undisturbed."""
    return any(problem.rule == "I14" for problem in differ)


def _may_fail(history: History) -> bool:
    """Answer whether a run may have failed by right: user code met an error or SQS gave a record up.

    In an outage records are given up because of nothing else, and their runs have to go on after it.
    """
    disturbed = any(made.fault in RAISED and made.site.is_users for made in history.calls)
    if history.schedule.has(OF_WEATHER):
        return history.weathered_users > 0
    return disturbed or any(delivery.from_dlq for delivery in history.deliveries)
