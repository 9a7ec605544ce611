"""A stage with ``lease="auto"`` is worked on as one that says what its code proves."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Settings, Stage, Step, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.sim.calls import Recorder, intercept
from flowguard.sim.memory.aws import MemoryAWS
from tests.proofs.bench.flow import Context, a_request


class Order(BaseModel):
    order_id: str


class Add(Stage[Order], name="add", lease="auto"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.send("emails", order)
        return Done()


class Charge(Stage[Order], name="charge", lease="auto"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done(step.once("charge", lambda: order.order_id))


class Adding(Flow, name="adding", object_id="order_id"):
    stages = (Add,)


class Charging(Flow, name="charging", object_id="order_id"):
    stages = (Charge,)


@pytest.mark.parametrize(
    ("flow", "calls"),
    [(Adding, ["GetItem", "UpdateItem"]), (Charging, ["UpdateItem", "UpdateItem", "UpdateItem"])],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_only_records_is_read_and_written_and_what_does_more_is_claimed(flow: Any, calls: list[str]) -> None:
    with MemoryAWS() as aws:
        aws.create_table("flowguard")
        for queue in (flow.name, "emails"):
            aws.create_queue(queue)
        handler = lambda_handler(flow).using(aws_services(Settings(), Clients()))
        event, _ = a_request(flow, Order(order_id="o1"), request_id="r1", requested_at=1_000)
        with intercept(Recorder()) as recorder:
            assert handler(event, Context()) == {"batchItemFailures": []}
    assert [call.operation for call in recorder.calls if call.service == "dynamodb"] == calls
