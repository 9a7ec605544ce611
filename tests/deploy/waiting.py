"""The two stages of a flow that waits for a payment, which somebody outside answers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from flowguard import Callback, Done, Outcome, Stage, Step

PAYMENTS = (Callback("payments", id="order_id"),)


class Order(BaseModel):
    order_id: str


class Later(Stage[dict[str, Any]], name="later", inbox="later"):
    def handle(self, answers: dict[str, Any], step: Step[Any]) -> Outcome:
        return Done()


class Wait(Stage[Order], name="wait", then="later", inbox="waits"):
    def handle(self, order: Order, step: Step[Any]) -> Outcome:
        return Later.when_all(paid=step.event("paid"), within=timedelta(days=1))
