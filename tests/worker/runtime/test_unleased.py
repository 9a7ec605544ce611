"""Stages without a lease: their hops are read, and taken by the commit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from flowguard.aws.services import aws_store
from flowguard.callback import Callback
from flowguard.errors import Retry
from flowguard.events import EventType
from flowguard.flow import AnyFlow, Flow
from flowguard.names.ids import ObjectId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.run import Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.wire.message import Message
from tests.aws.engines import same_clients
from tests.scene import START, OrderState, Scene, Script, orders, record, scene
from tests.worker.runtime.mishaps import Died, boom, dies_at, refuses, supersede

_RETENTION = timedelta(days=14).total_seconds()


def unleased(script: Script) -> AnyFlow:
    """The flow of most tests, whose stages go without a lease."""
    flow = orders(script)
    for stage in flow.stages:
        stage.lease = False
    return flow


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene(unleased) as found:
        yield found


def nothing(step: Step[OrderState]) -> None:
    """A stage that is not disturbed."""


def test_a_hop_is_one_read_and_one_write(at: Scene) -> None:
    assert at.deliver(at.message()) == [True]
    assert at.calls == ["GetItem", "TransactWriteItems"]
    assert at.deliver(at.second()) == [True]
    assert at.calls == ["GetItem", "UpdateItem"]
    item = at.item()
    assert item is not None
    assert (item.status, item.result, item.epoch, at.priced()) == (Status.COMPLETED, '{"total":7}', 2, 1)


@pytest.mark.parametrize("is_sent", [True, False])
def test_an_attempt_that_has_failed_is_one_read_whether_its_retry_is_sent_or_not(at: Scene, is_sent: bool) -> None:
    def rest(step: Step[OrderState]) -> None:
        raise Retry(after=timedelta(minutes=10))

    at.script.pricing = rest
    with intercept(refuses("price-order" if not is_sent else "nowhere")):
        assert at.deliver(at.message()) == [is_sent]
    assert at.calls == ["GetItem"], "nobody owns a hop that was only read"


def test_a_hop_that_is_not_open_is_one_read(at: Scene) -> None:
    at.deliver(at.message())
    assert at.deliver(at.message()) == [True]
    assert at.calls == ["GetItem"]
    assert len({one["Body"] for one in at.sent("emails")}) == 1


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("operation", ["GetItem", "TransactWriteItems", "SendMessageBatch"])
def test_a_worker_may_die_at_any_call_and_nothing_is_lost_or_done_twice(at: Scene, operation: str, after: bool) -> None:
    with intercept(dies_at(operation, after=after)), pytest.raises(Died):
        at.deliver(at.message())
    assert at.deliver(at.message()) == [True], "no lease has to end first"
    assert at.priced() == 1
    assert {m["Body"] for m in at.sent("close-order")} == {'{"total":7}'}


@pytest.mark.parametrize("operation", ["TransactWriteItems", "UpdateItem"])
def test_a_worker_that_repeats_its_commit_finds_its_own(at: Scene, operation: str) -> None:
    def answer_lost(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == operation:
            proceed()
        return proceed()

    if operation == "UpdateItem":
        at.deliver(at.message())
    with intercept(answer_lost):
        assert at.deliver(at.second() if operation == "UpdateItem" else at.message()) == [True]
    assert (at.told(EventType.FENCED), at.priced()) == (0, 1)


def test_two_workers_do_the_work_at_once_and_one_commit_wins(at: Scene) -> None:
    def meanwhile(step: Step[OrderState]) -> None:
        at.script.pricing = nothing
        assert at.deliver(at.message()) == [True]

    at.script.pricing = meanwhile
    assert at.deliver(at.message()) == [True]
    assert (len(at.script.handled), at.priced(), at.told(EventType.FENCED), at.told(EventType.DONE)) == (2, 1, 1, 1)
    assert len({m["MessageAttributes"]["uniquerequestid"]["StringValue"] for m in at.sent("emails")}) == 1


def test_who_loses_to_a_worker_that_died_before_it_sent_sends_its_outbox(at: Scene) -> None:
    def meanwhile(step: Step[OrderState]) -> None:
        at.script.pricing = nothing
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            at.deliver(at.message())

    at.script.pricing = meanwhile
    assert at.deliver(at.message()) == [True]
    assert len(at.sent("close-order")) == 1


def test_an_older_run_that_loses_its_object_changes_nothing(at: Scene) -> None:
    at.script.pricing = lambda step: supersede(at)
    assert at.deliver(at.message()) == [True]
    item = at.item()
    assert item is not None
    assert (item.request_id, at.priced(), at.told(EventType.STALE)) == ("run-2", 1, 1)
    assert len(at.sent("emails")) == 1


def test_a_newer_run_whose_object_has_moved_on_claims_it_and_is_handled_again(at: Scene) -> None:
    def meanwhile(step: Step[OrderState]) -> None:
        at.script.pricing = nothing
        at.deliver(at.message())

    at.script.pricing = meanwhile
    assert at.deliver(at.newer()) == [True]
    assert [request for _, request, _ in at.script.handled] == ["run-2", "run-1", "run-2"]
    item = at.item()
    assert item is not None
    assert (item.request_id, at.priced(), at.told(EventType.FENCED)) == ("run-2", 2, 0)


def test_a_run_at_work_is_claimed_before_it_loses_its_object(at: Scene) -> None:
    at.deliver(at.message(reply_to="sqs:completed"))
    assert at.deliver(at.newer()) == [True]
    assert at.calls == ["GetItem", "UpdateItem", "TransactWriteItems"]
    at.deliver(at.newer(stage="close-order", hop=2, body='{"total":7}'))
    at.deliver(at.newer(request_id="run-3", requested_at=START - 400))
    assert at.calls == ["GetItem", "TransactWriteItems"], "a run that has ended has nothing to stop"


def test_a_cancelled_run_is_not_committed(at: Scene) -> None:
    def cancel(step: Step[OrderState]) -> None:
        cancellations = aws_store(Settings(), same_clients()).cancellations
        assert cancellations.cancel("orders", ObjectId("o1"), START, "not wanted", START) is not None

    at.deliver(at.message())
    at.script.closing = cancel
    assert at.deliver(at.second()) == [True]
    item = at.item()
    assert item is not None
    assert (item.status, at.sent("dead"), len(at.script.handled)) == (Status.FAILED, [], 2)


def test_a_failed_attempt_writes_nothing_and_its_copy_comes_later(at: Scene) -> None:
    at.script.pricing = boom
    assert at.deliver(at.message()) == [True]
    assert (at.calls, at.item(), at.told(EventType.RETRIED)) == (["GetItem"], None, 1)
    assert at.deliver(at.message(retry=2)) == [True], "the last attempt"
    item = at.item()
    assert item is not None
    assert (item.status, item.retry, len(at.sent("dead"))) == (Status.FAILED, 2, 1)
    at.script.pricing = nothing
    assert at.deliver(at.message(retry=1)) == [True], "a copy of an earlier one opens nothing"
    assert at.deliver(at.message(redrive=1)) == [True]
    assert at.priced() == 1


@pytest.mark.parametrize(("seconds", "calls"), [(_RETENTION - 1, 1), (_RETENTION, 2)])
def test_who_has_read_no_item_claims_it_when_one_may_have_been_there_since(
    at: Scene, seconds: float, calls: int
) -> None:
    def stall(step: Step[OrderState]) -> None:
        at.script.pricing = nothing
        at.clock.advance(seconds=seconds)

    at.script.pricing = stall
    assert at.deliver(at.message()) == [True]
    assert (len(at.script.handled), at.priced()) == (calls, 1)


def test_who_has_read_an_item_commits_however_late(at: Scene) -> None:
    at.deliver(at.message())
    at.script.closing = lambda step: at.clock.advance(seconds=_RETENTION)
    assert at.deliver(at.second()) == [True]
    assert at.calls == ["GetItem", "UpdateItem"]


def test_a_record_that_is_retried_in_its_place_is_claimed(at: Scene) -> None:
    one = record(at.message())
    one["eventSourceARN"] += ".fifo"
    at.script.pricing = boom
    with intercept(Recorder()) as calls:
        at.handler({"Records": [one]}, None)
    assert [call.operation for call in calls.calls if call.service == "dynamodb"] == ["UpdateItem", "UpdateItem"]
    item = at.item()
    assert item is not None
    assert item.retry == 1


@pytest.mark.parametrize("call", ["once", "apply", "is_current", "fence"])
def test_what_needs_a_claim_is_refused_before_anything_is_done(at: Scene, call: str) -> None:
    called: list[str] = []

    def use(step: Step[OrderState]) -> None:
        match call:
            case "once":
                step.once("charge", lambda: called.append("charged"))
            case "apply":
                with step.apply("stock"):
                    called.append("recorded")
            case "is_current":
                step.is_current()
            case _:
                step.fence()

    at.script.pricing = use
    assert at.deliver(at.message()) == [True]
    assert (called, len(at.sent("dead"))) == ([], 1)
    item = at.item()
    assert item is not None
    assert item.status is Status.FAILED
    assert f"step.{call} works only under a claim; leave lease=False out of 'price-order'" in (item.error or "")


# -- a flow that waits


def waiting(script: Script) -> AnyFlow:
    class Pay(Stage[dict[str, Any]], name="pay", then=("ship", "pack"), inbox="price-order", lease=False):
        def handle(self, payload: dict[str, Any], step: Step[Any]) -> Outcome:
            script.handled.append(("pay", step.request_id, payload.pop("left", 0)))
            if step.hop == 1 and payload.get("packs"):
                return Pack.message(payload)
            return Ship.when_all(paid=step.event("payment/o1"), within=timedelta(days=1))

    class Pack(Stage[dict[str, Any]], name="pack", then="ship", inbox="close-order", lease=False):
        def handle(self, payload: dict[str, Any], step: Step[Any]) -> Outcome:
            return Ship.when_all(paid=step.event("payment/o1"), within=timedelta(days=1))

    class Ship(Stage[dict[str, Any]], name="ship", inbox="close-order", lease=False):
        def handle(self, payload: dict[str, Any], step: Step[Any]) -> Outcome:
            return Done()

    class Orders(
        Flow,
        name="orders",
        object_id="order_id",
        inbox="price-order",
        dead_letters="dead",
        callbacks=(Callback("payments", id="ref"),),
        trust_senders=True,
    ):
        stages = (Pay, Pack, Ship)

    return Orders


def _first(at: Scene, body: str) -> Message:
    return at.message(stage="pay", body=body)


def test_a_first_hop_that_waits_for_an_answer_from_outside_is_claimed_before_its_rows_are_saved() -> None:
    with scene(waiting) as at:
        one = record(_first(at, '{"order_id":"o1","left":5}'))
        one["eventSourceARN"] = one["eventSourceARN"].replace(":pay", ":price-order")
        with intercept(Recorder()) as calls:
            at.handler({"Records": [one]}, None)
        found = [call.operation for call in calls.calls if call.service == "dynamodb"]
        assert found == ["GetItem", "UpdateItem", "BatchWriteItem", "UpdateItem"]
        assert at.script.handled == [("pay", "run-1", 5), ("pay", "run-1", 5)], "with what its message says, each time"


def test_a_later_hop_that_waits_is_early_beside_the_hop_before_and_needs_no_claim() -> None:
    with scene(waiting) as at:
        first = record(_first(at, '{"order_id":"o1","packs":true}'))
        first["eventSourceARN"] = first["eventSourceARN"].replace(":pay", ":price-order")
        at.handler({"Records": [first]}, None)
        second = record(at.message(stage="pack", hop=2, body="{}"))
        second["eventSourceARN"] = second["eventSourceARN"].replace(":pack", ":close-order")
        with intercept(Recorder()) as calls:
            at.handler({"Records": [second]}, None)
        found = [call.operation for call in calls.calls if call.service == "dynamodb"]
        assert found == ["GetItem", "BatchWriteItem", "UpdateItem"]


def test_a_message_for_no_stage_is_neither_read_nor_claimed(at: Scene) -> None:
    at.deliver(at.message())
    one = record(at.second(stage="nowhere"))
    one["eventSourceARN"] = one["eventSourceARN"].replace(":nowhere", ":close-order")
    with intercept(Recorder()) as calls:
        assert at.handler({"Records": [one]}, None)["batchItemFailures"]
    assert [call.operation for call in calls.calls if call.service == "dynamodb"] == []
    assert at.sent("dead") == []


def test_a_request_that_comes_as_cancelled_and_meets_its_own_commit_cancels_that(at: Scene) -> None:
    def meanwhile(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateItem" and not at.script.handled:
            at.deliver(at.message())
        return proceed()

    with intercept(meanwhile):
        assert at.deliver(at.message(cancelled="a mistake")) == [True]
    item = at.item()
    assert item is not None
    assert item.cancelled_because == "a mistake"
    at.deliver(at.second())
    item = at.item()
    assert item is not None
    assert item.status is Status.FAILED


def test_records_of_one_invocation_go_one_by_one(at: Scene) -> None:
    assert at.deliver(at.order("o1"), at.order("o2")) == [True, True]
    assert at.calls == ["GetItem", "TransactWriteItems"] * 2
    assert at.deliver(at.second(), at.second(object_id=ObjectId("o2"))) == [True, True]
    assert at.calls == ["GetItem", "UpdateItem"] * 2
