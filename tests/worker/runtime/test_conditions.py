"""What follows where the condition of a recorded write does not hold: each write says it for itself."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from pydantic import BaseModel

from flowguard.events import EventType
from flowguard.flow import AnyFlow, Flow
from flowguard.outcome import Done, Outcome
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.worker.runtime import MOST_CALLS
from tests.scene import OrderState, Scene, Script, scene

ENOUGH = "attribute_exists(id) AND n >= :one"


def stocked(at: Scene, **stock: int) -> None:
    for sku, n in stock.items():
        at.aws.client("dynamodb").put_item(TableName="orders", Item={"id": {"S": sku}, "n": {"N": str(n)}})


def left(at: Scene, sku: str) -> int | None:
    found: Any = at.aws.client("dynamodb").get_item(TableName="orders", Key={"id": {"S": sku}})
    return int(found["Item"]["n"]["N"]) if "Item" in found else None


def take(step: Step[OrderState], sku: str, **options: Any) -> None:
    step.update("orders", {"id": sku}, "SET n = n - :one", condition=ENOUGH, values={":one": 1}, **options)


def test_a_check_of_an_item_that_is_only_read_refuses_the_commit_where_it_does_not_hold(at: Scene) -> None:
    stocked(at, pen=1)
    at.script.pricing = lambda step: step.check("orders", {"id": "pen"}, "n > :one", values={":one": 1})
    assert at.deliver(at.message()) == [True]
    assert (at.priced(), at.told(EventType.RETRIED)) == (0, 1)
    stocked(at, pen=2)
    at.deliver(at.message(retry=1))
    assert (at.priced(), left(at, "pen")) == (1, 2)


def test_a_write_with_else_reject_ends_its_run_at_the_first_attempt(at: Scene) -> None:
    stocked(at, pen=0)
    at.script.pricing = lambda step: take(step, "pen", else_reject=True)
    assert at.deliver(at.message()) == [True]
    item = at.item()
    assert item is not None
    assert item.status is Status.FAILED
    assert str(item.error).startswith("ConditionRejected: the condition on 'orders' does not hold")
    assert (at.priced(), at.told(EventType.RETRIED), len(at.sent("dead"))) == (0, 0, 1)


def test_a_handler_that_goes_on_is_called_again_and_commits_the_rest(at: Scene) -> None:
    stocked(at, pen=0, ink=3)
    met: list[dict[str, Any]] = []

    def pricing(step: Step[OrderState]) -> None:
        met.append(dict(step.refused))
        take(step, "pen", else_go_on="pen")
        take(step, "ink", else_go_on="ink")

    at.script.pricing = pricing
    assert at.deliver(at.message()) == [True]
    assert met == [{}, {"pen": {"id": "pen", "n": 0}}]
    assert (left(at, "pen"), left(at, "ink"), at.priced()) == (0, 2, 1)
    assert at.calls == ["UpdateItem", "TransactWriteItems", "TransactWriteItems"]
    assert len(at.sent("emails")) == 1


def test_a_write_that_meets_no_item_says_so(at: Scene) -> None:
    met: list[dict[str, Any]] = []

    def pricing(step: Step[OrderState]) -> None:
        met.append(dict(step.refused))
        take(step, "pen", else_go_on="pen")

    at.script.pricing = pricing
    at.deliver(at.message())
    assert met == [{}, {"pen": None}]


def test_where_another_write_does_not_hold_either_the_attempt_fails_as_that_says(at: Scene) -> None:
    stocked(at, pen=0, ink=0)

    def pricing(step: Step[OrderState]) -> None:
        take(step, "pen", else_go_on="pen")
        take(step, "ink")

    at.script.pricing = pricing
    at.deliver(at.message())
    assert (at.told(EventType.RETRIED), len(at.script.handled), at.priced()) == (1, 1, 0)


def test_what_rejects_comes_before_what_is_tried_again(at: Scene) -> None:
    stocked(at, pen=0, ink=0)

    def pricing(step: Step[OrderState]) -> None:
        take(step, "pen")
        take(step, "ink", else_reject=True)

    at.script.pricing = pricing
    at.deliver(at.message())
    assert (at.told(EventType.RETRIED), at.told(EventType.FAILED)) == (0, 1)


def test_a_fenced_worker_is_told_so_and_does_not_go_on(at: Scene) -> None:
    """The fence is judged before the conditions: a stale run must not find out about its writes."""
    stocked(at, pen=0)

    def pricing(step: Step[OrderState]) -> None:
        take(step, "pen", else_go_on="pen")
        if step.request_id == "run-1":
            at.deliver(at.newer())

    at.script.pricing = pricing
    at.deliver(at.message())
    assert (at.told(EventType.FENCED), at.priced()) == (1, 1)
    assert [run for _, run, _ in at.script.handled] == ["run-1", "run-2", "run-2"]


def test_a_handler_whose_writes_never_hold_is_tried_again_later(at: Scene) -> None:
    numbers = itertools.count()
    at.script.pricing = lambda step: take(step, f"pen-{next(numbers)}", else_go_on=f"pen-{next(numbers)}")
    assert at.deliver(at.message()) == [True]
    assert (len(at.script.handled), at.told(EventType.RETRIED), at.priced()) == (MOST_CALLS, 1, 0)


def test_what_was_refused_at_an_earlier_call_stays_left_out(at: Scene) -> None:
    stocked(at, pen=0, ink=0)
    met: list[set[str]] = []

    def pricing(step: Step[OrderState]) -> None:
        met.append(set(step.refused))
        take(step, "pen", else_go_on="pen")
        if "pen" in step.refused:
            take(step, "ink", else_go_on="ink")

    at.script.pricing = pricing
    assert at.deliver(at.message()) == [True]
    assert (met, at.priced()) == ([set(), {"pen"}, {"pen", "ink"}], 1)


def test_an_outage_at_the_commit_calls_no_handler_again(at: Scene) -> None:
    def down(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "TransactWriteItems":
            raise EndpointConnectionError(endpoint_url="https://dynamodb")
        return proceed()

    with intercept(down):
        assert at.deliver(at.message()) == [False]
    [why] = [event.facts["why"] for event in at.tally.events if event.type is EventType.BROKEN]
    assert str(why).startswith("EndpointConnectionError")
    assert len(at.script.handled) == 1


class Basket(BaseModel):
    order_id: str
    lines: list[str] = []


def baskets(script: Script) -> AnyFlow:
    class Pick(Stage[Basket, OrderState], name="price-order", inbox="price-order"):
        def handle(self, basket: Basket, step: Step[OrderState]) -> Outcome:
            basket.lines.append("changed by its handler")
            step.state.total += 1
            take(step, "pen", else_go_on="pen")
            return Done({"lines": len(basket.lines), "total": step.state.total})

    class Baskets(Flow, name="orders", object_id="order_id", dead_letters="dead"):
        stages = (Pick,)

    return Baskets


def test_a_handler_that_is_called_again_gets_payload_and_state_as_they_were() -> None:
    with scene(baskets) as at:
        stocked(at, pen=0)
        at.deliver(at.message())
        item = at.item()
        assert item is not None
        assert json.loads(str(item.result)) == {"lines": 1, "total": 1}


@pytest.mark.parametrize("options", [{"else_reject": True}, {"else_go_on": "pen"}])
def test_a_condition_that_holds_changes_nothing(at: Scene, options: dict[str, Any]) -> None:
    stocked(at, pen=2)
    at.script.pricing = lambda step: take(step, "pen", **options)
    assert at.deliver(at.message()) == [True]
    assert (left(at, "pen"), at.priced(), at.calls) == (1, 1, ["UpdateItem", "TransactWriteItems"])
