"""A worker that comes back late changes nothing: not the run item, and not the user's, by whatever it writes with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flowguard.aws.writes import from_item
from flowguard.events import EventType
from flowguard.names.ids import RequestId
from flowguard.step import Step
from tests.scene import OrderState, Scene
from tests.worker.runtime.mishaps import Died, boom

Write = Callable[[Step[OrderState]], Any]

X = {"id": "x"}


def by_apply(step: Step[OrderState]) -> None:
    with step.apply("x"):
        step.update("orders", X, "SET who = :who", values={":who": step.request_id})


def by_once(step: Step[OrderState]) -> None:
    step.once("x", lambda: step.request_id)
    step.put("orders", {**X, "who": step.request_id})


WRITES: dict[str, Write] = {
    "put": lambda step: step.put("orders", {**X, "who": step.request_id}),
    "put on condition": lambda step: step.put(
        "orders", {**X, "who": step.request_id}, condition="attribute_exists(id)", else_go_on="x"
    ),
    "update": lambda step: step.update("orders", X, "SET who = :who", values={":who": step.request_id}),
    "delete": lambda step: step.delete("orders", X),
    "modify": lambda step: step.modify("orders", X, lambda item: {**(item or {}), "who": step.request_id}),
    "newest wins": lambda step: step.newest_wins("orders", {**X, "who": step.request_id}, "id", at=step.now()),
    "apply": by_apply,
    "once": by_once,
}


def another_run_has_committed(at: Scene) -> None:
    at.deliver(at.newer())


def another_run_is_at_work(at: Scene) -> None:
    at.script.pricing = dies_after_writing
    with pytest.raises(Died):
        at.deliver(at.newer())


def another_attempt_has_committed(at: Scene) -> None:
    at.clock.advance(seconds=31)
    at.deliver(at.message())


def its_run_has_ended_and_another_has_begun(at: Scene) -> None:
    another_attempt_has_committed(at)
    at.deliver(at.second())
    at.deliver(at.newer())


def the_item_has_expired_and_its_run_has_begun_anew(at: Scene) -> None:
    key: Any = {"pk": {"S": "run#orders#o1"}, "sk": {"S": "run"}}
    at.aws.client("dynamodb").delete_item(TableName="flowguard", Key=key)
    at.deliver(at.message())


def dies_after_writing(step: Step[OrderState]) -> None:
    raise Died


def x(at: Scene) -> dict[str, Any] | None:
    found: Any = at.aws.client("dynamodb").get_item(TableName="orders", Key={"id": {"S": "x"}})
    return from_item(found["Item"]) if "Item" in found else None


def run_item(at: Scene) -> Any:
    key: Any = {"pk": {"S": "run#orders#o1"}, "sk": {"S": "run"}}
    return at.aws.client("dynamodb").get_item(TableName="flowguard", Key=key)["Item"]


@pytest.mark.parametrize("fails", [False, True], ids=["finishes late", "fails late"])
@pytest.mark.parametrize(
    "meanwhile",
    [
        another_run_has_committed,
        another_run_is_at_work,
        another_attempt_has_committed,
        its_run_has_ended_and_another_has_begun,
        the_item_has_expired_and_its_run_has_begun_anew,
    ],
)
@pytest.mark.parametrize("write", WRITES)
def test_a_worker_that_comes_back_late_changes_nothing(
    at: Scene, write: str, meanwhile: Callable[[Scene], None], fails: bool
) -> None:
    at.aws.client("dynamodb").put_item(TableName="orders", Item={"id": {"S": "x"}, "who": {"S": "nobody"}})
    left: list[Any] = []

    def stalls(step: Step[OrderState]) -> None:
        at.script.pricing = lambda other: other.put("orders", {**X, "who": "the other", "newest_at": 9e15})
        meanwhile(at)
        left.extend([x(at), run_item(at)])
        WRITES[write](step)
        if fails:
            boom(step)

    at.script.pricing = stalls
    at.deliver(at.message(request_id=RequestId("run-1")))
    assert [x(at), run_item(at)] == left
    assert at.told(EventType.FENCED) + at.told(EventType.RETRIED) == 1
