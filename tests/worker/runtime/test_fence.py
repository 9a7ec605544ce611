"""A worker that no longer owns its run changes nothing, and knows whether to ack."""

from __future__ import annotations

import pytest

from flowguard.errors import Reject
from flowguard.events import EventType
from flowguard.protocol.run import Status
from flowguard.sim.calls import intercept
from flowguard.step import Step
from tests.scene import OrderState, Scene
from tests.worker.runtime.mishaps import Died, die, dies_at, supersede


def test_a_stale_worker_changes_nothing_its_business_write_is_refused_with_its_state(at: Scene) -> None:
    at.script.pricing = lambda step: supersede(at)
    assert at.deliver(at.message()) == [True]
    assert (at.told(EventType.FENCED), at.priced()) == (1, 1)
    item = at.item()
    assert item is not None
    assert item.request_id == "run-2"
    assert len(at.sent("emails")) == 1, "what the stale worker recorded was never sent"


def test_a_worker_fenced_by_an_unfinished_attempt_does_not_ack(at: Scene) -> None:
    def overtaken(step: Step[OrderState]) -> None:
        at.script.pricing = die
        with pytest.raises(Died):
            at.deliver(at.message(retry=1))

    at.script.pricing = overtaken
    assert at.deliver(at.message()) == [False]
    assert (at.told(EventType.FENCED), at.told(EventType.BROKEN)) == (1, 0)


def test_a_worker_fenced_by_an_attempt_that_finished_sends_the_finishers_outbox(at: Scene) -> None:
    def overtaken(step: Step[OrderState]) -> None:
        at.script.pricing = lambda step: None
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            at.deliver(at.message(retry=1))

    at.script.pricing = overtaken
    assert at.deliver(at.message()) == [True]
    assert (at.told(EventType.FENCED), at.priced()) == (1, 1)
    assert len(at.sent("close-order")) == 1


def test_the_end_of_a_run_that_was_replaced_meanwhile_is_fenced_like_any_commit(at: Scene) -> None:
    def replaced_then_rejected(step: Step[OrderState]) -> None:
        supersede(at)
        raise Reject("too late to say so")

    at.script.pricing = replaced_then_rejected
    assert at.deliver(at.message()) == [True]
    item = at.item()
    assert item is not None
    assert (item.request_id, item.status, at.sent("dead")) == ("run-2", Status.RUNNING, [])
