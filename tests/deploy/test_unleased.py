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
claims = lambda_handler(Orders, Claimed, together=True)


class Bulk(Flow, name="bulk", object_id="order_id"):
    class First(Stage[Order], name="first", inbox="first", lease=False):
        def handle(self, payload: Order, step: Step) -> Outcome:
            return Done()

    stages = (First,)


together = lambda_handler(Bulk, together=True)


def test_only_the_function_of_a_stage_without_a_lease_may_read_the_run_table() -> None:
    allowed = granted(needs(__name__))
    assert _functions(allowed, "dynamodb:GetItem") == {"orders-reads", "bulk-together"}
    assert _functions(allowed, "dynamodb:UpdateItem") == {"orders-reads", "orders-claims", "bulk-together"}


def test_only_the_function_of_such_a_stage_that_shares_calls_may_read_in_batches() -> None:
    assert _functions(granted(needs(__name__)), "dynamodb:BatchGetItem") == {"bulk-together"}


def _functions(allowed: set[tuple[str, str, str]], action: str) -> set[str]:
    return {function for function, allows, table in allowed if (allows, table) == (action, "flowguard")}
