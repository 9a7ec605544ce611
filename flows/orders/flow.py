"""Three flows of one stage each. What a stage records is one transaction, with the note that it was done."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from flowguard import ConditionFailed, Done, Exponential, Flow, Outcome, RetryPolicy, Stage, Step
from flows.orders.models import GoodsReceived, ItemAdded, OrderPlaced, OrderStatus, Settled
from flows.orders.shop import ORDERS, STOCK, Orders, Stock

SETTLED: Final = "orders-settled"

TABLES: Final = {ORDERS: "order_id", STOCK: "sku"}
"""The tables that the stages write to, and the name of each one's key."""

ANY_ORDER: Final = True
"""Whoever comes first gets the last pieces: the explorer does not ask for the same end in another order."""

QUEUES: Final = (SETTLED,)
"""The queue beside the flows' own that messages go to."""

ORDER_MAY_COME_LATER: Final = RetryPolicy(
    for_errors={
        ConditionFailed: RetryPolicy(
            attempts=6, backoff=Exponential(first=20, factor=2), jitter=0, give_up_after=timedelta(minutes=15)
        )
    }
)
"""When an addition is tried again: its order may be on its way."""


class AddToStock(Stage[GoodsReceived], name="add-to-stock", inbox="goods-received"):
    """Count what was delivered."""

    def handle(self, goods: GoodsReceived, step: Step) -> Outcome:
        Stock(step).receive(goods.sku, goods.pieces)
        return Done()


class ReceiveGoods(Flow, name="receive-goods", object_id="delivery_id", request_id="delivery_id"):
    """Each delivery is counted once."""

    stages = (AddToStock,)


class TakeOrder(Stage[OrderPlaced], name="take-order", inbox="orders-placed"):
    """Take all pieces of an order from the stock, or refuse the order and take none."""

    def handle(self, order: OrderPlaced, step: Step) -> Outcome:
        orders, stock = Orders(step), Stock(step)
        if stock.missing:
            orders.refuse(order)
            return Done(Settled(status=OrderStatus.REFUSED, missing=stock.missing))
        orders.place(order)
        for sku, pieces in order.lines.items():
            stock.take(sku, pieces)
        return Done(Settled(status=OrderStatus.PLACED))


class PlaceOrder(Flow, name="place-order", object_id="order_id", request_id="order_id", complete_to=SETTLED):
    """Each order is taken or refused once."""

    stages = (TakeOrder,)


class AddItem(Stage[ItemAdded], name="add-item", inbox="items-added", retry=ORDER_MAY_COME_LATER):
    """Add pieces to an order, and take them from the stock."""

    def handle(self, added: ItemAdded, step: Step) -> Outcome:
        stock = Stock(step)
        if stock.missing:
            return Done(Settled(status=OrderStatus.REFUSED, missing=stock.missing))
        Orders(step).add(added.order_id, added.sku, added.pieces)
        stock.take(added.sku, added.pieces)
        return Done(Settled(status=OrderStatus.PLACED))


class AddToOrder(Flow, name="add-to-order", object_id="addition_id", request_id="addition_id", complete_to=SETTLED):
    """Each addition counts once. The note of that is the run item, which expires; the order keeps no list of ids."""

    stages = (AddItem,)
