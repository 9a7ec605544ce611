"""A request that comes as an event of EventBridge: its retries, dead letters and copies are of the same event."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from flowguard.clock import ManualClock
from flowguard.destinations import Queue
from flowguard.errors import Reject, Retry
from flowguard.events import EventType
from flowguard.settings import Settings
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.testing import bus_event, sns_event, sns_to_sqs_event, sqs_event
from flowguard.wire.message import PLACE, REQUEST_ID
from flowguard.wire.signing import Keyring, Keys, KeySigner
from flowguard.worker.dead_letters import Letter
from flowguard.worker.redriven_messages import sent_back
from tests.scene import START, Orders, Scene, scene

INBOX = f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:price-order"
EVENT = bus_event({"order_id": "o1"}, time=START, detail_type="Order placed")
SECRET = "k1:" + "x" * 32


@pytest.fixture(params=["", SECRET], ids=["unsigned", "signed"])
def at(request: pytest.FixtureRequest) -> Iterator[Scene]:
    environment = {"FLOWGUARD_SIGNING_KEYS": request.param} if request.param else {}
    with scene(settings=Settings.from_environment(environment)) as found:
        yield found


def came(number: int = 0, event: Any = EVENT) -> Any:
    return sqs_event(INBOX, event, message_id=f"message-{number}", sent_at=START + 1_000 * number)


@pytest.mark.parametrize("event", [came(), sns_to_sqs_event(INBOX, EVENT), sns_event("placed", EVENT), EVENT])
def test_an_event_starts_a_run_and_its_copies_change_nothing(at: Scene, event: Any) -> None:
    at.handler(event)
    item = at.item()
    assert item is not None
    assert (item.request_id, item.requested_at, at.priced()) == (EVENT["id"], START, 1)
    for copy in (came(1), sns_to_sqs_event(INBOX, EVENT, message_id="n-1"), EVENT):
        at.handler(copy)
    assert (at.priced(), at.told(EventType.CLAIMED), at.told(EventType.DONE)) == (1, 1, 3)


def again(step: Any) -> None:
    raise Retry("not yet", after=timedelta(0))


def reject(step: Any) -> None:
    raise Reject("it can never work")


def test_a_retry_brings_the_whole_event_along(at: Scene) -> None:
    at.script.pricing = again
    at.handler(came())
    [retry] = at.sent("price-order")
    assert json.loads(json.loads(retry["Body"])["Message"]) == EVENT
    assert json.loads(retry["MessageAttributes"][PLACE]["StringValue"])["event"] is True
    at.script.pricing = lambda step: None
    at.handler({"Messages": [retry]})
    assert (at.priced(), at.script.handled[-1]) == (1, ("price-order", EVENT["id"], 2))


def test_a_dead_letter_brings_the_whole_event_along_and_may_be_sent_back_by_any_tool(at: Scene) -> None:
    at.script.pricing = reject
    at.handler(came())
    [letter] = at.sent("dead")
    assert json.loads(json.loads(letter["Body"])["Message"]) == EVENT
    at.script.pricing = lambda step: None
    assert at.handler({"Messages": [letter]}) == {"batchItemFailures": []}
    assert (at.priced(), at.told(EventType.UNTRUSTED)) == (1, 0)


@pytest.mark.parametrize("flow", [None, Orders])
def test_a_record_that_sqs_gave_up_goes_back_as_the_event_it_was(flow: Any) -> None:
    received = {
        "MessageId": "m-1",
        "ReceiptHandle": "r-1",
        "Body": json.dumps(EVENT),
        "Attributes": {"SentTimestamp": str(START + 5), "DeadLetterQueueSourceArn": INBOX},
    }
    letter = Letter.read(received, now=START, flow=flow)
    assert (letter.kind, letter.facts(START)["request_id"]) == ("raw", EVENT["id"])
    assert letter.facts(START)["requested_at"] == START
    back = sent_back(letter, Queue(INBOX))
    body, attributes = back.body, back.attributes
    assert attributes[REQUEST_ID].value == EVENT["id"]
    with scene() as at:
        assert at.handler(sqs_event(INBOX, body, attributes=attributes)) == {"batchItemFailures": []}
        item = at.item()
        assert item is not None
        assert (item.request_id, item.redrive, at.priced()) == (EVENT["id"], 0, 1)


def test_a_signed_redrive_of_an_event_is_believed() -> None:
    signer = KeySigner(Keyring(lambda: Keys.parse(SECRET), ManualClock()))
    received = {"MessageId": "m-1", "ReceiptHandle": "r-1", "Body": json.dumps(EVENT), "Attributes": {}}
    back = sent_back(Letter.read(received, now=START, flow=Orders), Queue(INBOX), signer)
    body, attributes = back.body, back.attributes
    with scene(settings=Settings.from_environment({"FLOWGUARD_SIGNING_KEYS": SECRET})) as at:
        assert at.handler(sqs_event(INBOX, body, attributes=attributes)) == {"batchItemFailures": []}
        assert (at.priced(), at.told(EventType.UNTRUSTED)) == (1, 0)


def test_an_event_whose_detail_is_no_payload_becomes_a_dead_letter(at: Scene) -> None:
    at.handler(came(event=bus_event({"id": "o1"}, time=START)))
    [letter] = at.sent("dead")
    error = json.loads(letter["MessageAttributes"][PLACE]["StringValue"])["error"]
    assert error[:2] == ["PayloadInvalid", "the payload of price-order is no Order: order_id: Field required"]
    assert at.item() is None


def test_a_request_of_a_gateway_is_named_in_its_dead_letter(at: Scene) -> None:
    at.handler({"resource": "/", "path": "/", "httpMethod": "POST", "requestContext": {}, "body": '{"order_id":"o1"}'})
    [letter] = at.sent("dead")
    error = json.loads(letter["MessageAttributes"][PLACE]["StringValue"])["error"][1]
    told = "this is an API Gateway event (REST API, format 1.0); call FlowClient.start from the function behind the "
    assert error.endswith(f"{told}gateway")
