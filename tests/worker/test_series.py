"""Records that are ordered by their places, where their times say nothing or the contrary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import IGNORE, Done, Flow, Outcome, Queue, Reject, Stage, Step, lambda_handler
from flowguard.events import EventType
from flowguard.flow import AnyFlow
from flowguard.handler import dlq_handler
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.series import LARGEST_DISORDER
from flowguard.retry import Fixed, RetryPolicy
from flowguard.sim.calls import Recorder, intercept
from flowguard.testing import bus_event, dynamodb_event, kinesis_event, sqs_event
from flowguard.wire.message import REQUEST_ID, Message
from tests.scene import START, Scene, record, scene
from tests.worker.runtime.mishaps import Died, boom, die
from tests.worker.runtime.test_given_up import at_once

ACKED: dict[str, Any] = {"batchItemFailures": []}
SECOND = START - 2_000
A_MINUTE = int(LARGEST_DISORDER.total_seconds() * 1_000)


class Keys(BaseModel):
    sku: str


class Stored(BaseModel):
    sku: str
    left: int


class Change(BaseModel):
    keys: Keys
    new: Stored


class Mirror(Stage[Change], name="mirror", inbox=Queue("price-order"), retry=RetryPolicy(attempts=3, backoff=Fixed(0))):
    """Keeps a copy of what a table has."""

    happens: Callable[[Any], object] = staticmethod(lambda step: None)

    def handle(self, change: Change, step: Step) -> Outcome:
        self.happens(step)
        step.put("orders", {"id": change.keys.sku, "left": change.new.left})
        return Done()


class Stock(Flow, name="stock", object_id="keys.sku", dead_letters="dead"):
    stages = (Mirror,)


class FirstOfAll(Flow, name="stock", object_id="keys.sku", dead_letters="dead", on_conflict=IGNORE):
    stages = (Mirror,)


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_happens() -> Iterator[None]:
    yield
    happens(lambda step: None)


def happens(what: Callable[[Any], object]) -> None:
    Mirror.happens = staticmethod(what)


def change(left: int, place: int, at: int = SECOND, sku: str = "tea") -> dict[str, Any]:
    """The change of an item that leaves so many."""
    key = {"sku": {"S": sku}}
    image = {**key, "left": {"N": str(left)}}
    made = dynamodb_event("stock", key, image, image, sequence=str(place), event_id=f"e-{place}", changed_at=at)
    record: dict[str, Any] = made["Records"][0]
    return record


def told(left: int, place: int, at: int, shard: int = 0) -> dict[str, Any]:
    """The same as a record of Kinesis."""
    data = Change(keys=Keys(sku="tea"), new=Stored(sku="tea", left=left))
    made = kinesis_event("stock", data, sequence=str(place), shard=f"shardId-{shard:012}", arrived_at=at)
    record: dict[str, Any] = made["Records"][0]
    return record


def of_bucket(size: int, sequencer: str) -> dict[str, Any]:
    """An event of S3 in a queue. EventBridge gives each copy an id of its own."""
    detail = {"bucket": {"name": "files"}, "object": {"key": "tea.csv", "size": size, "sequencer": sequencer}}
    event_id = f"00000000-0000-4000-8000-{size:012d}"
    made = bus_event(detail, source="aws.s3", detail_type="Object Created", event_id=event_id, time=SECOND)
    record: dict[str, Any] = sqs_event("price-order", made, sent_at=START)["Records"][0]
    return record


def stock(at: Scene, flow: AnyFlow = Stock, **more: Any) -> Any:
    return lambda_handler(flow, **more).using(at.handler._services)


def mirrored(at: Scene) -> int:
    row = at.aws.client("dynamodb").get_item(TableName="orders", Key={"id": {"S": "tea"}})
    return int(row["Item"]["left"]["N"])


def back(at: Scene) -> dict[str, Any]:
    """The record in which a message comes back from the stage's queue."""
    [message] = at.sent("price-order")
    return {**message, "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:price-order"}


def time_of_item(at: Scene) -> int:
    key = {"pk": {"S": "run#stock#tea"}, "sk": {"S": "run"}}
    row = at.aws.client("dynamodb").get_item(TableName="flowguard", Key=key)
    return int(row["Item"]["requested_at"]["N"])


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("lease", [False, True])
def test_of_the_changes_of_an_item_in_one_second_the_last_stays(
    at: Scene, together: bool, lease: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Mirror, "lease", lease)
    handler = stock(at, together=together)
    assert handler({"Records": [change(3, 9), change(2, 10), change(1, 11)]}) == ACKED
    assert mirrored(at) == 1
    assert handler({"Records": [change(0, 12)]}) == ACKED
    assert mirrored(at) == 0, "in the next batch, too"


def test_one_that_comes_late_or_again_takes_nothing_back(at: Scene) -> None:
    handler = stock(at)
    for place in (1, 2, 4):
        assert handler({"Records": [change(10 - place, place)]}) == ACKED
    for place in (3, 1, 2, 4, 3):
        with intercept(Recorder()) as calls:
            assert handler({"Records": [change(10 - place, place)]}) == ACKED
        assert calls.count("dynamodb") == 1
    assert mirrored(at) == 6


def test_times_in_the_item_never_go_back(at: Scene) -> None:
    handler, times = stock(at), []
    for place, moment in enumerate([START - 500, START - 900, START - 501, START - 500, START - 100]):
        assert handler({"Records": [told(place, place + 1, moment)]}) == ACKED
        times.append(time_of_item(at) - START)
    assert times == [-500, -499, -498, -497, -100]
    assert mirrored(at) == 4


def test_a_record_that_got_a_later_time_is_not_lost_with_its_worker(at: Scene) -> None:
    handler = stock(at)
    assert handler({"Records": [change(9, 1)]}) == ACKED
    happens(die)
    with pytest.raises(Died):
        handler({"Records": [change(8, 2)]})
    happens(lambda step: None)
    assert handler({"Records": [change(8, 2)]})["batchItemFailures"], "its worker may live"
    at.clock.advance(seconds=3_600)
    assert handler({"Records": [change(8, 2)]}) == ACKED
    assert mirrored(at) == 8


def refuse(step: Any) -> None:
    raise Reject("not this one")


@pytest.mark.parametrize("later", [0, 1])
def test_a_letter_that_is_sent_back_is_carried_out_with_either_time(at: Scene, later: int) -> None:
    """A copy that SQS gave up has the record's time, the letter of the run that has failed the one that it got."""
    handler = stock(at)
    assert handler({"Records": [change(9, 1)]}) == ACKED
    happens(refuse)
    assert handler({"Records": [change(8, 2)]}) == ACKED
    happens(lambda step: None)
    [letter] = at.sent("dead")
    named, tea = RequestId(letter["MessageAttributes"][REQUEST_ID]["StringValue"]), ObjectId("tea")
    sent_back = Message("stock", "mirror", 1, tea, named, SECOND + later, letter["Body"], redrive=1)
    arn = "arn:aws:sqs:eu-west-1:123456789012:price-order"
    assert handler({"Records": [{**record(sent_back), "eventSourceARN": arn}]}) == ACKED
    assert mirrored(at) == 8


def test_nor_is_one_that_sqs_has_given_up(at: Scene) -> None:
    """Its queue's last receive was that of the worker that died: the function of the dead-letter queue has it next."""
    handler, flow = stock(at, Files), dlq_handler(Files).using(at.handler._services)
    assert handler({"Records": [of_bucket(1, "0A")]}) == ACKED
    happens(die)
    with pytest.raises(Died):
        handler({"Records": [of_bucket(2, "0B")]})
    happens(lambda step: None)
    at.clock.advance(seconds=3_600)
    with intercept(at_once):
        assert flow({"Records": [of_bucket(2, "0B")]}) == ACKED
    assert handler({"Records": [back(at)]}) == ACKED
    assert mirrored(at) == 2


def test_its_retry_is_behind_what_it_was_behind_and_before_what_came_since(at: Scene) -> None:
    handler = stock(at)
    assert handler({"Records": [change(9, 1)]}) == ACKED
    happens(boom)
    assert handler({"Records": [change(8, 2)]}) == ACKED
    happens(lambda step: None)
    retried = back(at)
    assert handler({"Records": [retried]}) == ACKED
    assert mirrored(at) == 8
    assert handler({"Records": [change(7, 3)]}) == ACKED
    assert handler({"Records": [retried]}) == ACKED
    assert mirrored(at) == 7


def test_a_retry_that_was_overtaken_in_its_own_second_is_stale(at: Scene) -> None:
    handler = stock(at)
    happens(boom)
    assert handler({"Records": [change(9, 1)]}) == ACKED
    happens(lambda step: None)
    assert handler({"Records": [change(8, 2)]}) == ACKED
    assert handler({"Records": [back(at)]}) == ACKED
    assert mirrored(at) == 8


@pytest.mark.parametrize(("behind", "stays"), [(A_MINUTE - 1, 8), (A_MINUTE, 9)])
def test_beyond_a_minute_the_times_count(at: Scene, behind: int, stays: int) -> None:
    handler = stock(at)
    assert handler({"Records": [told(9, 1, START - 1), told(8, 2, START - 1 - behind)]}) == ACKED
    assert mirrored(at) == stays


def test_nothing_orders_records_of_two_shards_but_their_times(at: Scene) -> None:
    handler = stock(at)
    assert handler({"Records": [told(9, 1, START - 1), told(8, 2, START - 1, shard=1)]}) == ACKED
    assert mirrored(at) == 9, "the first keeps the object"
    assert at.told(EventType.STALE) == 1


def test_what_a_flow_ignores_it_ignores_whatever_the_order(at: Scene) -> None:
    happens(die)
    with pytest.raises(Died):
        stock(at, FirstOfAll)({"Records": [change(9, 1)]})
    happens(lambda step: None)
    assert stock(at, FirstOfAll)({"Records": [change(8, 2)]}) == ACKED
    assert at.told(EventType.IGNORED) == 1


class Object(BaseModel):
    key: str
    size: int


class Put(BaseModel):
    object: Object


class Note(Stage[Put], name="note", inbox=Queue("price-order")):
    def handle(self, put: Put, step: Step) -> Outcome:
        Mirror.happens(step)
        step.put("orders", {"id": "tea", "left": put.object.size})
        return Done()


class Files(Flow, name="files", object_id="object.key"):
    stages = (Note,)


def test_of_the_puts_of_an_object_in_one_second_the_last_stays_in_whatever_order_they_come(at: Scene) -> None:
    handler = stock(at, Files)
    for size, sequencer in ((1, "0A"), (3, "0B1"), (2, "0B"), (1, "0A"), (3, "0B1")):
        assert handler({"Records": [of_bucket(size, sequencer)]}) == ACKED
    assert mirrored(at) == 3


def test_a_copy_of_what_is_done_costs_one_call_also_where_its_time_was_raised(at: Scene) -> None:
    handler = stock(at)
    assert handler({"Records": [change(9, 1), change(8, 2)]}) == ACKED
    with intercept(Recorder()) as calls:
        assert handler({"Records": [change(8, 2)]}) == ACKED
    assert calls.count("dynamodb") == 1


def test_a_tie_costs_one_call_more(at: Scene) -> None:
    handler = stock(at)
    assert handler({"Records": [change(9, 1)]}) == ACKED
    with intercept(Recorder()) as calls:
        assert handler({"Records": [change(8, 2)]}) == ACKED
    assert calls.count("dynamodb") == 3
