"""Functions of a stage that goes without a lease may read the run table."""

from __future__ import annotations

from flowguard import Done, Flow, Outcome, Stage, Step, dlq_handler, lambda_handler
from flowguard.deploy.options import DeployOptions
from flowguard.sim.points import Point
from tests.deploy.exercised import exercised, granted, needs
from tests.deploy.mishaps import REPLIES, Mishap
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
killed = dlq_handler(Orders)


def test_only_functions_of_a_stage_without_a_lease_may_read_the_run_table() -> None:
    allowed = granted(needs(__name__))
    assert _functions(allowed, "dynamodb:GetItem") == {"orders-reads", "orders-killed", "bulk-together"}
    assert _functions(allowed, "dynamodb:UpdateItem") - {"bulk-together"} == {
        "orders-reads",
        "orders-claims",
        "orders-killed",
    }


def test_only_the_function_of_such_a_stage_that_shares_calls_may_read_in_batches() -> None:
    assert _functions(granted(needs(__name__)), "dynamodb:BatchGetItem") == {"bulk-together"}


def _functions(allowed: set[tuple[str, str, str]], action: str) -> set[str]:
    return {function for function, allows, table in allowed if (allows, table) == (action, "flowguard")}


def test_the_function_of_dead_letters_reads_as_the_stage_does() -> None:
    needed = needs(__name__, options=DeployOptions(reply_to=(REPLIES,)))
    mishap = Mishap("dies before each dispatch", Point.BEFORE_DISPATCH, always=True)
    made = exercised(needed, None, mishap, lambda client: client.start(Orders, Order(order_id="o1")))
    assert ("orders-killed", "dynamodb:GetItem", "flowguard") in made
    assert sorted(made - granted(needed)) == []
