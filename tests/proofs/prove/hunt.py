"""Who kills which mutant: a few schedules of one case after the other, until it is dead or every schedule was tried.

Each mutant is killed in a process of its own, which is forked from one where the case is already set up.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from flowguard.testing.explorer.run.sandbox import Sandbox
from tests.garbage import spare_what_is_there
from tests.proofs.prove.fork import forked_in_turn, pool, share_clients
from tests.proofs.prove.judge import Case, Effort, Truth, Verdict, judge, judge_its_own, spread, undisturbed, watch
from tests.proofs.prove.mutant import Mutant
from tests.proofs.prove.mutants import Mutants
from tests.proofs.prove.protocol import allow_unused

FIRST: Final = 10
"""Schedules of a case in its first round."""

CHUNK: Final = 10
"""Mutants that one process tries on a case: few, so that at the end no core waits for long."""


_Step: TypeAlias = tuple[int, Sequence[str] | None]
"""A case or a mutant, and schedules of that case to be tried on that mutant; None for those of its own calls."""


class Kill(NamedTuple):
    """``schedules`` is how many it took, of all cases."""

    case: str
    schedule: str
    verdict: Verdict
    schedules: int


class Work(NamedTuple):
    """Some mutants, and for each the schedules of one case; None for those that its own calls give."""

    case: int
    jobs: Sequence[_Step]


class _Ahead:
    """What is next for each mutant, by the case. No mutant waits for another one: then no core is idle before the end.

    A process is given mutants of the case that has most of them, since it sets the case up once for all of them.
    """

    def __init__(self, plans: Mapping[int, Sequence[_Step]]) -> None:
        self._left = {number: iter(plan) for number, plan in plans.items()}
        self._by_case: dict[int, list[_Step]] = {}
        self.go_on(plans)

    def go_on(self, numbers: Iterable[int]) -> None:
        """Put the next step of each of these mutants where it is looked for. A mutant may have none left."""
        for number in numbers:
            if (step := next(self._left[number], None)) is not None:
                case, schedules = step
                self._by_case.setdefault(case, []).append((number, schedules))

    def work(self) -> Work | None:
        """Take what a process shall do next."""
        if not self._by_case:
            return None
        case = max(self._by_case, key=lambda one: len(self._by_case[one]))
        jobs = self._by_case.pop(case)
        if left := jobs[CHUNK:]:
            self._by_case[case] = left
        return Work(case, jobs[:CHUNK])


@dataclass
class Hunt:
    """``truths`` are by the place of the case."""

    mutants: Mutants
    cases: Sequence[Case]
    jobs: int
    effort: Effort = field(default_factory=Effort)
    truths: list[Truth] = field(default_factory=list)
    kills: dict[int, Kill] = field(default_factory=dict)
    tried: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def watch(self) -> None:
        """The whole flowguard, case by case. The last cases take longest, so they come first."""
        with self._pool() as pool:
            self.truths = [*pool.map(_watch, reversed(range(len(self.cases))))][::-1]

    def run(self, chosen: Sequence[Mutant], limits: Mapping[int, int]) -> None:
        """``limits`` are of mutants of which little is expected: about so many schedules, instead of the effort's."""
        until = self.effort.until
        ahead = _Ahead({one.number: self._plan(one.number, limits.get(one.number, until)) for one in chosen})
        running: dict[Future[list[_Result]], Work] = {}
        with self._pool() as pool:
            while True:
                while len(running) <= self.jobs and (work := ahead.work()) is not None:
                    running[pool.submit(_hunt, work)] = work
                if not running:
                    return
                for ended in wait(running, return_when=FIRST_COMPLETED).done:
                    work = running.pop(ended)
                    self._take(self.cases[work.case].name, ended.result())
                    ahead.go_on(number for number, _ in work.jobs if number not in self.kills)

    def _take(self, case: str, results: Sequence[_Result]) -> None:
        for number, tried, found in results:
            self.tried[number] += tried
            if found is not None and number not in self.kills:
                schedule, verdict = found
                self.kills[number] = Kill(case, schedule, verdict, self.tried[number])

    def met(self, number: int) -> int:
        """How many schedules can tell the mutant apart."""
        return sum(truth.met.get(number, 0) for truth in self.truths)

    def _plan(self, number: int, limit: int | None) -> list[_Step]:
        firsts: list[_Step] = []
        rest: list[_Step] = []
        own: list[_Step] = []
        for case, truth in enumerate(self.truths):
            schedules = truth.candidates.get(number, ())
            if not schedules:
                continue
            some = spread(schedules, FIRST)
            firsts.append((case, some))
            if left := [one for one in schedules if one not in set(some)]:
                rest.append((case, left))
            if "none" in schedules and self.cases[case].is_whole:
                own.append((case, None))
        return [*firsts, *rest, *own] if limit is None else _cut(firsts, limit)

    def _pool(self) -> ProcessPoolExecutor:
        global _hunting  # noqa: PLW0603 - what the forked processes have from the start: it cannot be sent to them
        _hunting = self
        share_clients()
        return pool(self.jobs)


def _cut(steps: Sequence[_Step], limit: int) -> list[_Step]:
    """About as many schedules as the limit allows, a few of each case rather than all of one."""
    found: list[_Step] = []
    for case, schedules in steps:
        if limit > 0 and schedules is not None:
            some = spread(schedules, max(2, min(limit // 6, FIRST)))
            found.append((case, some))
            limit -= len(some)
    return found


_hunting: Hunt
_probed = False
_warm: Final[set[int]] = set()
"""Cases that ran in this process: what they import and make once, its children have from the start."""
_Result: TypeAlias = tuple[int, int, tuple[str, Verdict] | None]
"""A mutant's number, the schedules tried, and what killed it."""

# -- in the forked processes -------------------------------------------------------------------------------------------


def _watch(place: int) -> Truth:
    global _probed  # noqa: PLW0603 - a process gets its probes once
    if not _probed:
        _hunting.mutants.put_probes()
        _probed = True
    return watch(_hunting.cases[place], _hunting.effort)


def _hunt(work: Work) -> list[_Result]:
    case, truth = _hunting.cases[work.case], _hunting.truths[work.case]
    allow_unused()
    logging.disable()
    if work.case not in _warm:
        _warm.add(work.case)
        undisturbed(case, truth)
        spare_what_is_there()
    with case.sandbox() as sandbox:
        return _tried(sandbox, case, truth, work.jobs)


def _tried(sandbox: Sandbox, case: Case, truth: Truth, jobs: Sequence[_Step]) -> list[_Result]:
    """Mutants that nothing notices share a process: to fork one takes as long as some schedules.

    What was killed after others is tried again as the first of a process, since they may have left something there.
    """

    def trial(number: int, schedules: Sequence[str] | None) -> _Result:
        with _hunting.mutants.by_number(number).at_work():
            if schedules is None:
                kill = judge_its_own(sandbox, case, truth, _hunting.effort)
            else:
                kill = judge(sandbox, case, truth, schedules)
        return (number, len(schedules or ()), None) if kill is None else (number, kill[0], kill[1:])

    found: list[_Result] = []
    while left := jobs[len(found) :]:
        answers = forked_in_turn([partial(trial, *job) for job in left], _is_killed)
        found.append(answers[0] if answers else _endless(left[0][0]))
        found += [one for one in answers[1:] if not _is_killed(one)]
    return found


def _is_killed(result: _Result) -> bool:
    return result[2] is not None


def _endless(number: int) -> _Result:
    return number, 0, ("none", Verdict("explorer", "did not come to an end"))
