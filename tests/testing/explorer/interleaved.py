"""Flows whose runs meet in a table between their stages: what one read, another one has changed."""

from __future__ import annotations

from typing import Any

import boto3
from pydantic import BaseModel

from flowguard import IGNORE, Done, Flow, Outcome, Stage, Step

TABLES = {"stock": "sku", "shelf": "order_id"}
STOCK = {"stock": [{"sku": "tea", "n": 5}]}


class Order(BaseModel):
    order_id: str
    amount: int = 1


class Seen(BaseModel):
    n: int
    amount: int


def left() -> int:
    stock: Any = boto3.resource("dynamodb", region_name="us-east-1").Table("stock")
    return int(stock.get_item(Key={"sku": "tea"}, ConsistentRead=True)["Item"]["n"])


class Look(Stage[Order], name="look", inbox="orders", then="take"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Take.message(Seen(n=left(), amount=order.amount))


class Take(Stage[Seen], name="take"):
    def handle(self, seen: Seen, step: Step) -> Outcome:
        step.update("stock", {"sku": "tea"}, "SET n = :n", values={":n": seen.n - seen.amount})
        return Done()


class TakeStock(Flow, name="take-stock", object_id="order_id"):
    """It writes what the first stage read, less its own: of two that meet, one is lost."""

    stages = (Look, Take)


class Count(Stage[Order], name="count", inbox="orders", then="subtract"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Subtract.message(order)


class Subtract(Stage[Order], name="subtract"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.update("stock", {"sku": "tea"}, "ADD n :less", values={":less": -order.amount})
        return Done()


class CountStock(Flow, name="count-stock", object_id="order_id"):
    """Sound: it subtracts from what is there, whatever that is by then."""

    stages = (Count, Subtract)


class Reserve(Stage[Order], name="reserve", inbox="orders", then="ship"):
    """It does not take back what the run reserved that it replaces."""

    def handle(self, order: Order, step: Step) -> Outcome:
        step.update("stock", {"sku": "tea"}, "ADD held :more", values={":more": order.amount})
        return Ship.message(order)


class Ship(Stage[Order], name="ship"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.update("stock", {"sku": "tea"}, "ADD held :less", values={":less": -order.amount})
        step.put("shelf", {"order_id": order.order_id, "amount": order.amount})
        return Done()


class ReserveStock(Flow, name="reserve-stock", object_id="order_id"):
    stages = (Reserve, Ship)


class IgnoreWhileReserved(Flow, name="ignore-while-reserved", object_id="order_id", on_conflict=IGNORE):
    stages = (Reserve, Ship)
