"""Records that wait to be delivered to functions.

They wait in their queues, with SQS's rules of visibility and FIFO order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from flowguard.payload.http_source import http_source
from flowguard.sim.shards import order_of
from flowguard.wire.envelope import Envelope, Source


@dataclass(slots=True, eq=False)
class Delivery:
    """A record on its way. ``number`` is its place in the order of arrival, ``visible_at`` is ms since 1970.

    ``queue`` is a name; None where no queue delivers it (SNS calls the function, a direct invocation). ``too_early`` is
    how many of its receives came before what it belongs to. ``place`` is the order in its group, in which a copy has
    that of its record; ``alone`` says that another mapping reads it, which keeps no order with the others.
    """

    number: int
    envelope: Envelope
    raw: Any
    queue: str | None
    visible_at: int
    receives: int = 0
    turn: int = 0
    from_dlq: bool = False
    too_early: int = 0
    place: int = 0
    alone: bool = False

    @property
    def message_id(self) -> str:
        return self.envelope.message_id

    @property
    def group(self) -> tuple[str, str] | None:
        """Return the FIFO group, shard or item whose records come one after another. None where there is none."""
        if (order := order_of(self.envelope)) is not None:
            return None if self.alone else ("", order)
        group = self.envelope.group_id
        return (self.queue or "", group) if group is not None and self.envelope.is_fifo else None

    @property
    def is_request(self) -> bool:
        """Answer whether it is an HTTP request, which is delivered again only where it came too early."""
        return self.queue is None and self.envelope.source is Source.INVOCATION and http_source(self.raw) is not None

    def event(self) -> Any:
        """Build the event that the function is called with.

        The first time it has the record as it is, later with its count of receives, and where SQS has moved it from.
        """
        if self.envelope.source is Source.INVOCATION and self.envelope.queue_arn is None:
            return self.raw
        is_as_sent = self.receives <= 1 and not self.from_dlq
        return {"Records": [self.raw if is_as_sent else self._again()]}

    def _again(self) -> Any:
        """Return the record with its count of receives. SQS counts one more for each delivery."""
        if not self.envelope.source.is_queue:
            return self.raw
        name = "Attributes" if "MessageId" in self.raw else "attributes"
        count = self.envelope.receive_count + self.receives - 1
        moved = {"DeadLetterQueueSourceArn": self.envelope.queue_arn} if self.from_dlq else {}
        return {**self.raw, name: {**(self.raw.get(name) or {}), "ApproximateReceiveCount": str(count), **moved}}


@dataclass(slots=True)
class Queues:
    """Every queue that a function reads, as one list. Deliveries due at the same moment keep the order of arrival.

    ``received`` has the queue and the receipt handle of each record that functions ever got.
    """

    waiting: list[Delivery] = field(default_factory=list)
    received: set[tuple[str | None, str | None]] = field(default_factory=set)
    added: int = 0
    turns: int = 0

    def add(self, envelope: Envelope, raw: Any, queue: str | None, visible_at: int) -> Delivery:
        self.added += 1
        delivery = Delivery(self.added, envelope, raw, queue, visible_at, place=self.added)
        self.waiting.append(delivery)
        return delivery

    def due(self, now: int) -> Delivery | None:
        """Return the next delivery. None where nothing is due yet."""
        ready = [(due_at, delivery.number, delivery) for delivery, due_at in self._due_at() if due_at <= now]
        return min(ready, default=(0, 0, None))[2]

    def moments(self) -> list[int]:
        """Return the moments at which deliveries will be due."""
        return [due_at for _, due_at in self._due_at()]

    def receive(self, delivery: Delivery, visible_again: int) -> None:
        self.turns += 1
        self.received.add((delivery.queue, delivery.envelope.receipt_handle))
        delivery.turn = self.turns
        delivery.receives += 1
        delivery.visible_at = visible_again

    def delete(self, delivery: Delivery) -> None:
        """Delete a record. It may be deleted already: by another worker, while this one was held up."""
        self.waiting = [other for other in self.waiting if other is not delivery]

    def find(self, receipt_handle: str) -> Delivery | None:
        """Find a record by the receipt handle that it was delivered with.

        It is not deleted yet. Of copies, the last one delivered is found.
        """
        matching = [
            delivery
            for delivery in self.waiting
            if delivery.receives and delivery.envelope.receipt_handle == receipt_handle
        ]
        return max(matching, key=lambda delivery: delivery.turn, default=None)

    def free(self) -> list[Delivery]:
        """Return the deliveries that wait behind no other record of their FIFO group, shard or item."""
        return [delivery for delivery, _ in self._due_at()]

    def _due_at(self) -> Iterator[tuple[Delivery, int]]:
        """Yield those deliveries, and when each is due.

        SQS gives out nothing of a FIFO group while one of its messages is in flight: received, and not visible again.
        https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/using-messagegroupid-property.html
        """
        heads: dict[tuple[str, str], tuple[int, int]] = {}
        in_flight_until: dict[tuple[str, str], int] = {}
        grouped = [(delivery, delivery.group) for delivery in self.waiting]
        for delivery, group in grouped:
            if group is not None:
                place = delivery.place, delivery.number
                heads[group] = min(place, heads.get(group, place))
                if delivery.receives:
                    in_flight_until[group] = max(delivery.visible_at, in_flight_until.get(group, delivery.visible_at))
        for delivery, group in grouped:
            if group is None:
                yield delivery, delivery.visible_at
            elif heads[group] == (delivery.place, delivery.number):
                yield delivery, max(delivery.visible_at, in_flight_until.get(group, delivery.visible_at))
