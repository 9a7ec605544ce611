"""Which schedules are run: undisturbed orders first, then every single fault, then pairs, then random walks."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from flowguard.testing.explore.cure import Effects, cure, effects
from flowguard.testing.explore.driver import run
from flowguard.testing.explore.equivalence import End, Free, end_of, nearest
from flowguard.testing.explore.faults import kinds_at
from flowguard.testing.explore.ground import Ground
from flowguard.testing.explore.history import History
from flowguard.testing.explore.invariants import Invariant, broken
from flowguard.testing.explore.problem import Problem
from flowguard.testing.explore.report import Report, Violation
from flowguard.testing.explore.schedule import ERRORS, Choice, Kind, Schedule
from flowguard.testing.explore.shrink import shrunk
from flowguard.testing.explore.timeline import called, struck, timeline

MOST_ORDERS: Final = 200
TO_THE_END: Final = 999
"""Calls that others make before a worker which is held up goes on: all there are."""

INTERLEAVED: Final = (0, 1, 2, 3, 4, TO_THE_END)
WALKED: Final = tuple(kind for kind in Kind if kind is not Kind.REORDERED)

Group = tuple[str, str, str]
"""Problems that are one: the rule, what it is about, and the line to change."""


@dataclass(frozen=True, slots=True)
class Budget:
    """``bound`` is how many schedules of two faults are tried, ``walks`` how many of more. After ``most`` different
    violations the search ends."""

    bound: int
    walks: int
    seed: int
    most: int


class Search:
    """Runs schedules and remembers of each no more than what it adds."""

    def __init__(self, ground: Ground, invariants: Sequence[Invariant], free: Free) -> None:
        self._ground = ground
        self._invariants = tuple(invariants)
        self._free = free
        self._ends: dict[str, list[Problem]] = {}
        self._references: dict[str, End] = {}
        self._undisturbed: list[Effects] = []
        self._coverage: dict[str, set[Kind]] = {}
        self._found: dict[Group, Violation] = {}
        self._schedules = 0
        self._orders = 0

    # -- one schedule

    def references(self) -> History:
        """Every undisturbed order of deliveries, up to a bound: what the end may be. The first order's history."""
        first = self._run(Schedule())
        ahead = [Schedule()]
        while ahead and self._orders < MOST_ORDERS:
            schedule = ahead.pop()
            history = self._run(schedule) if schedule.choices else first
            self._orders += 1
            end = end_of(history, self._ground.keys, self._free)
            self._references[end.digest] = end
            self._undisturbed.append(effects(history))
            ahead += [schedule.and_then(choice) for choice in _reorderings(history)]
        return first

    def check(self, schedule: Schedule) -> tuple[History, dict[Group, Violation]]:
        """Run it, and what is wrong after it."""
        history = self._run(schedule)
        found: dict[Group, Violation] = {}
        for problem in self._problems(history):
            likely = cure(history, self._undisturbed, problem)
            group = (problem.rule, problem.where, str(likely.site))
            if group in found:
                found[group] = replace(found[group], problems=(*found[group].problems, problem))
                continue
            found[group] = Violation(schedule.id, (problem,), likely.site, likely.text, struck(history), ())
        return history, found

    def _run(self, schedule: Schedule) -> History:
        self._schedules += 1
        history = run(self._ground, schedule)
        self._cover(history)
        return history

    def _cover(self, history: History) -> None:
        of_record = {one.record: one.stage for one in history.deliveries if one.stage}
        stages = {one.worker: of_record.get(one.record) for one in history.deliveries}
        for made in history.calls:
            met = self._coverage.setdefault(f"{stages[made.worker] or '?'}: {called(made)}", set())
            met |= {*made.held, *([made.fault] if made.fault is not None else ())}

    def _problems(self, history: History) -> list[Problem]:
        found = list(broken(history, self._ground.flows, self._invariants))
        end = end_of(history, self._ground.keys, self._free)
        if end.digest not in self._ends:
            self._ends[end.digest] = [] if end.digest in self._references else nearest(end, self._references.values())
        differ = self._ends[end.digest]
        gave_up = history.schedule.has(ERRORS) and any(problem.rule == "I14" for problem in differ)
        return found + ([] if gave_up else differ)

    # -- all of them

    def all(self, budget: Budget) -> Report:
        first = self.references()
        seconds: list[Schedule] = []
        for schedule in self._schedules_of(first, seconds, budget):
            history = self._try(schedule)
            if len(self._found) >= budget.most:
                break
            if len(schedule.choices) == 1:
                seconds += [schedule.and_then(choice) for choice in _choices(history, after=schedule.choices[0])]
        return Report(
            flows=tuple(flow.name for flow in self._ground.flows),
            schedules=self._schedules,
            orders=self._orders,
            ends=len(self._ends),
            pairs_left=max(0, len(seconds) - budget.bound),
            coverage={name: "".join(sorted(kinds)) for name, kinds in sorted(self._coverage.items())},
            violations=tuple(self._found.values()),
        )

    @staticmethod
    def _schedules_of(first: History, seconds: Sequence[Schedule], budget: Budget) -> Iterator[Schedule]:
        """``seconds`` grows while the single faults are tried."""
        yield Schedule()
        yield from (Schedule((choice,)) for choice in _choices(first))
        yield from _spread(seconds, budget.bound)
        yield from _walks(first, budget)

    def _try(self, schedule: Schedule) -> History:
        history, found = self.check(schedule)
        for group, violation in found.items():
            if group in self._found:
                self._found[group] = replace(self._found[group], times=self._found[group].times + 1)
            else:
                self._found[group] = self._shortest(group, schedule, violation)
        return history

    def _shortest(self, group: Group, schedule: Schedule, violation: Violation) -> Violation:
        shorter = shrunk(schedule, lambda one: group in self.check(one)[1])
        history, found = self.check(shorter)
        return replace(found.get(group, violation), timeline=timeline(history))


# -- what can go wrong next --------------------------------------------------------------------------------------------


def _reorderings(history: History) -> Iterator[Choice]:
    last = max((choice.at for choice in history.schedule.choices), default=0)
    for number, delivery in enumerate(history.deliveries, 1):
        if number > last:
            yield from (Choice(number, Kind.REORDERED, more) for more in range(1, delivery.others + 1))


def _choices(history: History, *, after: Choice | None = None) -> Iterator[Choice]:
    """Every fault at every call and delivery, later than the one that there is."""
    firsts = {delivery.calls[0] for delivery in history.deliveries if delivery.calls}
    beyond = after.at if after is not None and after.kind not in {Kind.DUPLICATED, Kind.REORDERED} else 0
    for made in history.calls[beyond:]:
        for kind in kinds_at(made, first=made.number in firsts):
            for more in INTERLEAVED if kind is Kind.HELD_UP and after is None else (0,):
                yield Choice(made.number, kind, more)
    if after is None:
        for number in range(1, len(history.deliveries) + 1):
            yield from (Choice(number, Kind.DUPLICATED, more) for more in (0, 1))


def _spread(schedules: Sequence[Schedule], bound: int) -> Sequence[Schedule]:
    """All of them, or as many as the bound allows, evenly."""
    if len(schedules) <= bound:
        return schedules
    return [schedules[place * len(schedules) // bound] for place in range(bound)]


def _walks(first: History, budget: Budget) -> Iterator[Schedule]:
    draw = random.Random(budget.seed)  # noqa: S311 - repeatable on purpose
    calls, deliveries = len(first.calls), len(first.deliveries)
    for _ in range(budget.walks):
        choices = []
        for _ in range(draw.randint(2, 5)):
            kind = draw.choice(WALKED)
            at = draw.randint(1, 2 * (deliveries if kind is Kind.DUPLICATED else calls))
            choices.append(Choice(at, kind, draw.choice(INTERLEAVED) if kind is Kind.HELD_UP else 0))
        yield Schedule(tuple(sorted(choices)))
