"""Records that wait to be delivered to functions.

They wait in their queues, with SQS's rules of visibility and FIFO order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flowguard.wire.envelope import Envelope, Source
from flowguard.wire.http_source import http_source


@dataclass(slots=True, eq=False)
class Delivery:
    """A record on its way. ``number`` is its place in the order of arrival, ``visible_at`` is ms since 1970.

    ``queue`` is a name; None where no queue delivers it (SNS calls the function, a direct invocation).
    """

    number: int
    envelope: Envelope
    raw: Any
    queue: str | None
    visible_at: int
    receives: int = 0
    turn: int = 0
    from_dlq: bool = False

    @property
    def message_id(self) -> str:
        return self.envelope.message_id

    @property
    def group(self) -> tuple[str, str] | None:
        """Return the FIFO group whose records are delivered one after another. None where there is none."""
        group = self.envelope.group_id
        return (self.queue or "", group) if group is not None and self.envelope.is_fifo else None

    @property
    def is_request(self) -> bool:
        """Answer whether it is an HTTP request, which is not delivered again."""
        return self.queue is None and self.envelope.source is Source.INVOCATION and http_source(self.raw) is not None

    def event(self) -> Any:
        """Build the event that the function is called with.

        The first time it has the record as it is, later with its count of receives.
        """
        if self.envelope.source is Source.INVOCATION and self.envelope.queue_arn is None:
            return self.raw
        return {"Records": [self.raw if self.receives <= 1 else self._again()]}

    def _again(self) -> Any:
        """Return the record with its count of receives. SQS counts one more for each delivery."""
        for name in ("attributes", "Attributes"):
            if isinstance(said := self.raw.get(name), dict):
                count = self.envelope.receive_count + self.receives - 1
                return {**self.raw, name: {**said, "ApproximateReceiveCount": str(count)}}
        return self.raw


@dataclass(slots=True)
class Queues:
    """Every queue that a function reads, as one list. Deliveries due at the same moment keep the order of arrival."""

    waiting: list[Delivery] = field(default_factory=list)
    added: int = 0
    turns: int = 0

    def add(self, envelope: Envelope, raw: Any, queue: str | None, visible_at: int) -> Delivery:
        self.added += 1
        delivery = Delivery(self.added, envelope, raw, queue, visible_at)
        self.waiting.append(delivery)
        return delivery

    def due(self, now: int) -> Delivery | None:
        """Return the next delivery. None where nothing is due yet."""
        ready = [delivery for delivery in self.free() if delivery.visible_at <= now]
        return min(ready, key=_order, default=None)

    def moments(self) -> list[int]:
        """Return the moments at which deliveries will be due."""
        return [delivery.visible_at for delivery in self.free()]

    def receive(self, delivery: Delivery, visible_again: int) -> None:
        self.turns += 1
        delivery.turn = self.turns
        delivery.receives += 1
        delivery.visible_at = visible_again

    def delete(self, delivery: Delivery) -> None:
        """Delete a record. It may be deleted already: by another worker, while this one was held up."""
        self.waiting = [one for one in self.waiting if one is not delivery]

    def find(self, receipt_handle: str) -> Delivery | None:
        """Find a record by the receipt handle that it was delivered with.

        It is not deleted yet. Of copies, the last one delivered is found.
        """
        found = [one for one in self.waiting if one.receives and one.envelope.receipt_handle == receipt_handle]
        return max(found, key=lambda one: one.turn, default=None)

    def free(self) -> list[Delivery]:
        """Return the deliveries that wait behind no other record of their FIFO group."""
        heads: dict[tuple[str, str], int] = {}
        grouped = [(one, one.group) for one in self.waiting]
        for one, group in grouped:
            if group is not None:
                heads[group] = min(one.number, heads.get(group, one.number))
        return [one for one, group in grouped if group is None or heads[group] == one.number]


def _order(delivery: Delivery) -> tuple[int, int]:
    return delivery.visible_at, delivery.number
