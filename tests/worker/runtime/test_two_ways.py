"""One request that comes through the queue and by a call: whichever of the two goes on has the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flowguard.errors import NotProcessed
from flowguard.events import EventType
from flowguard.protocol.run import RunItem, Status
from flowguard.sim.calls import intercept
from flowguard.step import Step
from flowguard.testing.lambda_events import sns_event
from tests.scene import START, Scene
from tests.worker.runtime.mishaps import Died, boom, die
from tests.worker.runtime.test_given_up import came_back, give_up
from tests.worker.runtime.test_no_queue import Quarter, without


def published(at: Scene) -> Any:
    message = at.message()
    return sns_event("orders", message.text, message_id="sns-1", published_at=START, attributes=message.attributes())


def called(at: Scene) -> Any:
    return published(at)["Records"][0]["Sns"]


def called_later(at: Scene) -> Any:
    """The same request, asked for at a later time than the message in the queue says."""
    message = at.message(requested_at=START + 5_000)
    return sns_event("orders", message.text, message_id="sns-2", published_at=START, attributes=message.attributes())[
        "Records"
    ][0]["Sns"]


BY_A_CALL = {"SNS": published, "an invocation": called}


def well(step: Step[Any]) -> None:
    """The gateway is back."""


def call(at: Scene, event_of: Callable[[Scene], Any], times: int) -> None:
    """Call the function with the request, which fails each time."""
    for _ in range(times):
        with pytest.raises(NotProcessed):
            at.handler(event_of(at), Quarter())
        at.clock.advance(seconds=1)


def rests(at: Scene) -> None:
    """The record of the queue has failed, and its retry is due later. Its lease is over."""
    at.script.pricing = boom
    assert at.deliver(at.message()) == [True]
    assert at.told(EventType.RETRIED) == 1
    at.clock.advance(seconds=60)


def item_of(at: Scene) -> RunItem:
    item = at.item()
    assert item is not None
    return item


@pytest.mark.parametrize("event_of", BY_A_CALL.values(), ids=BY_A_CALL)
@pytest.mark.parametrize("calls", [1, 2])
def test_the_retry_in_the_queue_goes_on_where_the_calls_have_stopped(at: Scene, event_of: Any, calls: int) -> None:
    rests(at)
    call(at, event_of, calls)
    at.script.pricing = well
    assert at.deliver(at.message(retry=1)) == [True]
    assert at.priced() == 1
    assert [attempt for _, _, attempt in at.script.handled] == [1, *range(1, calls + 1), calls + 1]
    assert len(at.sent("close-order")) == 1
    assert (item_of(at).done, item_of(at).called_attempt) == (True, "")


@pytest.mark.parametrize("event_of", BY_A_CALL.values(), ids=BY_A_CALL)
def test_so_it_does_where_the_function_died_in_the_last_call(at: Scene, event_of: Any) -> None:
    rests(at)
    call(at, event_of, 2)
    at.script.pricing = die
    with pytest.raises(Died):
        at.handler(event_of(at), Quarter())
    at.script.pricing = well
    assert at.deliver(at.message(retry=1)) == [False], "its lease lives"
    at.clock.advance(seconds=900)
    assert at.deliver(at.message(retry=1)) == [True]
    assert at.priced() == 1


def test_its_own_failure_counts_on_from_there_until_the_run_ends(at: Scene) -> None:
    rests(at)
    call(at, called, 2)
    assert item_of(at).retry == 2
    assert at.deliver(at.message(retry=1)) == [True]
    assert (item_of(at).status, len(at.sent("dead"))) == (Status.FAILED, 1)


def test_a_copy_goes_no_further_than_a_retry_that_was_sent(at: Scene) -> None:
    rests(at)
    call(at, called, 1)
    at.clock.advance(seconds=60)
    at.deliver(at.message(retry=1))
    at.sent("price-order")
    at.clock.advance(seconds=60)
    at.script.pricing = die
    with pytest.raises(Died):
        at.deliver(at.message(retry=2))
    at.clock.advance(seconds=900)
    at.script.pricing = well
    assert at.deliver(at.message(retry=1)) == [True]
    assert (at.told(EventType.DUPLICATE), at.priced()) == (1, 0)


def test_a_call_that_costs_no_attempt_notes_none(at: Scene) -> None:
    rests(at)
    at.deliver(at.message(retry=1))
    at.clock.advance(seconds=60)
    at.script.pricing = well
    with intercept(without("TransactWriteItems")):
        call(at, called, 1)
    assert (item_of(at).retry, item_of(at).called_attempt) == (1, "")
    stored: Any = at.aws.client("dynamodb").scan(TableName="flowguard")["Items"]
    assert [item for item in stored if "called_attempt" in item] == []


@pytest.mark.parametrize("retry", [0, 1], ids=["the request", "its retry"])
def test_a_call_with_a_later_time_keeps_the_message_in_the_queue_from_nothing(at: Scene, retry: int) -> None:
    at.script.pricing = boom
    if retry:
        rests(at)
    call(at, called_later, 1)
    at.clock.advance(seconds=60)
    at.script.pricing = well
    assert at.deliver(at.message(retry=retry)) == [True]
    assert (at.priced(), item_of(at).requested_at) == (1, START + 5_000)


def test_what_a_call_of_one_request_has_noted_is_nothing_to_the_next(at: Scene) -> None:
    at.script.pricing = boom
    call(at, called, 1)
    at.deliver(at.newer())
    at.clock.advance(seconds=60)
    at.script.pricing = die
    with pytest.raises(Died):
        at.deliver(at.newer(retry=1))
    at.clock.advance(seconds=900)
    at.script.pricing = well
    assert at.deliver(at.newer()) == [True]
    assert (at.told(EventType.DUPLICATE), at.priced()) == (1, 0)


def test_a_record_that_sqs_has_given_up_is_not_ended_for_functions_that_calls_have_killed(at: Scene) -> None:
    rests(at)
    call(at, called, 1)
    at.script.pricing = die
    for _ in range(2):
        with pytest.raises(Died):
            at.handler(called(at), Quarter())
        at.clock.advance(seconds=900)
    assert give_up(at, at.message()) == {"batchItemFailures": []}
    assert (item_of(at).status, len(at.sent("dead")), len(came_back(at))) == (Status.RUNNING, 0, 1)
