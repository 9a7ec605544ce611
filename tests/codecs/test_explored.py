"""An exploration of a flow with a codec: every fault is survived, and nothing asks KMS."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.codecs import Encrypted
from flowguard.testing.explorer import explore


class Order(BaseModel):
    order_id: str
    note: str = "secret"


class Count(BaseModel):
    done: int = 0


class Take(Stage[Order, Count], name="take", then="close"):
    def handle(self, order: Order, step: Step[Count]) -> Outcome:
        step.state.done += 1
        step.update("orders", {"id": order.order_id}, "ADD taken :one", values={":one": 1})
        return Close.message(order)


class Close(Stage[Order, Count], name="close"):
    def handle(self, order: Order, step: Step[Count]) -> Outcome:
        return Done({"done": step.state.done, "note": order.note})


class Sealing(Flow, name="sealing", object_id="order_id", codec=Encrypted("alias/sealing")):
    stages = (Take, Close)


@pytest.mark.slow("explores a flow")
def test_every_fault_of_a_flow_that_seals_is_survived() -> None:
    report = explore(Sealing, [Order(order_id="o1")], tables={"orders": "id"})
    assert report.ok, [str(each) for each in report.violations]
    assert report.schedules > 20
