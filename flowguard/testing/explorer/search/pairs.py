"""Schedules of two faults: which of many are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import Choice, FaultKind, Schedule
from flowguard.testing.explorer.report.lines import called
from flowguard.testing.explorer.search.next_schedules import choices_in


class Second(NamedTuple):
    """The second fault of a pair. ``call`` names the call that fails, with its stage."""

    choice: Choice
    call: str


def seconds_in(history: History, after: Choice) -> tuple[Second, ...]:
    """Return each fault that may follow the one of a history."""
    names = tuple(call_names(history))
    return tuple(Second(choice, names[choice.at - 1]) for choice in choices_in(history, after=after))


def call_names(history: History) -> Iterator[str]:
    """Yield the name of each call of a history: its stage, its operation, and the line or step that makes it."""
    of_record = {delivery.record: delivery.stage for delivery in history.deliveries if delivery.stage}
    stages = {delivery.worker: of_record.get(delivery.record) for delivery in history.deliveries}
    for made in history.calls:
        yield f"{stages[made.worker] or '?'}: {called(made)}"


class Pairs:
    """Schedules of two faults, of which a search tries so many.

    Those go first whose second fault strikes a call as nothing has struck it before: one that is made only after a
    fault, such as those of a stage that undoes. Half of the tries are kept for all others, at even distances, however
    many calls are made only after a fault. Where none is tried they are counted, and not kept: there are hundreds for
    each single fault.
    """

    def __init__(self, *, are_tried: bool = True) -> None:
        self._are_tried = are_tried
        self._count = 0
        self._all: list[Schedule] = []
        self._first: dict[tuple[str, FaultKind], int] = {}

    def __len__(self) -> int:
        return self._count

    def add(self, schedule: Schedule, seconds: Sequence[Second]) -> None:
        """Add the pairs that begin with a schedule."""
        self._count += len(seconds)
        for second in seconds if self._are_tried else ():
            self._first.setdefault((second.call, second.choice.kind), len(self._all))
            self._all.append(schedule.and_then(second.choice))

    def chosen(self, bound: int, was_struck: Callable[[str, FaultKind], bool]) -> list[Schedule]:
        """Return all, or as many as the bound allows. ``was_struck`` says what calls have met until now."""
        if len(self._all) <= bound:
            return list(self._all)
        first = [place for struck, place in self._first.items() if not was_struck(*struck)]
        new = _spread(first, max(bound - bound // 2, bound - (len(self._all) - len(first))))
        rest = sorted(set(range(len(self._all))).difference(new))
        return [self._all[place] for place in (*new, *_spread(rest, bound - len(new)))]


def _spread(places: Sequence[int], bound: int) -> Sequence[int]:
    """Select all places, or as many as the bound allows at even distances."""
    if len(places) <= bound:
        return places
    return [places[place * len(places) // bound] for place in range(bound)]
