"""Long texts that are gone from S3, and an S3 that is down: the one is an ending with its reason, the other passes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.events import EventType
from flowguard.flow import ATTACH, AnyFlow, Flow
from flowguard.names.ids import RequestId
from flowguard.outcome import Done, Outcome
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import hostile
from flowguard.wire.envelope import Envelope, normalize_record
from flowguard.wire.message import PLACE, Message
from flowguard.worker.driving import Driver
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.ports import Unlimited
from flowguard.worker.routing import Routes
from flowguard.worker.runtime import Runtime
from tests.scene import START, Order, OrderState, Scene, record, scene

BUCKET = "texts"


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene(settings=Settings(bucket=BUCKET, offload_above=1_024)) as found:
        found.aws.client("s3").create_bucket(Bucket=BUCKET)
        yield found


def sends_much(step: Step[OrderState]) -> None:
    step.send("emails", {"note": hostile.noise(5_000)})


@contextmanager
def stored() -> Iterator[list[str]]:
    """The keys of the texts that are stored while the block runs."""
    with intercept(Recorder()) as calls:
        keys: list[str] = []
        yield keys
        keys += [call.params["Key"] for call in calls.calls if call.operation == "PutObject"]


def lose(at: Scene, keys: list[str], kind: str) -> None:
    """Delete the stored texts of this kind."""
    lost = [key for key in keys if key.endswith(f"-{kind}")]
    assert lost
    for key in lost:
        at.aws.client("s3").delete_object(Bucket=BUCKET, Key=key)


def is_down(call: ApiCall, proceed: Proceed) -> Response:
    if call.operation == "GetObject":
        response: Any = {
            "Error": {"Code": "InternalError", "Message": "no"},
            "ResponseMetadata": {"HTTPStatusCode": 500},
        }
        raise ClientError(response, call.operation)
    return proceed()


def ending_of(at: Scene, message: Message, flow: AnyFlow) -> Ending:
    envelope = normalize_record(record(message))
    assert isinstance(envelope, Envelope)
    arrival = Routes([flow]).resolve(envelope, START)
    services = at.handler._services
    return Driver(services).alone(Runtime(services, Emitter(lambda event: None)).work(arrival, Unlimited()))


def test_a_copy_whose_hops_outbox_is_gone_is_a_dead_letter_with_the_reason(at: Scene) -> None:
    at.script.pricing = sends_much
    with stored() as keys:
        assert at.deliver(at.message()) == [True]
    lose(at, keys, "outbox")
    assert at.deliver(at.message()) == [True]
    [letter] = at.sent("dead")
    assert json.loads(letter["MessageAttributes"][PLACE]["StringValue"])["error"][0] == "TextGone"


def test_a_copy_waits_for_an_s3_that_is_down(at: Scene) -> None:
    at.script.pricing = sends_much
    assert at.deliver(at.message()) == [True]
    with intercept(is_down):
        assert at.deliver(at.message()) == [False]
    assert at.sent("dead") == []
    assert at.deliver(at.message()) == [True]


def test_a_takeover_goes_on_without_an_outbox_that_is_gone(at: Scene) -> None:
    at.script.pricing = sends_much
    with stored() as keys:
        assert at.deliver(at.message()) == [True]
    lose(at, keys, "outbox")
    assert at.deliver(at.newer()) == [True]
    assert at.told(EventType.LOST) == 1


def test_a_takeover_waits_for_an_s3_that_is_down(at: Scene) -> None:
    at.script.pricing = sends_much
    assert at.deliver(at.message()) == [True]
    with intercept(is_down):
        assert at.deliver(at.newer()) == [False]
    assert at.told(EventType.LOST) == 0
    at.clock.advance(seconds=31)
    assert at.deliver(at.newer()) == [True]


class Keep(Stage[Order], name="price-order"):
    """Keeps a long result."""

    def handle(self, payload: Order, step: Step) -> Outcome:
        return Done({"note": hostile.noise(5_000)})


class Keeping(Flow, name="orders", object_id="order_id", dead_letters="dead", trust_senders=True):
    stages = (Keep,)


def test_a_copy_says_that_the_result_of_its_run_is_gone_and_nothing_where_it_is_there() -> None:
    with scene(lambda script: Keeping, settings=Settings(bucket=BUCKET, offload_above=1_024)) as at:
        at.aws.client("s3").create_bucket(Bucket=BUCKET)
        with stored() as keys:
            assert at.deliver(at.message()) == [True]
        assert ending_of(at, at.message(), Keeping).why == ""
        lose(at, keys, "result")
        ending = ending_of(at, at.message(), Keeping)
    assert ending.ack
    assert f"the text at s3://{BUCKET}/" in ending.why


class Sharing(Flow, name="orders", object_id="order_id", on_conflict=ATTACH, dead_letters="dead", trust_senders=True):
    stages = (Keep,)


def test_a_request_whose_answer_is_gone_is_a_dead_letter_and_one_that_wants_none_is_done() -> None:
    with scene(lambda script: Sharing, settings=Settings(bucket=BUCKET, offload_above=1_024)) as at:
        at.aws.client("s3").create_bucket(Bucket=BUCKET)
        with stored() as keys:
            assert at.deliver(at.message()) == [True]
        other = at.message(request_id=RequestId("run-2"), requested_at=START - 500)
        assert ending_of(at, other, Sharing).why == ""
        lose(at, keys, "result")
        ending = ending_of(at, other, Sharing)
        assert ending.ack
        assert f"the text at s3://{BUCKET}/" in ending.why
        assert at.deliver(other._replace(reply_to="sqs:completed")) == [True]
        assert at.sent("completed") == []
        [letter] = at.sent("dead")
    assert json.loads(letter["MessageAttributes"][PLACE]["StringValue"])["error"][0] == "TextGone"
