"""Records of streams: what fails is tried again in the flow's own queue, and the stream goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard import PER_REQUEST, Done, Outcome, Stage, Step
from flowguard.callback import Callback
from flowguard.destinations import Queue, Topic
from flowguard.errors import NotProcessed, Reject, Untrusted
from flowguard.events import EventType
from flowguard.flow import Flow
from flowguard.handler import lambda_handler
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.run import Status
from flowguard.protocol.run_orders import CancelOrder
from flowguard.retry import Fixed, RetryPolicy
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.testing import dynamodb_event, kinesis_event, sns_event
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import PLACE, REQUEST_ID, REQUESTED_AT
from flowguard.wire.send_ids import digest_of
from flowguard.worker.denials import Denials
from flowguard.worker.kills import MOST_KILLS
from flowguard.worker.record_sources import BELIEVED, Channel, NamedQueues, RecordKind
from flowguard.worker.routing import Routes
from flowguard.worker.trust import Trust
from tests.scene import START, Order, Scene, Script, scene, two_stages
from tests.worker.runtime.mishaps import Died, boom, die

ACKED: dict[str, Any] = {"batchItemFailures": []}
QUEUES = "arn:aws:sqs:eu-west-1:123456789012"
STREAM = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as made:
        yield made


def stream_record(object_id: str = "o1", place: int = 0, data: bytes | None = None, **more: Any) -> dict[str, Any]:
    payload = Order(order_id=object_id) if data is None else data
    made = {"sequence": f"4959033827149025{place:04d}", "arrived_at": START - 1_000, **more}
    record: dict[str, Any] = kinesis_event("orders", payload, **made)["Records"][0]
    return record


def failed(*places: int) -> dict[str, Any]:
    return {"batchItemFailures": [{"itemIdentifier": f"4959033827149025{place:04d}"} for place in places]}


def request_id(place: int = 0) -> str:
    return f"{STREAM}:shardId-000000000000;place=020.4959033827149025{place:04d}"


def back(at: Scene, queue: str = "price-order") -> dict[str, Any]:
    """The record in which a message comes back from its stage's queue."""
    [message] = at.sent(queue)
    return {**message, "eventSourceARN": f"arn:aws:sqs:eu-west-1:123456789012:{queue}"}


def envelope(record: dict[str, Any]) -> Envelope:
    [read] = normalize([record])
    assert isinstance(read, Envelope)
    return read


def test_a_record_begins_a_run_of_its_own_id_and_time(at: Scene) -> None:
    assert at.handler({"Records": [stream_record()]}) == ACKED
    item = at.item()
    assert item is not None
    assert (item.request_id, item.requested_at) == (request_id(), START - 1_000)
    assert at.priced() == 1


def test_what_comes_again_behind_a_failure_is_done_with_one_call_each(at: Scene) -> None:
    records = [stream_record(f"o{place}", place) for place in range(1, 4)]
    records[0] = stream_record("o1", 1, b"\xff")
    assert at.handler({"Records": records}) == failed(1)
    handled = len(at.script.handled)
    with intercept(Recorder()) as calls:
        assert at.handler({"Records": records}) == failed(1)
    assert len(at.script.handled) == handled == 2
    assert calls.count("dynamodb") == 2, "one for each that was done"


def test_what_fails_in_its_stage_is_tried_again_in_the_stages_queue_as_the_same_request(at: Scene) -> None:
    at.script.pricing = boom
    at.flow.entry().retry = RetryPolicy(attempts=3, backoff=Fixed(0))
    assert at.handler({"Records": [stream_record()]}) == ACKED
    assert at.told(EventType.RETRIED) == 1
    at.script.pricing = lambda step: None
    assert at.handler({"Messages": [back(at)]}) == ACKED
    item = at.item()
    assert item is not None
    assert (item.request_id, item.requested_at, item.retry) == (request_id(), START - 1_000, 1)
    assert at.handler({"Records": [stream_record()]}) == ACKED, "the record itself is a duplicate"
    assert at.priced() == 1


@pytest.mark.parametrize("delay", [20, 90])
def test_one_that_failed_behind_a_record_that_stays_is_a_duplicate_until_its_retry_comes(delay: int, at: Scene) -> None:
    at.script.pricing = boom
    at.flow.entry().retry = RetryPolicy(attempts=3, backoff=Fixed(delay), jitter=0)
    records = [stream_record("o9", 1, arrived_at=START + 1_800_000), stream_record("o1", 2)]
    for _ in range(2 * MOST_KILLS):
        assert at.handler({"Records": records}) == failed(1)
        at.clock.advance(seconds=60)
        records[0] = stream_record("o9", 1, arrived_at=at.clock.now() + 1_800_000)
    item = at.item()
    assert item is not None
    assert (len(at.script.handled), item.retry, item.status) == (1, 1, Status.RUNNING)
    assert item.back_off is not None
    assert item.back_off.until == START + delay * 1000


def test_a_retry_that_cannot_be_counted_is_under_way_all_the_same(at: Scene) -> None:
    at.script.pricing = boom
    at.flow.entry().retry = RetryPolicy(attempts=3, backoff=Fixed(0))

    def refused(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateItem" and at.told(EventType.RETRIED):
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, call.operation)
        return proceed()

    with intercept(refused):
        assert at.handler({"Records": [stream_record()]}) == ACKED
    assert len(at.sent("price-order")) == 1


def test_a_retry_goes_to_a_fifo_queue_in_the_group_of_its_object(at: Scene) -> None:
    at.aws.create_queue("price-order.fifo", FifoQueue="true")
    at.flow.entry().inbox = Queue("price-order.fifo")
    at.script.pricing = boom
    assert at.handler({"Records": [stream_record()]}) == ACKED
    [message] = at.sent("price-order.fifo")
    assert message["Attributes"]["MessageGroupId"] == "o1"


def test_a_request_that_is_rejected_is_parked_and_the_stream_goes_on(at: Scene) -> None:
    def reject(step: Any) -> None:
        raise Reject("no such order")

    at.script.pricing = reject
    assert at.handler({"Records": [stream_record()]}) == ACKED
    assert len(at.sent("dead")) == 1


def test_a_record_that_kills_its_function_each_time_does_not_do_so_for_ever(at: Scene) -> None:
    at.script.pricing = die
    for _ in range(MOST_KILLS):
        with pytest.raises(Died):
            at.handler({"Records": [stream_record()]})
        at.clock.advance(seconds=3_600)
    assert at.handler({"Records": [stream_record()]}) == ACKED
    item = at.item()
    assert item is not None
    assert item.status is Status.FAILED
    assert len(at.sent("dead")) == 1


def test_a_record_whose_worker_may_live_waits_with_its_stream(at: Scene) -> None:
    at.script.pricing = die
    with pytest.raises(Died):
        at.handler({"Records": [stream_record()]})
    assert at.handler({"Records": [stream_record()]}) == failed(0)


def test_an_outage_leaves_all_records_to_the_stream(at: Scene) -> None:
    def down(call: Any, proceed: Any) -> Any:
        raise TimeoutError("no answer")

    with intercept(down):
        assert at.handler({"Records": [stream_record("o1", 0), stream_record("o2", 1)]}) == failed(0, 1)
    assert at.handler({"Records": [stream_record("o1", 0), stream_record("o2", 1)]}) == ACKED
    assert at.sent("price-order") == []


# -- poison ------------------------------------------------------------------------------------------------------------


def test_what_cannot_be_read_holds_up_its_stream_for_minutes_and_is_parked_whole(at: Scene) -> None:
    poison = stream_record(data=b"\xff")
    assert at.handler({"Records": [poison]}) == failed(0)
    at.clock.advance(seconds=199)
    assert at.handler({"Records": [poison]}) == failed(0)
    at.clock.advance(seconds=1)
    assert at.handler({"Records": [poison]}) == ACKED
    [letter] = at.sent("dead")
    assert json.loads(letter["Body"]) == poison


def test_the_next_record_of_its_stream_that_nobody_can_take_holds_up_nothing_more(at: Scene) -> None:
    poison = [stream_record(place=place, data=b"\xf3\x89\x9a\xc2\x0a") for place in range(3)]
    others = stream_record("o9", 9)
    assert at.handler({"Records": [*poison, others]}) == failed(0, 1, 2)
    at.clock.advance(seconds=200)
    assert at.handler({"Records": [*poison, others]}) == ACKED
    assert len(at.sent("dead")) == 3
    elsewhere = stream_record(data=b"\xff") | {"eventSourceARN": f"{STREAM}-2"}
    assert at.handler({"Records": [elsewhere]}) == failed(0), "another stream has a patience of its own"


def left_in_stream(at: Scene) -> Any:
    [letter] = at.sent("dead")
    assert letter.get("MessageAttributes", {}) == {}
    return json.loads(letter["Body"])["leftInStream"]


def test_what_cannot_be_read_and_fits_into_no_letter_leaves_its_place_there_and_holds_up_nothing(at: Scene) -> None:
    poison = stream_record(data=b"\xff" * 1_000_000)
    assert at.handler({"Records": [poison]}) == failed(0)
    at.clock.advance(seconds=200)
    assert at.handler({"Records": [poison]}) == ACKED
    letter = left_in_stream(at)
    assert (letter["record"], letter["stream"]) == (poison["kinesis"]["sequenceNumber"], STREAM)
    assert letter["why"] == "its letter would have 1,333,790 bytes, which sqs:dead does not take"


@pytest.mark.parametrize("payload", [{"order_id": "o1", "note": "x" * 2_000_000}, {"note": "x" * 2_000_000}])
def test_a_record_above_what_a_queue_takes_ends_at_its_first_failure_with_its_place_as_the_letter(
    at: Scene, payload: dict[str, str]
) -> None:
    at.script.pricing = boom
    assert at.handler({"Records": [stream_record(data=json.dumps(payload).encode())]}) == ACKED
    assert at.sent("price-order") == []
    letter = left_in_stream(at)
    assert (letter["record"], letter["at"]) == (request_id(), START - 1_000)


def test_one_above_it_that_nothing_keeps_from_its_work_is_done(at: Scene) -> None:
    large = json.dumps({"order_id": "o1", "note": "x" * 9_000_000}).encode()
    assert at.handler({"Records": [stream_record(data=large)]}) == ACKED
    assert (at.priced(), at.sent("dead")) == (1, [])


def test_an_event_of_a_window_fails_whole_and_touches_nothing(at: Scene) -> None:
    event = {"Records": [stream_record()], "window": {}, "isFinalInvokeForWindow": False}
    with pytest.raises(NotProcessed, match="its mapping gathers windows and wants a state back"):
        at.handler(event)
    assert at.item() is None


def test_what_comes_of_a_parent_shard_behind_its_children_takes_no_object_back(at: Scene) -> None:
    child = stream_record(shard="shardId-000000000001", arrived_at=START - 500)
    assert at.handler({"Records": [child]}) == ACKED
    handled = len(at.script.handled)
    with intercept(Recorder()) as calls:
        assert at.handler({"Records": [stream_record(arrived_at=START - 900)]}) == ACKED
    assert (len(at.script.handled), calls.count("dynamodb")) == (handled, 1)
    item = at.item()
    assert item is not None
    assert item.requested_at == START - 500


def test_two_streams_feed_one_flow_as_different_requests(at: Scene) -> None:
    other = stream_record("o2") | {"eventSourceARN": f"{STREAM}-2"}
    assert at.handler({"Records": [stream_record(), other]}) == ACKED
    first, second = at.item(), at.item("o2")
    assert first is not None
    assert second is not None
    assert (first.request_id, second.request_id) == (request_id(), request_id().replace(STREAM, f"{STREAM}-2"))


def test_a_batch_for_which_the_time_is_too_short_goes_on_from_the_first_that_is_left(at: Scene) -> None:
    def slow(step: Any) -> None:
        at.clock.advance(seconds=40)

    at.script.pricing = slow
    records = [stream_record(f"o{place}", place) for place in range(4)]
    began = at.clock.now()
    ends = began + 100_000
    context = LambdaContext(lambda: ends - at.clock.now())
    left = at.handler({"Records": records}, context)["batchItemFailures"]
    places = [int(each["itemIdentifier"][-4:]) for each in left]
    assert 0 < len(places) < 4
    assert places == list(range(4 - len(places), 4)), "what was done is behind the first that is left"


class LambdaContext:
    """What Lambda says of an invocation."""

    def __init__(self, remaining: Callable[[], int]) -> None:
        self.get_remaining_time_in_millis = remaining
        self.aws_request_id = "call-1"
        self.invoked_function_arn = "arn:aws:lambda:eu-west-1:123456789012:function:orders"


def test_a_record_of_long_ago_that_nobody_can_take_waits_for_minutes_as_any_other(at: Scene) -> None:
    """A first deployment reads a stream from its beginning, while its permissions settle."""
    old = stream_record(arrived_at=START - 86_400_000)
    with_two = lambda_handler(at.flow, Other).using(at.handler._services)
    assert with_two({"Records": [old]}) == failed(0)
    at.clock.advance(seconds=200)
    assert with_two({"Records": [old]}) == ACKED
    assert len(at.sent("dead")) == 1


class Other(Flow, name="others", object_id="order_id"):
    stages = two_stages(Script())


@pytest.mark.usefixtures("denied_for_minutes")
def test_of_several_flows_none_is_guessed_and_the_letter_is_still_the_same_request(at: Scene) -> None:
    with_two = lambda_handler(at.flow, Other).using(at.handler._services)
    records = [stream_record(), stream_record(shard="shardId-000000000001")]
    assert with_two({"Records": records}) == ACKED
    [why, _] = [event.facts["why"] for event in at.tally.events if event.type is EventType.UNROUTABLE]
    assert "a stream's record names no flow; give its function one flow" in why
    parked = [event.facts["id"] for event in at.tally.events if event.type is EventType.PARKED]
    assert len(set(parked)) == 2, "one place in two shards is two records"
    letter, _ = at.sent("dead")
    attributes = {name: given["StringValue"] for name, given in letter["MessageAttributes"].items()}
    assert attributes == {REQUEST_ID: request_id(), REQUESTED_AT: str(START - 1_000), PLACE: '{"weak":true}'}
    assert at.handler({"Messages": [letter]}) == ACKED
    item = at.item()
    assert item is not None
    assert (item.request_id, item.requested_at) == (request_id(), START - 1_000)


@pytest.mark.usefixtures("denied_for_minutes")
def test_what_a_queue_has_brought_is_parked_as_ever() -> None:
    """Its letter needs no id: SQS keeps that of the message."""
    with scene() as at:
        with_two = lambda_handler(at.flow, Other).using(at.handler._services)
        record = {"messageId": "m-1", "body": "{}", "eventSourceARN": f"{QUEUES}:elsewhere"}
        times = {"SentTimestamp": str(START), "ApproximateReceiveCount": "9"}
        assert with_two({"Records": [record | {"eventSource": "aws:sqs", "attributes": times}]}) == ACKED
        [letter] = at.sent("dead")
        assert letter.get("MessageAttributes", {}).keys() == set()
        [id_of_letter] = [event.facts["id"] for event in at.tally.events if event.type is EventType.PARKED]
        assert id_of_letter == f"{digest_of('m-1')}.unread"


@pytest.mark.usefixtures("denied_for_minutes")
def test_a_record_that_somebody_wrote_by_hand_may_lack_its_time(at: Scene) -> None:
    by_hand = {**envelope(stream_record()).record, "attributes": {}}
    by_hand["body"] = "no notification"
    with_two = lambda_handler(at.flow, Other).using(at.handler._services)
    assert with_two({"Records": [by_hand]}) == ACKED
    [letter] = at.sent("dead")
    assert letter.get("MessageAttributes", {}).keys() == set()


def test_what_was_refused_long_ago_is_final_for_a_record_that_has_come_once() -> None:
    denials, record = Denials(), envelope(stream_record(arrived_at=START))
    assert not denials.are_final("sqs:dead", record, START)
    assert not denials.are_final("sqs:dead", record, START + 199_000)
    assert denials.are_final("sqs:dead", record, START + 200_000)
    aged = timedelta(days=1) // timedelta(milliseconds=1)
    assert not Denials().are_final("sqs:dead", record, START + aged), "a stream may be read from its beginning"


# -- trust -------------------------------------------------------------------------------------------------------------


CLAIMS: list[dict[str, Any]] = [{"hop": 2, "stage": "close-order"}, {"retry": 1}, {"redrive": 1}, {"cancelled": "no"}]


@pytest.mark.parametrize("claims", CLAIMS)
def test_a_stream_brings_nothing_but_requests_whatever_its_record_says(at: Scene, claims: dict[str, Any]) -> None:
    said = attributes_to(Attribute.to_sqs_record, at.message(**claims).attributes())
    forged = {**envelope(stream_record()).record, "messageAttributes": said}
    assert at.handler({"Records": [forged]}) == failed(0)
    [why] = [event.facts["why"] for event in at.tally.events if event.type is EventType.UNTRUSTED]
    assert "came through a stream, and is believed only from" in why
    assert at.priced() == 0


def test_requests_alone_are_believed_from_a_stream(at: Scene) -> None:
    believed = {kind for kind, belief in BELIEVED.items() if Channel.STREAM in belief.origins}
    assert believed == {RecordKind.REQUEST}
    queues, record = NamedQueues([at.flow]), envelope(stream_record())
    for stage in (at.flow.entry(), None):
        assert queues.origins(record, at.flow, stage) == {Channel.STREAM}


def test_an_order_in_a_streams_record_is_not_believed(at: Scene) -> None:
    order = CancelOrder(AnswerAddress("orders", ObjectId("o1"), RequestId("r1"), START, 1, "cancel"), "no")
    with pytest.raises(Untrusted, match="came through a stream, and is believed only from the inbox of its stage"):
        Trust().check_order(envelope(stream_record()), at.flow, order, NamedQueues([at.flow]))


def test_what_a_topic_has_brought_is_said_to_come_through_a_topic(at: Scene) -> None:
    order = CancelOrder(AnswerAddress("orders", ObjectId("o1"), RequestId("r1"), START, 1, "cancel"), "no")
    [told] = normalize(sns_event("orders", Order(order_id="o1")))
    assert isinstance(told, Envelope)
    with pytest.raises(Untrusted, match="came through a topic, and is believed only from"):
        Trust().check_order(told, at.flow, order, NamedQueues([at.flow]))


def test_no_answer_from_outside_comes_through_a_stream(at: Scene) -> None:
    """It says nothing of its source, as the raw delivery of a topic: that would be the only callback's answer."""
    at.flow.callbacks = (Callback(Topic("arn:aws:sns:eu-west-1:123456789012:payments"), id="order_id"),)
    of_topic, of_stream = normalize(sns_event("orders", Order(order_id="o1"))), envelope(stream_record())
    assert isinstance(of_topic[0], Envelope)
    assert list(NamedQueues([at.flow]).callbacks_of(of_topic[0])) != []
    assert list(NamedQueues([at.flow]).callbacks_of(of_stream)) == []


def test_a_stage_without_a_lease_claims_what_a_stream_brings(at: Scene) -> None:
    at.flow.entry().lease = False
    arrival = Routes([at.flow]).resolve(envelope(stream_record()), START)
    assert arrival.takes_lease
    assert not arrival.weak_id


# -- the run items' own table


def own_change(table: str = "flowguard") -> dict[str, Any]:
    return dynamodb_event(table, {"pk": {"S": "orders#o1"}}, {"pk": {"S": "orders#o1"}})


@pytest.mark.parametrize("together", [False, True])
def test_a_change_of_the_run_items_own_table_is_acked_and_told_and_begins_nothing(together: bool, at: Scene) -> None:
    class TakeAll(Stage[dict[str, Any]], name="take-all", inbox="price-order"):
        def handle(self, change: dict[str, Any], step: Step) -> Outcome:
            return Done()

    class All(Flow, name="all", object_id=PER_REQUEST, dead_letters="dead"):
        stages = (TakeAll,)

    flow = lambda_handler(All, together=together).using(at.handler._services)
    several = {"Records": own_change()["Records"] * 2}
    with intercept(Recorder()) as calls:
        assert flow(several) == ACKED
    assert calls.calls == []
    assert [event.type for event in at.tally.events] == [EventType.OWN_TABLE] * 2
    assert flow(own_change("flowguard2")) == ACKED
    assert at.told(EventType.CLAIMED) == 1
    elsewhere = "arn:aws:dynamodb:eu-west-1:123456789012:table/flowguard2"
    services = at.handler._services._replace(run_table=elsewhere)
    assert lambda_handler(All).using(services)(own_change("flowguard2")) == ACKED
    assert lambda_handler(All).using(services._replace(run_table=None))(own_change()) == ACKED
    assert at.told(EventType.CLAIMED) == 2


def test_only_a_table_has_the_name_of_a_table(at: Scene) -> None:
    record = stream_record()
    record["eventSourceARN"] = "arn:aws:kinesis:eu-west-1:123456789012:stream/flowguard"
    assert at.handler({"Records": [record]}) == ACKED
    assert at.told(EventType.OWN_TABLE) == 0
