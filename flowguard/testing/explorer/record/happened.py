"""What had to happen before what in a run, and which two deliveries raced.

A delivery comes after the one that sent its record, after the earlier ones of its record, and after each before it that
touched what it touches. Orders that agree on these pairs are one order: all else commutes. Two race where they touch
the same and nothing between them forces their order; then the other order may end otherwise. This is the reduction of
Flanagan and Godefroid (POPL 2005), with the sources of Abdulla and others (POPL 2014).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from flowguard.events import EventType
from flowguard.testing.explorer.record.history import CallRecord, DeliveryRecord, History
from flowguard.testing.explorer.record.touched import Touched, is_reading


def touched_by(calls: Iterable[CallRecord]) -> Touched:
    """Return what calls have touched. A write that was refused has read what refused it."""
    touched = Touched()
    for made in calls:
        touched.add(made.places, is_read=not made.applied or is_reading(made.operation, is_read=made.is_read))
    return touched


def touched_at(history: History, delivery: DeliveryRecord) -> Touched:
    """Return what a delivery has touched."""
    touched = touched_by(history.calls[number - 1] for number in delivery.calls)
    if delivery.queue is not None and delivery.queue.endswith(".fifo"):  # which keeps its records in their order
        touched.add([("sqs", delivery.queue)], is_read=False)
    return touched


def was_put_off(history: History, delivery: DeliveryRecord) -> bool:
    """Answer whether a delivery did nothing but leave its record in the queue."""
    calls = [history.calls[number - 1] for number in delivery.calls]
    changed = [made for made in calls if made.applied and not is_reading(made.operation, is_read=made.is_read)]
    is_left = bool(delivery.events) and all(event.type in _PUT_OFF for event in delivery.events) and not delivery.acked
    return is_left and all(made.operation.startswith("ChangeMessageVisibility") for made in changed)


def would_be_put_off_again(history: History, record: int) -> bool:
    """Answer whether a record that is still hidden would be put off once more: nothing of what it met has changed."""
    since: list[DeliveryRecord] = []
    for delivery in reversed(history.deliveries):
        if delivery.record == record:
            touched = touched_at(history, delivery)
            return was_put_off(history, delivery) and not any(
                touched.meets(touched_at(history, other)) for other in since
            )
        since.append(delivery)
    return False


def waits_for_newer(history: History, record: int) -> bool:
    """Answer whether a record is a request that was put off for newer ones."""
    call = history.senders.get(record)
    events = () if call is None else history.deliveries[history.calls[call - 1].worker - 1].events
    return any(event.type is EventType.PUT_OFF for event in events)


_PUT_OFF: Final = frozenset({EventType.BUSY, EventType.EARLY, EventType.ANSWERED})


class Happened:
    """The order that a run's deliveries have to keep. They are counted from 0.

    ``sender_of`` answers which delivery sent the record of another one, None for a first message.
    """

    def __init__(self, history: History, sender_of: Callable[[DeliveryRecord], int | None]) -> None:
        touched = self._touched = [touched_at(history, delivery) for delivery in history.deliveries]
        self.races: list[tuple[int, int]] = []
        self._before: list[int] = []  # by delivery the others that come before it, as bits
        records: dict[int, int] = {}
        for later, delivery in enumerate(history.deliveries):
            causes = {records.get(delivery.record), sender_of(delivery)}
            self._before.append(self._met(later, causes, touched))
            records[delivery.record] = later

    def _met(self, later: int, causes: set[int | None], touched: Sequence[Touched]) -> int:
        before = 0
        for earlier in reversed(range(later)):
            if before >> earlier & 1:
                continue
            is_cause = earlier in causes
            if is_cause or touched[earlier].meets(touched[later]):
                before |= self._before[earlier] | 1 << earlier
                if not is_cause:
                    self.races.append((earlier, later))
        return before

    def comes_before(self, earlier: int, later: int) -> bool:
        """Answer whether the one had to happen before the other."""
        return bool(self._before[later] >> earlier & 1)

    def meeting(self, first: int, second: int) -> Iterator[int]:
        """Yield the first delivery of a race, then those before it that the second one meets, too.

        They matter where the first one cannot come after the second.
        """
        yield first
        for earlier in reversed(range(first)):
            if self._touched[earlier].meets(self._touched[second]):
                yield earlier

    def sources(self, first: int, second: int) -> Sequence[int]:
        """Return those deliveries of which one goes first, instead of ``first``, where ``second`` comes before that."""
        between = [place for place in range(first + 1, second) if not self.comes_before(first, place)]
        bits = sum(1 << place for place in (*between, second))
        return [place for place in (*between, second) if not self._before[place] & bits]

    def is_serial(self, run_of: Sequence[int | None]) -> bool:
        """Answer whether the runs could have followed one another: none came both before and after another one.

        ``run_of`` names the run of each delivery, None for one that does not count.
        """
        before: dict[int, set[int]] = {run: set() for run in run_of if run is not None}
        for later, run in enumerate(run_of):
            if run is not None:
                earlier = {run_of[place] for place in range(later) if self.comes_before(place, later)}
                before[run] |= {other for other in earlier if other is not None and other != run}
        while begin := [run for run, others in before.items() if not others & before.keys()]:
            for run in begin:
                del before[run]
        return not before
