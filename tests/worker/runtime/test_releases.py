"""Messages of a release that this code does not know: they are kept for minutes, and parked. No run ends by them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, model_validator

from flowguard.client import FlowClient
from flowguard.events import EventType
from flowguard.flow import AnyFlow, Flow
from flowguard.handler import dlq_handler, lambda_handler
from flowguard.outcome import Done, Outcome
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import sqs_event
from flowguard.verdicts import ResetVerdict
from flowguard.wire.message import Message
from tests.scene import Order, OrderState, Priced, Scene, Script, record, scene, two_stages
from tests.worker.runtime.failing import undoing_scene
from tests.worker.runtime.mishaps import Died, boom
from tests.worker.runtime.test_callers import answers, caller
from tests.worker.runtime.test_fifo import deliver_fifo, fifo_record
from tests.worker.runtime.test_kills import kill, no_commits
from tests.worker.runtime.test_resets import triggered_cache, work_off

pytestmark = pytest.mark.usefixtures("denied_for_minutes")

HOUR = 3_600_000

NEWER: dict[str, Callable[[Scene], Message]] = {
    "a version": lambda at: at.second(version=9),
    "a stage": lambda at: at.second(stage="weigh-order"),
    "a payload": lambda at: at.second(body='{"sum":7}'),
}


@pytest.fixture(params=NEWER)
def newer(request: pytest.FixtureRequest, at: Scene) -> Message:
    """The second hop's message as a newer release has sent it."""
    at.deliver(at.message())
    at.sent("close-order")
    return NEWER[request.param](at)


def status(at: Scene) -> Status | None:
    item = at.item()
    return None if item is None else item.status


def test_what_a_newer_release_has_sent_is_kept_for_minutes(at: Scene, newer: Message) -> None:
    for receives in range(1, 3):
        at.receives = receives
        assert at.deliver(newer) == [False]
    assert (at.told(EventType.UNROUTABLE), at.told(EventType.FAILED)) == (2, 0)
    assert (status(at), at.sent("dead"), at.sent("price-order")) == (Status.RUNNING, [], [])
    assert at.deliver(at.second()) == [True], "code that knows it goes on"
    assert status(at) is Status.COMPLETED


def test_then_it_is_parked_and_its_run_goes_on_after_a_redrive(at: Scene, newer: Message) -> None:
    at.receives = 3
    assert at.deliver(newer) == [True]
    assert (at.told(EventType.PARKED), at.told(EventType.FAILED), status(at)) == (1, 0, Status.RUNNING)
    [letter] = at.sent("dead")
    place = json.loads(letter["MessageAttributes"]["flowguard"]["StringValue"])
    assert (place["redrive"], place["hop"], place["error"][0]) == (1, 2, "OtherRelease")
    assert at.deliver(at.second(redrive=1)) == [True]
    assert (status(at), at.sent("completed") != []) == (Status.COMPLETED, True)


def test_a_payload_of_another_release_is_parked_with_what_is_wrong_with_it(at: Scene) -> None:
    at.deliver(at.message())
    at.receives = 3
    at.deliver(NEWER["a payload"](at))
    [letter] = at.sent("dead")
    [kind, text, _] = json.loads(letter["MessageAttributes"]["flowguard"]["StringValue"])["error"]
    assert (kind, text) == ("OtherRelease", "the payload of close-order is no Priced: total: Field required")


def test_a_request_whose_object_no_validator_lets_read_is_kept_and_parked(
    at: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at.flow.stage("price-order"), "payload", Crashing)
    event = sqs_event("price-order", {"order_id": "o1"})
    assert at.handler(event)["batchItemFailures"] != []
    assert (at.sent("dead"), at.told(EventType.FAILED)) == ([], 0)
    event["Records"][0]["attributes"]["ApproximateReceiveCount"] = "3"
    assert at.handler(event) == {"batchItemFailures": []}
    assert (len(at.sent("dead")), at.told(EventType.PARKED), at.told(EventType.FAILED)) == (1, 1, 0)


def test_when_it_is_parked_nobody_is_at_work_any_more(at: Scene) -> None:
    at.deliver(at.message())
    at.receives = 3
    assert at.deliver(NEWER["a payload"](at)) == [True]
    item = at.item()
    assert item is not None
    assert (item.hop, item.lease_until <= at.clock.now()) == (2, True)


def test_it_costs_no_attempt_and_is_no_kill(at: Scene, newer: Message) -> None:
    at.receives = 2
    for _ in range(8):
        at.deliver(newer)
    item = at.item()
    assert item is not None
    assert item.retry == 0
    assert at.deliver(at.second()) == [True]
    assert not [event for event in at.tally.events if event.facts.get("kills")]


def test_a_message_of_another_version_or_stage_asks_nothing_of_the_database(at: Scene) -> None:
    for message in (at.message(version=9), at.second(stage="weigh-order")):
        at.deliver(message)
        assert at.calls == []


def test_a_request_of_a_newer_version_is_kept_and_parked_as_well(at: Scene) -> None:
    assert at.deliver(at.message(version=9)) == [False]
    at.receives = 3
    assert at.deliver(at.message(version=9)) == [True]
    assert (at.item(), len(at.sent("dead")), at.sent("completed")) == (None, 1, [])


def test_a_request_whose_payload_does_not_validate_is_its_senders_mistake(at: Scene) -> None:
    at.deliver(at.message(body='{"note":7}'))
    assert status(at) is Status.FAILED


class OtherOrder(BaseModel):
    """The request as an older release reads it."""

    number: int


def fails_in_its_handler(at: Scene) -> Message:
    at.script.pricing = boom
    at.deliver(at.message())
    return at.message(retry=1)


def is_killed(at: Scene) -> Message:
    kill(at, at.message())
    return at.message()


def is_remembered(at: Scene) -> Message:
    at.script.pricing = charges
    with intercept(no_commits):
        at.deliver(at.message())
    return at.message()


def charges(step: Step[OrderState]) -> None:
    step.once("charge", lambda: "charge-1")


BEGUN: dict[str, Callable[[Scene], Message]] = {
    "failed before": fails_in_its_handler,
    "killed its function": is_killed,
    "has remembered something": is_remembered,
}
"""Requests that a handler of a newer release has begun."""


@pytest.mark.parametrize("case", BEGUN)
def test_a_begun_request_that_an_older_release_cannot_read_is_parked_and_goes_on_with_what_it_has(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with undoing_scene() as (at, undoing):
        message = BEGUN[case](at)
        at.script.pricing = charges
        at.sent("price-order")
        with monkeypatch.context() as older:
            older.setattr(at.flow.stage("price-order"), "payload", OtherOrder)
            assert at.deliver(message) == [False], "it is kept for minutes"
            at.receives = 3
            assert at.deliver(message) == [True]
        assert (status(at), at.sent("undo-order"), undoing.seen) == (Status.RUNNING, [], [])
        assert at.sent("completed") == [], "nobody is told of an end"
        [letter] = at.sent("dead")
        place = json.loads(letter["MessageAttributes"]["flowguard"]["StringValue"])
        assert (place["redrive"], place["error"][0]) == (1, "OtherRelease")
        assert at.deliver(at.message(redrive=1)) == [True]
        assert (at.priced(), len(at.sent("close-order"))) == (1, 1)


def test_what_another_flow_asks_for_and_this_release_cannot_read_is_parked_and_fails_nobody(at: Scene) -> None:
    """Its own code has made the request, with a model that it could read."""
    address = {"flow": "carts", "object": "c", "request": "r", "at": 1, "hop": 1, "name": "priced"}
    asked = at.message(body='{"note":7}', answer_to=json.dumps(address), reply_to="sqs:completed")
    assert at.deliver(asked) == [False], "it is kept for minutes"
    at.receives = 3
    assert at.deliver(asked) == [True]
    assert (status(at), at.sent("completed"), at.told(EventType.PARKED)) == (Status.RUNNING, [], 1)


def test_what_the_run_before_has_remembered_says_nothing_of_a_request_that_takes_it_over(at: Scene) -> None:
    is_remembered(at)
    assert at.deliver(at.newer(body='{"note":7}')) == [True]
    assert (status(at), at.told(EventType.PARKED)) == (Status.FAILED, 0)


def test_a_letter_of_a_request_that_cannot_be_read_stays_one_and_its_run_stays_failed(
    at: Scene,
) -> None:
    bad = at.message(body='{"note":7}')
    at.deliver(bad)
    at.sent("completed"), at.sent("dead")
    at.receives = 3
    assert at.deliver(at.message(body='{"note":7}', redrive=1)) == [True]
    assert (at.calls, status(at), at.sent("completed"), len(at.sent("dead"))) == ([], Status.FAILED, [], 1)


def test_an_attempt_that_a_fifo_record_counts_in_the_item_is_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with undoing_scene() as (at, undoing):
        at.script.pricing = boom
        for payload in (Order, OtherOrder):
            monkeypatch.setattr(at.flow.stage("price-order"), "payload", payload)
            deliver_fifo(at, fifo_record(at.message(), 0, "red", receives=3))
            at.clock.advance(seconds=20)
        assert (status(at), at.sent("undo-order"), undoing.seen) == (Status.RUNNING, [], [])
        assert at.told(EventType.PARKED) == 1


def test_a_request_that_was_begun_asks_nothing_of_the_database_and_a_later_hop_is_its_runs(at: Scene) -> None:
    at.deliver(at.message(retry=1, body='{"note":7}'))
    assert at.calls == []
    at.deliver(at.message())
    at.deliver(at.second(retry=1, body='{"sum":7}'))
    assert at.calls == ["UpdateItem", "UpdateItem"], "claimed, and given back"
    at.deliver(at.second(retry=1, body='{"sum":7}', request_id="another"))
    assert (at.calls, at.told(EventType.PARKED)) == (["UpdateItem"], 0), "superseded: nothing to park"


class Crashing(BaseModel):
    """A request whose model raises what no validator should."""

    order_id: str

    @model_validator(mode="after")
    def looks_it_up(self) -> Crashing:
        raise LookupError("no such order")


class CrashingPriced(Priced):
    @model_validator(mode="after")
    def looks_it_up(self) -> CrashingPriced:
        raise LookupError("no such tariff")


def test_a_model_that_raises_anything_else_fails_as_a_stage_does_at_each_attempt(
    at: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at.flow.stage("price-order"), "payload", Crashing)
    assert at.deliver(at.message(retry=1)) == [True]
    [retried] = [event for event in at.tally.events if event.type is EventType.RETRIED]
    assert (retried.facts["error"], at.told(EventType.PARKED), status(at)) == ("LookupError", 0, Status.RUNNING)


def test_a_request_whose_model_raises_to_the_last_attempt_ends_and_nothing_is_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with undoing_scene() as (at, undoing):
        monkeypatch.setattr(at.flow.stage("price-order"), "payload", Crashing)
        assert at.deliver(at.message(retry=4)) == [True]
        assert (status(at), undoing.seen, at.sent("undo-order")) == (Status.FAILED, [], [])
        assert len(at.sent("dead")) == 1


def test_a_later_hop_whose_model_raises_to_the_last_attempt_is_parked_and_goes_on_when_that_is_mended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with undoing_scene() as (at, undoing):
        at.deliver(at.message())
        with monkeypatch.context() as broken:
            broken.setattr(at.flow.stage("close-order"), "payload", CrashingPriced)
            assert at.deliver(at.second(retry=3)) == [True]
            assert (at.told(EventType.RETRIED), at.told(EventType.PARKED)) == (1, 0)
            assert at.deliver(at.second(retry=4)) == [False], "a deployment may bring the code that can"
            at.receives = 3
            assert at.deliver(at.second(retry=4)) == [True]
        assert (status(at), undoing.seen, at.sent("undo-order")) == (Status.RUNNING, [], [])
        [letter] = at.sent("dead")
        [kind, text, _] = json.loads(letter["MessageAttributes"]["flowguard"]["StringValue"])["error"]
        assert (at.told(EventType.PARKED), kind) == (1, "OtherRelease")
        assert text == "the payload of close-order cannot be read: a validator raises LookupError"
        at.receives = 1
        assert at.deliver(at.second(redrive=1)) == [True]
        assert status(at) is Status.COMPLETED


def test_an_order_to_cancel_a_request_is_carried_out_though_it_cannot_be_read(
    at: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    at.script.pricing = boom
    at.deliver(at.message())
    monkeypatch.setattr(at.flow.stage("price-order"), "payload", OtherOrder)
    assert at.deliver(at.message(retry=1, cancelled="no longer wanted")) == [True]
    assert status(at) is Status.FAILED


@pytest.mark.parametrize("case", NEWER)
def test_no_run_is_undone_for_it(case: str) -> None:
    with undoing_scene() as (at, undoing):
        at.deliver(at.message())
        at.receives = 3
        assert at.deliver(NEWER[case](at)) == [True]
        assert (status(at), at.sent("undo-order"), undoing.seen) == (Status.RUNNING, [], [])
        assert len(at.sent("dead")) == 1


def test_a_state_that_cannot_be_read_is_of_another_release_too(at: Scene) -> None:
    at.deliver(at.message())
    at.sent("close-order")

    table: Any = at.aws.client("dynamodb")
    table.update_item(
        TableName="flowguard",
        Key={"pk": {"S": "run#orders#o1"}, "sk": {"S": "run"}},
        UpdateExpression="SET #state = :state",
        ExpressionAttributeNames={"#state": "state"},
        ExpressionAttributeValues={":state": {"S": '{"total": "many"}'}},
    )
    assert at.deliver(at.second()) == [False]
    assert (at.told(EventType.UNROUTABLE), status(at)) == (1, Status.RUNNING)


def test_it_keeps_none_of_its_batch_from_being_handled_together(at: Scene) -> None:
    at.handler = replace_together(at)
    assert at.deliver(at.order("o1"), at.order("o2", version=9), at.order("o3")) == [True, False, True]


def replace_together(at: Scene) -> Any:
    services = at.handler._services._replace(threads=False)
    return lambda_handler(at.flow, together=True).using(services)


def test_the_function_of_the_killed_queue_parks_it_as_well(at: Scene, newer: Message) -> None:
    ender = dlq_handler(at.flow).using(at.handler._services)
    assert ender({"Records": [record(newer)]})["batchItemFailures"] or newer.body == '{"sum":7}'
    ender({"Records": [record(newer, receives=3)]})
    assert (at.told(EventType.FAILED), status(at)) == (0, Status.RUNNING)
    assert at.told(EventType.PARKED) == (newer.body != '{"sum":7}')


def test_what_no_queue_brings_again_is_parked_at_once() -> None:
    with scene() as at:
        found = record(at.message(version=9))
        del found["eventSourceARN"]
        at.handler({"Records": [found]})
        assert len(at.sent("dead")) == 1


class Checked(BaseModel):
    """A payload that asks something outside when it is read."""

    total: int

    @model_validator(mode="after")
    def _asked(self) -> Checked:
        raise ConnectionError("the price list does not answer")


def checking(script: Script) -> AnyFlow:
    class PriceOrder(Stage[Order, OrderState], name="price-order", then="close-order", inbox="price-order"):
        def handle(self, order: Order, step: Step[OrderState]) -> Outcome:
            return CloseOrder.message(Checked.model_construct(total=7))

    class CloseOrder(Stage[Checked, OrderState], name="close-order", inbox="close-order"):
        def handle(self, checked: Checked, step: Step[OrderState]) -> Outcome:
            return Done()

    class Orders(Flow, name="orders", object_id="order_id", complete_to="completed", dead_letters="dead"):
        stages = (PriceOrder, CloseOrder)

    return Orders


def test_what_fails_while_a_payload_is_read_is_a_failure_of_its_stage_and_no_other_release() -> None:
    with scene(checking) as at:
        at.deliver(at.message())
        assert at.deliver(at.second()) == [True]
        assert (at.told(EventType.RETRIED), at.told(EventType.UNROUTABLE)) == (1, 0)


@pytest.mark.parametrize(("ahead", "parked"), [(6 * HOUR, False), (24 * HOUR, False), (24 * HOUR + 1, True)])
def test_a_message_of_a_fast_clock_waits_for_its_time_and_one_of_no_clock_is_parked(
    at: Scene, ahead: int, parked: bool
) -> None:
    message = at.message(requested_at=at.clock.now() + ahead)
    at.receives = 30
    assert at.deliver(message) == [parked]
    assert (len(at.sent("dead")), at.told(EventType.UNREADABLE)) == (parked, 1)
    at.clock.advance(seconds=ahead / 1_000)
    assert at.deliver(message) == [True]
    assert at.priced() == 1


def test_it_comes_again_after_growing_pauses(at: Scene) -> None:
    pauses = []
    for at.receives in (1, 40):
        with intercept(Recorder()) as calls:
            at.deliver(at.message(requested_at=at.clock.now() + 6 * HOUR))
        pauses += [entry["VisibilityTimeout"] for call in calls.calls for entry in call.params.get("Entries", ())]
    assert pauses[0] <= 10
    assert pauses[1] >= 40 * 60


def test_a_client_whose_clock_is_fast_resets_a_run_and_who_waits_for_it_is_answered() -> None:
    with scene(triggered_cache) as at:
        at.deliver(at.message())
        at.deliver(caller(at))
        at.clock.advance(seconds=6 * 3_600)
        assert FlowClient.of(at.handler._services).reset(at.flow, "o1") is ResetVerdict.RESTARTED
        at.clock.advance(seconds=-6 * 3_600)
        at.receives = 20
        [restart] = at.sent("price-order")
        early = {**restart, "Attributes": {**restart["Attributes"], "ApproximateReceiveCount": "20"}}
        assert at.handler({"Messages": [early]}, None)["batchItemFailures"] != []
        at.clock.advance(seconds=6 * 3_600)
        at.handler({"Messages": [early]}, None)
        work_off(at)
        assert [answer[0] for answer in answers(at)] == ["caller-0"]


# -- what names a run


def orders_named(script: Script, **rules: Any) -> AnyFlow:
    class Named(Flow, name="orders", dead_letters="dead", **{"object_id": "order_id", **rules}):
        stages = two_stages(script)

    return Named


@pytest.mark.parametrize(("rules", "priced"), [({"request_id": "order_id"}, 1), ({"object_id": "note"}, 2)])
def test_a_request_that_a_release_names_anew_is_another_request(rules: dict[str, Any], priced: int) -> None:
    """Its worker died with all of its outbox. The page on upgrades says what to do before such a release."""
    with scene(orders_named) as at:
        event = sqs_event("price-order", {"order_id": "o1", "note": "n1"}, message_id="m1")
        with intercept(dies_when_it_sends), pytest.raises(Died):
            at.handler(event)
        at.handler = lambda_handler(orders_named(at.script, **rules)).using(at.handler._services)
        assert at.handler(event) == {"batchItemFailures": []}
        assert (at.priced(), status(at)) == (priced, Status.RUNNING)
        assert at.told(EventType.STALE) == 2 - priced


def dies_when_it_sends(call: ApiCall, proceed: Proceed) -> Response:
    if call.operation.startswith("SendMessage"):
        raise Died
    return proceed()
