"""A function whose stage goes without a lease may read the run table."""

from __future__ import annotations

from flowguard import Done, Flow, Outcome, Stage, Step, lambda_handler
from tests.deploy.exercised import granted, needs
from tests.deploy.waiting import Order


class Read(Stage[Order], name="read", then="claimed", inbox="read", lease=False):
    def handle(self, payload: Order, step: Step) -> Outcome:
        return Claimed.message(payload)


class Claimed(Stage[Order], name="claimed", inbox="claimed"):
    def handle(self, payload: Order, step: Step) -> Outcome:
        return Done()


class Orders(Flow, name="orders", object_id="order_id"):
    stages = (Read, Claimed)


reads = lambda_handler(Orders, Read)
claims = lambda_handler(Orders, Claimed)


def test_only_the_function_of_a_stage_without_a_lease_may_read_the_run_table() -> None:
    allowed = granted(needs(__name__))
    assert {name for name, action, table in allowed if (action, table) == ("dynamodb:GetItem", "flowguard")} == {
        "orders-reads"
    }
    assert sum((action, table) == ("dynamodb:UpdateItem", "flowguard") for _, action, table in allowed) == 2
