"""Functions of a stage that goes without a lease may read the run table, and those that share calls may in batches."""

from __future__ import annotations

from typing import Any

from flowguard import Done, Flow, Outcome, Stage, Step, dlq_handler, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.client import FlowClient
from flowguard.clock import ManualClock
from flowguard.deploy.options import DeployOptions
from flowguard.settings import Settings
from flowguard.sim.calls import Recorder, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.points import Point
from tests.deploy.exercised import Made, actions_of, exercised, granted, needs
from tests.deploy.mishaps import REPLIES, Mishap
from tests.deploy.test_permissions import received
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


def test_all_that_a_shared_call_does_is_granted() -> None:
    needed = needs(__name__, options=DeployOptions(reply_to=(REPLIES,)))
    clock = ManualClock(1_800_000_000_000)
    made: set[Made] = set()
    with MemoryAWS(clock=clock) as aws:
        aws.create_table("flowguard")
        for queue in needed.queues:
            aws.create_queue(queue.name)
        services = aws_services(Settings(), Clients(), clock=clock)
        client = FlowClient.of(services)

        def serve(name: str, handler: Any, inbox: str) -> None:
            with intercept(Recorder()) as calls:
                assert handler.using(services)(received(aws, inbox)) == {"batchItemFailures": []}
            made.update((name, action, on) for call in calls.calls for action, on in actions_of(call))

        for number in range(3):
            client.start(Bulk, Order(order_id=f"b{number}"))
            client.start(Orders, Order(order_id=f"o{number}"))
        serve("bulk-together", together, "first")
        serve("orders-reads", reads, "read")
        serve("orders-claims", claims, "claimed")
    assert sorted(made - granted(needed)) == []
    of_run_table = {(function, action.removeprefix("dynamodb:")) for function, action, on in made if on == "flowguard"}
    shared = {"BatchGetItem", "PartiQLInsert", "PartiQLUpdate"}
    assert {one for one in of_run_table if one[1] in shared} == {
        ("bulk-together", "BatchGetItem"),
        ("bulk-together", "PartiQLInsert"),
        ("orders-claims", "PartiQLUpdate"),
    }
