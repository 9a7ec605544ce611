"""The ends that are right: those of the undisturbed orders of deliveries."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from flowguard.testing.explorer.checks.equivalence import End, nearest
from flowguard.testing.explorer.checks.of_both import nearest_of_both
from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.checks.whole_runs import are_of_one_object, happened_in, is_of_whole_runs
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import ALL_OLD, Choice, FaultKind, Schedule
from flowguard.testing.explorer.report.diagnosis import Effects, effects
from flowguard.testing.explorer.search.next_schedules import reorderings
from flowguard.testing.explorer.search.orders import Orders
from flowguard.testing.explorer.search.runs import Runs

MOST_ORDERS: Final = 200
"""So many orders are run where they end alike."""

FEW: Final = 2
"""Of so few messages all orders are tried if they end differently, unless there are ``MOST_ORDERS_OF_FEW``."""

MOST_ORDERS_OF_FEW: Final = 1_000

MOST_TO_EXPLAIN: Final = 1_000
"""So many orders are run where a schedule ends as none of those before."""

Missing: TypeAlias = frozenset[Choice]
"""The answers of parties outside that do not come, or come late. With ``ALL_OLD`` the older code gets all."""

Without: TypeAlias = tuple[Missing, frozenset[str]]
"""The answers and the first messages that do not come."""

NOTHING_MISSING: Final[Without] = (frozenset(), frozenset())


class OrderedEnd(NamedTuple):
    """The end of one undisturbed order.

    ``is_whole`` says that it is one of whole runs, ``of_one_object`` that two requests for one object met.
    """

    schedule: Schedule
    end: End
    is_whole: bool
    of_one_object: bool


class _Tried:
    """The orders of a schedule that were run, and whether these are all."""

    def __init__(self) -> None:
        self.found: list[OrderedEnd] = []
        self.has_all = False


class RightEnds:
    """The ends of the first undisturbed orders by their digests. Others have to end like one of them.

    In all these each function of flows gets one record at once: a batch has to end as its records do one by one.

    ``ends`` are those in which all parties outside answer, ``without`` those without some answers or first messages:
    of these only so many orders are run as it takes to meet the ends that are asked for.
    ``undisturbed`` holds the effects of all these runs. ``ordered`` are the orders in which all answer, if the search
    ``has_all``, and none otherwise. ``judge`` gets each order of all messages but the first, and those in
    which an answer does not come.
    """

    def __init__(self, runs: Runs, judge: Callable[[History], None] = lambda history: None) -> None:
        self._runs = runs
        self._judge = judge
        self._known: dict[tuple[tuple[Missing, ...], frozenset[str]], dict[str, list[Problem]]] = {}
        self.ends: dict[str, End] = {}
        self.without: dict[Without, dict[str, End]] = {}
        self._ahead: dict[Without, Iterator[OrderedEnd]] = {}
        self.undisturbed: list[Effects] = []
        self.ordered: list[OrderedEnd] = []
        self.orders = 0
        self.has_all = True
        self._was_cut = False
        self._tried: _Tried | None = None
        self._lates: Iterator[End] = iter(())

    @property
    def are_known(self) -> bool:
        """Answer whether an end that is none of these is wrong: all are known, or the order makes no difference.

        That order makes none is not said of the few that were run until the time was over.
        """
        is_one = len(self.ends) == 1 and not self._was_cut
        return self.has_all or is_one or (self._tried is not None and self._tried.has_all)

    def learn(self, first: History, is_over: Callable[[], bool]) -> None:
        """Run every undisturbed order. ``first`` is the history of that in which nothing is changed.

        Where the time of the search ``is_over`` before, the other ends are not known.
        """
        tried = self._tried = _Tried()
        orders = self._in_every_order(tried, Schedule(), first, is_over)
        while next(orders, None) is not None and not self._are_enough(tried):
            pass
        self.ordered, self.has_all = tried.found, tried.has_all
        self._was_cut = not (tried.has_all or self._are_enough(tried))
        self.ends |= {order.end.digest: order.end for order in self.ordered}
        if not self.has_all:
            self.ordered = []
            self._lates = self._with_one_late(first)
            self._ahead[NOTHING_MISSING] = orders

    def _are_enough(self, tried: _Tried) -> bool:
        """Answer whether so many orders were run that only an end which none of them has asks for more."""
        is_few = len(self._runs.sandbox.coming) <= FEW and len({order.end.digest for order in tried.found}) > 1
        return len(tried.found) >= (MOST_ORDERS_OF_FEW if is_few else MOST_ORDERS)

    def differences(
        self, end: End, missing: tuple[Missing, ...], overtaken: frozenset[str] = frozenset()
    ) -> list[Problem]:
        """Return how an end differs from the most similar of those that are right without these answers.

        Where first messages were ``overtaken`` before they began, the ends without them are right, too.
        """
        known = self._known.setdefault((missing, overtaken), {})
        if end.digest not in known:
            sets = [(answers, messages) for answers in missing for messages in {frozenset[str](), overtaken}]
            is_right = self._is_of_both(end, sets) or any(self._is_expected(end.digest, without) for without in sets)
            known[end.digest] = [] if is_right else self._nearest(end, sets)
        return known[end.digest]

    def _is_of_both(self, end: End, sets: Sequence[Without]) -> bool:
        """Answer whether each part of an end is as in one that two versions of the code lead to.

        A run of each is enough for most; it is looked for before more orders are run.
        """
        if not any(ALL_OLD in answers for answers, _ in sets):
            return False
        for without in sets:
            if not self._expected(without) and (ordered := next(self._ahead.get(without, iter(())), None)) is not None:
                self._expected(without)[ordered.end.digest] = ordered.end
        return not self._nearest(end, sets)

    def _nearest(self, end: End, sets: Sequence[Without]) -> list[Problem]:
        """Return how an end differs from the most similar of those that were met, or of two versions' from both."""
        of_old = [right for without in sets if ALL_OLD in without[0] for right in self._expected(without).values()]
        of_new = [right for without in sets if ALL_OLD not in without[0] for right in self._expected(without).values()]
        if not of_old:
            return nearest(end, of_new)
        return nearest_of_both(end, of_new, of_old)

    def differences_so_far(
        self, end: End, missing: tuple[Missing, ...], overtaken: frozenset[str] = frozenset()
    ) -> list[Problem]:
        """Return how an end differs from the most similar of those that were met until now, and run no more orders."""
        sets = [(answers, messages) for answers in missing for messages in {frozenset[str](), overtaken}]
        met = {digest for without in sets for digest in self._expected(without)}
        return [] if end.digest in met or not met else self._nearest(end, sets)

    def look_for(self, digest: str, missing: tuple[Missing, ...], overtaken: frozenset[str]) -> None:
        """Run the orders that judging an end with this digest takes."""
        sets = [(answers, messages) for answers in missing for messages in {frozenset[str](), overtaken}]
        any(self._is_expected(digest, without) for without in sets)

    def _is_expected(self, digest: str, without: Without) -> bool:
        """Answer whether an undisturbed order ends like this where these answers and messages do not come.

        Orders are run until one does: most ends are those of the first.
        """
        ends = self._expected(without)
        while without == NOTHING_MISSING and digest not in ends and (late := next(self._lates, None)) is not None:
            ends.setdefault(late.digest, late)
        while digest not in ends and (ordered := next(self._ahead.get(without, iter(())), None)) is not None:
            ends.setdefault(ordered.end.digest, ordered.end)
        return digest in ends

    def _with_one_late(self, first: History) -> Iterator[End]:
        """Run the orders in which the first messages of one run come after all others, as after a worker's death.

        A copy of a message comes as late as that: it finds the run busy. Orders that change least come first otherwise,
        so these would be among the last.
        """
        for records in _of_runs(first):
            schedule, history = Schedule(), first
            while (choice := _postponing(history, records)) is not None:
                schedule = _from_then_on(schedule, choice, len(history.deliveries))
                history = self._runs.run_one_by_one(schedule)
            self.orders += 1
            self.undisturbed.append(effects(history))
            yield self._runs.end(history)

    def _expected(self, without: Without) -> dict[str, End]:
        """Return the undisturbed ends so far where these answers and messages do not come."""
        missing, overtaken = without
        if not missing and not overtaken:
            return self.ends
        if without not in self.without:
            self.without[without] = {}
            self._ahead[without] = self._ordered_without(missing, overtaken)
        return self.without[without]

    def _ordered_without(self, missing: Missing, overtaken: frozenset[str]) -> Iterator[OrderedEnd]:
        schedule = Schedule(tuple(sorted(missing)))
        first = self._runs.run_one_by_one(schedule, overtaken)
        yield from self._in_every_order(_Tried(), schedule, first, overtaken=overtaken)

    def _in_every_order(
        self,
        tried: _Tried,
        schedule: Schedule,
        first: History,
        is_over: Callable[[], bool] = lambda: False,
        overtaken: frozenset[str] = frozenset(),
    ) -> Iterator[OrderedEnd]:
        """Run the undisturbed orders of one schedule up to a bound, and yield each with its end.

        Of orders that end alike since what they change commutes, one is run. Those that change least come first.
        """
        known = tried.found
        ahead = deque([schedule])
        orders: Orders | None = Orders(schedule)
        most = MOST_ORDERS if schedule.choices or overtaken else MOST_TO_EXPLAIN
        while ahead and len(known) < most and not (known and is_over()):
            ordered = ahead.popleft()
            history = first if ordered is schedule else self._runs.run_one_by_one(ordered, overtaken)
            end = self._runs.end(history)
            if orders is not None and not self.commutes(history):
                self.orders -= len(known)
                known.clear()
                ahead, orders = deque([schedule]), None  # each order may end otherwise
                continue
            happened = happened_in(history)
            is_whole = is_of_whole_runs(history, None if orders is None else happened)
            known.append(OrderedEnd(ordered, end, is_whole, are_of_one_object(history)))
            self.orders += 1
            self.undisturbed.append(effects(history))
            if ordered.choices and ALL_OLD not in ordered.choices and not overtaken:
                self._judge(history)
            if orders is not None:
                ahead += orders.others(ordered, history, happened)
            else:
                ahead += [ordered.and_then(choice) for choice in reorderings(history)]
            tried.has_all = not ahead
            yield known[-1]

    def commutes(self, history: History) -> bool:
        """Answer whether all that records have to do with one another is seen. What modules and stubs keep is not."""
        return not (history.kept or self._runs.sandbox.has_batches or self._runs.sandbox.has_stub_functions)


def _of_runs(first: History) -> list[frozenset[int]]:
    """Return the records of first messages, those of one run together."""
    by_run: dict[object, set[int]] = {}
    for delivery in first.deliveries:
        if delivery.record not in first.senders:
            message = next((event.message for event in delivery.events if event.message is not None), None)
            run = delivery.record if message is None else (message.flow, message.object_id)
            by_run.setdefault(run, set()).add(delivery.record)
    return [frozenset(records) for records in by_run.values()]


def _postponing(history: History, records: frozenset[int]) -> Choice | None:
    """Return what lets another record go first where one of these did. None where no other one waits any more."""
    for number, delivery in enumerate(history.deliveries, 1):
        others = [place for place, other in enumerate(delivery.waiting, 1) if other not in records]
        if delivery.record in records and others:
            return Choice(number, FaultKind.REORDERED, others[0])
    return None


def _from_then_on(schedule: Schedule, choice: Choice, last: int) -> Schedule:
    """Return a schedule with a choice for its delivery and those after it, up to the last one."""
    before = (earlier for earlier in schedule.choices if earlier.at < choice.at)
    return Schedule((*before, *(replace(choice, at=number) for number in range(choice.at, last + 1))))
