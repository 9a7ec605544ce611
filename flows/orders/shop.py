"""The shop's tables: the one place that knows how they are laid out, and on which conditions they change."""

from __future__ import annotations

from typing import Any, Final

from flowguard import Step
from flows.orders.models import Order, OrderPlaced, OrderStatus

ORDERS: Final = "orders"
STOCK: Final = "stock"


class Orders:
    """What customers have ordered."""

    def __init__(self, step: Step[Any]) -> None:
        self._step = step

    def place(self, placed: OrderPlaced) -> None:
        """Write an order that is not there yet. The run is rejected if it is."""
        self._put(placed, OrderStatus.PLACED, placed.lines)

    def refuse(self, placed: OrderPlaced) -> None:
        """Write that an order was refused. The run is rejected if the order is there."""
        self._put(placed, OrderStatus.REFUSED, {})

    def _put(self, placed: OrderPlaced, status: OrderStatus, lines: dict[str, int]) -> None:
        order = Order(
            order_id=placed.order_id, customer=placed.customer, status=status, lines=lines, pieces=sum(lines.values())
        )
        self._step.put(ORDERS, order, condition="attribute_not_exists(order_id)", else_reject=True)

    def add(self, order_id: str, sku: str, pieces: int) -> None:
        """Add pieces to an order that was placed. If it was not, or not yet, the message is tried again."""
        self._step.update(
            ORDERS,
            {"order_id": order_id},
            "SET #lines.#sku = if_not_exists(#lines.#sku, :none) + :more ADD pieces :more",
            names={"#lines": "lines", "#sku": sku, "#status": "status"},
            values={":more": pieces, ":none": 0, ":placed": OrderStatus.PLACED.value},
            condition="#status = :placed",
        )


class Stock:
    """What lies in the warehouse. An item holds how many pieces there are, were received, and were sold."""

    def __init__(self, step: Step[Any]) -> None:
        self._step = step

    @property
    def missing(self) -> tuple[str, ...]:
        """Return what there were too few pieces of when :meth:`take` was to be applied. The handler then runs again."""
        return tuple(sorted(self._step.refused))

    def receive(self, sku: str, pieces: int) -> None:
        self._step.update(STOCK, {"sku": sku}, "ADD pieces :more, received :more", values={":more": pieces})

    def take(self, sku: str, pieces: int) -> None:
        """Take pieces that are there. If too few are, nothing of the commit is applied, and ``missing`` has the sku."""
        self._step.update(
            STOCK,
            {"sku": sku},
            "ADD pieces :less, sold :wanted",
            values={":less": -pieces, ":wanted": pieces},
            condition="pieces >= :wanted",
            else_go_on=sku,
        )
