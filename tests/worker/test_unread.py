"""Records that nobody can take: they wait some minutes, and are parked as they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flowguard.destinations import Queue, Topic
from flowguard.events import EventType
from flowguard.names.ids import RequestId
from flowguard.protocol.outbox import Kind, Send
from flowguard.sim.calls import Recorder, intercept
from flowguard.wire.attributes import Attribute, read_attributes
from flowguard.wire.message import FLOW_STAGE, PLACE
from flowguard.worker.denials import _Denied
from tests.scene import Scene, message_id, record, scene
from tests.worker.runtime.mishaps import refuses

pytestmark = pytest.mark.usefixtures("denied_for_minutes")


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as made:
        yield made


def unreadable(at: Scene, receives: int) -> dict[str, Any]:
    found = record(at.message(), receives=receives)
    found["messageAttributes"][PLACE]["stringValue"] = "no JSON"
    return found


def unroutable(at: Scene, receives: int) -> dict[str, Any]:
    found = record(at.message(), receives=receives)
    found["messageAttributes"][FLOW_STAGE]["stringValue"] = "parcels/weigh"
    return found


def untrusted(at: Scene, receives: int) -> dict[str, Any]:
    return record(at.message(reply_to="sqs:arn:aws:sqs:eu-west-1:999999999999:theirs"), receives=receives)


@pytest.mark.parametrize("made", [unreadable, unroutable, untrusted])
def test_it_waits_for_minutes_and_is_parked_once_as_it_is(at: Scene, made: Callable[[Scene, int], Any]) -> None:
    for receives in (1, 2):
        assert at.handler({"Records": [made(at, receives)]})["batchItemFailures"]
    assert at.sent("dead") == []
    denied = at.handler._services.denials._denied
    denied["sqs:dead"] = denied["sqs:emails"] = _Denied(0, 0)
    assert at.handler({"Records": [made(at, 3)]}) == {"batchItemFailures": []}
    assert list(denied) == ["sqs:emails"], "what is taken is denied no more"
    [letter] = at.sent("dead")
    assert json.loads(json.loads(letter["Body"])["Message"]) == {"order_id": "o1"}
    [parked] = [event for event in at.tally.events if event.type is EventType.PARKED]
    said = (parked.facts["record"], parked.facts["kind"], parked.facts["to"], parked.facts["delay"])
    assert said == (made(at, 3)["messageId"], "dead", "sqs:dead", 0)
    assert parked.facts["id"].endswith(".unread")


BROKEN = json.dumps({"Type": "Notification", "MessageId": "n", "TopicArn": "arn:aws:sns:eu-west-1:123456789012:told"})
"""Anybody who may send to the queue can write such a body."""


def unopened(at: Scene, receives: int) -> dict[str, Any]:
    return record(at.message(), receives=receives) | {"body": BROKEN}


def test_a_body_that_cannot_be_opened_waits_is_parked_as_it_came_and_can_be_sent_back(at: Scene) -> None:
    pauses = []
    for receives in (1, 2):
        with intercept(Recorder()) as calls:
            failures = at.handler({"Records": [unopened(at, receives)]})["batchItemFailures"]
        assert failures == [{"itemIdentifier": message_id(0)}]
        pauses += [entry["VisibilityTimeout"] for call in calls.calls for entry in call.params.get("Entries", ())]
    assert [100 <= pause <= 200 for pause in pauses] == [True, True]
    assert at.handler({"Records": [unopened(at, 3)]}) == {"batchItemFailures": []}
    [letter] = at.sent("dead")
    assert letter["Body"] == BROKEN
    assert FLOW_STAGE in letter["MessageAttributes"]
    assert (at.told(EventType.UNREADABLE), at.told(EventType.PARKED)) == (3, 1)


@pytest.mark.parametrize("changes", [{"attributes": {"SentTimestamp": "soon"}}, {"body": 7}, {"eventSource": "aws:s3"}])
def test_a_record_that_is_none_of_a_queues_stays(at: Scene, changes: dict[str, Any]) -> None:
    assert at.handler({"Records": [unopened(at, 3) | changes]})["batchItemFailures"]
    assert at.sent("dead") == []


def test_of_a_batch_the_others_are_worked_off(at: Scene) -> None:
    bad = unopened(at, 1) | {"messageId": message_id(1)}
    answer = at.handler({"Records": [bad, record(at.message())]})
    assert answer == {"batchItemFailures": [{"itemIdentifier": message_id(1)}]}
    assert at.priced() == 1


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("receives", "queue", "left"),
    [(1, "price-order.fifo", [1, 2]), (3, "price-order.fifo", []), (1, "price-order", [1])],
)
def test_one_in_a_fifo_group_that_stays_unopened_holds_those_behind_it(
    receives: int, queue: str, left: list[int], together: bool, at: Scene
) -> None:
    groups = ["red", "red", "red", "blue"]
    records = [
        record(at.order(f"o{place}", request_id=RequestId(f"r-{place}")), place, receives)
        | {"eventSourceARN": f"arn:aws:sqs:eu-west-1:123456789012:{queue}"}
        for place in range(4)
    ]
    for made, group in zip(records, groups, strict=True):
        made["attributes"] = {**made["attributes"], "MessageGroupId": group}
    records[1]["body"] = BROKEN
    at.handler.together = together
    answer = at.handler({"Records": records})["batchItemFailures"]
    assert sorted(named["itemIdentifier"] for named in answer) == [message_id(place) for place in left]
    handled = sorted(request_id for _, request_id, _ in at.script.handled)
    assert handled == [f"r-{place}" for place in (0, 2, 3) if place not in left]
    assert at.told(EventType.RETURNED) == len(set(left) - {1})


@pytest.mark.parametrize(("queue", "left"), [("price-order.fifo", [0, 1]), ("price-order", [0])])
@pytest.mark.parametrize("changes", [{"messageAttributes": "no map"}, {"body": BROKEN}])
def test_one_in_a_fifo_group_whose_attributes_are_unreadable_holds_it_too(
    changes: dict[str, Any], queue: str, left: list[int], at: Scene
) -> None:
    records = [
        record(at.order(f"o{place}", request_id=RequestId(f"r-{place}")), place)
        | {"eventSourceARN": f"arn:aws:sqs:eu-west-1:123456789012:{queue}"}
        for place in range(3)
    ]
    for made, its_group in zip(records, ("red", "red", "blue"), strict=True):
        made["attributes"] = {**made["attributes"], "MessageGroupId": its_group}
    records[0] |= changes
    answer = at.handler({"Records": records})["batchItemFailures"]
    assert sorted(named["itemIdentifier"] for named in answer) == [message_id(place) for place in left]


def test_one_in_a_fifo_group_that_was_parked_holds_nothing(at: Scene) -> None:
    made = [("red", 3), ("red", 1), ("blue", 1), ("blue", 1)]
    records = [
        record(at.order(f"o{place}", request_id=RequestId(f"r-{place}")), place, receives)
        | {"eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:price-order.fifo"}
        for place, (_, receives) in enumerate(made)
    ]
    for place, (group, _) in enumerate(made):
        records[place]["attributes"] = {**records[place]["attributes"], "MessageGroupId": group}
        records[place] |= {"body": BROKEN} if place in (0, 2) else {}
    answer = at.handler({"Records": records})["batchItemFailures"]
    assert sorted(named["itemIdentifier"] for named in answer) == [message_id(2), message_id(3)]
    assert [request_id for _, request_id, _ in at.script.handled] == ["r-1"]


def test_dead_letters_in_order_take_each_in_a_group_of_its_own(at: Scene) -> None:
    at.flow.dead_letters = Queue("dead.fifo")
    at.aws.create_queue("dead.fifo", FifoQueue="true")
    for place in range(2):
        found = unreadable(at, 3) | {"messageId": message_id(place)}
        assert at.handler({"Records": [found]}) == {"batchItemFailures": []}
    letters = at.sent("dead.fifo")
    assert len({letter["Attributes"]["MessageGroupId"] for letter in letters}) == len(letters) == 2


def test_it_stays_where_the_dead_letters_do_not_take_it(at: Scene) -> None:
    with intercept(refuses("dead")):
        assert at.handler({"Records": [unreadable(at, 3)]})["batchItemFailures"]
    assert (at.told(EventType.NOT_SENT), at.told(EventType.PARKED)) == (1, 0)


def test_one_that_is_too_large_to_be_wrapped_is_parked_as_it_came(at: Scene) -> None:
    """With its attributes SQS takes no more: nothing can be added."""
    found = unroutable(at, 3)
    letter = sent_with(found, body="x")
    body = "x" * (1_048_576 - letter.size + 1)
    assert at.handler({"Records": [found | {"body": body}]}) == {"batchItemFailures": []}
    [lying] = at.sent("dead")
    assert (lying["Body"] == body, lying["MessageAttributes"].keys()) == (True, found["messageAttributes"].keys())
    assert at.told(EventType.PARKED) == 1


def sent_with(found: dict[str, Any], body: str) -> Send:
    attributes = read_attributes(found["messageAttributes"], Attribute.of_sqs_record, "record", "messageAttributes")
    return Send(Kind.SIDE, Queue("any"), body, "any", attributes)


def test_what_the_dead_letters_never_take_stays_and_is_told_of(at: Scene) -> None:
    at.flow.dead_letters = Topic("arn:aws:sns:eu-west-1:123456789012:dead")
    found = unroutable(at, 3) | {"body": "x" * 300_000}
    assert at.handler({"Records": [found]})["batchItemFailures"]
    [refused] = [event for event in at.tally.events if event.type is EventType.NOT_SENT]
    assert "is too large" in refused.facts["why"]
    assert at.told(EventType.PARKED) == 0


def test_what_no_queue_brings_again_is_answered_as_an_error(at: Scene) -> None:
    found = unreadable(at, 3)
    del found["eventSourceARN"]
    assert at.handler({"Records": [found]})["batchItemFailures"]
    assert at.sent("dead") == []
