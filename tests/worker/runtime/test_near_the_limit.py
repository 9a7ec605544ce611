"""Messages of nearly 1 MiB: what flowguard adds when it sends one again may not fit beside it. Nothing is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard.destinations import Queue, Topic
from flowguard.errors import TooLarge
from flowguard.events import EventType
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.outbox import Kind, Send, largest
from flowguard.protocol.run import Status
from flowguard.sim.calls import intercept
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import normalize_record
from flowguard.wire.message import ErrorNote, Message
from flowguard.wire.signing import UNSIGNED
from flowguard.worker.dead_letters import Letter
from flowguard.worker.plan import dead_letter, retried
from flowguard.worker.redriven_messages import sent_back
from flowguard.worker.resend import sent_again
from tests.scene import START, Scene, message_id, record
from tests.worker.runtime.mishaps import boom
from tests.worker.runtime.test_given_up import ACKED, DAY, at_once, give_up

pytestmark = pytest.mark.usefixtures("denied_for_minutes")

LIMIT = largest(Queue("any"))
INBOX = Queue("price-order")
QUOTES = json.dumps({"order_id": "o1", "note": '"' * 500_000})
"""Twice as long where it is written as a text in JSON."""
ERROR = ErrorNote("RuntimeError", "gateway down", START)


def filled(message: Message, room: int = 0) -> Message:
    """The message with a payload that leaves so many bytes of what SQS takes."""
    empty = message._replace(body='{"order_id":"o1","note":""}')
    size = Send(Kind.SIDE, INBOX, empty.body, "any", empty.attributes()).size
    return message._replace(body=empty.body[:-2] + "x" * (LIMIT - room - size) + '"}')


def place_of(received: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(received["MessageAttributes"]["flowguard"]["StringValue"])
    return found


def came_as(received: dict[str, Any], message: Message) -> bool:
    """Whether a message lies in a queue exactly as it was sent."""
    attributes = {name: Attribute.of_receive_message(a, "", "") for name, a in received["MessageAttributes"].items()}
    return (received["Body"], attributes) == (message.body, message.attributes())


def delivered(at: Scene, received: dict[str, Any], queue: str = "price-order") -> Any:
    """What the function answers for a message that was taken out of a queue."""
    arn = record(at.message())["eventSourceARN"].rpartition(":")[0] + f":{queue}"
    return at.handler({"Messages": [{**received, "eventSourceARN": arn}]})


def test_a_retry_that_is_too_large_in_its_record_is_sent_plain_and_completes(at: Scene) -> None:
    at.script.pricing = boom
    with intercept(at_once):
        assert at.deliver(at.message(body=QUOTES)) == [True]
    [again] = at.sent("price-order")
    assert again["Body"] == QUOTES
    assert (place_of(again)["retry"], place_of(again)["error"][1]) == (1, "gateway down")
    at.script.pricing = lambda step: None
    assert delivered(at, again) == ACKED
    assert (at.priced(), at.script.handled[-1]) == (1, ("price-order", "run-1", 2))


def test_a_retry_of_a_wrapped_one_is_sent_plain_where_it_no_longer_fits_in_its_record() -> None:
    """The wrapped one carries its attributes twice: in its record as they were, and beside it as they are."""
    first = Message("orders", "price-order", 1, ObjectId("o1"), RequestId("run-1"), START, "{}")
    message = filled(first, room=700)
    wrapped = normalize_record(record(message)).record
    assert len(wrapped["body"]) < LIMIT
    taken = normalize_record(wrapped)
    assert retried(message.again(ERROR._replace(text="short")), taken, 20).body == wrapped["body"]
    longer = retried(message.again(ERROR._replace(text="x" * 300)), taken, 20)
    assert (longer.body, "error" in json.loads(longer.attributes["flowguard"].value)) == (message.body, True)


def test_a_retry_leaves_out_the_first_error_where_that_has_no_room(at: Scene) -> None:
    at.script.pricing = boom
    with intercept(at_once):
        assert at.deliver(filled(at.message(), room=20)) == [True]
    [again] = at.sent("price-order")
    assert (place_of(again)["retry"], "error" in place_of(again)) == (1, False)


def test_a_run_whose_retry_has_no_room_at_all_fails_and_its_dead_letter_is_the_record_as_it_came(at: Scene) -> None:
    at.script.pricing = boom
    message = filled(at.message())
    assert at.deliver(message) == [True]
    item = at.item()
    assert item is not None
    assert item.status is Status.FAILED
    assert "RuntimeError: gateway down (its retry cannot be sent: a message to sqs:" in str(item.error)
    assert "is too large" in str(item.error)
    [letter] = at.sent("dead")
    assert came_as(letter, message)
    [told] = at.sent("completed")
    assert json.loads(told["Body"])["status"] == "FAILED"
    assert (at.told(EventType.FAILED), at.sent("price-order")) == (1, [])


def test_what_goes_back_from_the_killed_queue_goes_plain_where_its_record_is_too_large(at: Scene) -> None:
    at.clock.advance(seconds=3 * DAY)
    assert give_up(at, at.message(body=QUOTES)) == ACKED
    [back] = at.sent("price-order")
    assert (back["Body"], place_of(back)["since"]) == (QUOTES, START)
    assert (at.item(), at.sent("dead")) == (None, [])
    assert delivered(at, back) == ACKED
    assert at.priced() == 1


def test_what_cannot_go_back_ends_its_run_by_name_and_lies_among_the_dead_letters_as_it_came(at: Scene) -> None:
    at.clock.advance(seconds=3 * DAY)
    message = filled(at.message(), room=10)
    assert give_up(at, message) == ACKED
    item = at.item()
    assert item is not None
    assert item.status is Status.FAILED
    assert "SQS gave its record up, and it cannot go back: a message to sqs:" in str(item.error)
    [letter] = at.sent("dead")
    assert came_as(letter, message)
    assert (at.sent("price-order"), at.told(EventType.FAILED), at.priced()) == ([], 1, 0)


def test_a_letter_of_a_message_that_was_redriven_says_its_redrive_before_its_error(at: Scene) -> None:
    message = filled(at.message(redrive=1), room=5)
    letter = dead_letter(at.flow, message, ERROR, normalize_record(record(message)))
    place = json.loads(letter.attributes["flowguard"].value)
    assert (letter.body, place["redrive"], "error" in place) == (message.body, 2, False)


def test_a_letter_never_looks_like_the_one_that_was_redriven(at: Scene) -> None:
    """As it came it would be sent back as it is, and its claim would find the redrive done."""
    message = filled(at.message(redrive=9))
    at.script.pricing = boom
    assert at.deliver(message) == [True]
    item = at.item()
    assert item is not None
    assert item.status is Status.FAILED
    assert "and no dead letter holds it" in str(item.error)
    assert at.sent("dead") == []


@pytest.mark.parametrize("undone", [False, True])
def test_dead_letters_that_take_less_than_a_queue_end_the_run_by_name(at: Scene, *, undone: bool) -> None:
    at.flow.dead_letters = Topic("arn:aws:sns:eu-west-1:123456789012:dead")
    if undone:
        at.flow.on_failed = "close-order"
    at.script.pricing = boom
    message = filled(at.message(retry=2), room=300_000)
    assert at.deliver(message) == [True]
    item = at.item()
    assert item is not None
    failed = item.own_failure if undone else item
    assert failed is not None
    assert "RuntimeError: gateway down (attempt 3 of 3) (and no dead letter holds it: a message to sns:" in str(
        failed.error
    )


def test_a_parked_letter_is_sent_back_plain_where_it_is_too_large_in_its_record(at: Scene) -> None:
    at.script.pricing = boom
    assert at.deliver(at.message(body=QUOTES, retry=2)) == [True]
    [lying] = at.sent("dead")
    assert lying["Body"] == QUOTES
    back = sent_back(Letter.read(lying, now=START), INBOX)
    assert (back.body, json.loads(back.attributes["flowguard"].value)["redrive"]) == (QUOTES, 1)


def lies(message: Message) -> Letter:
    """The message as it lies among the dead letters, as it came."""
    attributes = {name: {"DataType": a.type, "StringValue": a.value} for name, a in message.attributes().items()}
    received = {"MessageId": message_id(0), "ReceiptHandle": "r", "Body": message.body, "MessageAttributes": attributes}
    return Letter.read(received, now=START)


def test_a_letter_as_it_came_is_sent_back_with_its_redrive_where_that_fits(at: Scene) -> None:
    letter = lies(at.message(body=QUOTES, retry=2))
    back = sent_back(letter, INBOX)
    assert (letter.kind, back.body) == ("raw", QUOTES)
    assert json.loads(back.attributes["flowguard"].value)["redrive"] == 1


@pytest.mark.parametrize("parked", [0, 1])
def test_a_record_that_nobody_can_take_is_parked_as_it_came_where_it_is_too_large(at: Scene, parked: int) -> None:
    message = filled(at.message(flow="parcels"), room=parked)
    assert at.handler({"Records": [record(message, receives=3)]}) == ACKED
    [letter] = at.sent("dead")
    assert came_as(letter, message)
    assert at.told(EventType.PARKED) == 1


def test_what_a_topic_has_published_is_not_sent_plain() -> None:
    """Plain it would lose the topic that it came by. A topic takes so little that its record fits in any case."""
    notification = {
        "Type": "Notification",
        "MessageId": "n",
        "TopicArn": "arn:aws:sns:eu-west-1:123456789012:told",
        "Message": QUOTES,
        "Timestamp": "2026-01-01T00:00:00.000Z",
    }
    message = Message("orders", "price-order", 1, ObjectId("o1"), RequestId("run-1"), START, QUOTES)
    envelope = normalize_record(record(message) | {"body": json.dumps(notification)})
    with pytest.raises(TooLarge, match="2,000,"):
        sent_again(Send(Kind.SIDE, INBOX, "", "any"), message, envelope, UNSIGNED)
