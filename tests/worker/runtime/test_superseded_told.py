"""A request with a ``reply_to`` whose run another one takes over is told so by that, once, whoever dies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard.names.ids import RequestId
from flowguard.protocol.run_orders import read_order
from flowguard.sim.calls import Recorder, intercept
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.envelope import normalize_record
from flowguard.wire.message import Message
from tests.scene import START, Orders, Scene, record, scene
from tests.worker.runtime.mishaps import Died, boom, dies_at

TOLD = {"reply_to": "sqs:completed"}


def replies(at: Scene) -> list[tuple[str, str]]:
    """Whom the Complete messages to ``reply_to`` are for, and what they say; copies have one id and one text."""
    sent = {(one["MessageAttributes"]["uniquerequestid"]["StringValue"], one["Body"]) for one in at.sent("completed")}
    assert len({own for own, _ in sent}) == len(sent)
    return sorted((json.loads(body)["request_id"], json.loads(body)["status"]) for _, body in sent)


def newer(at: Scene, number: int, **more: Any) -> Message:
    return at.newer(request_id=RequestId(f"run-{number}"), requested_at=START - 500 + number, **more)


def test_the_request_that_loses_its_object_is_told() -> None:
    with scene() as at:
        at.deliver(at.message(**TOLD))
        at.deliver(newer(at, 2))
        assert replies(at) == [("run-1", "SUPERSEDED")]
        at.deliver(at.second(**TOLD))
        assert replies(at) == [], "its own later hop has nothing to tell any more"


def test_what_the_older_run_had_committed_goes_out_before_the_word_that_it_was_superseded() -> None:
    with scene() as at:
        at.deliver(at.message(**TOLD))
        with intercept(Recorder()) as calls:
            at.deliver(newer(at, 2))
        queues = [call.params["QueueUrl"] for call in calls.calls if call.operation == "SendMessageBatch"]
        assert [url.rpartition("/")[2] for url in queues][:2] == ["emails", "completed"]


def test_an_older_run_that_had_ended_is_told_its_end_and_no_more() -> None:
    with scene() as at:
        at.deliver(at.message(**TOLD))
        at.deliver(at.second(**TOLD))
        at.deliver(newer(at, 2))
        at.sent("emails")
        assert ("run-1", "SUPERSEDED") not in replies(at)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("operation", ["UpdateItem", "SendMessageBatch", "TransactWriteItems"])
def test_whoever_dies_it_is_told(operation: str, after: bool) -> None:
    with scene() as at:
        at.deliver(at.message(**TOLD))
        with intercept(dies_at(operation, after=after)), pytest.raises(Died):
            at.deliver(newer(at, 2))
        at.clock.advance(seconds=31)
        assert at.deliver(newer(at, 2)) == [True]
        assert replies(at) == [("run-1", "SUPERSEDED")]


def test_a_third_request_tells_those_whom_the_second_could_not() -> None:
    with scene() as at:
        at.deliver(at.message(**TOLD))
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            at.deliver(newer(at, 2, **TOLD))
        at.deliver(newer(at, 3))
        assert replies(at) == [("run-1", "SUPERSEDED"), ("run-2", "SUPERSEDED")]


def test_a_first_commit_forgets_who_was_told() -> None:
    with scene() as at:
        at.deliver(at.message(**TOLD))
        at.deliver(newer(at, 2))
        item = at.item()
        assert item is not None
        assert item.askers == {}
        with intercept(Recorder()) as calls:
            at.deliver(newer(at, 3))
        assert [call.operation for call in calls.calls if call.service == "dynamodb"] == [
            "UpdateItem",
            "TransactWriteItems",
        ]


def test_a_storm_of_requests_that_never_commit_leaves_no_growing_item() -> None:
    with scene() as at:
        at.script.pricing = boom
        for number in range(2, 30):
            at.deliver(newer(at, number, **TOLD))
        item = at.item()
        assert item is not None
        assert len(item.askers) <= 6
        assert len(replies(at)) == 27


def test_a_flow_that_waits_for_such_a_run_gets_a_failure() -> None:
    address = {"flow": "carts", "object": "c", "request": "r", "at": 1, "hop": 1, "name": "priced"}
    with scene() as at:
        at.deliver(at.message(**TOLD, answer_to=json.dumps(address)))
        at.deliver(newer(at, 2))
        [told] = at.sent("completed")
        attributes = {"flowguard": Attribute.string(told["MessageAttributes"]["flowguard"]["StringValue"])}
        arrived = read_order(_envelope(told["Body"], attributes))
        assert arrived is not None
        answer: Any = arrived
        assert answer.address.name == "priced"
        assert answer.answer.failed
        assert json.loads(answer.answer.text)["type"] == "Superseded"


def _envelope(body: str, attributes: dict[str, Attribute]) -> Any:
    message, _ = Orders.request(Orders.entry().payload(order_id="o1"), request_id=RequestId("r"), requested_at=START)
    found = record(message)
    found["body"], found["messageAttributes"] = body, attributes_to(Attribute.to_sqs_record, attributes)
    return normalize_record(found)
