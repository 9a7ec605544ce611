"""Each verdict on an answer, from each source that can bring one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final, NamedTuple

import pytest
from pydantic import BaseModel

from flowguard import (
    AnswerVerdict,
    Bus,
    Callback,
    Done,
    Flow,
    FlowClient,
    Outcome,
    Settings,
    Stage,
    Step,
    Topic,
    callback_handler,
    lambda_handler,
)
from flowguard.aws.services import aws_services
from flowguard.clock import ManualClock
from flowguard.errors import NotProcessed
from flowguard.events import EventType, Tally
from flowguard.flow import AnyFlow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.sim.calls import intercept
from flowguard.sim.table_keys import create_table
from flowguard.testing import bus_event, invocation, sns_event, sns_to_sqs_event, sqs_event
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.envelope import Source
from flowguard.wire.tokens import token_row_id
from flowguard.worker.ports import Services
from tests.aws.engines import empty
from tests.wire.test_http_request import GATEWAYS, sample
from tests.worker.runtime.mishaps import Died, dies_at

NEWS: Final = "arn:aws:sns:us-east-1:123456789012:news"
DAY: Final = 86_400_000
"""Milliseconds."""
KEPT: Final = "not processed"
ACKED: Final = "acknowledged"
BEGUN: Final = 1_767_225_600_000


class Order(BaseModel):
    order_id: str


class Answers(BaseModel):
    by_id: dict[str, Any]
    by_token: dict[str, Any]
    more: dict[str, Any]


class Ask(Stage[Order], name="ask", then=("go-on", "too-late")):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.put("orders", {"order_id": order.order_id})
        return GoOn.when_all(
            by_id=step.event(f"parcel of {step.request_id}"),
            by_token=step.token("by_token", valid=timedelta(days=30)),
            more=step.event("more"),
            within=timedelta(days=2),
            on_timeout="too-late",
        )


class GoOn(Stage[Answers], name="go-on"):
    def handle(self, answers: Answers, step: Step) -> Outcome:
        return Done()


class TooLate(Stage[dict[str, Any]], name="too-late"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Done()


STAGES: Final = (Ask, GoOn, TooLate)


class Waiting(
    Flow,
    name="waiting",
    object_id="order_id",
    callbacks=(
        Callback("parcels", id="ref"),
        Callback(Topic(NEWS), id="ref"),
        Callback(Bus("default", "carrier", "Parcel"), id="ref"),
    ),
    trust_senders=True,
):
    stages = STAGES


class WaitingOnce(
    Flow, name="waiting", object_id="order_id", callbacks=(Callback("parcels", id="ref"),), trust_senders=True
):
    """The same flow. A direct invocation names no queue, and there is one callback that it can mean."""

    stages = STAGES


class World:
    """One run that waits, on an AWS in memory."""

    def __init__(self, aws: Any) -> None:
        aws.create_table("flowguard")
        create_table(aws.client("dynamodb"), "orders", "order_id")
        for queue in ("waiting", "parcels", "waiting-dead-letters"):
            aws.create_queue(queue)
        self.told = Tally()
        self.clock = ManualClock(BEGUN)
        settings = Settings(token_keys="k1:a-secret-of-the-tests-that-is-long-enough")  # type: ignore[arg-type]  # text
        self.services: Services = aws_services(settings, clock=self.clock, observer=self.told)
        self.client = FlowClient.of(self.services)

    def begin(self, request: str = "r-1") -> None:
        payload = Order(order_id="o1")
        message, _ = Waiting.request(payload, request_id=RequestId(request), requested_at=self.clock.now())
        event = sqs_event("waiting", payload, attributes=message.attributes())
        assert lambda_handler(Waiting).using(self.services)(event) == {"batchItemFailures": []}

    def address(self, name: str) -> AnswerAddress:
        return AnswerAddress("waiting", ObjectId("o1"), RequestId("r-1"), BEGUN, 1, name)

    def token(self, name: str) -> str:
        row = token_row_id("waiting", "o1", "r-1", BEGUN, 1, name)
        return self.services.tokens.make("waiting", row, BEGUN + 30 * DAY)

    def take(self, event: Any, flow: AnyFlow) -> str:
        """Let the callback function take the event. Return what its sender gets to know."""
        try:
            answer = callback_handler(flow).using(self.services)(event)
        except NotProcessed:
            return KEPT
        match answer:
            case {"batchItemFailures": failures}:
                return KEPT if failures else ACKED
            case {"statusCode": int(), "body": str(body)}:
                return str(json.loads(body)["verdict"])
            case _:
                return str(answer["verdict"])

    def verdict(self) -> str:
        """Return the verdict that was reported last."""
        return str([event for event in self.told.events if event.type is EventType.ANSWERED][-1].facts["verdict"])


class Way(NamedTuple):
    """A source of answers. ``bring`` sends one for a name, or one that nobody waits for.

    A queue is told nothing but whether to keep its record. Lambda itself repeats an event that is not processed.
    """

    name: str
    bring: Callable[[World, bool], str]
    is_queue: bool = False
    is_event: bool = False


def ref(known: bool) -> dict[str, str]:
    return {"ref": "parcel of r-1" if known else "parcel of nobody"}


def from_queue(world: World, known: bool) -> str:
    return world.take(sqs_event("parcels", ref(known)), Waiting)


def from_topic_by_queue(world: World, known: bool) -> str:
    return world.take(sns_to_sqs_event("any", ref(known), topic=NEWS), Waiting)


def from_topic(world: World, known: bool) -> str:
    return world.take(sns_event(NEWS, ref(known)), Waiting)


def from_bus(world: World, known: bool) -> str:
    return world.take(bus_event(ref(known), source="carrier", detail_type="Parcel"), Waiting)


def from_bus_by_queue(world: World, known: bool) -> str:
    event = bus_event(ref(known), source="carrier", detail_type="Parcel")
    return world.take(sqs_event("any", event), Waiting)


def by_invocation(world: World, known: bool) -> str:
    return world.take(invocation(ref(known)), WaitingOnce)


def from_a_flow(world: World, known: bool) -> str:
    address = world.address("by_id" if known else "nothing").as_json()
    end = {"status": "COMPLETED", "result": {}}
    return world.take(sqs_event("waiting", end, attributes={"flowguard": json.dumps({"answer": address})}), Waiting)


def by_client(world: World, known: bool) -> str:
    return world.client.answer(Waiting, ref(known)["ref"], {})


def by_client_with_a_token(world: World, known: bool) -> str:
    return world.client.answer(Waiting, world.token("by_token" if known else "nothing"), {})


def over_http(gateway: str) -> Callable[[World, bool], str]:
    def bring(world: World, known: bool) -> str:
        text = json.dumps(sample(f"{gateway}-json"))
        token = world.token("by_token" if known else "nothing")
        return world.take(json.loads(re.sub(r"k1\.[\w.-]+", token, text)), Waiting)

    return bring


WAYS: Final = {
    "a queue": Way("by_id", from_queue, is_queue=True),
    "a topic through a queue": Way("by_id", from_topic_by_queue, is_queue=True),
    "a topic": Way("by_id", from_topic, is_event=True),
    "a bus": Way("by_id", from_bus, is_event=True),
    "a bus through a queue": Way("by_id", from_bus_by_queue, is_queue=True),
    "a direct invocation": Way("by_id", by_invocation, is_event=True),
    "another flow": Way("by_id", from_a_flow, is_queue=True),
    "code with an id": Way("by_id", by_client),
    "code with a token": Way("by_token", by_client_with_a_token),
    **{f"HTTP by {gateway}": Way("by_token", over_http(gateway)) for gateway in GATEWAYS},
}


def recorded(world: World, way: Way) -> None:
    world.begin()


def resumed(world: World, way: Way) -> None:
    world.begin()
    world.client.answer(Waiting, "more", {})
    if way.name == "by_id":
        world.client.answer(Waiting, world.token("by_token"), {})
    else:
        world.client.answer(Waiting, ref(True)["ref"], {})


def duplicate(world: World, way: Way) -> None:
    world.begin()
    way.bring(world, True)


def superseded(world: World, way: Way) -> None:
    world.begin()
    world.clock.advance(seconds=1)
    world.begin("r-2")


def expired(world: World, way: Way) -> None:
    world.begin()
    world.clock.advance(seconds=2 * 86_400 + 1)
    assert world.services.store.waits.time_out(world.address("deadline"), world.clock.now()).applied


def early(world: World, way: Way) -> None:
    with intercept(dies_at("TransactWriteItems")), pytest.raises(Died):
        world.begin()


STATES: Final = {
    AnswerVerdict.RECORDED: recorded,
    AnswerVerdict.RESUMED: resumed,
    AnswerVerdict.DUPLICATE: duplicate,
    AnswerVerdict.SUPERSEDED: superseded,
    AnswerVerdict.EXPIRED: expired,
    AnswerVerdict.UNKNOWN: recorded,
    AnswerVerdict.EARLY: early,
}
"""What makes a run answer each verdict."""


@pytest.fixture
def world() -> Iterator[World]:
    with empty("memory") as aws:
        yield World(aws)


def test_each_verdict_has_a_state_and_each_gateway_a_way() -> None:
    assert STATES.keys() == set(AnswerVerdict)
    bringing = {source for source in Source if not source.is_stream}  # streams bring requests alone
    assert bringing <= {Source.SQS, Source.SNS_SQS, Source.SNS_LAMBDA, Source.INVOCATION}, "a way for a new source"


def answered(world: World) -> list[Any]:
    return [event for event in world.told.events if event.type is EventType.ANSWERED]


@pytest.mark.parametrize("source", WAYS)
@pytest.mark.parametrize("verdict", STATES)
def test_each_source_gets_each_verdict(verdict: AnswerVerdict, source: str, world: World) -> None:
    way = WAYS[source]
    STATES[verdict](world, way)
    before = len(answered(world))
    told = way.bring(world, verdict is not AnswerVerdict.UNKNOWN)
    assert len(answered(world)) == before + 1
    if verdict is AnswerVerdict.UNKNOWN and way.name == "by_token":
        verdict = AnswerVerdict.EARLY  # a token is there before its wait is committed
    assert world.verdict() == verdict
    if told in (KEPT, ACKED):
        assert told == (KEPT if verdict is AnswerVerdict.EARLY else ACKED)
    else:
        assert told == verdict
    assert (told in (KEPT, ACKED)) is (way.is_queue or (verdict is AnswerVerdict.EARLY and way.is_event))
