"""The shortest schedule that still shows it: faults are dropped, one after another, while it does."""

from __future__ import annotations

from collections.abc import Callable

from flowguard.testing.explore.schedule import Schedule


def shrunk(schedule: Schedule, still: Callable[[Schedule], bool]) -> Schedule:
    """``still`` runs a schedule and says whether it shows the same. Not called where one fault is all there is."""
    place = 0
    while len(schedule.choices) > 1 and place < len(schedule.choices):
        shorter = schedule.without(place)
        if still(shorter):
            schedule, place = shorter, 0
        else:
            place += 1
    return schedule
