"""One run is one picture: three hops, a retry, a wait, another flow and a callback, all found by the same ids."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from pydantic import BaseModel

from flowguard.callback import Callback
from flowguard.flow import PER_REQUEST, Flow
from flowguard.group import GroupEnd
from flowguard.observers.combined import combined
from flowguard.outcome import Done, Outcome
from flowguard.retry import Fixed, RetryPolicy
from flowguard.sim.calls import ApiCall, Proceed, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.virtual import VirtualTime
from flowguard.sim.world import START
from flowguard.stage import Stage
from flowguard.step import NoState, Step
from flowguard.testing import FlowRunner, sqs_event
from tests.observers.test_opentelemetry import MADE_IN, TRACE, TRACEPARENT, Exported, said

CONTEXT: Final = {name: attribute.value for name, attribute in TRACEPARENT.items()}


class Order(BaseModel):
    order_id: str


class Answers(BaseModel):
    stock: dict[str, Any]
    parcel: dict[str, Any]


class CheckStock(Stage[Order], name="check-stock"):
    def handle(self, order: Order, step: Step[NoState]) -> Outcome:
        return Done({"shelf": "A7"})


class Stocks(Flow, name="stocks", object_id=PER_REQUEST):
    stages = (CheckStock,)


class TakeOrder(
    Stage[Order], name="take-order", then="place-order", retry=RetryPolicy(attempts=2, backoff=Fixed(60), jitter=0)
):
    def handle(self, order: Order, step: Step[NoState]) -> Outcome:
        if step.attempt == 1:
            raise RuntimeError("down")
        return PlaceOrder.message(order)


class PlaceOrder(Stage[Order], name="place-order", then=("ship-order", "give-up")):
    def handle(self, order: Order, step: Step[NoState]) -> Outcome:
        return ShipOrder.when_all(
            stock=step.ask(Stocks, order),
            parcel=step.ask("carrier-requests", {"ref": step.answer_id("parcel")}),
            within=timedelta(days=1),
            on_timeout=GiveUp,
        )


class ShipOrder(Stage[Answers], name="ship-order"):
    def handle(self, answers: Answers, step: Step[NoState]) -> Outcome:
        return Done(answers.model_dump())


class GiveUp(Stage[dict[str, Any]], name="give-up"):
    def handle(self, answers: dict[str, Any], step: Step[NoState]) -> Outcome:
        return Done("too late")


class Shop(
    Flow,
    name="linked-shop",
    object_id="order_id",
    callbacks=(Callback("carrier-answers", id="ref"),),
):
    stages = (TakeOrder, PlaceOrder, ShipOrder, GiveUp)


@pytest.fixture
def exported() -> Iterator[Exported]:
    made = Exported()
    yield made
    made.provider.shutdown()


def watched(runner: FlowRunner, exported: Exported) -> None:
    """Let the observer watch the functions that the runner makes from now on."""
    world = runner._world
    world.services = world.services._replace(observer=combined([world.services.observer, exported.observer]))


def run(exported: Exported, *, answered: bool) -> Any:
    with MemoryAWS() as aws, VirtualTime(START) as clock, FlowRunner(aws, clock) as runner:
        watched(runner, exported)
        runner.serve(Stocks, Shop)
        runner.send(Shop, Order(order_id="o1"), attributes=CONTEXT)
        result = runner.run(within=timedelta(hours=1))
        if answered:
            [request] = result.sent("carrier-requests")
            runner.deliver(sqs_event("carrier-answers", {"ref": request.body["ref"], "number": 17}))
        return runner.run().run("o1", "linked-shop")


def links(span: ReadableSpan) -> set[tuple[str, str]]:
    return {(f"{one.context.trace_id:032x}", f"{one.context.span_id:016x}") for one in span.links}


def test_all_of_a_run_is_linked_to_the_span_that_its_request_was_made_in(exported: Exported) -> None:
    end = run(exported, answered=True)
    assert end.result == {"stock": {"shelf": "A7"}, "parcel": {"ref": end.result["parcel"]["ref"], "number": 17}}
    worked = [one for one in exported.spans() if one.name.startswith("process ")]
    assert [(one.name, said(one)["flowguard.hop"], said(one)["flowguard.outcome"]) for one in worked] == [
        ("process take-order", 1, "retried"),
        ("process take-order", 1, "committed"),
        ("process place-order", 2, "waiting"),
        ("process check-stock", 1, "completed"),
        ("process ship-order", 3, "completed"),
    ]
    assert [links(one) for one in worked] == [{(TRACE, MADE_IN)}] * 5
    phases = [one for one in exported.spans() if one.name in ("claim", "handle", "commit")]
    assert {frozenset(links(one)) for one in phases} == {frozenset({(TRACE, MADE_IN)})}


def test_the_hop_after_a_wait_is_sent_with_the_trace_of_its_request(exported: Exported) -> None:
    """Whoever brings an answer is in a trace of his own, which Lambda would go on with."""
    sent: list[Any] = []

    def note(call: ApiCall, proceed: Proceed) -> Any:
        sent.extend(call.params.get("Entries", ()) if call.operation == "SendMessageBatch" else ())
        return proceed()

    with intercept(note):
        run(exported, answered=True)
    headers = {
        one["MessageAttributes"]["flowstage"]["StringValue"]: one["MessageSystemAttributes"]["AWSTraceHeader"]
        for one in sent
        if "MessageSystemAttributes" in one
    }
    value = f"Root=1-{TRACE[:8]}-{TRACE[8:]};Parent={MADE_IN};Sampled=1"
    assert headers == {"linked-shop/ship-order": {"DataType": "String", "StringValue": value}}


class Shops(Stage[Order], name="ask-shops", then="add-up"):
    def handle(self, order: Order, step: Step[NoState]) -> Outcome:
        shops = ((f"s{number}", Order(order_id=f"s{number}")) for number in range(3))
        return AddUp.when_group(step.group(Stocks, shops), within=timedelta(hours=1))


class AddUp(Stage[GroupEnd], name="add-up"):
    def handle(self, end: GroupEnd, step: Step[NoState]) -> Outcome:
        return Done(len(list(step.answers(dict[str, Any]))))


class Recount(Flow, name="linked-recount", object_id="order_id"):
    stages = (Shops, AddUp)


def test_all_that_a_group_asks_is_linked_too(exported: Exported) -> None:
    with MemoryAWS() as aws, VirtualTime(START) as clock, FlowRunner(aws, clock) as runner:
        watched(runner, exported)
        runner.serve(Stocks, Recount)
        runner.send(Recount, Order(order_id="o1"), attributes=CONTEXT)
        assert runner.run().run("o1", "linked-recount").result == 3
    worked = [one for one in exported.spans() if one.name.startswith("process ")]
    assert len(worked) == 5
    assert {frozenset(links(one)) for one in worked} == {frozenset({(TRACE, MADE_IN)})}


def test_answers_name_the_run_that_they_are_for(exported: Exported) -> None:
    end = run(exported, answered=True)
    spans = [one for one in exported.spans() if one.name == "settle answer"]
    assert links(spans[-1]) == {(TRACE, MADE_IN)}, "the plan of the wait comes with the answer that ends it"
    settled = [said(one) for one in spans]
    assert [one["flowguard.verdict"] for one in settled] == ["RECORDED", "RESUMED"]
    assert {one["messaging.message.conversation_id"] for one in settled} == {end.request_id}
    assert {one["flowguard.stage"] for one in settled} == {"place-order"}


def test_a_deadline_names_it_too_and_its_run_goes_on_linked(exported: Exported) -> None:
    end = run(exported, answered=False)
    assert end.result == "too late"
    found = exported.by_name()
    assert said(found["settle deadline"])["messaging.message.conversation_id"] == end.request_id
    assert links(found["process give-up"]) == {(TRACE, MADE_IN)}
