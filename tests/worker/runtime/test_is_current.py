"""A long handler asks whether its work still counts, and stops where it does not."""

from __future__ import annotations

import pytest

from flowguard.sim.calls import Recorder, intercept
from flowguard.step import Step
from flowguard.testing import step_for
from tests.scene import OrderState, Scene
from tests.worker.runtime.mishaps import supersede
from tests.worker.runtime.test_cancelled import cancel


@pytest.fixture
def said(at: Scene) -> list[bool]:
    return []


def asks_twice(at: Scene, said: list[bool], meanwhile: object) -> None:
    """Let the first stage ask before and after something happens."""

    def pricing(step: Step[OrderState]) -> None:
        with intercept(Recorder()) as calls:
            said.append(step.is_current())
        assert [call.operation for call in calls.calls] == ["GetItem"]
        assert calls.calls[0].params["ConsistentRead"] is True
        if callable(meanwhile):
            meanwhile(step)
        said.append(step.is_current())

    at.script.pricing = pricing


def test_a_worker_that_nobody_overtook_is_current(at: Scene, said: list[bool]) -> None:
    asks_twice(at, said, None)
    at.deliver(at.message())
    assert said == [True, True]


def test_it_is_not_once_a_newer_request_has_the_object(at: Scene, said: list[bool]) -> None:
    asks_twice(at, said, lambda step: supersede(at))
    at.deliver(at.message())
    assert said == [True, False]
    assert at.priced() == 1, "the newer run's"


def test_it_is_not_once_another_worker_has_taken_the_hop_over(at: Scene, said: list[bool]) -> None:
    def overtaken(step: Step[OrderState]) -> None:
        at.clock.advance(seconds=60)
        at.script.pricing = lambda step: None
        at.deliver(at.message())

    asks_twice(at, said, overtaken)
    at.deliver(at.message())
    assert said == [True, False], "nor after that worker's commit"


def test_it_is_not_once_the_run_is_cancelled_or_its_item_is_gone(at: Scene, said: list[bool]) -> None:
    def cancelled(step: Step[OrderState]) -> None:
        assert cancel(at)

    asks_twice(at, said, cancelled)
    at.deliver(at.message())

    def expired(step: Step[OrderState]) -> None:
        key = {"pk": {"S": "run#orders#o2"}, "sk": {"S": "run"}}
        at.aws.client("dynamodb").delete_item(TableName="flowguard", Key=key)

    asks_twice(at, said, expired)
    at.deliver(at.order("o2"))
    assert said == [True, False, True, False]


def test_a_step_of_a_test_is_nobody_elses(at: Scene) -> None:
    assert step_for(at.flow.stages[0]).is_current()
