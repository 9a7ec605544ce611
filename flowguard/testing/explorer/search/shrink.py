"""The shortest schedule that still shows a violation. Faults are dropped or made plainer one by one while it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flowguard.testing.explorer.record.schedule import Schedule


def shrunk(schedule: Schedule, still: Callable[[Schedule], bool]) -> Schedule:
    """Reduce a schedule as far as it still shows the violation.

    ``still`` runs a schedule and says whether it shows the same.
    """
    while (simpler := next(filter(still, _simpler(schedule)), None)) is not None:
        schedule = simpler
    return schedule


def _simpler(schedule: Schedule) -> Iterator[Schedule]:
    """Yield the schedule with one fault less and then with one fault plainer: ``z3`` for ``z3-4``."""
    places = range(len(schedule.choices))
    if len(places) > 1:
        yield from (schedule.without(place) for place in places)
    yield from (schedule.plainer(place) for place in places if schedule.choices[place].more)
