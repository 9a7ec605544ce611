"""The flow of the soak. What is to go wrong with a request stands in the request, so that it goes wrong every time."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from flowguard import PER_REQUEST, Done, Flow, Linear, Outcome, Reject, RetryPolicy, Stage, Step

POLICY = RetryPolicy(attempts=5, backoff=Linear(first=1, step=1), jitter=0.2)
INBOX, GIVEN_UP, DEAD, TOLD, EMAILS = "soak", "soak-given-up", "soak-dead", "soak-told", "soak-emails"
ACCOUNTS, EFFECTS = "soak-accounts", "soak-effects"


class Order(BaseModel):
    """``failing`` are the attempts that fail, each as ``<hop>.<attempt>``; ``reject_at`` is the hop that refuses."""

    account: str
    amount: int
    reject_at: int = 0
    failing: tuple[str, ...] = ()


class Charge(Stage[Order], name="charge", then="ship", retry=POLICY):
    def handle(self, order: Order, step: Step) -> Outcome:
        _write(order, step, "charged")
        _go_wrong(order, step)
        step.send(EMAILS, {"charged": order.amount})
        return Ship.message(order)


class Ship(Stage[Order], name="ship", retry=POLICY):
    def handle(self, order: Order, step: Step) -> Outcome:
        _write(order, step, "shipped")
        _go_wrong(order, step)
        return Done({"amount": order.amount})


class Soak(Flow, name=INBOX, object_id=PER_REQUEST, dead_letters=DEAD, complete_to=TOLD):
    stages = (Charge, Ship)


def _write(order: Order, step: Step, what: str) -> None:
    """Two writes that show it if they are applied twice, and one that would hide it."""
    effect: dict[str, Any] = {"id": f"{step.request_id}.{step.hop}"}
    step.update(EFFECTS, effect, "ADD applied :one", values={":one": 1})
    step.update(ACCOUNTS, {"id": order.account}, f"ADD {what} :amount", values={":amount": order.amount})
    step.put(EFFECTS, {"id": f"{step.request_id}.{step.hop}.last", "attempt": step.attempt})


def _go_wrong(order: Order, step: Step) -> None:
    if f"{step.hop}.{step.attempt}" in order.failing:
        raise ConnectionError("the other side does not answer")
    if order.reject_at == step.hop:
        raise Reject("the other side says no")
