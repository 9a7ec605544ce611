"""SNS that calls the function, and invocations: Lambda repeats a failed one twice, and no queue keeps it longer."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.errors import NotProcessed, Reject
from flowguard.events import EventType
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.step import Step
from flowguard.testing.hostile import noise
from flowguard.testing.lambda_events import sns_event
from flowguard.wire.attributes import Attribute
from tests.scene import START, Order, OrderState, Scene
from tests.worker.runtime.mishaps import boom, refuses


class Quarter:
    """Lambda's context: a quarter of an hour is left, which is also how long a lease is."""

    aws_request_id = "invocation-1"
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:orders"

    def get_remaining_time_in_millis(self) -> int:
        return 900_000


def published(at: Scene) -> Any:
    return sns_event("orders", Order(order_id="o1"), message_id="sns-1", published_at=START)


EVENTS = {"SNS": published, "an invocation": lambda at: {"order_id": "o1"}}


def without(operation: str) -> Any:
    """AWS while one of its operations is down."""

    def down(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == operation:
            response: Any = {"Error": {"Code": "InternalError"}, "ResponseMetadata": {"HTTPStatusCode": 500}}
            raise ClientError(response, operation)
        return proceed()

    return down


def invoke(at: Scene, event: Any) -> None:
    at.handler(event, Quarter())


@pytest.mark.parametrize("event_of", EVENTS.values(), ids=EVENTS)
def test_an_error_that_passes_is_over_when_lambda_repeats_the_event(at: Scene, event_of: Any) -> None:
    event = event_of(at)
    at.script.pricing = boom
    with pytest.raises(NotProcessed, match="gateway down"):
        invoke(at, event)
    at.script.pricing = lambda step: None
    at.clock.advance(seconds=60)
    invoke(at, event)
    assert (at.priced(), at.told(EventType.BUSY)) == (1, 0)
    assert [attempt for _, _, attempt in at.script.handled] == [1, 2]


@pytest.mark.parametrize("event_of", EVENTS.values(), ids=EVENTS)
def test_the_attempts_are_counted_and_the_last_one_ends_the_run(at: Scene, event_of: Any) -> None:
    event = event_of(at)
    at.script.pricing = boom
    for _ in range(2):
        with pytest.raises(NotProcessed):
            invoke(at, event)
        at.clock.advance(seconds=60)
    invoke(at, event)
    item = at.item()
    assert item is not None
    assert (item.status, len(at.sent("dead"))) == (Status.FAILED, 1)
    assert [attempt for _, _, attempt in at.script.handled] == [1, 2, 3]


@pytest.mark.parametrize("event_of", EVENTS.values(), ids=EVENTS)
@pytest.mark.parametrize("operation", ["TransactWriteItems", "SendMessageBatch"])
def test_a_service_that_is_down_costs_no_attempt_and_gives_the_claim_back(
    at: Scene, event_of: Any, operation: str
) -> None:
    event = event_of(at)
    with intercept(without(operation)), pytest.raises(NotProcessed):
        invoke(at, event)
    at.clock.advance(seconds=60)
    invoke(at, event)
    assert (at.priced(), at.told(EventType.BUSY), len(at.sent("emails"))) == (1, 0, 1)
    assert {attempt for _, _, attempt in at.script.handled} == {1}


def test_so_does_one_whose_commit_is_a_single_write(at: Scene) -> None:
    at.deliver(at.message())
    [message] = at.sent("close-order")
    attributes = {
        name: Attribute(one["DataType"], one["StringValue"]) for name, one in message["MessageAttributes"].items()
    }
    published = sns_event("orders", message["Body"], message_id="sns-2", published_at=START, attributes=attributes)
    event = published["Records"][0]["Sns"]  # as an invocation brings it

    def down(call: ApiCall, proceed: Proceed) -> Response:
        if "committed_at" in call.params.get("UpdateExpression", ""):
            response: Any = {"Error": {"Code": "InternalError"}, "ResponseMetadata": {"HTTPStatusCode": 500}}
            raise ClientError(response, call.operation)
        return proceed()

    with intercept(down), pytest.raises(NotProcessed):
        invoke(at, event)
    at.clock.advance(seconds=60)
    invoke(at, event)
    item = at.item()
    assert item is not None
    assert (item.status, at.told(EventType.BUSY)) == (Status.COMPLETED, 0)


def test_a_takeover_that_cannot_flush_gives_the_claim_back(at: Scene) -> None:
    with intercept(refuses("emails", "RequestThrottled", 400)):
        at.deliver(at.message())
        with pytest.raises(NotProcessed):
            invoke(at, published(at))
    at.clock.advance(seconds=60)
    invoke(at, published(at))
    assert at.priced() == 2


def test_a_release_that_fails_as_well_hides_no_error(at: Scene) -> None:
    def down(call: ApiCall, proceed: Proceed) -> Response:
        if call.service == "dynamodb" and "if_not_exists" not in call.params.get("UpdateExpression", ""):
            response: Any = {"Error": {"Code": "InternalError"}, "ResponseMetadata": {"HTTPStatusCode": 500}}
            raise ClientError(response, call.operation)
        return proceed()

    with intercept(down), pytest.raises(NotProcessed, match="TransactWriteItems"):
        invoke(at, published(at))


def test_a_record_of_a_queue_gives_its_claim_back_too_since_it_comes_again_in_seconds(at: Scene) -> None:
    with intercept(refuses("price-order", "RequestThrottled", 400)):
        at.script.pricing = boom
        assert at.deliver(at.message(), context=Quarter()) == [False]
    assert at.calls == ["UpdateItem", "UpdateItem"]
    at.script.pricing = lambda step: None
    assert at.deliver(at.message()) == [True]
    assert at.told(EventType.BUSY) == 0


def test_so_it_does_where_the_database_is_down(at: Scene) -> None:
    with intercept(without("TransactWriteItems")):
        assert at.deliver(at.message(), context=Quarter()) == [False]
    assert at.calls == ["UpdateItem", "UpdateItem"], "the second one gives it back"


def test_a_dead_letter_that_fits_nowhere_and_is_refused_gives_the_claim_back(at: Scene) -> None:
    order = Order(order_id="o1", note=noise(600_000))
    event = sns_event("orders", order, message_id="sns-1", published_at=START)

    def reject(step: Step[OrderState]) -> None:
        raise Reject("no")

    at.script.pricing = reject
    with intercept(refuses("dead", "RequestThrottled", 400)), pytest.raises(NotProcessed, match="not sent: sqs:dead"):
        invoke(at, event)
    at.clock.advance(seconds=60)
    invoke(at, event)
    assert (at.told(EventType.BUSY), len(at.sent("dead"))) == (0, 1)
