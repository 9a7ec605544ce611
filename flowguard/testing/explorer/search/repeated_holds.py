"""Hold-ups that would be the same as one that was run: what is moved in them commutes.

::

    z3-2   others: 1 2      3 4 …        others make two calls, then the held worker goes on to its end
           held:       A B
    z3-3   others: 1 2 3      4 …        the same, unless call 3 touches what A or B touches
           held:         A B
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from flowguard.testing.explorer.record.happened import touched_by
from flowguard.testing.explorer.record.history import CallRecord, History
from flowguard.testing.explorer.record.schedule import Choice, FaultKind, Schedule
from flowguard.testing.explorer.search.pairs import Second, seconds_in

_MOST_MOVED: Final = 8
"""Calls by which a search moves a worker on, and more."""


class Alike(NamedTuple):
    """A hold-up that is like one that was run.

    ``more`` is the number of calls that it waits for, None for any number. ``numbers`` are new ones of calls.
    """

    more: int | None
    numbers: Mapping[int, int]


class RepeatedHolds:
    """The hold-ups that were run, and which others they stand for.

    A worker that was held up until nothing else was left to do waits as long for any greater number of calls. So does
    one that was dead when it was to go on. What may follow in a pair is by other numbers where calls are moved.
    """

    def __init__(self) -> None:
        self._followed: dict[int, tuple[Second, ...]] = {}
        self._alike: dict[tuple[int, int], tuple[Second, ...]] = {}

    def note(self, schedule: Schedule, history: History, *, commutes: bool = False) -> None:
        """Note a schedule of one hold-up."""
        if alike := alike_holds(schedule, history, commutes=commutes):
            self.add(schedule, alike, seconds_in(history, schedule.choices[0]))

    def add(self, schedule: Schedule, alike: Sequence[Alike], seconds: Sequence[Second]) -> None:
        """Note the hold-ups that are like the one of this schedule, which these may follow."""
        for more, numbers in alike:
            at = schedule.choices[0].at
            if more is None:
                self._followed.setdefault(at, tuple(seconds))
            else:
                self._alike.setdefault((at, more), tuple(_renumbered(seconds, numbers)))

    def seconds_after(self, schedule: Schedule) -> tuple[Second, ...] | None:
        """Return what may follow a schedule which is the same as one that was run. None for any other."""
        held = _only_hold(schedule)
        if held is None or not held.more:
            return None
        return self._followed.get(held.at, self._alike.get((held.at, held.more)))


def alike_holds(schedule: Schedule, history: History, *, commutes: bool = False) -> list[Alike]:
    """Return the hold-ups that are like the only one of a schedule.

    ``commutes`` says that all that records have to do with another is seen.
    """
    held = _only_hold(schedule)
    if held is None or not held.more:
        return []
    if history.waited_for_all or _is_dead(history, held):
        return [Alike(None, {})]
    return list(_moved(history, held)) if commutes else []


def _only_hold(schedule: Schedule) -> Choice | None:
    choices = schedule.choices
    return choices[0] if len(choices) == 1 and choices[0].kind is FaultKind.HELD_UP else None


def _held_call(history: History) -> CallRecord | None:
    """Return the call before which a worker was held up. None where it never made it."""
    return next((made for made in history.calls if FaultKind.HELD_UP in made.held), None)


def _is_dead(history: History, held: Choice) -> bool:
    """Answer whether it was dead after all the calls that it waited for: the time of its function was over."""
    return _held_call(history) is None and len(history.calls) >= held.at - 1 + held.more


def _moved(history: History, held: Choice) -> Iterator[Alike]:
    """Yield each greater number of calls for which the held worker may as well wait, with new numbers of calls."""
    first = _held_call(history)
    if first is None or first.number != held.at + held.more:
        return
    calls = history.calls[first.number - 1 :]
    its = list(takewhile(lambda made: made.worker == first.worker, calls))
    before, after = history.calls[first.number - 2], calls[len(its) :]
    if any(made.worker == first.worker for made in after):
        return
    for count, made in enumerate(after[:_MOST_MOVED], 1):
        goes_on = made.worker == before.worker and made.worker in {other.worker for other in after[count:]}
        if not goes_on or made.at != before.at or its[-1].at != before.at or _depends(made, its):
            return
        passed = {other.number: other.number - len(its) for other in after[:count]}
        yield Alike(held.more + count, passed | {other.number: other.number + count for other in its})


def _depends(made: CallRecord, others: Sequence[CallRecord]) -> bool:
    """Answer whether a call and those of another worker may not change places. Of two sends the first arrives first."""
    is_send = made.service != "dynamodb" and not made.is_read
    if is_send and any(other.service != "dynamodb" and not other.is_read for other in others):
        return True
    return touched_by([made]).meets(touched_by(others))


def _renumbered(seconds: Sequence[Second], numbers: Mapping[int, int]) -> Iterator[Second]:
    for second in seconds:
        choice = second.choice
        yield second._replace(choice=Choice(numbers.get(choice.at, choice.at), choice.kind, choice.more))
