"""Clocks that are wrong: within a run the order of its hops holds, and no error outlives its run."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from flowguard.events import EventType
from flowguard.flow import AnyFlow, Flow
from flowguard.outcome import Done, Outcome
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing.lambda_events import sns_to_sqs_event
from tests.scene import START, Order, OrderState, Scene, Script, scene
from tests.sent_ids import readable
from tests.worker.runtime.mishaps import Died, boom, die

TWENTY_MINUTES = 1_200


def times(at: Scene, queue: str) -> list[int]:
    return [int(one["MessageAttributes"]["requestedat"]["StringValue"]) for one in at.sent(queue)]


def test_one_fast_clock_does_not_date_what_later_runs_send(at: Scene) -> None:
    at.clock.advance(seconds=TWENTY_MINUTES)
    at.deliver(at.message())
    assert times(at, "emails") == [START + TWENTY_MINUTES * 1_000]
    at.clock.advance(seconds=-TWENTY_MINUTES)
    at.deliver(at.newer())
    assert times(at, "emails")[-1] == START


def test_nor_does_it_where_the_later_run_needs_two_attempts(at: Scene) -> None:
    at.clock.advance(seconds=TWENTY_MINUTES)
    at.deliver(at.message())
    at.clock.advance(seconds=-TWENTY_MINUTES)
    at.script.pricing = boom
    at.deliver(at.newer())
    at.script.pricing = lambda step: None
    at.deliver(at.newer(retry=1))
    assert times(at, "emails")[-1] == START


def test_nor_does_it_where_the_later_run_was_redriven(at: Scene) -> None:
    at.clock.advance(seconds=TWENTY_MINUTES)
    at.deliver(at.message())
    at.clock.advance(seconds=-TWENTY_MINUTES)
    at.deliver(at.newer(redrive=1))
    assert times(at, "emails")[-1] == START


def test_within_a_run_each_hop_comes_after_the_one_before(at: Scene) -> None:
    at.clock.advance(seconds=60)
    at.deliver(at.message())
    at.clock.advance(seconds=-60)
    at.deliver(at.second())
    assert times(at, "emails") + times(at, "completed") == [START + 60_000, START + 60_001]


def test_and_so_does_a_redrive(at: Scene) -> None:
    at.clock.advance(seconds=60)
    at.deliver(at.message(body='{"order":"no"}'))
    at.clock.advance(seconds=-60)
    at.deliver(at.message(redrive=1))
    assert times(at, "completed") + times(at, "emails") == [START + 60_000, START + 60_001]


def test_a_worker_whose_clock_is_a_day_fast_holds_its_hop_no_longer_than_any_can(at: Scene) -> None:
    """It dies at its work. Its record is seen again a few minutes later, by workers whose clocks are right."""
    at.clock.advance(seconds=86_400)
    at.script.pricing = die
    with suppress(Died):
        at.deliver(at.message())
    at.clock.advance(seconds=-86_400 + 60)
    at.script.pricing = lambda step: None
    assert at.deliver(at.message()) == [True]
    assert at.priced() == 1


def lasting(script: Script, timeout: timedelta | None) -> AnyFlow:
    """The flow of most tests, whose first stage says how long it may take."""

    class PriceOrder(Stage[Order, OrderState], name="price-order", inbox="price-order", timeout=timeout):
        def handle(self, order: Order, step: Step[OrderState]) -> Outcome:
            script.pricing(step)
            step.update("orders", {"id": order.order_id}, "ADD priced :one", values={":one": 1})
            return Done()

    class Orders(Flow, name="orders", object_id="order_id", complete_to="completed", dead_letters="dead"):
        stages = (PriceOrder,)

    return Orders


class InLambda:
    """What Lambda says of an invocation that has the longest time there is."""

    def get_remaining_time_in_millis(self) -> int:
        return 900_000


@pytest.mark.parametrize(
    ("timeout", "context", "later"),
    [
        (None, InLambda(), -600),
        (timedelta(seconds=10), InLambda(), -600),
        (timedelta(hours=2), None, 3_600),
        (timedelta(hours=2), None, -600),
    ],
    ids=["in Lambda", "in Lambda, with a short timeout", "without Lambda", "without Lambda, its clock fast"],
)
def test_no_hop_is_taken_from_a_worker_that_has_the_time_which_its_lease_says(
    timeout: timedelta | None, context: Any, later: int
) -> None:
    """It has claimed, and is at work. A copy of its record comes to a worker whose clock may be ten minutes slower."""
    with scene(lambda script: lasting(script, timeout)) as at:
        at.script.pricing = die
        with suppress(Died):
            at.deliver(at.message(), context=context)
        at.clock.advance(seconds=later)
        at.script.pricing = lambda step: None
        assert at.deliver(at.message(), context=context) == [False]
        assert (at.told(EventType.BUSY), at.priced()) == (1, 0)


# -- times that nobody can have meant ----------------------------------------------------------------------------------


def notification(timestamp: str, **attributes: str) -> Any:
    event = sns_to_sqs_event("price-order", Order(order_id="o1"), sent_at=START)
    [record] = event["Records"]
    body = json.loads(record["body"])
    body["Timestamp"] = timestamp
    body["MessageAttributes"] = {name: {"Type": "Number", "Value": value} for name, value in attributes.items()}
    record["body"] = json.dumps(body)
    return event


FORGED = {
    "9999": ("9999-12-31T23:59:59.000Z", "body.Timestamp", "ahead"),
    "a quarter of an hour and a second ahead": ("2027-01-15T08:15:01.000Z", "body.Timestamp", "ahead"),
    "before 1970": ("1969-12-31T23:59:59.000Z", "body.Timestamp", "not whole milliseconds"),
}


@pytest.mark.parametrize(("timestamp", "field", "why"), FORGED.values(), ids=FORGED)
def test_a_notification_of_an_impossible_time_shuts_out_nobody(at: Scene, timestamp: str, field: str, why: str) -> None:
    event = notification(timestamp)
    assert at.handler(event) == {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}
    [unreadable] = [h for h in at.tally.events if h.type is EventType.UNREADABLE]
    assert field in unreadable.facts["why"]
    assert why in unreadable.facts["why"]
    assert at.item() is None
    assert at.deliver(at.message()) == [True]


def test_a_notification_of_now_is_taken(at: Scene) -> None:
    assert at.handler(notification("2027-01-15T08:14:59.000Z")) == {"batchItemFailures": []}


@pytest.mark.parametrize(
    ("requested_at", "why"),
    [
        (START // 1_000, "looks like seconds"),
        (START * 1_000, "not whole milliseconds"),
        (START + 900_001, "ahead"),
        (-1, "not whole milliseconds"),
    ],
)
def test_a_time_in_another_unit_is_refused_by_name(at: Scene, requested_at: int, why: str) -> None:
    assert at.deliver(at.message(requested_at=requested_at)) == [False]
    [unreadable] = [h for h in at.tally.events if h.type is EventType.UNREADABLE]
    assert "attributes.requestedat" in unreadable.facts["why"]
    assert why in unreadable.facts["why"]


def test_a_record_whose_own_time_is_far_ahead_is_refused(at: Scene) -> None:
    """Only who invokes the function itself can write one; SQS does not."""
    event = sns_to_sqs_event("price-order", Order(order_id="o1"), sent_at=START)
    record = event["Records"][0]
    record["attributes"]["SentTimestamp"] = str(START + 900_001)
    record["body"] = '{"order_id":"o1"}'
    assert at.handler(event)["batchItemFailures"]
    record["attributes"]["SentTimestamp"] = str(START + 900_000)
    assert at.handler(event) == {"batchItemFailures": []}


def test_the_same_id_for_two_objects_or_later_again_sends_under_other_ids(at: Scene) -> None:
    """docs/decisions/0015: a receiver would drop the second as a copy of the first."""
    at.deliver(at.message())
    at.deliver(at.message(object_id="o2", body='{"order_id":"o2"}'))
    at.deliver(at.newer())
    at.deliver(at.message(requested_at=START))
    ids = [one["MessageAttributes"]["uniquerequestid"]["StringValue"] for one in at.sent("emails")]
    assert sorted({readable(one) for one in ids}) == ["run-1.1.0", "run-2.1.0"]
    assert len(set(ids)) == 4, "three of run-1, apart from copies by those that took over"
