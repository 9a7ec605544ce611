"""An item that a stage reads and changes: its commit holds only while the item is what was read."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.errors import RunFailed
from flowguard.events import EventType
from flowguard.step import Step
from flowguard.testing import step_for
from tests.scene import Orders, OrderState, Scene
from tests.worker.runtime.mishaps import supersede


def stock(at: Scene, n: int) -> None:
    at.aws.client("dynamodb").put_item(TableName="orders", Item={"id": {"S": "pen"}, "n": {"N": str(n)}})


def left(at: Scene) -> int:
    found: Any = at.aws.client("dynamodb").get_item(TableName="orders", Key={"id": {"S": "pen"}})
    return int(found["Item"]["n"]["N"])


def take(step: Step[OrderState], **options: Any) -> Any:
    return step.modify("orders", {"id": "pen"}, lambda item: {"n": item["n"] - 1} if item else {"n": 99}, **options)


def test_a_change_is_written_with_the_commit_and_costs_one_read(at: Scene) -> None:
    stock(at, 5)
    got: list[Any] = []
    at.script.pricing = lambda step: got.append(take(step))
    assert at.deliver(at.message()) == [True]
    assert (left(at), at.priced(), got) == (4, 1, [{"id": "pen", "n": 4}])
    assert at.calls == ["UpdateItem", "GetItem", "TransactWriteItems"]


def test_where_another_writer_was_quicker_the_handler_is_called_again_and_reads_anew(at: Scene) -> None:
    stock(at, 5)
    calls: list[int] = []

    def pricing(step: Step[OrderState]) -> None:
        take(step)
        calls.append(1)
        if len(calls) == 1:
            stock(at, 50)

    at.script.pricing = pricing
    assert at.deliver(at.message()) == [True]
    assert (len(calls), left(at), at.priced()) == (2, 49, 1)


@pytest.mark.parametrize("tries", [1, 3, 10])
def test_after_its_last_try_the_attempt_fails_and_is_tried_again_later(at: Scene, tries: int) -> None:
    calls: list[int] = []

    def pricing(step: Step[OrderState]) -> None:
        take(step, tries=tries)
        calls.append(1)
        stock(at, len(calls))

    at.script.pricing = pricing
    assert at.deliver(at.message()) == [True]
    assert (len(calls), at.priced(), at.told(EventType.RETRIED)) == (tries, 0, 1)


def test_a_fenced_worker_changes_nothing(at: Scene) -> None:
    stock(at, 5)

    def pricing(step: Step[OrderState]) -> None:
        take(step)
        if step.request_id == "run-1":
            supersede(at)

    at.script.pricing = pricing
    at.deliver(at.message())
    assert (left(at), at.told(EventType.FENCED)) == (5, 1)


def test_an_item_that_only_decides_must_stay_as_it_was(at: Scene) -> None:
    stock(at, 5)
    calls: list[int] = []

    def pricing(step: Step[OrderState]) -> None:
        found = step.modify("orders", {"id": "pen"}, lambda item: item)
        assert found is not None
        calls.append(found["n"])
        if len(calls) == 1:
            stock(at, 6)

    at.script.pricing = pricing
    at.deliver(at.message())
    assert (calls, left(at), at.priced()) == ([5, 6], 6, 1)


def test_a_step_without_tables_says_so() -> None:
    with pytest.raises(RunFailed, match="run the stage with FlowRunner"):
        take(step_for(Orders.stages[0]))
