"""Flows whose runs meet at the one place of a limit, at the one start of a minute, and at a key that pauses itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from pydantic import BaseModel

from flowguard.flow import Flow
from flowguard.limit import PerKey
from flowguard.outcome import Done, Outcome
from flowguard.pause_after import PauseAfter
from flowguard.stage import Stage
from flowguard.step import Step


class Order(BaseModel):
    order_id: str
    customer: str = "c1"


class Charge(Stage[Order], name="charge", then="ship", limit=PerKey("customer", at_once=1)):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.put("charged", {"id": order.order_id})
        return Ship.message(order)


class Ship(Stage[Order], name="ship"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.send("carriers", {"order": order.order_id})
        return Done()


class Orders(Flow, name="orders", object_id="order_id"):
    stages = (Charge, Ship)


class Ask(Stage[Order], name="ask", limit=PerKey("customer", per=timedelta(minutes=1), count=1)):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.put("charged", {"id": order.order_id})
        return Done()


class Gateway(Flow, name="gateway", object_id="order_id"):
    stages = (Ask,)


class GatewayAway(Exception):
    """The gateway does not answer, whoever asks."""


RULE: Final = PauseAfter(1, errors=(GatewayAway,), within=timedelta(minutes=1), rest=timedelta(seconds=5))


class Pay(Stage[Order], name="pay", limit=PerKey("customer", at_once=2, pause_after=RULE)):
    def handle(self, order: Order, step: Step) -> Outcome:
        if order.order_id == "o1" and step.attempt == 1:
            raise GatewayAway
        step.put("charged", {"id": order.order_id})
        return Done()


class Payments(Flow, name="payments", object_id="order_id"):
    stages = (Pay,)


class Pack(Stage[Order], name="pack", limit=PerKey("customer", at_once=3, shards=2)):
    """Its second shard has one place."""

    def handle(self, order: Order, step: Step) -> Outcome:
        step.put("charged", {"id": order.order_id})
        return Done()


class Packed(Flow, name="packed", object_id="order_id"):
    stages = (Pack,)


class Tell(Stage[Order], name="tell", limit=PerKey("customer", per=timedelta(minutes=1), count=3, shards=2)):
    """In its second shard one begins in a minute."""

    def handle(self, order: Order, step: Step) -> Outcome:
        step.put("charged", {"id": order.order_id})
        return Done()


class Told(Flow, name="told", object_id="order_id"):
    stages = (Tell,)


TABLES: Final = {"charged": "id"}
ORDERS: Final = (Order(order_id="o1"), Order(order_id="o2"))
OF_ONE_SHARD: Final = (Order(order_id="o2"), Order(order_id="o3"))
"""Both are of the second shard."""
