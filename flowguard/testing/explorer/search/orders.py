"""The orders of deliveries that may end differently, found by what raced in those that were run."""

from __future__ import annotations

from collections.abc import Iterator

from flowguard.testing.explorer.record.happened import Happened, was_put_off
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import Choice, FaultKind, Schedule


class Orders:
    """Remembers which record went first where, so that no order is asked for twice."""

    def __init__(self, base: Schedule) -> None:
        self._base = base
        self._gone: dict[tuple[tuple[Choice, ...], int], set[int]] = {}

    def others(self, schedule: Schedule, history: History, happened: Happened) -> Iterator[Schedule]:
        """Yield the orders in which two deliveries of this one that raced come the other way round.

        One that put its record off does not come later instead: the record itself comes again.
        ``schedule`` is the base with a choice at each delivery where another record went than the first.
        """
        made = schedule.choices[len(self._base.choices) :]
        for place, delivery in enumerate(history.deliveries):
            self._gone.setdefault((_until(made, place), place), set()).add(delivery.record)
        for first, second in happened.races:
            if was_put_off(history, history.deliveries[first]) and _comes_again(history, first):
                continue
            for place in happened.meeting(first, second):
                before = _until(made, place)
                gone, waiting = self._gone[before, place], history.deliveries[place].waiting
                records = [history.deliveries[source].record for source in happened.sources(place, second)]
                if not gone.isdisjoint(records):
                    break
                if (other := next((record for record in records if record in waiting), None)) is not None:
                    gone.add(other)
                    turned = Choice(place + 1, FaultKind.REORDERED, waiting.index(other) + 1)
                    yield Schedule((*self._base.choices, *before, turned))
                    break


def _comes_again(history: History, place: int) -> bool:
    return any(later.record == history.deliveries[place].record for later in history.deliveries[place + 1 :])


def _until(made: tuple[Choice, ...], place: int) -> tuple[Choice, ...]:
    """Return the choices before this delivery. They say all that came before it."""
    return tuple(choice for choice in made if choice.at <= place)
