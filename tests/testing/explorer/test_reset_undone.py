"""A run that fails for good, and is reset by a function beside it: before it fails, or while it is undone."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import ATTACH, Done, Failure, Flow, FlowClient, Outcome, Reject, Stage, Step
from flowguard.testing import PlainFunction, View, explore, sqs_event


class Order(BaseModel):
    order_id: str


class Held(BaseModel):
    amount: int = 0


class Hold(Stage[Order, Held], name="hold", then="pay"):
    def handle(self, order: Order, step: Step[Held]) -> Outcome:
        step.state.amount = 3
        before = step.superseded or Held()
        step.update("stock", {"sku": "tea"}, "ADD held :more", values={":more": 3 - before.amount})
        return Pay.message(order)


class Pay(Stage[Order, Held], name="pay"):
    def handle(self, order: Order, step: Step[Held]) -> Outcome:
        raise Reject("declined")


class Free(Stage[Failure, Held], name="free"):
    def handle(self, failure: Failure, step: Step[Held]) -> Outcome:
        held = step.superseded or step.state
        step.update("stock", {"sku": "tea"}, "ADD held :less", values={":less": -held.amount})
        step.state.amount = 0
        return Done()


class Sell(Flow, name="sell", object_id="order_id", on_failed=Free, on_conflict=ATTACH, complete_to="told"):
    stages = (Hold, Pay, Free)


def resets(event: Any, context: Any) -> None:
    FlowClient.from_environment().reset(Sell, "o1")


def nothing_is_held_by_a_run_that_has_failed(view: View) -> None:
    """Where the undo itself was given up, a dead letter of its own waits, and the run's end says so."""
    held = (view.item("stock", sku="tea") or {}).get("held", 0)
    is_parked = any("free failed" in end.body["error"] for end in view.sent("told"))
    assert held == 0 or (held == 3 and is_parked), held


@pytest.mark.proof("explores every fault of a run and of what resets it")
@pytest.mark.parametrize("most", [2, pytest.param(20, marks=pytest.mark.long("explores more orders of the two"))])
def test_a_run_that_is_reset_and_undone_keeps_every_promise(most: int) -> None:
    """When the reset meets the run differs by schedule, and with it which runs fail. Everything else is judged."""
    report = explore(
        [Sell, PlainFunction("resets", resets)],
        [Order(order_id="o1"), sqs_event("resets", {"reset": "o1"})],
        tables={"stock": "sku"},
        invariants=[nothing_is_held_by_a_run_that_has_failed],
        failing=["o1"],
        for_good=False,
        bound=0,
        walks=0,
        most=most,
    )
    assert {violation.rule for violation in report.violations} <= {"undisturbed", "equivalence", "I14"}, str(report)
    assert report.schedules > 40 * most
