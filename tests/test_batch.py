"""The records of one invocation: order, groups, time, and one that is poisoned."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_store
from flowguard.events import Event
from flowguard.flow import Flow, OnConflict
from flowguard.handler import dlq_handler
from flowguard.ids import ObjectId, Owner, RequestId
from flowguard.local.calls import ApiCall, Proceed, Response, intercept
from flowguard.message import Message
from flowguard.outcome import Done, Outcome
from flowguard.run import Claim, ClaimRequest, Status
from flowguard.settings import Settings
from flowguard.stage import Stage
from flowguard.step import Step
from tests.scene import Order, OrderState, Scene, message_id, record, scene


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        yield found


def order(at: Scene, number: int, **changes: Any) -> Message:
    name = f"o{number}"
    fields = {"object_id": ObjectId(name), "request_id": RequestId(f"run-{name}"), "body": f'{{"order_id":"{name}"}}'}
    return at.message(**{**fields, **changes})


# -- FIFO queues


def fifo_record(message: Message, place: int, group: str, receives: int = 1) -> dict[str, Any]:
    found = record(message, place)
    found["eventSourceARN"] += ".fifo"
    found["attributes"] |= {"MessageGroupId": group, "ApproximateReceiveCount": str(receives)}
    return found


def deliver_fifo(at: Scene, *records: dict[str, Any]) -> tuple[list[int], list[int]]:
    """The places that come back, and the visibility each postponed record was given."""
    waits: list[int] = []

    def watch(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "GetQueueUrl" and call.params["QueueName"].endswith(".fifo"):
            return {"QueueUrl": "https://sqs.us-east-1.amazonaws.com/123456789012/price-order.fifo"}
        if call.operation == "ChangeMessageVisibility":
            waits.append(call.params["VisibilityTimeout"])
            return {}
        return proceed()

    with intercept(watch):
        answer = at.handler({"Records": list(records)})
    back = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
    return [place for place in range(len(records)) if message_id(place) in back], waits


def test_after_a_failed_record_the_rest_of_its_group_comes_back_untouched_and_other_groups_go_on(at: Scene) -> None:
    at.script.pricing = fail_for("o0")
    records = [
        fifo_record(order(at, 0), 0, "red"),
        fifo_record(order(at, 1), 1, "blue"),
        fifo_record(order(at, 2), 2, "red"),
        fifo_record(order(at, 3), 3, "blue"),
    ]
    assert deliver_fifo(at, *records) == ([0, 2], [20])
    assert at.sent("price-order") == [], "order is kept: no copy is sent"
    assert [name for name, _, _ in at.script.handled] == ["price-order"] * 3
    assert at.item("o2") is None


def test_a_fifo_record_that_comes_back_is_the_next_attempt_although_no_lease_has_ended(at: Scene) -> None:
    at.script.pricing = fail_for("o0")
    deliver_fifo(at, fifo_record(order(at, 0), 0, "red"))
    at.script.pricing = lambda step: None
    assert deliver_fifo(at, fifo_record(order(at, 0), 0, "red")) == ([], [])
    assert [attempt for _, _, attempt in at.script.handled] == [1, 2]


def test_the_last_attempt_of_a_fifo_record_ends_its_run_and_frees_its_group(at: Scene) -> None:
    at.script.pricing = fail_for("o0")
    for _ in range(2):
        assert deliver_fifo(at, fifo_record(order(at, 0), 0, "red")) == ([0], [20])
    records = [fifo_record(order(at, 0), 0, "red"), fifo_record(order(at, 2), 1, "red")]
    assert deliver_fifo(at, *records) == ([], [])
    item = at.item("o0")
    assert item is not None
    assert (item.status, len(at.sent("dead"))) == (Status.FAILED, 1)
    assert at.item("o2") is not None


@pytest.mark.parametrize("receives", [1, 9])
def test_how_often_a_fifo_record_was_delivered_says_nothing_about_its_attempts(at: Scene, receives: int) -> None:
    """It counts waiting behind a failing record too, and begins anew when the record is moved."""
    at.script.pricing = fail_for("o2")
    for attempt in (1, 2):
        assert deliver_fifo(at, fifo_record(order(at, 2), 0, "red", receives=receives)) == ([0], [20])
        assert at.script.handled[-1] == ("price-order", "run-o2", attempt)
    at.script.pricing = lambda step: None
    assert deliver_fifo(at, fifo_record(order(at, 2), 0, "red")) == ([], [])
    assert (at.sent("dead"), at.script.handled[-1][2]) == ([], 3)


def test_a_fifo_record_whose_worker_died_is_the_same_attempt_once_its_lease_is_over(at: Scene) -> None:
    at.script.pricing = fail_for("o0")
    deliver_fifo(at, fifo_record(order(at, 0), 0, "red"))
    at.script.pricing = die
    with pytest.raises(KeyboardInterrupt):
        deliver_fifo(at, fifo_record(order(at, 0), 0, "red"))
    at.script.pricing = lambda step: None
    assert deliver_fifo(at, fifo_record(order(at, 0), 0, "red")) == ([0], [30])
    at.clock.advance(seconds=30)
    assert deliver_fifo(at, fifo_record(order(at, 0), 0, "red")) == ([], [])
    assert [attempt for _, _, attempt in at.script.handled] == [1, 2, 2]


def test_a_fifo_record_whose_attempt_fails_between_its_two_claims_is_not_acknowledged(at: Scene) -> None:
    """A second worker has the record too early. It is told DUPLICATE, asks as the attempt that is at work, and by then
    that one has failed."""
    store = aws_store(Settings(), Clients())
    at.script.pricing = fail_for("o0")
    deliver_fifo(at, fifo_record(order(at, 0), 0, "red"))
    at.script.pricing = lambda step: None
    at_work = store.claim(claim_request(order(at, 0).at_retry(1), at.clock.now()))
    assert isinstance(at_work, Claim)
    claims = 0

    def fails_between(call: ApiCall, proceed: Proceed) -> Response:
        nonlocal claims
        claims += call.operation == "UpdateItem"
        if claims == 2:
            claims += 1
            store.release(at_work, at.clock.now())
        return proceed()

    with intercept(fails_between):
        assert deliver_fifo(at, fifo_record(order(at, 0), 0, "red")) == ([], [])
    item = at.item("o0")
    assert item is not None
    assert (item.done, item.retry, at.script.handled[-1][2]) == (True, 2, 3)


def claim_request(message: Message, now: int) -> ClaimRequest:
    return ClaimRequest(
        message=message,
        owner=Owner("at-work"),
        now=now,
        lease_until=now + 30_000,
        on_conflict=OnConflict.SUPERSEDE,
        abandoned_before=0,
        expires_at=2 * now,
    )


def die(step: Step[OrderState]) -> None:
    raise KeyboardInterrupt


def test_a_fifo_records_messages_are_sent_before_the_next_record_is_begun(at: Scene) -> None:
    deliver_fifo(at, fifo_record(order(at, 0), 0, "red"), fifo_record(order(at, 1), 1, "red"))
    events = [h.event.value for h in at.tally.happenings]
    assert events == ["claimed", "committed", "sent", "sent"] * 2


def test_a_fifo_record_whose_messages_were_not_taken_holds_its_group(at: Scene) -> None:
    at.aws.client("sqs").delete_queue(QueueUrl=at.aws.client("sqs").get_queue_url(QueueName="emails")["QueueUrl"])
    assert deliver_fifo(at, fifo_record(order(at, 0), 0, "red"), fifo_record(order(at, 1), 1, "red"))[0] == [0, 1]
    assert at.item("o1") is None


def fail_for(name: str) -> Callable[[Step[OrderState]], None]:
    def pricing(step: Step[OrderState]) -> None:
        if step.object_id == name:
            raise RuntimeError("down")

    return pricing


# -- poison


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def recurse(step: Step[OrderState]) -> None:
    recurse(step)


def leave(step: Step[OrderState]) -> None:
    raise SystemExit(3)


def unspeakable(step: Step[OrderState]) -> None:
    raise Unspeakable


def huge(step: Step[OrderState]) -> None:
    step.send("emails", "x" * 2_000_000)


@pytest.mark.parametrize("poison", [recurse, leave, unspeakable, huge])
def test_one_poisoned_record_does_not_harm_its_batch(at: Scene, poison: Callable[[Step[OrderState]], None]) -> None:
    at.script.pricing = lambda step: poison(step) if step.object_id == "o1" else None
    assert at.deliver(order(at, 0), order(at, 1), order(at, 2)) == [True, True, True]
    assert at.told(Event.COMMITTED) == 2
    assert at.told(Event.RETRIED) + at.told(Event.FAILED) == 1


def test_a_message_too_large_to_send_ends_the_run_naming_its_size(at: Scene) -> None:
    at.script.pricing = huge
    at.deliver(at.message())
    item = at.item()
    assert item is not None
    assert "2,000,0" in (item.error or "")
    assert "of at most 1,048,576" in (item.error or "")


# -- time


class Remaining:
    aws_request_id = "invocation"
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:orders"

    def __init__(self, *ms: int) -> None:
        self._ms = list(ms)

    def get_remaining_time_in_millis(self) -> int:
        return self._ms.pop(0) if len(self._ms) > 1 else self._ms[0]


class Slow(Stage[Order, OrderState], name="price-order", timeout=timedelta(seconds=20)):
    def handle(self, order: Order, step: Step[OrderState]) -> Outcome:
        return Done()


class SlowOrders(Flow, name="orders", object_id="order_id"):
    stages = (Slow,)


@pytest.mark.parametrize(("left", "begun"), [(21_001, True), (21_000, False)])
def test_no_further_record_is_begun_when_less_is_left_than_its_stage_may_take(left: int, begun: bool) -> None:
    with scene(SlowOrders) as at:
        assert at.deliver(order(at, 0), order(at, 1), context=Remaining(left)) == [True, begun]
        assert at.told(Event.RETURNED) == (not begun)


def test_the_first_record_is_begun_however_little_time_there_is_or_no_work_would_ever_be_done() -> None:
    with scene(SlowOrders) as at:
        assert at.deliver(order(at, 0), context=Remaining(3_000)) == [True]


def test_an_invocation_warns_before_it_is_cut_off_naming_the_message_it_is_in(at: Scene) -> None:
    rings: list[tuple[int, Callable[[], None]]] = []
    called_off: list[bool] = []

    def alarm(ms: int, ring: Callable[[], None]) -> Callable[[], None]:
        rings.append((ms, ring))
        return lambda: called_off.append(True)

    handler = at.handler.using(replace(at.handler._services, alarm=alarm))
    at.script.pricing = lambda step: rings[0][1]()
    handler({"Records": [record(at.message())]}, Remaining(10_000))
    [warning] = [h for h in at.tally.happenings if h.event is Event.TIME_SHORT]
    assert warning.message is not None
    assert (rings[0][0], warning.message.request_id, called_off) == (9_000, "run-1", [True])


def test_without_a_time_limit_no_alarm_is_set(at: Scene) -> None:
    def alarm(ms: int, ring: Callable[[], None]) -> Callable[[], None]:
        raise AssertionError("nobody is counting")

    at.handler.using(replace(at.handler._services, alarm=alarm))({"Records": [record(at.message())]})
    assert at.told(Event.COMMITTED) == 1


# -- the dead-letter queue that SQS itself fills


def test_what_sqs_gave_up_ends_its_run_and_is_parked_in_the_form_that_a_redrive_needs(at: Scene) -> None:
    ender = dlq_handler(*at.handler.routes.flows).using(at.handler._services)
    answer = ender({"Records": [record(at.message())]})
    assert answer == {"batchItemFailures": []}
    item = at.item()
    assert item is not None
    assert (item.status, at.script.handled) == (Status.FAILED, [])
    [letter] = at.sent("dead")
    place = json.loads(letter["MessageAttributes"]["flowguard"]["StringValue"])
    assert (place["redrive"], "SQS gave the message up" in place["error"][1]) == (1, True)
    [told] = at.sent("completed")
    assert json.loads(told["Body"])["status"] == "FAILED"
    assert at.deliver(at.message(redrive=1)) == [True]
    assert at.priced() == 1


def test_a_run_that_went_on_meanwhile_is_left_as_it_is(at: Scene) -> None:
    at.deliver(at.message())
    at.sent("close-order")
    ender = dlq_handler(*at.handler.routes.flows).using(at.handler._services)
    assert ender({"Records": [record(at.message())]}) == {"batchItemFailures": []}
    item = at.item()
    assert item is not None
    assert item.status is Status.RUNNING
    assert (len(at.sent("close-order")), at.sent("dead")) == (1, []), "what the dead worker had to send is sent"


def test_a_message_whose_worker_may_still_live_stays_in_the_dead_letter_queue(at: Scene) -> None:
    ender = dlq_handler(*at.handler.routes.flows).using(at.handler._services)
    answers: list[Any] = []

    def given_up_too_early(step: Step[OrderState]) -> None:
        answers.append(ender({"Records": [record(at.message())]}))

    at.script.pricing = given_up_too_early
    with intercept(no_visibility):
        at.deliver(at.message())
    assert answers == [{"batchItemFailures": [{"itemIdentifier": message_id(0)}]}]
    assert at.priced() == 1


def no_visibility(call: ApiCall, proceed: Proceed) -> Response:
    return {} if call.operation == "ChangeMessageVisibility" else proceed()
