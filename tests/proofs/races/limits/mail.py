"""What one process still has to deliver: its own orders, and what it was sent for other orders too."""

from __future__ import annotations

from typing import Any

from flowguard.names.ids import RequestId
from tests.proofs.races.limits.flow import KEYS, Order, Orders
from tests.proofs.races.shared import START
from tests.proofs.races.sums.asked import record
from tests.proofs.races.sums.mail import Mail


def order_of(number: int) -> Order:
    return Order(id=f"o{number}", customer=f"c{number % KEYS}")


def request_record(number: int) -> dict[str, Any]:
    """The record of the order with this number, as its queue delivers it."""
    request_id = RequestId(f"request-{number}")
    message, _ = Orders.request(order_of(number), request_id=request_id, requested_at=START - 1_000 + number % 1_000)
    attributes = {name: one.to_sqs_record() for name, one in message.attributes().items()}
    return record(f"m{number}", message.body, attributes)


class OrdersMail(Mail):
    """Looks and calls come as soon as they are sent, in any order: a delay is only a hint."""

    def record(self, message_id: str) -> dict[str, Any]:
        found = self.open[message_id]
        return request_record(found) if isinstance(found, int) else found
