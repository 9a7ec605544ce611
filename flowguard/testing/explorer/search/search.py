"""The search for violations.

It runs undisturbed orders first, then every single fault, then pairs, then random walks.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from flowguard.testing.explorer.checks.free import check_answers, check_free, check_same
from flowguard.testing.explorer.checks.invariants import Invariant
from flowguard.testing.explorer.checks.problem import EQUIVALENCE, HANGS, STATE
from flowguard.testing.explorer.checks.two_versions import untaken
from flowguard.testing.explorer.checks.unanswered import unanswered
from flowguard.testing.explorer.checks.undisturbed import (
    lacking,
    mistaken,
    sent_twice,
    unawaited,
    undisturbed_ends,
    unexpected,
)
from flowguard.testing.explorer.checks.unplayed import of_drivers
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import (
    ALL_OLD,
    ALONE_WITH_TWIN,
    OF_CODE,
    Choice,
    FaultKind,
    Schedule,
)
from flowguard.testing.explorer.record.unmet import UnmetSchedule
from flowguard.testing.explorer.report.diagnosis import effects
from flowguard.testing.explorer.report.findings import Report, Violation, nobody_answers
from flowguard.testing.explorer.report.lanes import lanes
from flowguard.testing.explorer.report.lines import timeline
from flowguard.testing.explorer.run.debugger import Debugger
from flowguard.testing.explorer.run.sandbox import Sandbox
from flowguard.testing.explorer.search.found_violations import Found, Group, own_group, violations_of
from flowguard.testing.explorer.search.judge import Judge
from flowguard.testing.explorer.search.kept_state import KeptState
from flowguard.testing.explorer.search.lasting import TriedRefusals
from flowguard.testing.explorer.search.left_out import LeftOut
from flowguard.testing.explorer.search.next_schedules import SearchBudget, planned, races
from flowguard.testing.explorer.search.outcomes import FoundRun, Outcome, read, written
from flowguard.testing.explorer.search.pairs import Pairs, call_names
from flowguard.testing.explorer.search.parted import Parted
from flowguard.testing.explorer.search.parts import joined, parts_of
from flowguard.testing.explorer.search.record_orders import RecordOrders
from flowguard.testing.explorer.search.repeated_holds import RepeatedHolds
from flowguard.testing.explorer.search.right_ends import RightEnds
from flowguard.testing.explorer.search.runs import Messages, Met, Runs
from flowguard.testing.explorer.search.shrink import shrunk

FOR_ORDERS: Final = 0.3
"""The share of the time that the undisturbed orders may take."""

Progress: TypeAlias = Callable[[int, int], object]
"""Called after each schedule with the numbers of schedules and of violations until then.

Where it has a method ``hint``, that gets a text before the first schedule: what makes this exploration long.
"""


def unheard(schedules: int, violations: int) -> None:
    """Ignore the progress."""


class Search:
    """A search that runs schedules and remembers of each no more than what it adds."""

    def __init__(
        self,
        runs: Runs,
        invariants: Sequence[Invariant],
        failing: Sequence[str] | None = None,
        progress: Progress = unheard,
        *,
        any_order: bool = False,
        may_fail: Sequence[str] = (),
        invariants_only: bool = False,
    ) -> None:
        self.runs = runs
        self.right = RightEnds(runs, self._judge_order)
        self.found = Found()
        self._within: list[Search] = []
        self._refusals = TriedRefusals()
        self._ahead: deque[Messages] = deque()
        self._pairs_left = 0
        self._sandbox = runs.sandbox
        self._kept = KeptState(runs, self.right)
        self._parted = Parted(runs, self.right)
        self._any_order = any_order or self._sandbox.any_order
        self._invariants_only = invariants_only
        self._orders = None
        if not (self._any_order or invariants_only):
            self._orders = RecordOrders(runs, self.right, self._kept)
        self._invariants = tuple(invariants)
        self._failing = failing
        self._may_fail = frozenset(may_fail)
        self.has_twin = False
        self._judge = Judge(
            runs,
            self.right,
            invariants,
            self._may_fail.difference(failing or ()),
            any_order=self._any_order,
            invariants_only=invariants_only,
        )
        self._mistaken: set[str] = set()
        self._singles_left = 0
        self._first: History | None = None
        self._left_out = LeftOut(runs)
        self._progress = progress
        self._switched, self._rolls_back = 0, True
        self._began = time.perf_counter()
        self._seconds: float | None = None
        self._stopped: float | None = None

    # -- one schedule

    def references(self) -> History:
        """Run every undisturbed order of deliveries up to a bound and record what the end may be.

        Returns the first order's history.
        """
        first = self._first or self._begin()
        if first.hung is None and not first.lacks and first.at_rest:
            self.right.learn(first, (lambda: True) if self._invariants_only else self._has_learnt_for_long)
        return first

    def _begin(self) -> History:
        """Run what is undisturbed. Raises :class:`SettingsError` for arguments of which all messages know nothing."""
        first = self._first = self._left_out.first_run()
        if self.runs.has_all:
            check_free(self.runs.free, first, self._sandbox.keys, _dead_letters(self._sandbox))
            check_free(self.runs.either, first, self._sandbox.keys, _dead_letters(self._sandbox), "either")
            check_same(self.runs.same, first)
            all_await = self._sandbox.old is None and not self._sandbox.answers_are_declared
            if all_await:  # a module's are for all messages, and these, or this version, may await nothing
                check_answers(self._sandbox.parties.given, first)
        return first

    def again(self, schedule: Schedule) -> tuple[History, tuple[Violation, ...]]:
        """Run a schedule of a report once more and return its history with all that the report said of it."""
        if schedule.only and schedule.only[-1] > len(self.runs.all):
            part = "+".join(map(str, schedule.only))
            raise UnmetSchedule(schedule.id, f"{part}/", f"there are {len(self.runs.all)} first messages")
        if schedule.has_twin and self._sandbox.twin is None:
            raise UnmetSchedule(schedule.id, "1+1/", "the first message has no twin, or is not the only one")
        search = self._of_twin() if schedule.has_twin else self
        with self.runs.only(schedule.only):
            return search._again(schedule)

    def debug(self, schedule: Schedule, history: History, violations: Sequence[Violation], debugger: Debugger) -> None:
        """Run a schedule once more, and stop where what is wrong comes from."""
        search = self._of_twin() if schedule.has_twin else self
        with self.runs.only(schedule.only):
            made = self._parted.stop_of(history, violations, search.references())
            is_users = made is not None and made.site.is_users
            debugger.arm(made.number if made and is_users else None, made.worker if made and not is_users else None)
            with self._sandbox.debugged(debugger):
                self.runs.run(schedule)

    def _again(self, schedule: Schedule) -> tuple[History, tuple[Violation, ...]]:
        first = self.references()
        if not schedule.choices and self.runs.has_all:
            self._judge_undisturbed(first)
        if schedule.choices == (ALL_OLD,):
            self._old_run()
        if not (self._is_useless(first) or self.runs.is_batched):
            self._kept.judge(first, self.found)
            if self._orders is not None and all(choice.kind is FaultKind.REORDERED for choice in schedule.choices):
                self._orders.judge(first, self.found, schedule.of(()))
        named = self.found.of(schedule)
        history, violations = self.check(schedule)
        for group, violation in violations.items():
            known = self._kept.named(self._parted.with_step(violation, history, self._first), history)
            named.setdefault(own_group(known) if known.rule == STATE else group, known)
        return history, tuple(named.values())

    def check(self, schedule: Schedule) -> tuple[History, dict[Group, Violation]]:
        """Run a schedule and return its history with what is wrong after it."""
        history = self.runs.run(schedule)
        return history, self.violations(history)

    def violations(self, history: History) -> dict[Group, Violation]:
        """Return what is wrong after a run."""
        return violations_of(history, self._judge.problems(history, self._first), self.right.undisturbed)

    # -- all of them

    def all(self, budget: SearchBudget) -> Report:
        """Run the search to its end. One that is interrupted reports what it has found."""
        self._seconds = budget.seconds
        budget = replace(budget, distrusted=self._sandbox.distrusted, weather=self._sandbox.weather)
        try:
            return self._searched(budget)
        except KeyboardInterrupt:
            if self._first is None:
                raise
            return replace(self.report(self._first), is_complete=False)

    def _searched(self, budget: SearchBudget) -> Report:
        first = self._begin()
        self._hint(first)
        parts = self._parts(first)
        if len(parts) > 1:
            self.right.undisturbed.append(effects(first))
            self._judge_undisturbed(first)
            self._in_parts(parts, budget)
        else:
            self.references()
            self._judge_undisturbed(first)
            self._whole(first, budget)
        self._with_twin(first, budget)
        return self.report(first)

    def _hint(self, first: History) -> None:
        """Say at once what nobody answers: each schedule then lasts until the deadlines."""
        hint = getattr(self._progress, "hint", None)
        if hint is not None and (names := unanswered(first)):
            hint(nobody_answers(names))

    def _whole(self, first: History, budget: SearchBudget) -> None:
        """Search with all messages that come now."""
        pairs = Pairs(are_tried=budget.bound > 0)
        for problem in untaken(first) if self._sandbox.old is not None else ():
            self.found.add(problem, first, self.right.undisturbed)
        if self._is_useless(first):
            if not first.at_rest:
                self._try(Schedule())
            return
        budget, self._rolls_back = replace(budget, old=self._old_run()), budget.rollback
        if self.runs.is_batched:
            first = self.runs.run(Schedule())
        else:
            self._kept.judge(first, self.found)
            if self._orders is not None:
                self._orders.judge(first, self.found)
        self._search(first, pairs, budget)
        self._pairs_left = max(0, len(pairs) - budget.bound)

    def _old_run(self) -> History | None:
        """Run what is undisturbed by the older code. None where there is none, or it does not work by itself."""
        if self._sandbox.old is None:
            return None
        old = self.runs.run(Schedule((ALL_OLD,)))
        may_fail = self._may_fail | of_drivers(old)
        problems = list(lacking(old)) or [
            *unexpected(undisturbed_ends(old), self._failing or (), may_fail),
            *untaken(old),
        ]
        for problem in problems:
            self.found.add(problem, old, self.right.undisturbed)
        return None if problems or old.hung is not None or not old.at_rest else old

    # -- with a twin

    def _with_twin(self, first: History, budget: SearchBudget) -> None:
        """Search what the only message and its twin do to one another, where nothing else is wrong.

        Without pairs and walks that is left out as well. Invariants are about the messages that were given.
        """
        if self._sandbox.twin is None or len(self.found) or self._invariants_only or self._is_over():
            return
        if not (budget.twin or budget.bound or budget.walks):
            return
        if self._is_useless(first) or undisturbed_ends(first) == () or budget.weather or self.runs.is_batched:
            return
        search = self._of_twin()
        with self.runs.only(ALONE_WITH_TWIN):
            self.has_twin = search._raced()

    def _of_twin(self) -> Search:
        """Return the search of both messages. Which of two plain records goes first may well decide how they end."""
        search = Search(self.runs, (), None, self._progress, any_order=not self._sandbox.flows or self._any_order)
        search.found, search._seconds, search._began = self.found, self._seconds, self._began
        return search

    def _raced(self) -> bool:
        """Run each race of the message and its twin. Answer whether that could be done: the twin may fail by right."""
        first = self.references()
        if self._is_useless(first) or any(end.has_failed for end in undisturbed_ends(first)):
            return False
        self._kept.judge(first, self.found)
        if self._orders is not None:
            self._orders.judge(first, self.found)
        for schedule in races(first):
            if len(self.found) or self._is_over():
                break
            self._try(schedule)
            self._progress(self.runs.count, len(self.found))
        return True

    # -- in parts

    def _parts(self, first: History) -> list[Messages]:
        """Return the first messages in parts that can be searched by themselves. One or none where they cannot.

        An invariant may be about all of them, and what a stub's function answers may depend on what it was asked.
        """
        if self._invariants or self._sandbox.has_batches or self._sandbox.has_stub_functions:
            return []
        if first.hung or first.lacks or not first.at_rest:
            return []
        return parts_of(first, {number: self.runs.all[number - 1] for number in self.runs.numbers})

    def _in_parts(self, parts: Sequence[Messages], budget: SearchBudget) -> None:
        """Search each part, and those together that have met under some fault."""
        shared = replace(budget, bound=-(-budget.bound // len(parts)), walks=-(-budget.walks // len(parts)))
        ahead, done = self._ahead, set[Messages]()
        ahead.extend(parts)
        while ahead and len(self.found) < budget.most:
            self._part(ahead[0], shared, len(ahead), self._refusals if ahead[0] in parts else TriedRefusals())
            done.add(ahead.popleft())
            if not ahead:
                ahead.extend(messages for messages in self._joined(done) if messages not in done)

    def _joined(self, done: Iterable[Messages]) -> list[Messages]:
        """Return these parts after joining those that met under some fault: all, where a module kept something then."""
        if self.runs.has_kept:
            return [self.runs.numbers]
        return joined({messages: self.runs.touched[messages] for messages in done})

    def _part(self, part: Messages, budget: SearchBudget, left: int, refusals: TriedRefusals) -> None:
        """Search with these messages alone. ``left`` parts share the time that is left."""
        search = Search(
            self.runs,
            self._invariants,
            self._failing,
            self._progress,
            any_order=self._any_order,
            may_fail=tuple(self._may_fail),
            invariants_only=self._invariants_only,
        )
        search.found, search._refusals = self.found, refusals
        if self._seconds is not None:
            search._seconds = max(0.0, self._seconds - (time.perf_counter() - self._began)) / left
        self._within.append(search)
        with self.runs.only(part):
            search._whole(search.references(), budget)

    def _is_over(self) -> bool:
        """Answer whether the search has lasted as long as it may."""
        return self._seconds is not None and time.perf_counter() - self._began >= self._seconds

    def _has_learnt_for_long(self) -> bool:
        """Answer whether the undisturbed orders have had their share of the time. The rest is for faults."""
        return self._seconds is not None and time.perf_counter() - self._began >= self._seconds * FOR_ORDERS

    def _judge_undisturbed(self, first: History) -> None:
        """Find what fails though nothing goes wrong, where the search knows what is expected to."""
        if self._failing is None:
            return
        ends = undisturbed_ends(first)
        may_fail = self._may_fail | of_drivers(first)
        for problem in list(lacking(first)) or [*unexpected(ends, self._failing, may_fail), *sent_twice(first)]:
            self.found.add(problem, first, self.right.undisturbed)

    def _judge_order(self, history: History) -> None:
        """Find what an error in code ends in another undisturbed order. One order that shows it is enough."""
        if self._failing is None or self._first is None or self._is_useless(self._first):
            return
        meant = {*self._failing, *self._may_fail, *of_drivers(history)}
        for problem in mistaken(undisturbed_ends(history), meant):
            if problem.where not in self._mistaken:
                self._mistaken.add(problem.where)
                self.found.add(problem, history, self.right.undisturbed)

    def _is_useless(self, first: History) -> bool:
        """Answer whether there is no end to compare with.

        So it is where nothing runs, where each run fails though it should not, and where something breaks again and
        again: each fault would be tried at hundreds of deliveries.
        """
        if first.hung is not None or first.lacks or not first.at_rest or not _has_run(first):
            return True
        ends = undisturbed_ends(first)
        return bool(len(self.found) and ends) and all(
            end.has_failed and end.of not in {*(self._failing or ()), *self._may_fail} for end in ends
        )

    def _search(self, first: History, pairs: Pairs, budget: SearchBudget) -> None:
        refusals = self._refusals.new(first, tuple(call_names(first)))
        singles = {schedule.id for schedule in planned(first, replace(budget, walks=0), refusals=refusals)}
        self._singles_left = len(singles)
        holds = RepeatedHolds()
        for schedule, at_once in self._schedules_of(first, pairs, budget, refusals):
            self._singles_left -= schedule.id in singles
            if (seconds := holds.seconds_after(schedule)) is not None:
                pairs.add(schedule, seconds)
                continue
            outcome = self._try(schedule)
            holds.add(schedule, outcome.alike, outcome.seconds or ())
            self._progress(self.runs.count, len(self.found))
            if len(self.found) >= budget.most or outcome.is_hung:
                break
            if self._is_over():
                self._stopped = self._seconds
                break
            at_once += [schedule.and_then(choice) for choice in outcome.follow_ups]
            if outcome.seconds is not None:
                pairs.add(schedule, outcome.seconds)

    def report(self, first: History) -> Report:
        """Return what has been found so far."""
        every = [self, *self._within]
        return Report(
            flows=self._sandbox.names,
            schedules=self.runs.count,
            orders=sum(search.right.orders for search in every),
            ends=len(set[str]().union(*(search._judge.distinct for search in every))),
            pairs_left=sum(search._pairs_left for search in every),
            coverage=self.runs.coverage,
            violations=self.found.all,
            undisturbed=lanes(first),
            undisturbed_ends=undisturbed_ends(first),
            stopped_after=None if all(search._stopped is None for search in every) else self._seconds,
            uncounted=self.runs.uncounted,
            has_all_orders=not self._sandbox.flows
            or self._invariants_only
            or all(search.right.has_all for search in every),
            unjudged=sum(search._judge.unjudged for search in every),
            singles_left=sum(search._singles_left for search in every),
            has_run=_has_run(first),
            not_run=self._left_out.not_run,
            unawaited=self._left_out.named(unawaited(first)),
            elsewhere=tuple(sorted(self._sandbox.elsewhere)),
            parts=len(self._within) or 1,
            parts_left=len(self._ahead),
            has_twin=self.has_twin,
            switched=sum(search._switched for search in every),
            compared=_compared(first),
            either=tuple(f"{of}.{name}" for of, forms in sorted(self.runs.either.items()) for name in forms.names),
            never_ran=self._never_ran(),
            unanswered=unanswered(first),
            unplayed=self.runs.unplayed,
        )

    def _never_ran(self) -> tuple[str, ...]:
        """Return the stages of which no call was met. Each makes one: it claims its hop, or reads it."""
        met = {name.partition(": ")[0] for name in self.runs.coverage}
        stages = {stage.name: None for flow in self._sandbox.flows for stage in flow.stages}
        return tuple(name for name in stages if name not in met)

    def _schedules_of(
        self, first: History, pairs: Pairs, budget: SearchBudget, refusals: Sequence[Choice]
    ) -> Iterator[tuple[Schedule, list[Schedule]]]:
        """Yield each schedule with a list. What is put into the list is tried next.

        ``pairs`` grow while the single faults are tried.
        """
        for schedule in planned(first, budget, lambda bound: pairs.chosen(bound, self.runs.has_met), refusals):
            ahead = [schedule]
            while ahead:
                yield ahead.pop(0), ahead

    def _try(self, schedule: Schedule) -> Outcome:
        """Run a schedule, or take what an earlier search noted of it."""
        self._switched += schedule.has(OF_CODE)
        known = self.runs.known
        if known is not None and (run := known.find(self.runs.name_of(schedule))) is not None:
            return self._taken(read(run))
        history, violations = self.check(schedule)
        if not self._rolls_back and schedule.ends_old:  # it was run for what follows
            violations = {}
        outcome = Outcome.of(schedule, history, self._sandbox.flows, commutes=self.right.commutes(history))
        if known is not None and schedule.choices and not violations and self._judge.is_whole(history):
            known.note(self.runs.name_of(schedule), written(Met.of(history), outcome, self._judge.latest))
        self._collect(schedule, violations)
        return outcome

    def _taken(self, run: FoundRun) -> Outcome:
        """Count a run that an earlier search has made. The orders that explain its end are run."""
        self.runs.take(run.met)
        judged = run.judgement
        if judged.asked is not None:
            self.right.look_for(judged.digest, *judged.asked)
        if judged.counts:
            self._judge.distinct.add(judged.digest)
        return run.outcome

    def _collect(self, schedule: Schedule, violations: Mapping[Group, Violation]) -> None:
        """Note what is wrong after a schedule, by the shortest that shows it."""
        follows = self.found.follow(schedule, violations.values())
        for group, violation in violations.items():
            known = self.found.known(group)
            if known is None and follows and violation.rule == EQUIVALENCE:
                continue
            if known is None or len(schedule.choices) < len(Schedule.parse(known.schedule).choices):
                known = self._shortest(group, schedule, violation)
            self.found.note(group, known)

    def _shortest(self, group: Group, schedule: Schedule, violation: Violation) -> Violation:
        if violation.rule == HANGS:  # each schedule that shows it takes as long
            return violation
        shorter = shrunk(schedule, lambda candidate: group in self.check(candidate)[1])
        history, violations = self.check(shorter)
        shortest = replace(violations.get(group, violation), timeline=timeline(history), lanes=lanes(history))
        return self._kept.named(self._parted.with_step(shortest, history, self._first), history)


def _has_run(history: History) -> bool:
    """Answer whether any message was for what is explored."""
    return bool(undisturbed_ends(history) or history.posted or history.lacks or history.hung)


def _compared(history: History) -> tuple[str, ...]:
    """Return the tables, destinations and parties of which ends are compared."""
    sent = {message.name for message in history.posted if message.to not in history.inner and not message.says_to}
    return tuple(sorted({*history.tables, *sent}))


def _dead_letters(sandbox: Sandbox) -> list[str]:
    """Return the names of the flows' dead-letter queues, which are empty while nothing goes wrong."""
    return [str(flow.dead_letters).rpartition(":")[2] for flow in sandbox.flows]
