"""Whoever starts a flow needs to know the flow and the payload, and none of the attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from flowguard.client import FlowClient, Started
from flowguard.clock import ManualClock
from flowguard.destinations import Function, Queue, Topic
from flowguard.errors import Reject, RunFailed, SendFailed, SettingsError, TokenRefused
from flowguard.events import EventType
from flowguard.flow import ATTACH, UNTIL_RESET, AnyFlow, Flow
from flowguard.names.ids import RequestId, SeededIds
from flowguard.outcome import Done, Outcome
from flowguard.payload.codec import Codecs
from flowguard.protocol.run import Status
from flowguard.settings import Settings
from flowguard.sim.calls import Recorder, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import sqs_event
from flowguard.verdicts import AnswerVerdict, ResetVerdict
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import LATEST_TIME
from flowguard.wire.signing import Keyring, Keys
from flowguard.wire.tokens import NO_TOKENS, Tokens, token_row_id
from flowguard.worker.ports import Refusal
from tests.scene import START, Order, Orders, Scene, Script, scene, two_stages
from tests.worker.runtime.mishaps import refuses


def client(at: Scene) -> FlowClient:
    return FlowClient(at.handler._services.sender, clock=at.clock, ids=SeededIds())


def pass_on(at: Scene, queue: str) -> None:
    """What an event source mapping does: hands the queue's messages to the function."""
    for message in at.sent(queue):
        at.handler({"Messages": [message]})


def test_a_started_flow_runs_under_the_id_and_time_that_the_caller_was_told() -> None:
    with scene() as at:
        started = client(at).start(Orders, Order(order_id="o1"))
        pass_on(at, "price-order")
        item = at.item()
        assert item is not None
        assert (item.request_id, item.requested_at) == (started.request_id, started.requested_at)
        assert started == Started(started.request_id, START, started.object_id)
        assert at.told(EventType.WEAK_ID) == 0


def test_the_same_request_sent_twice_is_one_run() -> None:
    with scene() as at:
        for _ in range(2):
            client(at).start(Orders, Order(order_id="o1"), request_id="r1", requested_at=START)
        pass_on(at, "price-order")
        assert at.priced() == 1


def test_two_requests_under_one_id_are_both_sent_by_a_fifo_queue() -> None:
    """For two objects, or at two times, they are two things: SQS would drop the second, told as started."""
    with scene() as at:
        at.aws.create_queue("orders.fifo", FifoQueue="true")
        for order, requested_at in (("o1", START), ("o2", START), ("o1", START + 1), ("o1", START)):
            client(at).start(
                Orders, Order(order_id=order), request_id="r1", requested_at=requested_at, to=Queue("orders.fifo")
            )
        assert len(at.sent("orders.fifo")) == 3, "the last is a copy of the first"


def test_a_topic_in_between_changes_nothing() -> None:
    with scene() as at:
        topic = at.aws.create_topic("orders")
        at.aws.subscribe(topic, at.aws.client("sqs").get_queue_url(QueueName="price-order")["QueueUrl"])
        started = client(at).start(Orders, Order(order_id="o1"), to=Topic(topic))
        pass_on(at, "price-order")
        item = at.item()
        assert item is not None
        assert (item.request_id, item.requested_at) == (started.request_id, START)


def test_a_function_can_be_started_directly() -> None:
    sent = Invoked()
    started = FlowClient(sent, clock=ManualClock(START)).start(Orders, Order(order_id="o1"), to=Function("f"))
    [send] = sent.sends
    assert (send.to, send.attributes["uniquerequestid"].value) == (Function("f"), started.request_id)


class Invoked:
    """A sender that keeps what it is given."""

    def __init__(self) -> None:
        self.sends: list[Any] = []

    def send(self, sends: Any) -> dict[int, Refusal]:
        self.sends.extend(sends)
        return {}

    def postpone(self, envelope: Any, seconds: int) -> None:
        raise AssertionError("a client has nothing to postpone")

    def hand_back(self, records: Sequence[tuple[Any, int]]) -> None:
        raise AssertionError("a client has nothing to postpone")


def test_whoever_asked_is_told_when_the_run_ends() -> None:
    with scene() as at:
        client(at).start(Orders, Order(order_id="o1"), reply_to="emails")
        pass_on(at, "price-order")
        at.sent("emails")
        pass_on(at, "close-order")
        [complete] = at.sent("emails")
        assert '"status":"COMPLETED"' in complete["Body"]
        assert len(at.sent("completed")) == 1, "and so is whom the flow always tells"


def test_attributes_of_the_callers_own_go_along() -> None:
    sent = Invoked()
    FlowClient(sent).start(Orders, Order(order_id="o1"), attributes={"shop": Attribute.string("berlin")})
    assert sent.sends[0].attributes["shop"].value == "berlin"


def test_a_request_that_was_not_taken_is_an_error_and_starts_nothing() -> None:
    with scene() as at:
        with pytest.raises(SendFailed, match="sqs:missing"):
            client(at).start(Orders, Order(order_id="o1"), to=Queue("missing"))
        assert at.item() is None


def test_a_payload_of_another_type_is_refused_before_anything_is_sent() -> None:
    sent = Invoked()
    with pytest.raises(TypeError, match="takes Order, not dict"):
        FlowClient(sent).start(Orders, {"order_id": "o1"})
    assert sent.sends == []


class KeyedOrders(Flow, name="orders", object_id="order_id", request_id="order_id"):
    stages = Orders.stages


@pytest.mark.parametrize(("given", "found"), [(None, "o1"), ("mine", "mine")])
def test_a_flow_that_names_its_requests_does_so_where_the_caller_gives_no_id(given: str | None, found: str) -> None:
    with scene() as at:
        started = client(at).start(KeyedOrders, Order(order_id="o1"), request_id=given)
        [message] = at.sent("price-order")
        assert started.request_id == message["MessageAttributes"]["uniquerequestid"]["StringValue"] == found


def test_a_request_that_its_flow_cannot_name_is_not_sent() -> None:
    class Noted(Flow, name="orders", object_id="order_id", request_id="note"):
        stages = Orders.stages

    with scene() as at:
        with pytest.raises(RunFailed, match="the payload has no usable 'note' to name the request by"):
            client(at).start(Noted, Order(order_id="o1"))
        assert at.sent("price-order") == []


# -- later -------------------------------------------------------------------------------------------------------------


def at_ms(moment: int) -> datetime:
    return datetime.fromtimestamp(moment / 1000, UTC)


@pytest.mark.parametrize("at", [datetime(2000, 1, 1, tzinfo=UTC), datetime(9998, 12, 30, 23, 59, 59, tzinfo=UTC)])
def test_the_first_and_the_last_moment_can_be_scheduled(at: datetime) -> None:
    with scene(settings=Settings(scheduler_role="arn:aws:iam::123456789012:role/scheduler")) as here:
        here.clock.advance(ms=7)
        client(here).start(Orders, Order(order_id="o1"), at=at)


@pytest.mark.parametrize(
    ("when", "due", "delay"),
    [
        ({"after": timedelta(minutes=5)}, START + 300_000, 300),
        ({"after": timedelta(milliseconds=1_500)}, START + 1_500, 2),
        ({"after": timedelta(0)}, START, 0),
        ({"at": at_ms(START + 86_400_000)}, START + 86_400_000, 86_400),
        ({"at": at_ms(START + 7_200_000).astimezone(timezone(timedelta(hours=2)))}, START + 7_200_000, 7_200),
        ({"at": at_ms(START - 1_000)}, START - 1_000, 0),
    ],
)
def test_a_request_is_sent_later_under_the_moment_that_it_is_for(when: Any, due: int, delay: int) -> None:
    sent = Invoked()
    started = FlowClient(sent, clock=ManualClock(START), ids=SeededIds()).start(Orders, Order(order_id="o1"), **when)
    assert started.requested_at == due
    assert [send.delay for send in sent.sends] == [delay]
    assert sent.sends[0].attributes["requestedat"].value == str(due)


def test_what_is_asked_for_later_takes_over_from_what_is_asked_for_until_then() -> None:
    with scene() as at:
        sent, order = Invoked(), Order(order_id="o1")
        asking = FlowClient(sent, clock=at.clock)
        later = asking.start(Orders, order, after=timedelta(minutes=10), request_id="later")
        at.clock.advance(seconds=300)
        client(at).start(Orders, order, request_id="soon")
        pass_on(at, "price-order")
        at.clock.advance(seconds=300)
        at.handler._services.sender.send([send._replace(delay=0) for send in sent.sends])
        pass_on(at, "price-order")
        item = at.item()
        assert item is not None
        assert (item.request_id, item.requested_at) == ("later", later.requested_at)
        assert [request for _, request, _ in at.script.handled] == ["soon", "later"]


def test_a_request_for_tomorrow_is_one_schedule_however_often_it_is_asked_for() -> None:
    role = "arn:aws:iam::123456789012:role/scheduler"
    with scene(settings=Settings(scheduler_role=role)) as at:
        for _ in range(2):
            client(at).start(Orders, Order(order_id="o1"), request_id="r1", at=at_ms(START + 86_400_000))
            at.clock.advance(seconds=60)
        assert isinstance(at.aws, MemoryAWS)
        [schedule] = at.aws.schedules
        assert schedule["ScheduleExpression"] == "at(2027-01-16T08:00:00)"
        at.clock.advance(seconds=86_400)
        at.handler(sqs_event("price-order", schedule["Target"]["Input"]))
        item = at.item()
        assert item is not None
        assert (item.request_id, item.requested_at) == ("r1", START + 86_400_000)


def test_without_a_role_nothing_is_sent_tomorrow_and_the_error_says_what_is_missing() -> None:
    with scene() as at, pytest.raises(SendFailed, match="FLOWGUARD_SCHEDULER_ROLE"):
        client(at).start(Orders, Order(order_id="o1"), after=timedelta(days=1))


# -- what cannot be meant ----------------------------------------------------------------------------------------------


class Kept(Flow, name="kept", object_id="order_id", keep_result=UNTIL_RESET):
    stages = Orders.stages


def asking(method: str, **arguments: Any) -> Callable[[FlowClient], Any]:
    """A call of the client's whose other arguments are good."""
    good: dict[str, dict[str, Any]] = {
        "start": {"flow": Kept, "payload": Order(order_id="o1")},
        "answer": {"flow": Kept, "awaited": "a1", "payload": 7},
        "fail": {"flow": Kept, "awaited": "a1", "why": "no card"},
        "reset": {"flow": Kept, "object_id": "o1"},
        "cancel": {"flow": Kept, "object_id": "o1", "why": "sold out"},
        "result": {"flow": Kept, "object_id": "o1"},
    }
    return lambda client: getattr(client, method)(**good[method] | arguments)


HOSTILE: list[tuple[Any, str]] = [
    (7, "is of type int, and an id is text"),
    ("", "is empty"),
    ("x" * 3_000, "has 3,000 bytes of at most 1,024"),
    ("\ud800", r"has the character U\+D800, which SQS refuses"),
    ("a\x01", r"has the character U\+0001, which SQS refuses"),
]
NOTHING = (None, "is of type NoneType, and an id is text")

IDS = [("start", "object_id"), ("start", "request_id")]
NEEDED_IDS = [
    *((method, "object_id") for method in ("reset", "cancel", "result")),
    *((method, "awaited") for method in ("answer", "fail")),
]
METHODS = ("start", "answer", "fail", "reset", "cancel", "result")

REFUSED = [
    *(
        (method, {name: value}, problem)
        for method, name in [*IDS, *NEEDED_IDS]
        for value, problem in [*HOSTILE, *([NOTHING] if (method, name) in NEEDED_IDS else [])]
    ),
    *(
        (method, {"flow": value}, "is no flow; give the class of a flow")
        for method in METHODS
        for value in (None, 7, "orders", Order, Flow, Kept())
    ),
    *(
        ("start", {"requested_at": value}, "requested_at=.* is no time; write whole milliseconds since 1970")
        for value in (-1, 10**15, 1.5, True, "1", "")
    ),
    *(
        ("start", {"at": value}, "at=.* names no moment; write a datetime with its time zone")
        for value in (7, "now", datetime(2027, 1, 1), timedelta(1))  # noqa: DTZ001 - that is what is wrong with it
    ),
    ("start", {"at": datetime(1969, 12, 31, tzinfo=UTC)}, "at=1969.* is no time from the year 2000 to 9998"),
    ("start", {"after": timedelta.max}, "after=.* is no time from the year 2000 to 9998"),
    *(("start", {"after": value}, "after is .*write timedelta") for value in (7, "1h")),
    ("start", {"after": timedelta(microseconds=-1)}, "after is .*; it must not be negative"),
    *(
        ("start", {"requested_at": START, **when}, "both say the request's time; leave one out")
        for when in ({"at": at_ms(START)}, {"after": timedelta(1)})
    ),
    ("start", {"after": timedelta(1), "at": datetime.now(UTC)}, "at and after both say when; leave one out"),
    *(
        ("start", {"after": timedelta(seconds=1), "to": to}, f"a request to {to} cannot be sent later; only standard")
        for to in (Topic("arn:aws:sns:eu-west-1:123456789012:orders"), Queue("orders.fifo"), Function("orders"))
    ),
    *(("start", {name: value}, f"{name}: .*") for name in ("to", "reply_to") for value in (7, "", "a b", "\ud800")),
    *(("start", {"attributes": value}, "attributes is ") for value in (7, "", "tenant")),
    *(
        ("fail", {name: value}, f"{name}=.* write a text")
        for name in ("why", "kind")
        for value in (None, 7, ValueError("no card"))
    ),
    *(("result", {"max_age": value}, "max_age is .*write timedelta") for value in (7, "1h")),
    ("result", {"max_age": timedelta(microseconds=-1)}, "max_age is .*; it must not be negative"),
]


@pytest.mark.parametrize(("method", "arguments", "problem"), REFUSED)
def test_an_argument_that_cannot_be_meant_is_refused_by_name(
    method: str, arguments: dict[str, Any], problem: str
) -> None:
    sent = Invoked()
    asked = FlowClient(sent, clock=ManualClock(START), store=lambda: pytest.fail("the table was asked"))
    with pytest.raises(RunFailed, match=problem):
        asking(method, **arguments)(asked)
    assert sent.sends == []


@pytest.mark.parametrize("payload", ["\ud800", object(), {"when": object()}])
def test_an_answer_that_json_cannot_hold_is_refused(payload: Any) -> None:
    asked = FlowClient(Invoked(), store=lambda: pytest.fail("the table was asked"))
    with pytest.raises(TypeError, match="cannot become JSON"):
        asking("answer", payload=payload)(asked)


def test_no_result_is_younger_than_the_call_that_asks_for_one() -> None:
    def kept(_: Any) -> AnyFlow:
        return Kept

    with scene(kept) as at:
        reading = FlowClient.of(at.handler._services)
        reading.start(Kept, Order(order_id="o1"))
        pass_on(at, "price-order")
        at.clock.advance(ms=5)
        pass_on(at, "close-order")
        ended = reading.result(Kept, "o1", max_age=timedelta(0))
        assert ended is not None, "it is of this very millisecond"
        assert ended.completed_at.timestamp() * 1_000 == at.clock.now()
        at.clock.advance(seconds=1)
        assert reading.result(Kept, "o1", max_age=timedelta(0)) is None
        assert reading.result(Kept, "o1") is not None


def test_a_run_that_ended_without_a_result_has_none() -> None:
    class Empty(Stage[Order], name="price-order", inbox="price-order"):
        def handle(self, order: Order, step: Step) -> Outcome:
            return Done()

    class Nothing(Flow, name="nothing", object_id="order_id"):
        stages = (Empty,)

    def nothing(_: Any) -> AnyFlow:
        return Nothing

    with scene(nothing) as at:
        reading = FlowClient.of(at.handler._services)
        reading.start(Nothing, Order(order_id="o1"))
        pass_on(at, "price-order")
        ended = reading.result(Nothing, "o1")
        assert ended is not None
        assert ended.value is None


def test_a_flow_that_keeps_no_result_has_that_of_its_last_run() -> None:
    with scene() as at:
        reading = FlowClient.of(at.handler._services)
        for _ in range(2):
            at.clock.advance(seconds=3_600)
            reading.start(Orders, Order(order_id="o1"))
            pass_on(at, "price-order")
            assert reading.result(Orders, "o1") is None, "a run at work has none yet"
            pass_on(at, "close-order")
            at.clock.advance(seconds=3_600)
            assert reading.result(Orders, "o1") is not None


def test_what_a_fifo_queue_orders_by_is_the_object() -> None:
    with scene() as at:
        at.aws.create_queue("orders.fifo", FifoQueue="true")
        client(at).start(Orders, Order(order_id="o1"), request_id="r1", to=Queue("orders.fifo"))
        [message] = at.sent("orders.fifo")
        assert message["Attributes"]["MessageGroupId"] == "o1"


@pytest.mark.parametrize("moment", [0, LATEST_TIME])
def test_the_first_and_the_last_moment_can_be_asked_for(moment: int) -> None:
    sent = Invoked()
    FlowClient(sent, clock=ManualClock(START)).start(Orders, Order(order_id="o1"), requested_at=moment)
    assert len(sent.sends) == 1


def refuse(step: Any) -> None:
    raise Reject("out of stock")


def test_a_run_that_failed_has_no_result() -> None:
    with scene() as at:
        reading = FlowClient.of(at.handler._services)
        at.script.pricing = refuse
        reading.start(Orders, Order(order_id="o1"))
        pass_on(at, "price-order")
        item = at.item()
        assert item is not None
        assert (item.status, reading.result(Orders, "o1")) == (Status.FAILED, None)


def test_a_reset_or_a_cancellation_whose_message_is_not_taken_says_so() -> None:
    def shared(script: Script) -> AnyFlow:
        class Shared(Flow, name="orders", object_id="order_id", on_conflict=ATTACH, dead_letters="dead"):
            stages = two_stages(script)

        return Shared

    with scene(shared) as at:
        asked = FlowClient.of(at.handler._services)
        asked.start(at.flow, Order(order_id="o1"))
        pass_on(at, "price-order")
        with intercept(refuses("price-order")), pytest.raises(SendFailed, match="price-order"):
            asked.reset(at.flow, "o1")


def test_an_expired_token_answers_nothing_and_one_that_never_was_good_is_refused() -> None:
    tokens = Tokens(Keyring(lambda: Keys.parse(f"k1:{'x' * 32}"), ManualClock(START)))
    row = token_row_id("kept", "o1", "r1", START, 1, "approval")

    def store() -> Any:
        return SimpleNamespace(codecs=Codecs())

    asked = FlowClient(Invoked(), clock=ManualClock(START + 5), tokens=tokens, store=store)
    assert asked.answer(Kept, tokens.make("kept", row, START + 5), True) is AnswerVerdict.EXPIRED
    good = tokens.make("kept", row, START + 6)
    keyless = FlowClient(Invoked(), clock=ManualClock(START + 5), tokens=NO_TOKENS, store=store)
    with pytest.raises(SettingsError, match="FLOWGUARD_TOKEN_KEYS: is not set"):
        keyless.answer(Kept, good, True)
    with pytest.raises(TokenRefused):
        asked.answer(Kept, good[:-1] + ("A" if good[-1] != "A" else "B"), True)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("reset", {"object_id": "o1"}),
        ("cancel", {"object_id": "o1", "why": "sold out"}),
        ("answer", {"awaited": "payment/o1", "payload": {}}),
        ("fail", {"awaited": "payment/o1", "why": "no funds"}),
    ],
)
def test_what_names_no_request_is_refused_before_any_call(method: str, arguments: dict[str, Any]) -> None:
    with scene() as at:
        asked = client(at)
        with (
            intercept(calls := Recorder()),
            pytest.raises(RunFailed, match="only='o1' names no request"),
        ):
            getattr(asked, method)(at.flow, only="o1", **arguments)
        assert calls.count() == 0


def test_a_run_that_was_asked_for_later_is_not_reset() -> None:
    def shared(script: Script) -> AnyFlow:
        class Shared(Flow, name="orders", object_id="order_id", on_conflict=ATTACH):
            stages = two_stages(script)

        return Shared

    with scene(shared) as at:
        asked = FlowClient.of(at.handler._services)
        started = asked.start(at.flow, Order(order_id="o1"))
        pass_on(at, "price-order")
        before = replace(started, requested_at=started.requested_at - 1)
        assert asked.reset(at.flow, "o1", only=before) is ResetVerdict.NOTHING
        assert asked.reset(at.flow, "o1", only=started) is ResetVerdict.RESTARTED


def test_only_the_run_of_one_request_is_cancelled() -> None:
    with scene() as at:
        asked = FlowClient.of(at.handler._services)
        started = asked.start(Orders, Order(order_id="o1"))
        pass_on(at, "price-order")
        others = (
            replace(started, request_id=RequestId("another")),
            replace(started, requested_at=started.requested_at - 1),
        )
        assert [asked.cancel(Orders, "o1", why="sold out", only=other) for other in others] == [False, False]
        item = at.item()
        assert item is not None
        assert item.cancelled_because is None
        assert asked.cancel(Orders, "o1", why="sold out", only=started)
