"""Recorded HTTP requests: each is answered by the function of answers, with the token of the run that it means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import PER_REQUEST, Bus, Callback, Done, Flow, Outcome, Stage, Step, Topic
from flowguard.events import EventType
from flowguard.sim.crash import Crashes
from flowguard.sim.delivered import Delivered
from flowguard.sim.issued_tokens import NoSuchToken
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.points import Point
from flowguard.sim.recording import RecordedRecord, read_recording
from flowguard.sim.virtual import VirtualTime
from flowguard.sim.waiting_records import Delivery
from flowguard.sim.world import START, World
from flowguard.testing import FlowRunner, bus_event, sns_event, sqs_event

TOPIC = "arn:aws:sns:us-east-1:123456789012:paid"


class Order(BaseModel):
    order_id: str


class Answers(BaseModel):
    approval: dict[str, str] | None = None
    paid: dict[str, Any] | None = None


class Ask(Stage[Order], name="ask", then="go-on"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return GoOn.when_any(
            approval=step.token("approval"), paid=step.event(f"paid/{order.order_id}"), within=timedelta(minutes=10)
        )


class GoOn(Stage[Answers], name="go-on"):
    def handle(self, answers: Answers, step: Step) -> Outcome:
        return Done(answers)


class Orders(
    Flow,
    name="orders",
    object_id="order_id",
    callbacks=(
        Callback(Topic(TOPIC), id="order", prefix="paid/"),
        Callback(Bus("default", "bank", "Paid"), id="order", prefix="paid/"),
    ),
    trust_senders=True,
):
    stages = (Ask, GoOn)


class TakeAny(Stage[dict[str, Any]], name="take-any"):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        return Done(payload["routeKey"])


class Anything(Flow, name="anything", object_id=PER_REQUEST, trust_senders=True):
    stages = (TakeAny,)


@pytest.fixture
def runner() -> Iterator[FlowRunner]:
    with MemoryAWS() as aws, VirtualTime(START) as clock, FlowRunner(aws, clock) as open_:
        yield open_


def request(path: str, *, method: str = "POST", query: str = "answer=yes", **context: Any) -> dict[str, Any]:
    """A request to a function URL."""
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": {},
        "requestContext": {
            "domainName": "x.lambda-url.eu-west-1.on.aws",
            "requestId": "request-1",
            "http": {"method": method},
            **context,
        },
    }


def last(runner: FlowRunner, *events: Any) -> tuple[str | None, int | None]:
    """The verdict and status of what is delivered first."""
    [row] = runner.deliver(*events).step().deliveries
    return row.verdict, row.status


def asked(runner: FlowRunner, order_id: str = "o1", request_id: str = "r1") -> FlowRunner:
    runner.send(Orders, Order(order_id=order_id), request_id=request_id)
    runner.step()
    return runner


def test_a_recorded_request_answers_with_the_token_of_the_run_that_it_names(runner: FlowRunner) -> None:
    assert last(asked(runner), request("/answers/{token:orders/o1/approval}")) == ("RESUMED", 200)
    assert runner.run().run("o1").result == {"approval": {"answer": "yes"}, "paid": None}


@pytest.mark.parametrize("object_id", ["page/tea", "a@b.example", "}", "o1/approval", "ü 1"])
def test_any_object_can_be_named(runner: FlowRunner, object_id: str) -> None:
    path = f"/{{token:orders/{object_id}/approval}}"
    assert last(asked(runner, object_id), request(path)) == ("RESUMED", 200)


def test_the_gateways_that_hand_over_a_path_or_a_parameter_are_served(runner: FlowRunner) -> None:
    name = "{token:orders/o1/approval}"
    rest = {"httpMethod": "POST", "path": "/prod/x", "pathParameters": {"token": name}, "requestContext": {}}
    balancer = {"httpMethod": "POST", "path": f"/answers/{name}", "requestContext": {"elb": {}}}
    assert last(asked(runner), rest) == ("RESUMED", 200)
    runner.run()
    assert last(runner, balancer) == ("DUPLICATE", 200)


def test_a_request_means_the_token_that_was_made_last_unless_it_names_another_request(runner: FlowRunner) -> None:
    asked(asked(runner, request_id="r1"), request_id="r2")
    assert last(runner, request("/{token:orders/o1/approval@r1}")) == ("SUPERSEDED", 200)
    runner.run(within=timedelta(0))
    assert last(runner, request("/{token:orders/o1/approval}")) == ("RESUMED", 200)


def test_a_token_that_no_run_has_made_is_named_with_those_that_there_are(runner: FlowRunner) -> None:
    [row] = runner.serve(Orders).deliver(request("/{token:orders/o1/approval}")).step().deliveries
    assert (row.verdict, row.status) == ("UNROUTABLE", None)
    assert row.why == (
        "{token:orders/o1/approval} is the token of no run; write {token:FLOW/OBJECT/NAME}; "
        "no run has waited for a token by then"
    )
    [row] = asked(runner).deliver(request("/{token:orders/o2/approval}")).step().deliveries
    assert str(row.why).endswith("; the tokens until then: orders/o1/approval")


def test_the_error_of_a_token_that_was_not_made_stays_short() -> None:
    said = str(NoSuchToken("x" * 10_000, tuple("y" * 10_000 for _ in range(100))))
    assert len(said) < 2_000
    assert "and 95 more" in said


@pytest.mark.parametrize(
    ("path", "status"),
    [("/simulated." + "A" * 84, 403), ("/nobody." + "A" * 84, 403), ("/cut", 400), ("/", 400)],
    ids=["invented", "another key", "cut", "none"],
)
def test_a_request_with_a_wrong_token_is_refused_and_changes_nothing(
    runner: FlowRunner, path: str, status: int
) -> None:
    assert last(asked(runner), request(path)) == ("REFUSED", status)
    assert runner.run().run("o1").result == {"approval": None, "paid": None}, "at its deadline"


def test_who_only_opens_the_link_gets_a_status_and_no_verdict(runner: FlowRunner) -> None:
    assert last(asked(runner), request("/{token:orders/o1/approval}", method="GET")) == (None, 200)


def test_a_flow_that_reads_requests_itself_gets_those_without_a_token(runner: FlowRunner) -> None:
    runner.serve(Anything)
    assert last(runner, request("/orders")) == ("CLAIMED", None)
    assert last(asked(runner), request("/{token:orders/o1/approval}")) == ("RESUMED", 200)


@pytest.mark.parametrize(
    "event",
    [
        sns_event(TOPIC, {"order": "o1"}),
        bus_event({"order": "o1"}, source="bank", detail_type="Paid"),
    ],
    ids=["SNS calls the function", "EventBridge calls the function"],
)
def test_an_answer_without_a_queue_goes_to_the_flow_that_declares_its_callback(runner: FlowRunner, event: Any) -> None:
    assert last(asked(runner), event) == ("RESUMED", None)


def played(strike: Callable[[Point, Delivery], None], *events: tuple[Any, int]) -> list[Delivered]:
    """What is delivered of events, each with its moment, where ``strike`` may kill a worker."""
    with (
        MemoryAWS() as aws,
        VirtualTime(START) as clock,
        World([Orders], aws=aws, clock=clock, passed=lambda point, delivery, _: strike(point, delivery)) as world,
    ):
        for event, at in events:
            [recorded] = read_recording(event)
            assert isinstance(recorded, RecordedRecord)
            world.put(recorded.envelope, recorded.raw, at=at)
        return list(world.run())


def test_nobody_sends_a_request_again_but_the_copy_of_its_answer_resumes_the_run() -> None:
    crashes = Crashes([Point.AFTER_DISPATCH])

    def strike(point: Point, delivery: Delivery) -> None:
        if delivery.is_request:
            crashes.strike(point, delivery.message_id)

    rows = played(strike, ({"order_id": "o1"}, START), (request("/answers/{token:orders/o1/approval}"), START))
    assert [row.crash for row in rows if row.record == "request-1"] == [Point.AFTER_DISPATCH]
    assert [row.verdict for row in rows if row.outcome == "completed"] == ["CLAIMED"]
    assert sum(row.events.get(EventType.TIMED_OUT, 0) for row in rows) == 0


@pytest.mark.parametrize("name", ["orders/o1/approval", "orders/o1/approval@r1"])
def test_the_token_of_a_worker_that_died_after_its_commit_is_known(name: str) -> None:
    crashes = Crashes([Point.AFTER_COMMIT])

    def strike(point: Point, delivery: Delivery) -> None:
        if not delivery.is_request:
            crashes.strike(point, "one record")

    first = sqs_event("orders", {"order_id": "o1"}, attributes={"uniquerequestid": "r1"}, sent_at=START)
    rows = played(strike, (first, START), (request(f"/{{token:{name}}}"), START + 100_000))
    assert [row.crash for row in rows if row.crash] == [Point.AFTER_COMMIT]
    assert [row.verdict for row in rows if row.record == "request-1"] == ["RESUMED"]


@pytest.mark.parametrize(
    ("context", "own", "at"),
    [
        ({"timeEpoch": START}, "request-1", START),
        ({"requestTimeEpoch": START}, "request-1", START),
        ({"requestId": "x" * 5_000, "timeEpoch": 10**20}, None, None),
        ({"requestId": 7, "timeEpoch": "soon"}, None, None),
        ({"requestId": "\ud800", "timeEpoch": True}, None, None),
        ({"requestId": "", "timeEpoch": -1}, None, None),
    ],
)
def test_a_request_has_the_id_and_the_time_of_its_gateway_where_those_can_be_used(
    context: dict[str, Any], own: str | None, at: int | None
) -> None:
    [read] = read_recording(request("/x", **context))
    assert isinstance(read, RecordedRecord)
    assert read.sent_at == at
    assert (read.envelope.message_id == own) if own else read.envelope.message_id.startswith("invocation-")
