"""A flow that names its requests by their payload runs the same order once, whoever sends it and however often."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from flowguard.client import FlowClient
from flowguard.errors import Reject, Retry
from flowguard.events import EventType
from flowguard.flow import PER_REQUEST, AnyFlow, Flow
from flowguard.names.ids import SeededIds
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.testing import batch, sns_event, sns_to_sqs_event, sqs_event
from flowguard.wire.message import REQUEST_ID, REQUESTED_AT
from tests.scene import START, Order, Scene, Script, scene, two_stages

ORDER = Order(order_id="o1")
INBOX = f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:price-order"


def keyed(script: Script) -> AnyFlow:
    class Keyed(
        Flow, name="orders", object_id="order_id", request_id="order_id", complete_to="completed", dead_letters="dead"
    ):
        stages = two_stages(script)

    return Keyed


def keyed_each(script: Script) -> AnyFlow:
    class KeyedEach(Flow, name="orders", object_id=PER_REQUEST, request_id=("order_id", "note"), dead_letters="dead"):
        stages = two_stages(script)

    return KeyedEach


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene(keyed) as found:
        yield found


def came(number: int, payload: Any = ORDER, **about: Any) -> Any:
    """A message of a publisher that knows nothing of flowguard: the number is of the message, not of the order."""
    return sqs_event(INBOX, payload, message_id=f"message-{number}", sent_at=START + 1_000 * number, **about)


def close(at: Scene) -> None:
    """Hand the second hop's messages to the function."""
    for message in at.sent("close-order"):
        at.handler({"Messages": [message]})


def acked(answer: Any) -> bool:
    return not answer.get("batchItemFailures")


def test_the_same_order_sent_twice_is_one_run_though_its_copy_comes_later(at: Scene) -> None:
    assert acked(at.handler(came(0)))
    assert acked(at.handler(came(1)))
    assert (at.priced(), at.told(EventType.DONE), at.told(EventType.TOOK_OVER), at.told(EventType.WEAK_ID)) == (
        1,
        1,
        0,
        0,
    )
    close(at)
    assert acked(at.handler(came(2)))
    assert (at.priced(), at.told(EventType.CLAIMED), at.told(EventType.COMPLETED)) == (1, 2, 1)
    item = at.item()
    assert item is not None
    assert (item.request_id, item.requested_at, item.hop) == ("o1", START, 2)


def test_a_copy_of_an_order_that_is_further_on_is_a_duplicate(at: Scene) -> None:
    at.handler(came(0))
    at.script.closing = lambda step: at.handler(came(1))
    close(at)
    assert (at.priced(), at.told(EventType.DUPLICATE), at.told(EventType.COMPLETED)) == (1, 1, 1)


def test_a_copy_that_comes_while_the_order_is_worked_on_waits(at: Scene) -> None:
    answers: list[Any] = []

    def meanwhile(step: Any) -> None:
        at.script.pricing = lambda step: None
        answers.append(at.handler(came(1)))

    at.script.pricing = meanwhile
    at.handler(came(0))
    assert not acked(answers[0])
    assert (at.priced(), at.told(EventType.BUSY)) == (1, 1)
    assert acked(at.handler(came(1)))
    assert (at.priced(), at.told(EventType.DONE)) == (1, 1)


@pytest.mark.parametrize(
    "again",
    [
        came(1),
        sns_to_sqs_event("price-order", ORDER, message_id="n-1", published_at=START + 5_000),
        sns_event("orders", ORDER, message_id="n-2", published_at=START + 5_000),
        came(1, attributes={REQUEST_ID: "o1", REQUESTED_AT: START + 5_000}),
        came(1, '{ "note" : "said otherwise", "order_id" : "o1" }'),
    ],
)
def test_by_whichever_way_the_copy_comes(at: Scene, again: Any) -> None:
    at.handler(came(0))
    assert acked(at.handler(again))
    assert (at.priced(), at.told(EventType.DONE)) == (1, 1)


def test_a_copy_in_the_same_batch_is_none_either(at: Scene) -> None:
    assert acked(at.handler(batch(came(0), came(1), came(2))))
    assert (at.priced(), at.told(EventType.DONE)) == (1, 2)


def test_a_copy_from_our_own_client_is_one_too(at: Scene) -> None:
    at.handler(came(0))
    client = FlowClient(at.handler._services.sender, clock=at.clock, ids=SeededIds())
    assert client.start(at.flow, ORDER).request_id == "o1"
    for message in at.sent("price-order"):
        assert acked(at.handler({"Messages": [message]}))
    assert (at.priced(), at.told(EventType.DONE)) == (1, 1)


def test_an_order_under_an_id_of_its_own_is_another_request(at: Scene) -> None:
    at.handler(came(0))
    assert acked(at.handler(came(1, attributes={REQUEST_ID: "o1 once more"})))
    assert (at.priced(), at.told(EventType.TOOK_OVER)) == (2, 1)


def test_a_copy_of_an_order_that_failed_for_good_changes_nothing(at: Scene) -> None:
    at.script.pricing = reject
    at.handler(came(0))
    [letter] = at.sent("dead")
    assert acked(at.handler(came(1)))
    assert (at.told(EventType.FAILED), at.told(EventType.DONE), at.told(EventType.CLAIMED)) == (1, 1, 1)
    at.script.pricing = lambda step: None
    assert acked(at.handler({"Messages": [letter]}))
    assert at.priced() == 1, "its dead letter sent back is what runs it once more"


def reject(step: Any) -> None:
    raise Reject("it can never work")


def again(step: Any) -> None:
    raise Retry("not yet", after=timedelta(0))


def test_a_retry_keeps_the_id_that_its_payload_gave_it(at: Scene) -> None:
    at.script.pricing = again
    at.handler(came(0))
    [retry] = at.sent("price-order")
    assert retry["MessageAttributes"][REQUEST_ID]["StringValue"] == "o1"
    at.script.pricing = lambda step: None
    at.handler({"Messages": [retry]})
    assert (at.priced(), at.script.handled[-1]) == (1, ("price-order", "o1", 2))


def test_a_copy_that_takes_a_failing_orders_place_leaves_its_retry_nothing_to_do(at: Scene) -> None:
    at.script.pricing = again
    at.handler(came(0))
    [retry] = at.sent("price-order")
    at.script.pricing = lambda step: None
    at.clock.advance(seconds=60)
    assert acked(at.handler(came(1)))
    assert acked(at.handler({"Messages": [retry]}))
    assert (at.priced(), at.told(EventType.CLAIMED), at.told(EventType.DONE)) == (1, 2, 1)


def test_several_fields_make_a_request_of_each_pair() -> None:
    with scene(keyed_each) as at:
        for number, (order, note) in enumerate([("a", "bc"), ("ab", "c"), ("a", "bc"), ("ab", "c")]):
            at.handler(came(number, Order(order_id=order, note=note)))
        assert (at.told(EventType.CLAIMED), at.told(EventType.DONE)) == (2, 2)
        assert at.item('["a","bc"]') is not None


# -- an order that cannot be named ------------------------------------------------------------------------------------


def keyed_by_note(script: Script) -> AnyFlow:
    class KeyedByNote(Flow, name="orders", object_id="order_id", request_id="note", dead_letters="dead"):
        stages = two_stages(script)

    return KeyedByNote


@pytest.mark.parametrize(
    "payload", [ORDER, "no json", {"order_id": "o1", "note": "a\0"}, Order(order_id="o1", note="")]
)
def test_an_order_that_cannot_be_named_becomes_a_dead_letter_and_claims_nothing(payload: Any) -> None:
    with scene(keyed_by_note) as at:
        assert acked(at.handler(came(0, payload)))
        [letter] = at.sent("dead")
        assert (at.item(), at.told(EventType.CLAIMED), at.told(EventType.FAILED)) == (None, 0, 1)
        assert REQUEST_ID not in letter["MessageAttributes"]
        assert "note" in letter["MessageAttributes"]["flowguard"]["StringValue"] or payload == "no json"


def test_two_orders_that_cannot_be_named_are_two_dead_letters() -> None:
    with scene(keyed_by_note) as at:
        both = batch(
            sqs_event("price-order", ORDER, message_id="m-1", sent_at=START),
            sqs_event("price-order", ORDER, message_id="m-2", sent_at=START),
        )
        assert acked(at.handler(both))
        ids = [event.facts["id"] for event in at.tally.events if event.type is EventType.SENT]
        assert len(set(ids)) == len(ids) == 2
        assert len(at.sent("dead")) == 2


def test_a_dead_letter_that_comes_back_twice_is_sent_under_one_id() -> None:
    with scene(keyed_by_note) as at:
        at.handler(came(0))
        [letter] = at.sent("dead")
        for number in (1, 2):
            at.handler({"Messages": [{**letter, "MessageId": f"copy-{number}"}]})
        ids = [event.facts["id"] for event in at.tally.events if event.type is EventType.SENT]
        assert len(ids) == 3
        assert ids[0] != ids[1] == ids[2]


def test_the_rule_is_asked_again_when_a_dead_letter_comes_back() -> None:
    with scene(keyed_by_note) as at:
        at.handler(came(0))
        [letter] = at.sent("dead")
        assert acked(at.handler({"Messages": [letter]}))
        assert (at.item(), len(at.sent("dead"))) == (None, 1)
    with scene(keyed) as at:
        assert acked(at.handler({"Messages": [letter]}))
        item = at.item()
        assert item is not None
        assert (item.request_id, item.redrive) == ("o1", 1)
        place = json.loads(letter["MessageAttributes"]["flowguard"]["StringValue"])
        assert place["redrive"] == 1
