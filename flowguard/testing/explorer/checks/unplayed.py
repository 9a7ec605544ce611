"""What met the driver of a database or broker that an exploration does not play. What follows from it is not judged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from flowguard.testing.explorer.record.history import DeliveryRecord, History


class Unplayed(NamedTuple):
    """A place in a handler that uses a driver which is not played. ``fix`` says what to give instead."""

    stage: str
    driver: str
    line: str
    what: str
    fix: str

    def __str__(self) -> str:
        """Format it as a report shows it."""
        return f"not looked at, {self.stage}: {self.line} {self.what}; {self.fix}"


def unplayed(history: History) -> Iterator[Unplayed]:
    """Yield where handlers met such a driver."""
    of_record = {delivery.record: delivery.stage for delivery in history.deliveries if delivery.stage}
    workers = {delivery.worker: delivery for delivery in reversed(history.deliveries)}
    for site, lack in history.drivers.items():
        worked = workers[lack.worker]
        stage = worked.stage or of_record.get(worked.record) or worked.queue or f"record {worked.record}"
        yield Unplayed(stage, lack.driver, str(site), lack.what, lack.fix)


def leading_to_drivers(history: History) -> set[str]:
    """Return the ids of the first messages from which runs came to a driver that is not played."""
    workers = {delivery.worker: delivery for delivery in reversed(history.deliveries)}
    names = set()
    for lack in history.drivers.values():
        worked = workers[lack.worker]
        while sender := history.senders.get(worked.record):
            worked = workers[history.calls[sender - 1].worker]
        names.add(worked.message_id)
    return names


def of_drivers(history: History) -> set[str]:
    """Return the objects, and the queues of plain functions, whose end follows from a driver that is not played.

    So does that of a run which gets the failure of another one.
    """
    workers = {lack.worker for lack in history.drivers.values()}
    names: set[str] = set()
    for delivery in history.deliveries:
        sender = history.senders.get(delivery.record)
        if sender and history.calls[sender - 1].worker in workers:
            workers.add(delivery.worker)
        if delivery.worker in workers:
            names.update(_names(delivery))
    return names


def _names(delivery: DeliveryRecord) -> Iterator[str]:
    messages = [event.message for event in delivery.events if event.message is not None]
    yield from (message.object_id or f"{message.flow}/{message.stage}" for message in messages)
    if not messages and delivery.queue is not None:
        yield delivery.queue
