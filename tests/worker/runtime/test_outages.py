"""Failures inside the failure path: queues and tables that are missing, deny, or do not answer."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from flowguard.events import EventType
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from tests.scene import Scene
from tests.worker.runtime.mishaps import boom, drop_queue, refuses, reject_once


def test_a_missing_dead_letter_queue_loses_nothing_and_is_named_until_it_is_there(at: Scene) -> None:
    at.script.pricing = lambda step: reject_once(at)
    drop_queue(at, "dead")
    assert at.deliver(at.message()) == [False]
    [told] = [h for h in at.tally.events if h.type is EventType.NOT_SENT]
    assert (told.facts["to"], "dead" in told.facts["why"] or "exist" in told.facts["why"]) == ("sqs:dead", True)
    assert at.deliver(at.message()) == [False]
    at.aws.create_queue("dead")
    assert at.deliver(at.message()) == [True]
    assert (len(at.sent("dead")), len(at.script.handled)) == (1, 1), "the stage is not run again for it"


def test_a_dead_letter_queue_that_denies_is_named_with_the_services_own_words(at: Scene) -> None:
    def denied(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch" and call.params["QueueUrl"].endswith("/dead"):
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "not allowed"}}, call.operation)
        return proceed()

    at.script.pricing = lambda step: reject_once(at)
    with intercept(denied):
        assert at.deliver(at.message()) == [False]
    [told] = [h for h in at.tally.events if h.type is EventType.NOT_SENT]
    assert "AccessDenied" in told.facts["why"]


def test_a_database_that_fails_while_a_run_is_ended_leaves_the_record_in_its_queue(at: Scene) -> None:
    def down_for_commits(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateItem" and "if_not_exists" not in call.params["UpdateExpression"]:
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow down"}}, call.operation)
        return proceed()

    at.script.pricing = lambda step: reject_once(at)
    with intercept(down_for_commits):
        assert at.deliver(at.message()) == [False]
    assert (at.told(EventType.BROKEN), at.sent("dead")) == (1, [])
    at.clock.advance(seconds=31)
    assert at.deliver(at.message()) == [True]
    assert at.priced() == 1


def test_a_retry_that_cannot_be_sent_leaves_the_record_to_sqs(at: Scene) -> None:
    at.script.pricing = boom
    with intercept(refuses("price-order", "RequestThrottled", 400)):
        assert at.deliver(at.message()) == [False]
    assert at.told(EventType.NOT_SENT) == 1


def test_a_store_that_is_down_leaves_every_record_in_its_queue(at: Scene) -> None:
    def down(call: ApiCall, proceed: Proceed) -> Response:
        raise ClientError({"Error": {"Code": "InternalServerError", "Message": "down"}}, call.operation)

    with intercept(down):
        assert at.deliver(at.message(), at.newer()) == [False, False]
    assert (at.told(EventType.BROKEN), at.told(EventType.RETURNED), at.script.handled) == (1, 1, [])


def down_for(service: str, operation: str = "") -> Any:
    def interceptor(call: ApiCall, proceed: Proceed) -> Response:
        if call.service == service and call.operation.startswith(operation):
            raise EndpointConnectionError(endpoint_url=f"https://{service}")
        return proceed()

    return interceptor


@pytest.mark.parametrize(
    ("service", "operation", "pricing"),
    [
        ("dynamodb", "", lambda step: None),
        ("dynamodb", "TransactWriteItems", lambda step: None),
        ("sqs", "", lambda step: None),
        ("sqs", "SendMessageBatch", lambda step: None),
        ("sqs", "SendMessageBatch", boom),
    ],
)
def test_an_outage_costs_no_attempt_however_often_the_record_is_received(
    at: Scene, service: str, operation: str, pricing: Any
) -> None:
    """Its stage has three attempts."""
    at.script.pricing = pricing
    with intercept(down_for(service, operation)):
        for _ in range(12):
            at.deliver(at.message())
            at.clock.advance(seconds=60)
    assert (at.told(EventType.FAILED), at.sent("dead")) == (0, [])
    at.script.pricing = lambda step: None
    assert at.deliver(at.message()) == [True] or at.deliver(at.message(retry=1)) == [True]
    assert (at.priced(), at.told(EventType.FAILED)) == (1, 0)


def test_a_record_whose_commit_has_met_an_outage_is_begun_again_as_soon_as_it_comes(at: Scene) -> None:
    with intercept(down_for("dynamodb", "TransactWriteItems")):
        assert at.deliver(at.message()) == [False]
    assert at.deliver(at.message()) == [True]
    assert (at.told(EventType.BUSY), at.priced()) == (0, 1)


def test_a_denied_run_table_is_asked_once_for_all_records_of_a_batch(at: Scene) -> None:
    asked: list[str] = []

    def denied(call: ApiCall, proceed: Proceed) -> Response:
        if call.service == "dynamodb":
            asked.append(call.operation)
            response: Any = {
                "Error": {"Code": "AccessDeniedException", "Message": "no"},
                "ResponseMetadata": {"HTTPStatusCode": 400},
            }
            raise ClientError(response, call.operation)
        return proceed()

    with intercept(denied):
        assert at.deliver(*(at.order(f"o{number}") for number in range(5))) == [False] * 5
    assert asked == ["UpdateItem"]
