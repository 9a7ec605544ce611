"""A flow that waits for links, so that its template makes a secret, and one topic of its own."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step, Topic, callback_handler, dlq_handler, lambda_handler

DECIDED: Final = Topic("arn:aws:sns:eu-west-1:123456789012:decided")


class Order(BaseModel):
    order_id: str
    decided: Any = None


class Ship(Stage[Order], name="ship"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.send(DECIDED, order)
        return Done()


class Ask(Stage[Order], name="ask", inbox=DECIDED, then="ship"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Ship.when_all(decided=step.token("decided"))


class Secured(Flow, name="secured", object_id="order_id"):
    stages = (Ask, Ship)


work = lambda_handler(Secured)
answers = callback_handler(Secured)
killed = dlq_handler(Secured)
