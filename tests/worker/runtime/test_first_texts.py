"""The message that first gets a run is carried out: no other payload under its id comes in while its stage fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.events import EventType
from flowguard.flow import ATTACH, AnyFlow, Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.run import Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import Message
from tests.aws.engines import same_clients
from tests.scene import START, Scene, Script, scene, two_stages
from tests.worker.runtime.mishaps import Died, boom, dies_at

HERS = '{"order_id":"o1","note":"hers"}'
HIS = '{"order_id":"o1","note":"his"}'


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        found.script.pricing = boom
        yield found


def fails(at: Scene, message: Message) -> Any:
    """Let the first attempt fail, and return its retry as the function has sent it."""

    def at_once(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch":
            for entry in call.params["Entries"]:
                entry["DelaySeconds"] = 0
        return proceed()

    with intercept(at_once):
        assert at.deliver(message) == [True]
    [again] = at.sent("price-order")
    at.script.pricing = lambda step: None
    at.clock.advance(seconds=31)
    return again


def retries(at: Scene, again: Any) -> bool:
    return not at.handler({"Messages": [again]})["batchItemFailures"]


FORGED: dict[str, Callable[[Scene], Message]] = {
    "another payload": lambda at: at.message(body=HIS),
    "at a later time": lambda at: at.message(body=HIS, requested_at=START),
    "somebody else to tell": lambda at: at.message(body=HERS, reply_to="sqs:completed"),
    "nobody to tell": lambda at: at.message(body=HERS),
    "deep in a chain": lambda at: at.message(body=HERS, reply_to="sqs:emails", depth=at.flow.max_depth),
}


@pytest.mark.parametrize("forged", FORGED)
def test_while_the_first_attempt_has_failed_no_other_text_is_the_next_one(at: Scene, forged: str) -> None:
    hers = at.message(body=HERS, reply_to="sqs:emails")
    again = fails(at, hers)
    assert at.deliver(FORGED[forged](at)) == [True], "a copy, as it is once the stage has committed"
    assert (at.priced(), at.told(EventType.DUPLICATE), len(at.script.handled)) == (0, 1, 1)
    assert retries(at, again)
    [onward] = at.sent("close-order")
    assert json.loads(onward["MessageAttributes"]["flowguard"]["StringValue"])["reply_to"] == "sqs:emails"
    assert (at.priced(), onward["Body"]) == (1, '{"total":7}')


@pytest.mark.parametrize("operation", ["UpdateItem", "TransactWriteItems"])
def test_where_its_worker_died_the_text_that_came_first_is_carried_out(at: Scene, operation: str) -> None:
    at.script.pricing = lambda step: None
    with intercept(dies_at(operation, after=operation == "UpdateItem")), pytest.raises(Died):
        at.deliver(at.message(body=HERS))
    at.clock.advance(seconds=31)
    assert at.deliver(at.message(body=HIS)) == [True]
    assert at.priced() == 0
    assert at.deliver(at.message(body=HERS)) == [True]
    assert at.priced() == 1


def test_a_forged_message_that_is_quicker_than_the_retry_does_not_end_the_run(at: Scene) -> None:
    again = fails(at, at.message(body=HERS))
    for _ in range(5):
        at.clock.advance(seconds=31)
        assert at.deliver(at.message(body=HIS, requested_at=START)) == [True]
    assert retries(at, again)
    item = at.item()
    assert item is not None
    assert (item.status, item.requested_at, at.priced()) == (Status.RUNNING, START - 1_000, 1)


def test_a_request_that_says_it_comes_after_a_wait_is_a_request(at: Scene) -> None:
    """No wait is there, and a run is not to fail because somebody says that there was one."""
    fails(at, at.message(body=HERS))
    assert at.deliver(at.message(body=HERS, resumed=True)) == [True]
    item = at.item()
    assert item is not None
    assert (item.status, at.priced()) == (Status.RUNNING, 1)


def test_its_own_text_may_come_again_with_a_later_time(at: Scene) -> None:
    fails(at, at.message(body=HERS))
    assert at.deliver(at.message(body=HERS, requested_at=START)) == [True]
    assert at.priced() == 1


def test_another_request_that_takes_over_brings_its_own_text(at: Scene) -> None:
    fails(at, at.message(body=HERS))
    assert at.deliver(at.newer(body=HIS)) == [True]
    item = at.item()
    assert item is not None
    assert (item.request_id, at.priced()) == ("run-2", 1)


def test_what_has_failed_for_good_goes_back_with_its_own_text(at: Scene) -> None:
    for retry in range(3):
        at.deliver(at.message(body=HERS, retry=retry))
    at.script.pricing = lambda step: None
    assert at.deliver(at.message(body=HIS)) == [True]
    assert at.deliver(at.message(body=HERS, redrive=1)) == [True]
    assert at.priced() == 1


def keyed(script: Script) -> AnyFlow:
    class Keyed(Flow, name="orders", object_id="order_id", request_id="order_id", dead_letters="dead"):
        stages = two_stages(script)

    return Keyed


def test_a_key_read_from_the_payload_is_of_the_text_that_came_first() -> None:
    with scene(keyed) as at:
        at.script.pricing = boom
        mine = at.message(body=HERS, request_id=RequestId("o1"))
        again = fails(at, mine)
        assert at.deliver(at.message(body=HIS, request_id=RequestId("o1"), requested_at=START)) == [True]
        assert at.priced() == 0
        assert retries(at, again)
        assert at.priced() == 1


def test_an_item_of_a_release_that_noted_no_text_is_taken_by_whatever_text(at: Scene) -> None:
    fails(at, at.message(body=HERS))
    at.aws.client("dynamodb").update_item(
        TableName="flowguard",
        Key=_key(at),
        UpdateExpression="SET epoch = epoch + :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
    )
    assert at.deliver(at.message(body=HIS)) == [True]
    assert at.priced() == 1


def test_the_item_holds_the_text_until_its_stage_has_committed(at: Scene) -> None:
    fails(at, at.message(body=HERS))
    assert _stored(at)["first_text"] == {"S": at.message(body=HERS).text_digest}
    assert at.deliver(at.message(body=HERS, retry=1)) == [True]
    assert {"first_text", "text_epoch"} & set(_stored(at)) == set()


def _key(at: Scene) -> Any:
    return {name: _stored(at)[name] for name in ("pk", "sk")}


def _stored(at: Scene) -> Any:
    found: Any = at.aws.client("dynamodb").scan(TableName="flowguard")["Items"]
    [item] = [one for one in found if one["sk"]["S"] == "run"]
    return item


def shared(script: Script) -> AnyFlow:
    class Shared(Flow, name="orders", object_id="order_id", on_conflict=ATTACH, dead_letters="dead"):
        stages = two_stages(script)

    return Shared


def store_of(at: Scene) -> DynamoDBStore:
    return aws_store(Settings(), same_clients())


FENCES: dict[str, Callable[[Scene], object]] = {
    "cancelled": lambda at: store_of(at).cancellations.cancel(
        "orders", ObjectId("o1"), START, "no more", at.clock.now()
    ),
    "reset": lambda at: store_of(at).callers.reset("orders", ObjectId("o1"), "reset-1", START, at.clock.now()),
}


@pytest.mark.parametrize("fence", FENCES)
def test_after_its_run_was_fenced_no_other_text_ends_it_or_is_told_in_its_place(fence: str) -> None:
    with scene(shared) as at:
        at.script.pricing = boom
        hers = at.message(body=HERS, reply_to="sqs:emails")
        again = fails(at, hers)
        assert FENCES[fence](at) is not None
        for forged in ("another payload", "somebody else to tell", "nobody to tell"):
            assert at.deliver(FORGED[forged](at)) == [True]
        assert (at.told(EventType.DUPLICATE), at.sent("completed"), at.priced()) == (3, [], 0)
        assert at.told(EventType.CLAIMED) == 1
        assert retries(at, again)
        assert at.told(EventType.CLAIMED) == 2, "the next attempt of the text that came first"


def test_a_reset_keeps_a_text_only_where_one_has_the_hop(at: Scene) -> None:
    """The number stays behind the epoch for good where no text is there."""
    at.script.pricing = lambda step: None
    at.deliver(at.message(body=HERS))
    for number in (1, 2):
        assert store_of(at).callers.reset("orders", ObjectId("o1"), f"reset-{number}", START, START)
        stored = _stored(at)
        assert int(stored["text_epoch"]["N"]) < int(stored["epoch"]["N"])


# -- what tells one text from another


def test_a_text_is_its_stage_its_payload_its_depth_and_who_is_told() -> None:
    hers = Message("orders", "price-order", 1, ObjectId("o1"), RequestId("run-1"), START, HERS, reply_to="sqs:emails")
    same = (
        hers._replace(retry=2, redrive=1),
        hers._replace(requested_at=START + 5),
        hers._replace(carried={"x": Attribute("String", "1")}),
    )
    others = (
        hers._replace(body=HIS),
        hers._replace(body=f"{HERS} "),
        hers._replace(stage="close-order"),
        hers._replace(reply_to=None),
        hers._replace(reply_to="sqs:emails "),
        hers._replace(answer_to="a"),
        hers._replace(depth=9),
        hers._replace(depth=10),
        hers._replace(reply_to=None, answer_to="sqs:emails"),
    )
    assert {one.text_digest for one in same} == {hers.text_digest}
    assert len({one.text_digest for one in (hers, *others)}) == len(others) + 1


def test_the_text_of_a_request_that_began_its_chain_is_what_earlier_releases_wrote() -> None:
    hers = Message("orders", "price-order", 1, ObjectId("o1"), RequestId("run-1"), START, HERS)
    assert hers.text_digest == "4246cc0683f418013bfaa686424bc424"
