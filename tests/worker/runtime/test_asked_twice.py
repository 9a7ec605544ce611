"""A request that two ask for, under one id: each of them is answered with the end of the one run."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard.callback import Callback
from flowguard.client import FlowClient
from flowguard.errors import Reject
from flowguard.events import EventType
from flowguard.failed import Failed
from flowguard.flow import IGNORE, UNTIL_RESET, AnyFlow, Flow
from flowguard.names.ids import RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.run import Status
from flowguard.sim.calls import intercept
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import FlowClock, FlowRunner, MemoryAWS
from tests.scene import START, Order, OrderState, Scene, Script, orders, record, scene, two_stages
from tests.worker.runtime.mishaps import Died, dies_at
from tests.worker.runtime.test_callers import just_before_the_second, shared

Make = Callable[[Script], AnyFlow]


def ignoring(script: Script) -> AnyFlow:
    class Ignoring(Flow, name="orders", object_id="order_id", on_conflict=IGNORE, dead_letters="dead"):
        stages = two_stages(script)

    return Ignoring


def kept_for_long(script: Script) -> AnyFlow:
    class Kept(Flow, name="orders", object_id="order_id", keep_result=UNTIL_RESET, dead_letters="dead"):
        stages = two_stages(script)

    return Kept


def waits(cart: str) -> dict[str, str]:
    """What a request says for which a run waits."""
    address = {"flow": "carts", "object": cart, "request": "r", "at": 1, "hop": 1, "name": "priced"}
    return {"reply_to": "sqs:carts", "answer_to": json.dumps(address)}


FIRST, OTHER = waits("first"), waits("other")


def told(at: Scene) -> list[tuple[str, str]]:
    """Who was answered, with which status. Copies count once."""
    found = set()
    for one in at.sent("carts"):
        place = json.loads(one["MessageAttributes"]["flowguard"]["StringValue"])
        found.add((place["answer"]["object"], json.loads(one["Body"])["status"]))
    return sorted(found)


def finish(at: Scene, **asked: str) -> None:
    at.deliver(at.second(**asked))


def again(at: Scene) -> list[int]:
    """The delays of what went back to its queue."""
    sent = [event.facts for event in at.tally.events if event.type is EventType.SENT]
    return [facts["delay"] for facts in sent if ".back." in facts["id"]]


@pytest.mark.parametrize("flow", [orders, ignoring, shared])
@pytest.mark.parametrize("first", [{}, FIRST])
def test_who_asks_after_the_end_gets_that_end(flow: Make, first: dict[str, str]) -> None:
    with scene(flow) as at:
        at.aws.create_queue("carts")
        at.deliver(at.message(**first))
        finish(at, **first)
        at.sent("carts")
        for _ in range(2):
            assert at.deliver(at.message(**OTHER, requested_at=START + 9_000)) == [True]
        assert told(at) == [("other", "COMPLETED")]
        assert at.priced() == 1


@pytest.mark.parametrize("flow", [orders, ignoring, shared])
def test_a_copy_of_the_first_request_is_not_answered_anew(flow: Make) -> None:
    with scene(flow) as at:
        at.aws.create_queue("carts")
        at.deliver(at.message(**FIRST))
        finish(at, **FIRST)
        assert told(at) == [("first", "COMPLETED")]
        at.deliver(at.message(**FIRST, requested_at=START + 9_000))
        assert told(at) == []


def test_who_asks_after_a_failure_is_told_of_it() -> None:
    def refuse(step: Step[OrderState]) -> None:
        raise Reject("no such order")

    with scene(orders) as at:
        at.aws.create_queue("carts")
        at.script.pricing = refuse
        at.deliver(at.message())
        at.deliver(at.message(**OTHER))
        assert told(at) == [("other", "FAILED")]


def test_a_worker_that_dies_before_it_has_answered_leaves_that_to_the_next_delivery() -> None:
    with scene(orders) as at:
        at.aws.create_queue("carts")
        at.deliver(at.message())
        finish(at)
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            at.deliver(at.message(**OTHER))
        at.deliver(at.message(**OTHER))
        assert told(at) == [("other", "COMPLETED")]


@pytest.mark.parametrize("flow", [orders, ignoring])
@pytest.mark.parametrize("first", [{}, FIRST])
def test_who_asks_while_the_run_goes_on_comes_again_until_its_end(flow: Make, first: dict[str, str]) -> None:
    with scene(flow) as at:
        at.aws.create_queue("carts")
        at.deliver(at.message(**first))
        assert at.deliver(at.message(**OTHER)) == [True]
        since = at.clock.now()
        at.clock.advance(seconds=7_200)
        at.deliver(at.message(**OTHER, since=since))
        soon, late = again(at)
        assert 30 <= soon <= 60
        assert 450 <= late <= 900
        assert told(at) == [], "nobody is answered before the end"
        finish(at, **first)
        assert told(at) == ([("first", "COMPLETED")] if first else [])
        at.deliver(at.message(**OTHER, since=since))
        assert (told(at), len(again(at))) == ([("other", "COMPLETED")], 2)
        assert at.priced() == 1


def test_an_older_request_for_the_same_wait_is_answered_although_the_end_of_another_is_there() -> None:
    with scene(orders) as at:
        at.aws.create_queue("carts")
        at.deliver(at.message(**FIRST))
        finish(at, **FIRST)
        at.sent("carts")
        at.deliver(at.message(request_id=RequestId("run-0"), requested_at=START - 2_000, **FIRST))
        assert told(at) == [("first", "SUPERSEDED")]


def test_a_copy_of_the_first_request_does_not_come_again() -> None:
    with scene(orders) as at:
        at.aws.create_queue("carts")
        at.deliver(at.message(**FIRST))
        assert at.deliver(at.message(**FIRST)) == [True]
        assert again(at) == []


@pytest.mark.parametrize("has_ended", [False, True])
def test_who_comes_again_while_a_newer_request_is_tried_again_is_told(*, has_ended: bool) -> None:
    """The newer run answers those alone who are noted, or whom what it found is to answer."""

    def fail(step: Step[OrderState]) -> None:
        raise OSError("for now")

    with scene(orders) as at:
        at.aws.create_queue("carts")
        at.deliver(at.message(**FIRST), at.message(**OTHER))
        if has_ended:
            finish(at, **FIRST)
        at.sent("carts")
        at.script.pricing = fail
        at.deliver(at.newer())
        at.sent("carts")
        assert at.deliver(at.message(**OTHER)) == [True]
        assert told(at) == [("other", "SUPERSEDED")]
        assert at.deliver(at.message(**FIRST)) == [True]
        assert told(at) == [], "the run that has the object answers it, or has"


def test_an_asker_at_another_address_is_another_one() -> None:
    with scene(orders) as at:
        at.aws.create_queue("carts")
        at.deliver(at.message(reply_to="sqs:stock"))
        assert at.deliver(at.message(reply_to="sqs:carts")) == [True]
        assert len(again(at)) == 1


def test_another_asker_sends_nothing_again_of_what_was_sent() -> None:
    with scene(orders) as at:
        at.aws.create_queue("carts")
        at.deliver(at.message(**FIRST), at.message(**OTHER))
        assert len(at.sent("close-order")) == 1


def test_another_asker_of_a_run_whose_first_hop_is_behind_it_is_a_duplicate() -> None:
    def fail(step: Step[OrderState]) -> None:
        raise OSError("for now")

    with scene(orders) as at:
        at.aws.create_queue("carts")
        at.deliver(at.message())
        at.script.closing = fail
        at.deliver(at.second())
        at.deliver(at.message(**OTHER))
        assert at.tally.events[-1].type is EventType.SENT
        assert EventType.DUPLICATE in [event.type for event in at.tally.events]
        assert EventType.DONE not in [event.type for event in at.tally.events]


def test_another_asker_of_a_hop_that_a_worker_has_comes_again() -> None:
    with scene(orders) as at:
        at.aws.create_queue("carts")
        with intercept(dies_at("TransactWriteItems")), pytest.raises(Died):
            at.deliver(at.message(**FIRST))
        assert at.deliver(at.message(**OTHER)) == [True]
        assert len(again(at)) == 1


UNNOTED = waits("包裹" * 110)
"""So long an id, with what it takes as JSON in JSON, finds no room in the item."""


@pytest.mark.parametrize("flow", [orders, ignoring, shared])
def test_a_copy_of_a_first_asker_who_is_not_noted_sends_what_its_dead_worker_had_to(flow: Make) -> None:
    with scene(flow) as at:
        at.aws.create_queue("carts")
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            at.deliver(at.message(**UNNOTED))
        item = at.item()
        assert item is not None
        assert item.askers == {}
        assert at.deliver(at.message(**UNNOTED)) == [True]
        assert len(at.sent("close-order")) == 1


def test_a_copy_of_a_first_asker_who_is_not_noted_waits_for_the_worker_that_has_its_hop() -> None:
    with scene(orders) as at:
        at.aws.create_queue("carts")
        with intercept(dies_at("TransactWriteItems")), pytest.raises(Died):
            at.deliver(at.message(**UNNOTED))
        assert at.deliver(at.message(**UNNOTED)) == [False]
        assert again(at) == []


def test_who_asks_while_the_first_stage_is_tried_again_comes_again() -> None:
    def fail(step: Step[OrderState]) -> None:
        raise OSError("for now")

    with scene(orders) as at:
        at.aws.create_queue("carts")
        at.script.pricing = fail
        at.deliver(at.message(**FIRST))
        assert at.deliver(at.message(**OTHER)) == [True]
        assert len(again(at)) == 1
        assert told(at) == []


def test_under_attach_it_is_one_of_the_callers() -> None:
    with scene(shared) as at:
        at.aws.create_queue("carts")
        at.deliver(at.message(**FIRST))
        for _ in range(2):
            assert at.deliver(at.message(**OTHER)) == [True]
        assert (again(at), at.told(EventType.ATTACHED)) == ([], 2)
        finish(at, **FIRST)
        assert told(at) == [("first", "COMPLETED"), ("other", "COMPLETED")]


def test_under_attach_a_list_that_closes_just_then_keeps_the_record_until_its_next_delivery() -> None:
    with scene(shared) as at:
        at.aws.create_queue("carts")
        at.deliver(at.message(**FIRST))
        with intercept(just_before_the_second("UpdateItem", lambda: finish(at, **FIRST))):
            assert at.deliver(at.message(**OTHER)) == [False]
        assert at.told(EventType.BUSY) == 1
        assert at.deliver(at.message(**OTHER)) == [True]
        assert told(at) == [("first", "COMPLETED"), ("other", "COMPLETED")]


def test_a_call_cannot_wait_in_a_flow_whose_inbox_is_no_standard_queue() -> None:
    class Last(Stage[Order], name="close-order"):
        def handle(self, order: Order, step: Step) -> Outcome:
            return Done()

    class InFifo(Stage[Order], name="price-order", inbox="orders.fifo", then="close-order"):
        def handle(self, order: Order, step: Step) -> Outcome:
            return Last.message(order)

    class ByFifo(Flow, name="orders", object_id="order_id", inbox="orders.fifo", dead_letters="dead.fifo"):
        stages = (InFifo, Last)

    with scene(lambda script: ByFifo) as at:
        at.aws.create_queue("carts")
        at.aws.create_queue("orders.fifo", FifoQueue="true")
        at.deliver(at.message(**FIRST))
        called = {**record(at.message(**OTHER)), "eventSource": "aws:lambda", "eventSourceARN": None}
        at.handler({"Records": [called]}, None)
        assert told(at) == [("other", "IGNORED")]
        sent = [event.facts["kind"] for event in at.tally.events if event.type is EventType.SENT]
        assert sent.count("next") == 2, "what the first hop had to send is sent once more"


def test_who_has_waited_for_the_retention_is_told_at_once() -> None:
    with scene(orders) as at:
        at.aws.create_queue("carts")
        at.deliver(at.message(**FIRST))
        since = at.clock.now() - timedelta(days=14) // timedelta(milliseconds=1)
        at.deliver(at.message(**OTHER, since=since + 1))
        assert (len(again(at)), told(at)) == (1, [])
        at.deliver(at.message(**OTHER, since=since))
        assert (len(again(at)), told(at)) == (1, [("other", "IGNORED")])


def test_a_message_of_a_later_hop_asks_for_nothing() -> None:
    with scene(orders) as at:
        at.aws.create_queue("carts")
        at.deliver(at.message(**FIRST))
        finish(at, **FIRST)
        finish(at, **OTHER)
        assert told(at) == [("first", "COMPLETED")]


def test_a_copy_of_an_earlier_attempt_of_a_later_hop_does_not_come_again() -> None:
    def fail(step: Step[OrderState]) -> None:
        raise OSError("for now")

    with scene(orders) as at:
        at.aws.create_queue("carts")
        at.deliver(at.message(**FIRST))
        at.script.closing = fail
        at.deliver(at.second(retry=1, **FIRST))
        at.deliver(at.second(**OTHER))
        assert (at.told(EventType.DUPLICATE), again(at)) == (1, [])


def test_a_copy_of_who_was_answered_is_no_caller_of_the_next_run() -> None:
    with scene(shared) as at:
        at.aws.create_queue("carts")
        at.deliver(at.message(**FIRST))
        at.deliver(at.message(**OTHER))
        finish(at, **FIRST)
        at.clock.advance(seconds=60)
        at.deliver(at.newer(requested_at=at.clock.now()))
        before = at.told(EventType.ATTACHED)
        at.deliver(at.message(**OTHER))
        assert (at.told(EventType.ATTACHED), at.told(EventType.DUPLICATE)) == (before, 1)


def test_a_result_that_was_reset_is_no_answer() -> None:
    with scene(kept_for_long) as at:
        at.aws.create_queue("carts")
        at.deliver(at.message(**FIRST))
        finish(at, **FIRST)
        at.sent("carts")
        at.clock.advance(seconds=1)
        FlowClient.of(at.handler._services).reset(at.flow, "o1")
        asked = {**OTHER, "requested_at": at.clock.now()}
        at.deliver(at.message(**asked))
        assert told(at) == [("other", "COMPLETED")], "it asked before the reset was over"
        at.deliver(at.message(**{**asked, "requested_at": at.clock.now() + 1}))
        assert told(at) == [("other", "IGNORED")]
        found = at.item()
        assert found is not None
        assert found.status is Status.COMPLETED


# -- whole flows ------------------------------------------------------------------------------------------------------


class Payment(BaseModel):
    order_id: str


class Answers(BaseModel):
    paid: dict[str, str] | Failed | None = None


class Approve(Stage[Payment], name="approve", then="charge"):
    def handle(self, payment: Payment, step: Step) -> Outcome:
        return Charge.when_all(ok=step.event(f"ok/{payment.order_id}"), within=timedelta(hours=1))


class Charge(Stage[dict[str, Any]], name="charge"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        step.update("charges", {"id": step.object_id}, "ADD n :one", values={":one": 1})
        return Done({"paid": "yes"})


class Pay(
    Flow,
    name="pay",
    object_id="order_id",
    request_id="order_id",
    callbacks=(Callback("oks", id="id", prefix="ok/"),),
):
    stages = (Approve, Charge)


class Ask(Stage[Payment], name="ask", then="ship"):
    def handle(self, payment: Payment, step: Step) -> Outcome:
        asked = step.ask(Pay, Payment(order_id="o1"))
        return Ship.when_all(paid=asked, within=timedelta(hours=3), on_timeout="ship")


class Ship(Stage[Answers], name="ship"):
    def handle(self, answers: Answers, step: Step) -> Outcome:
        return Done(answers.paid if isinstance(answers.paid, dict) else "not paid")


class Shops(Flow, name="shops", object_id="order_id"):
    stages = (Ask, Ship)


def test_two_runs_that_ask_for_one_payment_both_go_on_with_its_end() -> None:
    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        runner.table("charges", "id")
        runner.serve(Pay)
        for shop in ("s1", "s2"):
            runner.send(Shops, Payment(order_id=shop))
        runner.run(within=timedelta(minutes=20))
        runner.answer(Pay, "ok/o1", {})
        result = runner.run()
        assert [result.run(shop, "shops").result for shop in ("s1", "s2")] == [{"paid": "yes"}] * 2
        assert ([row["n"] for row in result.table("charges")], result.dead_letters) == ([1], ())
