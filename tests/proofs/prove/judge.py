"""Exploring a case: once undisturbed by any mutant, to see what is right and who meets which guard; then mutants."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from flowguard.flow import AnyFlow
from flowguard.sim.engines import in_memory
from flowguard.testing.explorer.checks.equivalence import End, Free
from flowguard.testing.explorer.checks.invariants import Invariant
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import NOTHING, Schedule
from flowguard.testing.explorer.report.diagnosis import Effects
from flowguard.testing.explorer.report.findings import Report, Violation
from flowguard.testing.explorer.run.inbox import Given
from flowguard.testing.explorer.run.sandbox import Needs, Sandbox
from flowguard.testing.explorer.search.found_violations import Group
from flowguard.testing.explorer.search.next_schedules import SearchBudget, planned
from flowguard.testing.explorer.search.right_ends import Without
from flowguard.testing.explorer.search.runs import Runs
from flowguard.testing.explorer.search.search import Search
from tests.proofs.prove import probes
from tests.proofs.prove.fork import grant


class WholeSandbox(Sandbox):
    """Runs each schedule from its first message: the code may be another one than in the schedule before."""

    @property
    def shares(self) -> bool:
        return False


@dataclass(frozen=True)
class Case:
    """Flows and the messages that start them.

    ``also`` are schedules beside all single faults and ``bound`` pairs; ``only`` are instead of all of them. ``timed``:
    what is right depends on when something comes, so every end that the whole flowguard comes to is. Texts above
    ``offload_above`` bytes go to S3. ``answers`` are those of parties outside. ``share`` is how many of the single
    faults are tried, evenly spread: all, where None.
    """

    name: str
    flows: Sequence[AnyFlow]
    messages: Sequence[Given]
    tables: Mapping[str, str] = field(default_factory=dict)
    free: Free = field(default_factory=dict)
    invariants: Sequence[Invariant] = ()
    bound: int = 0
    walks: int = 0
    also: Sequence[str] = ()
    only: Sequence[str] = ()
    timed: bool = False
    offload_above: int | None = None
    answers: Mapping[str, object] = field(default_factory=dict)
    share: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether a schedule that only a mutant can have is judged rightly too."""
        return not (self.only or self.timed or self.share)

    @contextmanager
    def sandbox(self, kind: type[Sandbox] = WholeSandbox) -> Iterator[Sandbox]:
        about: dict[str, Any] = {"offload_above": self.offload_above, "needs": Needs(answers=self.answers)}
        with kind(self.flows, self.messages, self.tables, in_memory, 0, **about) as sandbox:
            yield sandbox


class Effort(NamedTuple):
    """How many schedules of two faults, and of more, each case gets beside its own; and how many of all that can tell
    a mutant apart are tried on it, spread evenly. ``until``: a mutant that has outlived so many schedules of all cases
    is left; None where every schedule is tried that can tell it apart."""

    bound: int = 0
    walks: int = 0
    most: int = 60
    until: int | None = None


def spread(schedules: Sequence[str], most: int) -> Sequence[str]:
    """The first of them, and others evenly."""
    if len(schedules) <= most:
        return schedules
    return [schedules[place * len(schedules) // most] for place in range(most)]


@dataclass(frozen=True)
class Truth:
    """What the whole flowguard does with a case.

    ``references`` are its right ends, ``without`` those without some answers or first messages.
    ``calls`` are those of the undisturbed run: a mutant that needs others costs more than it should. ``candidates``
    are, by a mutant's number, schedules that can tell it apart; ``met`` is how many there are of them.
    """

    references: Mapping[str, End]
    without: Mapping[Without, Mapping[str, End]]
    calls: Sequence[str]
    undisturbed: Sequence[Effects]
    candidates: Mapping[int, Sequence[str]]
    met: Mapping[int, int]
    report: Report
    seconds: float


class Verdict(NamedTuple):
    """What is wrong after a schedule: the invariant's name, and a sentence."""

    rule: str
    about: str


class _WatchedRuns(Runs):
    """Notes which guards each schedule meets."""

    def __init__(self, sandbox: Sandbox, case: Case) -> None:
        super().__init__(sandbox, case.free)
        self.met: dict[str, frozenset[int]] = {}

    def run(self, schedule: Schedule) -> History:
        probes.taken()
        history = super().run(schedule)
        self.met[schedule.id] = probes.taken()
        return history


class _Watching(Search):
    """Notes which guards each schedule meets. Every end of an undisturbed order is right."""

    def __init__(self, sandbox: Sandbox, case: Case) -> None:
        self._watched = _WatchedRuns(sandbox, case)
        super().__init__(self._watched, case.invariants, any_order=True)
        self._case = case
        self._wrong: set[str] = set()

    def violations(self, history: History) -> dict[Group, Violation]:
        if self._case.timed:
            end = self.runs.end(history)
            self.right.ends[end.digest] = end
        return super().violations(history)

    def truth(self, effort: Effort) -> Truth:
        began = time.perf_counter()
        report = self._some() if self._case.only else self._all(effort)
        able = self._able()
        candidates = {number: tuple(spread(schedules, effort.most)) for number, schedules in able.items()}
        met = {number: len(schedules) for number, schedules in able.items()}
        seconds = time.perf_counter() - began
        calls = calls_of(self.runs.run(Schedule()))
        right = self.right
        return Truth(right.ends, right.without, calls, right.undisturbed, candidates, met, report, seconds)

    def _some(self) -> Report:
        first = self.references()
        for schedule in self._case.only:
            self._try(Schedule.parse(schedule))
        return self.report(first)

    def _all(self, effort: Effort) -> Report:
        case = self._case
        if case.share is not None:
            return self._spread(case.share)
        report = self.all(SearchBudget(case.bound + effort.bound, case.walks + effort.walks, 0, 20))
        for schedule in case.also:
            self._try(Schedule.parse(schedule))
        return replace(report, schedules=self.runs.count, violations=self.found.all)

    def _spread(self, share: int) -> Report:
        first = self.references()
        singles = [schedule.id for schedule in planned(first, SearchBudget(0, 0, 0, 20))]
        for schedule in dict.fromkeys([*spread(singles, share), *self._case.also]):
            self._try(Schedule.parse(schedule))
        return self.report(first)

    def _able(self) -> Mapping[int, Sequence[str]]:
        """By a mutant's number the schedules that can tell it apart, as they were run; none that end wrong anyway."""
        found: dict[int, list[str]] = {}
        for schedule, numbers in self._watched.met.items():
            for number in numbers if schedule not in self._wrong else ():
                found.setdefault(number, []).append(schedule)
        return found

    def check(self, schedule: Schedule) -> tuple[History, dict[Any, Violation]]:
        history, found = super().check(schedule)
        if found:
            self._wrong.add(schedule.id)
        return history, found


class _Judging(Search):
    """Holds a mutant's ends against those of the whole flowguard. It checks in a process that was forked."""

    def __init__(self, sandbox: Sandbox, case: Case, truth: Truth) -> None:
        super().__init__(Runs(sandbox, case.free), case.invariants, any_order=True)
        self.right.ends = dict(truth.references)
        self.right.without = {without: dict(ends) for without, ends in truth.without.items()}
        self.right.undisturbed = list(truth.undisturbed)
        self._calls = truth.calls

    def wrong(self, schedule: str) -> Verdict | None:
        """What is wrong after it."""
        try:
            history, found = self.check(Schedule.parse(schedule))
        except Exception as error:  # not even the explorer could go on: nothing of this kind happens undisturbed
            return Verdict("explorer", f"{type(error).__name__}: {error}")
        for violation in found.values():
            return _verdict(violation)
        if schedule == NOTHING and (calls := calls_of(history)) != self._calls:
            return Verdict("undisturbed", f"{len(calls)} calls, and others than the {len(self._calls)} that it takes")
        return None

    def check(self, schedule: Schedule) -> tuple[History, dict[Any, Violation]]:
        grant()
        return super().check(schedule)

    def references(self) -> History:
        return self.runs.run(Schedule())


def watch(case: Case, effort: Effort) -> Truth:
    """In a process with probes."""
    with case.sandbox() as sandbox:
        return _Watching(sandbox, case).truth(effort)


def undisturbed(case: Case, truth: Truth) -> None:
    """Run the case once, without a mutant and in a sandbox of its own, whose threads have ended afterwards."""
    with case.sandbox() as sandbox:
        _Judging(sandbox, case, truth).references()


def judge(sandbox: Sandbox, case: Case, truth: Truth, schedules: Iterable[str]) -> tuple[int, str, Verdict] | None:
    """The first of these schedules after which something is wrong: how many that took, its id, and what is wrong."""
    judging = _Judging(sandbox, case, truth)
    for tried, schedule in enumerate(schedules, 1):
        if (wrong := judging.wrong(schedule)) is not None:
            return tried, schedule, wrong
    return None


def judge_its_own(sandbox: Sandbox, case: Case, truth: Truth, effort: Effort) -> tuple[int, str, Verdict] | None:
    """All single faults of the mutant's own calls: it may make some that the whole flowguard does not make."""
    report = _Judging(sandbox, case, truth).all(SearchBudget(effort.bound, effort.walks, 0, 1))
    for violation in report.violations:
        return report.schedules, violation.schedule, _verdict(violation)
    return None


def calls_of(history: History) -> tuple[str, ...]:
    """Each call of a run, and how it was answered."""
    return tuple(f"{made.operation} {made.target} {made.error or ''}" for made in history.calls)


def _verdict(violation: Violation) -> Verdict:
    problem = violation.problems[0]
    return Verdict(violation.rule, f"{problem.where}: {problem.text}")
