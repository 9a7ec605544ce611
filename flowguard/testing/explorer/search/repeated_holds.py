"""Hold-ups that would be the same as one that was run: no other worker makes as many calls as they wait for."""

from __future__ import annotations

from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import Choice, FaultKind, Schedule
from flowguard.testing.explorer.search.pairs import Second, seconds_in


class RepeatedHolds:
    """The calls before which a worker was held up until nothing else was left to do.

    It waits as long for any greater number of calls: such a schedule is the same, but for what may follow in a pair.
    """

    def __init__(self) -> None:
        self._followed: dict[int, tuple[Second, ...]] = {}

    def note(self, schedule: Schedule, history: History) -> None:
        """Note a schedule of one hold-up that lasted as long as it could."""
        if (held := _only_hold(schedule)) is not None and held.more and history.waited_for_all:
            self._followed.setdefault(held.at, seconds_in(history, held))

    def seconds_after(self, schedule: Schedule) -> tuple[Second, ...] | None:
        """Return what may follow a schedule which is the same as one that was run. None for any other."""
        held = _only_hold(schedule)
        return None if held is None or not held.more else self._followed.get(held.at)


def _only_hold(schedule: Schedule) -> Choice | None:
    choices = schedule.choices
    return choices[0] if len(choices) == 1 and choices[0].kind is FaultKind.HELD_UP else None
