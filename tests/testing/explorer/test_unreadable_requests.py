"""Requests that their flow cannot read, and that name no request by themselves."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from flowguard.flow import Flow
from flowguard.outcome import Done, Outcome
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing.explorer import explore


class Order(BaseModel):
    order_id: str


class Take(Stage[Order], name="take"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


class Keyed(Flow, name="keyed", object_id="order_id", request_id="order_id"):
    stages = (Take,)


@pytest.mark.slow("explores flows and handlers")
def test_each_copy_of_a_request_without_an_id_may_leave_a_letter() -> None:
    report = explore(Keyed, [{"order": "o1"}], failing=["keyed/take"], bound=0, walks=0)
    assert report.ok, report.summary()
