"""A flow whose inboxes have lanes, one that it asks, and what their functions share."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step, dlq_handler, lambda_handler
from flowguard.every import Every
from flowguard.lanes import Lane

OPTIONS: Final[dict[str, Any]] = {
    "functions": {"take": {"max_concurrency": 20}, "ship": {"max_concurrency": 6}, "price": {"max_concurrency": 4}},
    "settings": {"signing_keys": "ssm:/keys"},
}


class Order(BaseModel):
    order_id: str


class Take(Stage[Order], name="take", then="ship"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Ship.when_all(within=timedelta(hours=1), price=step.ask(Prices, order))


class Priced(Order):
    order_id: str = ""
    price: Any = None


SHIPPING: Final = (Lane("by-night", "shipping"), Lane("urgent", "shipping-urgent"))


class Ship(Stage[Priced], name="ship", inbox=SHIPPING):
    def handle(self, order: Priced, step: Step) -> Outcome:
        return Done()


class Orders(
    Flow,
    name="orders",
    object_id="order_id",
    inbox=(Lane("normal", "orders"), Lane("urgent", "orders-urgent", weight=3)),
    every=(Every("rate(1 hour)", {"order_id": "all"}, lane="urgent"),),
):
    stages = (Take, Ship)


class Price(Stage[Order], name="price"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done({"price": 7})


class Prices(
    Flow, name="prices", object_id="order_id", inbox=(Lane("normal", "prices"), Lane("urgent", "prices-urgent"))
):
    stages = (Price,)


take = lambda_handler(Orders, Take)
ship = lambda_handler(Orders, Ship)
price = lambda_handler(Prices)
dead_letters = dlq_handler(Orders)
