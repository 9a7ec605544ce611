"""What a flow may name as its ``on_failed``, and failed runs that wait."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard.errors import DefinitionError, Reject
from flowguard.failed import Failure
from flowguard.flow import Flow
from flowguard.outcome import Done, Outcome
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.stage import AnyStage, Stage
from flowguard.step import Step
from flowguard.testing.flow_clock import FlowClock
from flowguard.testing.runner import FlowRunner


class Order(BaseModel):
    order_id: str
    ends: str = "timeout"


class Paid(BaseModel):
    paid: dict[str, Any]


class OrderState(BaseModel):
    reserved: int = 0


class Reserve(Stage[Order, OrderState], name="reserve", then="ship"):
    def handle(self, order: Order, step: Step[OrderState]) -> Outcome:
        step.state.reserved = 3
        return Ship.when_all(paid=step.event(f"payment/{order.order_id}"), within=timedelta(minutes=5))


class Ship(Stage[Paid, OrderState], name="ship"):
    def handle(self, paid: Paid, step: Step[OrderState]) -> Outcome:
        raise Reject("no lorry")


class Undo(Stage[Failure, OrderState], name="undo", then="freed"):
    def handle(self, failure: Failure, step: Step[OrderState]) -> Outcome:
        step.put("seen", {"id": step.object_id, **failure.model_dump(include={"type", "text", "payload", "hop"})})
        return Freed.when_all(freed=step.event(f"freed/{step.object_id}"), within=timedelta(minutes=5))


class Warehouse(BaseModel):
    freed: int


class Freed(Stage[Warehouse, OrderState], name="freed"):
    def handle(self, warehouse: Warehouse, step: Step[OrderState]) -> Outcome:
        step.state.reserved -= warehouse.freed
        step.put("freed", {"id": step.object_id, "reserved": step.state.reserved})
        return Done({"freed": warehouse.freed})


class Orders(Flow, name="orders", object_id="order_id", on_failed=Undo, max_hops=2):
    stages = (Reserve, Ship, Undo, Freed)


@pytest.fixture
def runner() -> Iterator[FlowRunner]:
    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        runner.table("seen", "id")
        runner.table("freed", "id")
        yield runner


NO_TIME = "no answer to paid came in time"


@pytest.mark.parametrize(
    ("end", "text", "payload"), [("timeout", NO_TIME, None), ("failed", "paid failed: Declined: no money", None)]
)
def test_a_wait_that_nothing_handles_goes_the_same_way_and_the_undo_may_wait_too(
    runner: FlowRunner, end: str, text: str, payload: str | None
) -> None:
    runner.send(Orders, Order(order_id="o1"))
    runner.run(within=timedelta(minutes=1))
    if end == "failed":
        runner.fail(Orders, "payment/o1", "no money", kind="Declined")
    failed = runner.run(within=timedelta(minutes=1 if end == "failed" else 6))
    runner.answer(Orders, "freed/o1", 3)
    result = runner.run()
    assert result.item("seen", id="o1") == {
        "id": "o1",
        "type": "RunFailed",
        "text": text,
        "payload": payload,
        "hop": 2,
    }
    assert result.item("freed", id="o1") == {"id": "o1", "reserved": 0}
    end_of_run = result.run("o1")
    assert (end_of_run.status, end_of_run.error) == ("FAILED", f"RunFailed: {text}")
    assert len({letter.attributes["flowguard"].value for letter in failed.dead_letters}) == 1
    assert result.dead_letters == ()


def test_an_answer_that_comes_after_a_failed_wait_is_told_so(runner: FlowRunner) -> None:
    runner.send(Orders, Order(order_id="o1"))
    runner.run(within=timedelta(minutes=6))
    assert runner.answer(Orders, "payment/o1", {}).value == "EXPIRED"


def test_an_undo_that_waits_in_vain_fails_and_ends_the_run(runner: FlowRunner) -> None:
    runner.send(Orders, Order(order_id="o1"))
    result = runner.run()
    assert result.run("o1").status == "FAILED"
    both = f"RunFailed: {NO_TIME} (and freed failed: RunFailed: no answer to freed came in time)"
    assert result.run("o1").error == both
    assert len(result.dead_letters) == 2


class TakesOrders(Stage[Order, OrderState], name="takes-orders"):
    def handle(self, order: Order, step: Step[OrderState]) -> Outcome:
        return Done()


def defined(*stages: AnyStage, **options: Any) -> Any:
    return type("Defined", (Flow,), {"stages": stages}, name="defined", object_id="order_id", **options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"on_failed": "undone"}, "on_failed is 'undone', which is not among its stages: reserve, ship, undo, freed"),
        ({"on_failed": 7}, "on_failed is '7', which is not among its stages"),
        ({"on_failed": ""}, "on_failed is '', which is not among its stages"),
        ({"on_failed": "x" * 9_000 + "\ud800\0"}, "which is not among its stages"),
        ({"on_failed": Undo, "entries": ("undo",)}, "on_failed is 'undo', where requests enter"),
        ({"on_failed": Undo, "max_hops": 500_001}, "max_hops is 500001; with on_failed it is at most 500,000"),
    ],
)
def test_what_no_failed_run_could_go_on_at_is_refused_with_its_cure(options: dict[str, Any], told: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        defined(Reserve, Ship, Undo, Freed, **options)
    assert told in str(caught.value)
    assert len(str(caught.value)) < 1_000


def test_the_first_stage_is_none_and_neither_is_one_that_takes_something_else() -> None:
    with pytest.raises(DefinitionError) as caught:
        defined(TakesOrders, on_failed=TakesOrders)
    assert caught.value.problems == (
        "on_failed is 'takes-orders', where requests enter; give the failed runs a stage of their own",
        "on_failed is 'takes-orders', which takes Order; write Stage[Failure, …]",
    )


def test_a_stage_that_only_failed_runs_reach_is_named_without_then() -> None:
    flow = defined(Reserve, Ship, Undo, Freed, on_failed="undo", max_hops=500_000)
    assert flow.on_failed == "undo"
    with pytest.raises(DefinitionError, match="no stage leads to 'undo'"):
        defined(Reserve, Ship, Undo, Freed)
