"""A flow that names all that may be gone: keys, a schedule, a bus and a topic of answers, and links."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel

from flowguard import (
    Bus,
    Callback,
    Done,
    Flow,
    Outcome,
    Stage,
    Step,
    Topic,
    callback_handler,
    dlq_handler,
    lambda_handler,
)
from flowguard.every import Every

PAID: Final = Bus("default", source="bank", detail_type="Paid")
NEWS: Final = Topic("arn:aws:sns:eu-west-1:123456789012:news")


class Order(BaseModel):
    order_id: str


class Take(Stage[Order], name="take", then=("ship",)):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Ship.when_all(within=timedelta(days=3), decided=step.token("decided"), paid=step.event("paid"))


class Ship(Stage[dict[str, Any]], name="ship", inbox="ship"):
    def handle(self, order: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Lots(
    Flow,
    name="lots",
    object_id="order_id",
    long_delays=True,
    reply_to=(),
    inbox="orders",
    every=(Every("rate(1 hour)", {"order_id": "all"}, name="tick"),),
    callbacks=(Callback(PAID, id="order_id"), Callback(NEWS, id="order_id")),
):
    stages = (Take, Ship)


work = lambda_handler(Lots)
answers = callback_handler(Lots)
killed = dlq_handler(Lots)
