"""The flow of the orders: charge, ship. Sums tell whether an effect was applied twice, or not at all."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from flowguard import PER_REQUEST, Done, Flow, Outcome, Stage, Step
from tests.proofs.soak.places import ACCOUNTS, DEAD, EFFECTS, INBOX, NEWS, POLICY, TOLD
from tests.proofs.soak.request import Trouble


class Order(BaseModel):
    account: str
    amount: int
    trouble: Trouble = Trouble()


class Charge(Stage[Order], name="charge", then="ship", retry=POLICY):
    def handle(self, order: Order, step: Step) -> Outcome:
        _write(order, step, "charged")
        order.trouble.strike(step)
        step.send(NEWS, {"charged": order.amount})
        return Ship.message(order)


class Ship(Stage[Order], name="ship", retry=POLICY):
    def handle(self, order: Order, step: Step) -> Outcome:
        _write(order, step, "shipped")
        order.trouble.strike(step)
        return Done({"amount": order.amount})


class Orders(Flow, name="soak-orders", object_id=PER_REQUEST, inbox=INBOX, dead_letters=DEAD, complete_to=TOLD):
    stages = (Charge, Ship)


def _write(order: Order, step: Step, what: str) -> None:
    """Two writes that show it if they are applied twice."""
    effect: dict[str, Any] = {"id": f"{step.request_id}.{step.hop}"}
    step.update(EFFECTS, effect, "ADD applied :one", values={":one": 1})
    step.update(ACCOUNTS, {"id": order.account}, f"ADD {what} :amount", values={":amount": order.amount})
