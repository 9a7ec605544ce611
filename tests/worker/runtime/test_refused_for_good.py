"""Calls that are refused however often they are repeated: each ends by name, and no object waits for it."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.destinations import Queue
from flowguard.errors import Reject
from flowguard.events import EventType
from flowguard.protocol.outbox import Kind
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.step import Step
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import place_at_depth
from flowguard.worker.undeliverable import Undeliverable
from tests.scene import START, OrderState, Scene
from tests.worker.runtime.mishaps import Died, boom, dies_at, drop_queue, refuses, reject_once

pytestmark = pytest.mark.usefixtures("denied_for_minutes")


@pytest.fixture(autouse=True)
def received_for_minutes(at: Scene) -> None:
    """Denials and missing resources pass for minutes first."""
    at.receives = 12


NOTE = b64encode(random.Random(1).randbytes(450_000)).decode()
"""Compressed it is larger than an item."""

PASSING = [("RequestThrottled", 400), ("ExpiredToken", 403), ("InternalError", 500), ("KMS.ThrottlingException", 400)]


def place_of(letter: Any) -> Any:
    return json.loads(letter["MessageAttributes"]["flowguard"]["StringValue"])


def facts_of(at: Scene, kind: EventType) -> Any:
    return [event.facts for event in at.tally.events if event.type is kind]


# -- a side message ---------------------------------------------------------------------------------------------------


def test_a_side_message_that_its_queue_refuses_is_parked_and_the_run_goes_on(at: Scene) -> None:
    drop_queue(at, "emails")
    assert at.deliver(at.message()) == [True]
    [letter] = at.sent("dead")
    assert letter["Body"] == '{"priced":"o1"}'
    place = place_of(letter)
    kind, text, when = place["error"]
    assert (kind, when, place["hop"], place["object"]) == ("NotSent", START, 1, "o1")
    assert text.startswith("sqs:emails refuses it for good: ")
    assert letter["MessageAttributes"]["uniquerequestid"]["StringValue"] == "run-1"
    own = f"{at.message().hop_id}.0"
    attributes = {"uniquerequestid": Attribute.string(own), "requestedat": Attribute.number(START)}
    unsent = Undeliverable(Kind.SIDE, Queue("emails"), own, {**attributes, **place_at_depth(1)})
    assert Undeliverable.parse(place["unsent"]) == unsent
    [parked] = facts_of(at, EventType.PARKED)
    assert (parked["to"], parked["id"], parked["kind"]) == ("sqs:emails", own, "side")
    assert at.deliver(at.second()) == [True]
    assert at.sent("close-order"), "the next hop's message was sent"


@pytest.mark.parametrize(("code", "status"), PASSING)
def test_a_refusal_that_passes_keeps_the_record_and_parks_nothing(at: Scene, code: str, status: int) -> None:
    with intercept(refuses("emails", code, status)):
        assert at.deliver(at.message()) == [False]
    assert (at.sent("dead"), at.sent("close-order"), at.told(EventType.PARKED)) == ([], [], 0)
    assert at.deliver(at.message()) == [True]
    assert len(at.sent("emails")) == 1


def test_a_letter_that_the_dead_letters_refuse_keeps_the_record(at: Scene) -> None:
    drop_queue(at, "emails")
    drop_queue(at, "dead")
    assert at.deliver(at.message()) == [False]
    assert at.sent("close-order") == [], "nothing says yet that the side messages are safe"
    assert at.told(EventType.PARKED) == 0
    at.aws.create_queue("dead")
    assert at.deliver(at.message()) == [True]
    assert (len(at.sent("dead")), len(at.sent("close-order")), len(at.script.handled)) == (1, 1, 1)


def test_a_dead_letter_that_is_refused_is_not_parked_as_a_letter_of_itself(at: Scene) -> None:
    at.script.pricing = lambda step: reject_once(at)
    with intercept(refuses("dead", "InvalidMessageContents", 400)):
        assert at.deliver(at.message()) == [False]
    assert at.told(EventType.NOT_SENT) == 1


def test_one_refused_message_of_a_batch_is_parked_and_the_others_are_sent(at: Scene) -> None:
    def spoilt(call: ApiCall, proceed: Proceed) -> Response:
        bodies = [entry["MessageBody"] for entry in call.params.get("Entries", [])]
        if call.operation == "SendMessageBatch" and '{"priced":"o2"}' in bodies:
            response: Any = {"Error": {"Code": "InvalidMessageContents"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
            if call.params["QueueUrl"].endswith("/emails"):
                raise ClientError(response, call.operation)
        return proceed()

    messages = [at.message(object_id=name, body=json.dumps({"order_id": name})) for name in ("o1", "o2", "o3")]
    with intercept(spoilt):
        assert at.deliver(*messages) == [True, True, True]
    assert [one["Body"] for one in at.sent("dead")] == ['{"priced":"o2"}']
    assert [one["Body"] for one in at.sent("emails")] == ['{"priced":"o1"}', '{"priced":"o3"}']
    assert len(at.sent("close-order")) == 3


def test_a_reply_queue_that_is_gone_never_holds_up_the_run(at: Scene) -> None:
    at.deliver(at.message(reply_to="sqs:replies"))
    assert at.deliver(at.second(reply_to="sqs:replies")) == [True]
    item = at.item()
    assert item is not None
    assert item.status is Status.COMPLETED
    [letter] = at.sent("dead")
    assert Undeliverable.parse(place_of(letter)["unsent"]).kind is Kind.COMPLETE
    assert json.loads(letter["Body"])["status"] == "COMPLETED"


# -- a takeover --------------------------------------------------------------------------------------------------------


def test_a_takeover_parks_what_the_old_run_could_not_send_and_goes_on(at: Scene) -> None:
    with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
        at.deliver(at.message())
    with intercept(refuses("emails")):
        assert at.deliver(at.newer()) == [True]
    letters = at.sent("dead")
    assert [one["MessageAttributes"]["uniquerequestid"]["StringValue"] for one in letters] == ["run-1", "run-2"]
    assert at.priced() == 2


def test_a_takeover_waits_for_a_refusal_that_passes(at: Scene) -> None:
    with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
        at.deliver(at.message())
    with intercept(refuses("emails", "RequestThrottled", 400)):
        assert at.deliver(at.newer()) == [False]
    assert at.priced() == 1
    at.clock.advance(seconds=31)
    assert at.deliver(at.newer()) == [True]
    assert len(at.sent("emails")) == 2


def test_a_takeover_goes_on_where_not_even_the_dead_letters_take_it(at: Scene) -> None:
    at.script.pricing = lambda step: reject_once(at)
    with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
        at.deliver(at.message())
    with intercept(refuses("dead")):
        assert at.deliver(at.newer()) == [True]
    [lost] = facts_of(at, EventType.LOST)
    assert (lost["to"], lost["for_request"], lost["id"]) == ("sqs:dead", "run-1", f"{at.message().hop_id}.dead")
    assert at.told(EventType.PARKED) == 0


# -- the next hop ------------------------------------------------------------------------------------------------------


def test_a_next_hop_that_its_queue_refuses_is_parked_and_goes_on_from_there(at: Scene) -> None:
    with intercept(refuses("close-order")):
        assert at.deliver(at.message()) == [True]
    [letter] = at.sent("dead")
    place = place_of(letter)
    assert (letter["Body"], place["hop"], place["redrive"], place["to"]) == ('{"total":7}', 2, 1, "sqs:close-order")
    assert "attempts" not in place, "it has made none"
    assert letter["MessageAttributes"]["flowstage"]["StringValue"] == "orders/close-order"
    assert "unsent" not in place
    assert at.deliver(at.second(redrive=1)) == [True]
    item = at.item()
    assert item is not None
    assert (item.status, item.hop) == (Status.COMPLETED, 2)


# -- a retry -----------------------------------------------------------------------------------------------------------


def test_a_retry_that_its_queue_refuses_ends_the_run(at: Scene) -> None:
    at.script.pricing = boom
    with intercept(refuses("price-order")):
        assert at.deliver(at.message()) == [True]
    item = at.item()
    assert item is not None
    assert item.status is Status.FAILED
    assert item.error is not None
    assert item.error.startswith("RuntimeError: gateway down (its retry cannot be sent: ")
    [letter] = at.sent("dead")
    assert place_of(letter)["redrive"] == 1
    assert at.told(EventType.RETRIED) == 0


# -- tables ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["AccessDeniedException", "ResourceNotFoundException", "ValidationException"])
def test_a_table_that_refuses_the_recorded_writes_ends_the_run(at: Scene, code: str) -> None:
    def denied(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "TransactWriteItems":
            response: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
            raise ClientError(response, call.operation)
        return proceed()

    with intercept(denied):
        assert at.deliver(at.message()) == [True]
    item = at.item()
    assert item is not None
    assert (item.status, len(at.sent("dead")), at.priced()) == (Status.FAILED, 1, 0)
    assert len(at.script.handled) == 1


def test_a_write_with_half_a_surrogate_pair_ends_the_run_by_name(at: Scene) -> None:
    def hostile(step: Step[OrderState]) -> None:
        step.put("orders", {"id": "o2", "lines": [{"name": "\ud800"}]})

    at.script.pricing = hostile
    assert at.deliver(at.message()) == [True]
    item = at.item()
    assert item is not None
    assert item.error is not None
    assert "'lines.0.name' is text with half a surrogate pair" in item.error


# -- a dead letter that fits nowhere -----------------------------------------------------------------------------------


def test_a_dead_letter_too_large_for_the_item_is_sent_beside_it(at: Scene) -> None:
    message = at.message(body=json.dumps({"order_id": "o1", "note": NOTE}), reply_to="sqs:emails")

    def reject(step: Step[OrderState]) -> None:
        raise Reject("no")

    at.script.pricing = reject
    assert at.deliver(message) == [True]
    [letter] = at.sent("dead")
    assert json.loads(letter["Body"])["Message"] == message.body
    item = at.item()
    assert item is not None
    assert item.status is Status.FAILED
    assert [json.loads(one["Body"])["status"] for one in at.sent("emails")] == ["FAILED"]
    assert at.deliver(at.newer()) == [True]


def test_a_dead_letter_that_fits_nowhere_and_is_refused_keeps_the_record(at: Scene) -> None:
    message = at.message(body=json.dumps({"order_id": "o1", "note": NOTE}), retry=2)
    at.script.pricing = boom
    with intercept(refuses("dead")):
        assert at.deliver(message) == [False]
    item = at.item()
    assert item is not None
    assert item.status is Status.RUNNING
    at.clock.advance(seconds=31)
    assert at.deliver(message) == [True]
    assert len(at.sent("dead")) == 1


def test_replies_that_fit_are_not_lost_by_a_commit_that_passes(at: Scene) -> None:
    message = at.message(body=json.dumps({"order_id": "o1", "note": NOTE}), reply_to="sqs:emails")
    throttled: list[str] = []

    def once(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateItem" and not throttled and at.script.handled:
            throttled.append(call.operation)
            response: Any = {"Error": {"Code": "ThrottlingException", "Message": "no"}, "ResponseMetadata": {}}
            raise ClientError(response, call.operation)
        return proceed()

    def reject(step: Step[OrderState]) -> None:
        raise Reject("no")

    at.script.pricing = reject
    with intercept(once):
        assert at.deliver(message) == [False], "it ends when the commit is taken, with its replies"
    assert throttled
    at.clock.advance(seconds=31)
    assert at.deliver(message) == [True]
    assert [json.loads(one["Body"])["status"] for one in at.sent("emails")] == ["FAILED"]
