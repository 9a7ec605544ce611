"""The search for violations.

It runs undisturbed orders first, then every single fault, then pairs, then random walks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from flowguard.testing.explorer.checks.compared import is_compared
from flowguard.testing.explorer.checks.equivalence import End, Free, differences, end_of, nearest
from flowguard.testing.explorer.checks.failures import failed_by_right
from flowguard.testing.explorer.checks.free import check_answers, check_free, check_same
from flowguard.testing.explorer.checks.invariants import Invariant, broken
from flowguard.testing.explorer.checks.lateness import came_late, was_parked
from flowguard.testing.explorer.checks.leaked_state import order_problem, state_problem
from flowguard.testing.explorer.checks.problem import EQUIVALENCE, HANGS, STATE, Problem
from flowguard.testing.explorer.checks.standing import Standing
from flowguard.testing.explorer.checks.undisturbed import lacking, undisturbed_ends, unexpected
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import FOR_GOOD, OF_ANSWERS, RAISED, Choice, FaultKind, Schedule
from flowguard.testing.explorer.record.view import Same
from flowguard.testing.explorer.report.diagnosis import Diagnosis, Effects, diagnose, effects
from flowguard.testing.explorer.report.findings import Report, Violation
from flowguard.testing.explorer.report.lanes import lanes
from flowguard.testing.explorer.report.lines import called, struck, timeline
from flowguard.testing.explorer.run.driver import run
from flowguard.testing.explorer.run.sandbox import Sandbox
from flowguard.testing.explorer.search.next_schedules import SearchBudget, choices_in, follow_ups, planned, reorderings
from flowguard.testing.explorer.search.shrink import shrunk

__all__ = ["Search", "SearchBudget"]

MOST_ORDERS: Final = 200
LATER: Final = 90_061_001
"""By how much a run is moved to see what depends on the time, ms: another day, hour, minute, second and millisecond."""

_SHOWN: Final = 10

Missing: TypeAlias = frozenset[Choice]
"""The answers of parties outside that do not come, or come late."""

Group = tuple[str, str, str]
"""Problems that are one: the rule, what it is about, and the line to change."""


Progress: TypeAlias = Callable[[int, int], object]
"""Called after each schedule with the numbers of schedules and of violations until then."""


def unheard(schedules: int, violations: int) -> None:
    """Ignore the progress."""


class Lacking(Exception):
    """The engine cannot answer calls of these services, which the search needs."""

    def __init__(self, services: frozenset[str]) -> None:
        super().__init__(services)
        self.services = services


class Search:
    """A search that runs schedules and remembers of each no more than what it adds."""

    def __init__(
        self,
        sandbox: Sandbox,
        invariants: Sequence[Invariant],
        free: Free,
        failing: Sequence[str] | None = None,
        progress: Progress = unheard,
        same: Same | None = None,
        *,
        any_order: bool = False,
        may_lack: bool = True,
    ) -> None:
        self._sandbox = sandbox
        self._invariants = tuple(invariants)
        self._free = free
        self._failing = failing
        self._progress = progress
        self._same = same or {}
        self._any_order = any_order
        self._may_lack = may_lack
        self._uncounted: set[str] = set()
        self._ends: dict[tuple[Missing, ...], dict[str, list[Problem]]] = {}
        self._without: dict[Missing, dict[str, End]] = {}
        self._distinct: set[str] = set()
        self._references: dict[str, End] = {}
        self._undisturbed: list[Effects] = []
        self._coverage: dict[str, set[FaultKind]] = {}
        self._found: dict[Group, Violation] = {}
        self._schedules = 0
        self._orders = 0
        self._alone: set[str] = set()
        self._named: dict[Group, Group] = {}
        self._differing: set[str] = set()
        self._moving: set[tuple[str, str]] | None = None
        self._began = time.perf_counter()
        self._stopped: float | None = None

    # -- one schedule

    def references(self) -> History:
        """Run every undisturbed order of deliveries up to a bound and record what the end may be.

        Returns the first order's history.
        """
        first = self._run(Schedule())
        check_free(self._free, first, self._sandbox.keys, _dead_letters(self._sandbox))
        check_same(self._same, first)
        if not self._sandbox.answers_are_declared:  # a module's are for all messages, and these may await nothing
            check_answers(self._sandbox.parties.given, first)
        if first.hung is None and not first.lacks:
            self._references |= self._ends_in_every_order(Schedule(), first)
        return first

    def _ends_in_every_order(self, schedule: Schedule, first: History) -> dict[str, End]:
        """Run the undisturbed orders of one schedule up to a bound and return the ends by their digests."""
        found: dict[str, End] = {}
        ahead, orders = [(schedule, first)], 0
        while ahead and orders < MOST_ORDERS:
            ordered, known = ahead.pop()
            history = known if ordered is schedule else self._run(ordered)
            orders += 1
            end = self._end(history)
            found[end.digest] = end
            self._undisturbed.append(effects(history))
            ahead += [(ordered.and_then(choice), first) for choice in reorderings(history)]
        self._orders += orders
        return found

    def _expected(self, missing: Missing) -> dict[str, End]:
        """Return the undisturbed ends where these answers do not come as they are asked for."""
        if not missing:
            return self._references
        if missing not in self._without:
            schedule = Schedule(tuple(sorted(missing)))
            self._without[missing] = self._ends_in_every_order(schedule, self._run(schedule))
        return self._without[missing]

    def _judge_orders(self, first: History, *orders: Schedule) -> None:
        """Find an end that depends on the order of a plain function's records, which no standard queue keeps."""
        if self._any_order or self._sandbox.flows or len(self._references) == 1:
            return
        for schedule in orders or [Schedule((choice,)) for choice in reorderings(first)]:
            if self._judge_order(first, schedule):
                return

    def _judge_order(self, first: History, schedule: Schedule) -> bool:
        """Find that an undisturbed order ends otherwise than the first, and answer whether it does."""
        reference, history = self._end(first), self._run(schedule)
        if self._moving is None:
            self._moving = {_place(one) for one in differences(self._end(self._run_later()), reference)}
        differ = [one for one in differences(self._end(history), reference) if _place(one) not in self._moving]
        if not differ or self._is_of_memory(history, schedule):
            return False
        self._add(order_problem(differ), history, schedule)
        return True

    def _judge_memory(self, first: History) -> None:
        """Find what a record leaves in a module for the next one. New processes would not have it."""
        if not first.kept:
            return
        ends = []
        for schedule in (Schedule(), *(Schedule((choice,)) for choice in reorderings(first))):
            alone = self._without_memory(schedule)
            ends.append(self._end(alone))
        self._alone = {end.digest for end in ends} | self._references.keys()
        if ends[0].digest not in self._references:
            differ = nearest(self._end(first), ends[:1])
            self._add(state_problem(first.kept, differ), first, Schedule())

    def _is_of_memory(self, history: History, schedule: Schedule) -> bool:
        """Answer whether an end is wrong only because of what a module kept."""
        if not (history.kept and self._alone):
            return False
        alone = self._without_memory(schedule)
        return self._end(alone).digest in self._alone

    def _end(self, history: History) -> End:
        return end_of(history, self._sandbox.keys, self._free, self._same)

    def _run_later(self) -> History:
        """Run the undisturbed schedule at another time. What differs then depends on the time, and not on an order."""
        before = self._sandbox.start
        self._sandbox.start = before + LATER
        try:
            return self._run(Schedule())
        finally:
            self._sandbox.start = before

    def _without_memory(self, schedule: Schedule) -> History:
        """Run a schedule in which each record finds a new process."""
        self._sandbox.memory.is_lost = True
        try:
            return self._run(schedule)
        finally:
            self._sandbox.memory.is_lost = False

    def _add(self, problem: Problem, history: History, schedule: Schedule) -> None:
        likely = diagnose(history, self._undisturbed, problem)
        self._found[_group(problem, likely)] = Violation(
            schedule.id, (problem,), likely.site, likely.text, *_shown(history), lanes=lanes(history)
        )

    def again(self, schedule: Schedule) -> tuple[History, tuple[Violation, ...]]:
        """Run a schedule of a report once more and return its history with all that the report said of it."""
        first = self.references()
        if schedule == Schedule():
            self._judge_undisturbed(first)
        if not (first.hung or first.lacks or self._nothing_works(first)):
            self._judge_memory(first)
            if schedule.choices and all(choice.kind is FaultKind.REORDERED for choice in schedule.choices):
                self._judge_orders(first, schedule)
        named = {_own_group(one): one for one in self._found.values() if one.schedule == schedule.id}
        history, found = self.check(schedule)
        for group, violation in found.items():
            known = self._by_its_name(violation, history, schedule)
            named.setdefault(_own_group(known) if known.rule == STATE else group, known)
        return history, tuple(named.values())

    def check(self, schedule: Schedule) -> tuple[History, dict[Group, Violation]]:
        """Run a schedule and return its history with what is wrong after it."""
        history = self._run(schedule)
        found: dict[Group, Violation] = {}
        problems = self._problems(history)
        differing = {problem.where for problem in problems}
        for problem in problems:
            likely = diagnose(history, self._undisturbed, problem, differing)
            group = _group(problem, likely)
            if group in found:
                found[group] = replace(found[group], problems=(*found[group].problems, problem))
                continue
            went_wrong, shown = _shown(history)
            own = shown if problem.rule == HANGS else ()
            found[group] = Violation(schedule.id, (problem,), likely.site, likely.text, went_wrong, own)
        return history, found

    def _run(self, schedule: Schedule) -> History:
        self._schedules += 1
        history = run(self._sandbox, schedule)
        lacking = frozenset(one.service for one in history.lacks if one.service)
        if lacking and not self._may_lack:
            raise Lacking(lacking)
        self._cover(history)
        return history

    def _cover(self, history: History) -> None:
        of_record = {one.record: one.stage for one in history.deliveries if one.stage}
        stages = {one.worker: of_record.get(one.record) for one in history.deliveries}
        for made in history.calls:
            met = self._coverage.setdefault(f"{stages[made.worker] or '?'}: {called(made)}", set())
            met |= {*made.held, *([made.fault] if made.fault is not None else ())}
            if made.site.is_users and made.applied and not is_compared(made):
                self._uncounted.add(f"{made.service} {made.operation}")

    def _problems(self, history: History) -> list[Problem]:
        found = list(broken(history, self._sandbox.flows, self._invariants, self._same))
        if history.hung is not None:  # the end is that of a run that was broken off
            return found
        end = self._end(history)
        differ = self._differences(end, tuple(_missing(history)))
        if differ and (
            Standing.of(history, self._sandbox.flows).ends_elsewhere(history)
            or came_late(history)
            or was_parked(history, self._sandbox.flows)
        ):
            return found
        if differ and _may_fail(history) and (_has_failed(differ) or failed_by_right(history)):
            return found
        self._distinct.add(end.digest)
        return found + differ

    def _differences(self, end: End, missing: tuple[Missing, ...]) -> list[Problem]:
        """Return how an end differs from the most similar of those that are right without these answers."""
        known = self._ends.setdefault(missing, {})
        if end.digest not in known:
            expected = {digest: one for several in missing for digest, one in self._expected(several).items()}
            known[end.digest] = [] if end.digest in expected else nearest(end, expected.values())
        return known[end.digest]

    # -- all of them

    def all(self, budget: SearchBudget) -> Report:
        """Run the search to its end, or until it is interrupted: then report what was found until then."""
        first = self.references()
        self._judge_undisturbed(first)
        if first.hung is not None or first.lacks or self._nothing_works(first):
            return self.report(first)
        self._judge_memory(first)
        self._judge_orders(first)
        seconds: list[Schedule] = []
        try:
            self._search(first, seconds, budget)
        except KeyboardInterrupt:
            return replace(self.report(first), is_complete=False)
        return self.report(first, pairs_left=max(0, len(seconds) - budget.bound))

    def _judge_undisturbed(self, first: History) -> None:
        """Find what fails though nothing goes wrong, where the search knows what is expected to."""
        if self._failing is None:
            return
        for problem in list(lacking(first)) or unexpected(undisturbed_ends(first), self._failing):
            self._add(problem, first, Schedule())

    def _nothing_works(self, first: History) -> bool:
        """Answer whether each run fails though it should not: then every end is alike, whatever goes wrong."""
        ends = undisturbed_ends(first)
        return bool(self._found and ends) and all(
            end.has_failed and end.of not in (self._failing or ()) for end in ends
        )

    def _search(self, first: History, seconds: list[Schedule], budget: SearchBudget) -> None:
        for schedule, at_once in self._schedules_of(first, seconds, budget):
            history = self._try(schedule)
            self._progress(self._schedules, len(self._found))
            if len(self._found) >= budget.most or history.hung is not None:
                break
            if budget.seconds is not None and time.perf_counter() - self._began >= budget.seconds:
                self._stopped = budget.seconds
                break
            at_once += [schedule.and_then(choice) for choice in follow_ups(history, self._sandbox.flows)]
            if len(schedule.choices) == 1 or (
                len(schedule.choices) == 2 and schedule.choices[-1].kind is FaultKind.REDRIVEN
            ):
                seconds += [schedule.and_then(choice) for choice in choices_in(history, after=schedule.choices[-1])]

    def report(self, first: History, pairs_left: int = 0) -> Report:
        """Return what has been found so far."""
        return Report(
            flows=self._sandbox.names,
            schedules=self._schedules,
            orders=self._orders,
            ends=len(self._distinct),
            pairs_left=pairs_left,
            coverage={name: "".join(sorted(kinds)) for name, kinds in sorted(self._coverage.items())},
            violations=tuple(self._found.values()),
            undisturbed=lanes(first),
            undisturbed_ends=undisturbed_ends(first),
            stopped_after=self._stopped,
            uncounted=tuple(sorted(self._uncounted)),
            elsewhere=tuple(sorted(self._sandbox.elsewhere)),
        )

    @staticmethod
    def _schedules_of(
        first: History, seconds: Sequence[Schedule], budget: SearchBudget
    ) -> Iterator[tuple[Schedule, list[Schedule]]]:
        """Yield each schedule with a list. What is put into the list is tried next.

        ``seconds`` grows while the single faults are tried.
        """
        for schedule in planned(first, seconds, budget):
            ahead = [schedule]
            while ahead:
                yield ahead.pop(0), ahead

    def _try(self, schedule: Schedule) -> History:
        history, found = self.check(schedule)
        follows = self._follows(schedule, found.values())
        for group, violation in found.items():
            place = self._named.get(group, group)
            known = self._found.get(place)
            times = known.times if known is not None else 0
            if known is None and follows and violation.rule == EQUIVALENCE:
                continue
            if known is None or len(schedule.choices) < len(Schedule.parse(known.schedule).choices):
                known = self._shortest(group, schedule, violation)
                if known.rule != violation.rule:  # its cause has a name, under which it may be known
                    place = self._named[group] = _own_group(known)
                    earlier = self._found.get(place)
                    known, times = (known, times) if earlier is None else (earlier, earlier.times)
            self._found[place] = replace(known, times=times + 1)
        return history

    def _follows(self, schedule: Schedule, found: Iterable[Violation]) -> bool:
        """Answer whether several faults show what one of them shows, too: what more differs then follows from that."""
        differing = {problem.where for one in found for problem in one.problems if problem.rule == EQUIVALENCE}
        if len(schedule.choices) > 1 or schedule.has(FOR_GOOD):
            return not differing.isdisjoint(self._differing)
        self._differing |= differing
        return False

    def _shortest(self, group: Group, schedule: Schedule, violation: Violation) -> Violation:
        if violation.rule == HANGS:  # each schedule that shows it takes as long
            return violation
        shorter = shrunk(schedule, lambda one: group in self.check(one)[1])
        history, found = self.check(shorter)
        shortest = replace(found.get(group, violation), timeline=timeline(history), lanes=lanes(history))
        return self._by_its_name(shortest, history, shorter)

    def _by_its_name(self, violation: Violation, history: History, schedule: Schedule) -> Violation:
        """Return a violation under the name of its cause where that is what a module keeps."""
        if violation.rule != EQUIVALENCE or not self._is_of_memory(history, schedule):
            return violation
        problem = state_problem(history.kept, violation.problems)
        likely = diagnose(history, self._undisturbed, problem)
        return replace(violation, problems=(problem,), site=likely.site, fix=likely.text)


def _group(problem: Problem, likely: Diagnosis) -> Group:
    """Return what makes problems one. What a module keeps is one problem, wherever it shows."""
    where = "" if likely.is_whole else problem.where
    return problem.rule, where, "" if problem.rule == STATE else str(likely.site)


def _own_group(violation: Violation) -> Group:
    return _group(violation.problems[0], Diagnosis(violation.site, violation.fix))


def _place(problem: Problem) -> tuple[str, str]:
    """Return what a problem is about: an attribute of an item, or all messages of a destination."""
    return problem.where, "" if problem.text.startswith(("message ", "times ")) else problem.text


def _shown(history: History) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what went wrong and the time line, as lines."""
    shown = struck(history), timeline(history)
    return shown if history.hung is None else (_shortened(shown[0]), _shortened(shown[1]))


def _shortened(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines of what does not end without most of its middle."""
    left_out = len(lines) - 2 * _SHOWN
    return (*lines[:_SHOWN], f"  … {left_out} lines …", *lines[-_SHOWN:]) if left_out > 1 else lines


def _missing(history: History) -> Iterator[Missing]:
    """Yield the answers that do not come in time. With those that were given up they are another set."""
    said = frozenset(choice for choice in history.schedule.choices if choice.kind in OF_ANSWERS)
    yield said
    not_retried = {Choice(number, FaultKind.MISSING) for number in history.not_retried}
    if not_retried - said:
        yield said | not_retried


def _dead_letters(sandbox: Sandbox) -> list[str]:
    """Return the names of the flows' dead-letter queues, which are empty while nothing goes wrong."""
    return [str(flow.dead_letters).rpartition(":")[2] for flow in sandbox.flows]


def _has_failed(differ: Sequence[Problem]) -> bool:
    """Answer whether a run failed that does not fail undisturbed."""
    return any(problem.rule == "I14" for problem in differ)


def _may_fail(history: History) -> bool:
    """Answer whether a run may have failed by right: user code met an error or SQS gave a record up."""
    disturbed = any(made.fault in RAISED and made.site.is_users for made in history.calls)
    return disturbed or any(delivery.from_dlq for delivery in history.deliveries)
