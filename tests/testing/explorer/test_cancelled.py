"""A run that is cancelled by a function beside it, under every fault of both."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import Done, Failure, Flow, FlowClient, Outcome, Stage, Step
from flowguard.flow import AnyFlow
from flowguard.testing import PlainFunction, View, explore, sqs_event


class Order(BaseModel):
    order_id: str


class Reserved(BaseModel):
    order_id: str


class OrderState(BaseModel):
    reserved: int = 0


class Reserve(Stage[Order, OrderState], name="reserve", then="ship"):
    def handle(self, order: Order, step: Step[OrderState]) -> Outcome:
        step.update("stock", {"id": order.order_id}, "ADD reserved :one", values={":one": 1})
        step.state.reserved = 1
        return Ship.message(Reserved(order_id=order.order_id))


class Ship(Stage[Reserved, OrderState], name="ship"):
    def handle(self, reserved: Reserved, step: Step[OrderState]) -> Outcome:
        step.update("stock", {"id": reserved.order_id}, "ADD shipped :one", values={":one": 1})
        return Done()


class TakeBack(Stage[Failure, OrderState], name="take-back"):
    def handle(self, failure: Failure, step: Step[OrderState]) -> Outcome:
        step.update("stock", {"id": step.object_id}, "ADD reserved :less", values={":less": -step.state.reserved})
        return Done()


class Kept(Flow, name="kept", object_id="order_id"):
    stages = (Reserve, Ship)


class Undone(Flow, name="undone", object_id="order_id", on_failed=TakeBack):
    stages = (Reserve, Ship, TakeBack)


def cancels(flow: AnyFlow) -> PlainFunction:
    def handler(event: Any, context: Any) -> None:
        FlowClient.from_environment().cancel(flow, "o1", why="ordered by mistake")

    return PlainFunction("cancels", handler)


def stock(view: View) -> tuple[int, int]:
    item = view.item("stock", id="o1") or {}
    return item.get("reserved", 0), item.get("shipped", 0)


def what_was_shipped_is_what_a_completed_run_did(view: View) -> str | None:
    completed = any(run.status == "COMPLETED" for run in view.runs())
    return None if (stock(view)[1] == 1) is completed else f"{stock(view)} with {view.runs()}"


@pytest.mark.proof("explores every fault of a run and of what cancels it")
@pytest.mark.parametrize("flow", [Kept, Undone])
def test_a_cancelled_run_keeps_every_promise(flow: AnyFlow) -> None:
    """When the cancellation meets the run differs by schedule, and with it the end. Everything else is judged."""
    invariants = [what_was_shipped_is_what_a_completed_run_did]
    order, trigger = Order(order_id="o1"), sqs_event("cancels", {"cancel": "o1"})
    report = explore(
        [flow, cancels(flow)],
        [order, trigger],
        tables={"stock": "id"},
        invariants=invariants,
        bound=0,
        walks=0,
        any_order=True,
    )
    assert {violation.rule for violation in report.violations} <= {"undisturbed", "equivalence"}, str(report)
    assert report.schedules > 100
