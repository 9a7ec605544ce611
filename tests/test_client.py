"""Whoever starts a flow needs to know the flow and the payload, and none of the attributes."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.client import FlowClient, Started
from flowguard.clock import ManualClock
from flowguard.destinations import Function, Queue, Topic
from flowguard.errors import RunFailed, SendFailed
from flowguard.events import EventType
from flowguard.flow import Flow
from flowguard.ids import SeededIds
from flowguard.wire.attributes import Attribute
from flowguard.worker.ports import Refusal
from tests.scene import START, Order, Orders, Scene, scene


def client(at: Scene) -> FlowClient:
    return FlowClient(at.handler._services.sender, clock=at.clock, ids=SeededIds())


def pass_on(at: Scene, queue: str) -> None:
    """What an event source mapping does: hands the queue's messages to the function."""
    for message in at.sent(queue):
        at.handler({"Messages": [message]})


def test_a_started_flow_runs_under_the_id_and_time_that_the_caller_was_told() -> None:
    with scene() as at:
        started = client(at).start(Orders, Order(order_id="o1"))
        pass_on(at, "price-order")
        item = at.item()
        assert item is not None
        assert (item.request_id, item.requested_at) == (started.request_id, started.requested_at)
        assert started == Started(started.request_id, START, started.object_id)
        assert at.told(EventType.WEAK_ID) == 0


def test_the_same_request_sent_twice_is_one_run() -> None:
    with scene() as at:
        for _ in range(2):
            client(at).start(Orders, Order(order_id="o1"), request_id="r1", requested_at=START)
        pass_on(at, "price-order")
        assert at.priced() == 1


def test_a_topic_in_between_changes_nothing() -> None:
    with scene() as at:
        topic = at.aws.create_topic("orders")
        at.aws.subscribe(topic, at.aws.client("sqs").get_queue_url(QueueName="price-order")["QueueUrl"])
        started = client(at).start(Orders, Order(order_id="o1"), to=Topic(topic))
        pass_on(at, "price-order")
        item = at.item()
        assert item is not None
        assert (item.request_id, item.requested_at) == (started.request_id, START)


def test_a_function_can_be_started_directly() -> None:
    sent = Invoked()
    started = FlowClient(sent, clock=ManualClock(START)).start(Orders, Order(order_id="o1"), to=Function("f"))
    [send] = sent.sends
    assert (send.to, send.attributes["uniquerequestid"].value) == (Function("f"), started.request_id)


class Invoked:
    """A sender that keeps what it is given."""

    def __init__(self) -> None:
        self.sends: list[Any] = []

    def send(self, sends: Any) -> dict[int, Refusal]:
        self.sends.extend(sends)
        return {}

    def postpone(self, envelope: Any, seconds: int) -> None:
        raise AssertionError("a client has nothing to postpone")


def test_whoever_asked_is_told_when_the_run_ends() -> None:
    with scene() as at:
        client(at).start(Orders, Order(order_id="o1"), reply_to="emails")
        pass_on(at, "price-order")
        at.sent("emails")
        pass_on(at, "close-order")
        [complete] = at.sent("emails")
        assert '"status":"COMPLETED"' in complete["Body"]
        assert len(at.sent("completed")) == 1, "and so is whom the flow always tells"


def test_attributes_of_the_callers_own_go_along() -> None:
    sent = Invoked()
    FlowClient(sent).start(Orders, Order(order_id="o1"), attributes={"shop": Attribute.string("berlin")})
    assert sent.sends[0].attributes["shop"].value == "berlin"


def test_a_request_that_was_not_taken_is_an_error_and_starts_nothing() -> None:
    with scene() as at:
        with pytest.raises(SendFailed, match="sqs:missing"):
            client(at).start(Orders, Order(order_id="o1"), to=Queue("missing"))
        assert at.item() is None


def test_a_payload_of_another_type_is_refused_before_anything_is_sent() -> None:
    sent = Invoked()
    with pytest.raises(TypeError, match="takes Order, not dict"):
        FlowClient(sent).start(Orders, {"order_id": "o1"})
    assert sent.sends == []


class KeyedOrders(Flow, name="orders", object_id="order_id", request_id="order_id"):
    stages = Orders.stages


@pytest.mark.parametrize(("given", "found"), [(None, "o1"), ("mine", "mine")])
def test_a_flow_that_names_its_requests_does_so_where_the_caller_gives_no_id(given: str | None, found: str) -> None:
    with scene() as at:
        started = client(at).start(KeyedOrders, Order(order_id="o1"), request_id=given)
        [message] = at.sent("price-order")
        assert started.request_id == message["MessageAttributes"]["uniquerequestid"]["StringValue"] == found


def test_a_request_that_its_flow_cannot_name_is_not_sent() -> None:
    class Noted(Flow, name="orders", object_id="order_id", request_id="note"):
        stages = Orders.stages

    with scene() as at:
        with pytest.raises(RunFailed, match="the payload has no usable 'note' to name the request by"):
            client(at).start(Noted, Order(order_id="o1"))
        assert at.sent("price-order") == []
