"""A flow with ``debounce`` begins the run of the last request of a burst, once there is quiet."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard.aws.services import aws_store
from flowguard.debounce import Debounce
from flowguard.errors import DefinitionError, RunFailed, TooLarge
from flowguard.events import EventType
from flowguard.flow import ATTACH, IGNORE, PER_REQUEST, AnyFlow, Flow
from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.operate.attempts import may_be_parked
from flowguard.operate.run_facts import is_put_off, standing
from flowguard.operate.run_rows import is_left
from flowguard.outcome import Done, Outcome
from flowguard.protocol.run import BackOff, Burst, Claim, RunItem, Status
from flowguard.retry import Fixed, RetryPolicy
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import FlowClock, FlowRunner, MemoryAWS, explore, kinesis_event, sqs_event
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import ErrorNote, Message
from flowguard.worker.fail_phase import FailPhase
from flowguard.worker.hop_memory import HopMemory
from flowguard.worker.put_off import burst_of
from flowguard.worker.routing import Arrival
from tests.aws.engines import same_clients
from tests.scene import START, Order, Scene, Script, record, scene, two_stages
from tests.worker.runtime.mishaps import Died, dies_at

TABLES = {"pages": "page"}
FIRST = FlowClock().now() / 1000


class Change(BaseModel):
    page: str
    text: str
    fails: bool = False


RENDERED: list[tuple[str, float]] = []
"""What handlers were called with, and at which second of the test."""


class Render(Stage[Change], name="render", retry=RetryPolicy(attempts=2, backoff=Fixed(20), jitter=0)):
    def handle(self, change: Change, step: Step) -> Outcome:
        RENDERED.append((change.text, round(time.time() - FIRST, 1)))
        if change.fails:
            raise RuntimeError("the renderer is down")
        step.put("pages", {"page": change.page, "text": change.text})
        step.send("rendered", {"text": change.text})
        return Done()


class Pages(
    Flow, name="pages", object_id="page", debounce=Debounce(timedelta(seconds=30), longest=timedelta(seconds=70))
):
    stages = (Render,)


@pytest.fixture
def pages() -> Iterator[FlowRunner]:
    RENDERED.clear()
    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        yield runner.serve(Pages)


def ask(pages: FlowRunner, *requests: tuple[float, str]) -> list[tuple[str, float]]:
    """Ask for the page at these seconds of the test, and return what was rendered, and when."""
    for second, text in requests:
        pages.run(within=timedelta(seconds=second - (time.time() - FIRST)))
        pages.send(Pages, Change(page="a", text=text, fails=text == "fails"))
    pages.run()
    return RENDERED


def test_a_single_request_is_carried_out_after_the_quiet_time(pages: FlowRunner) -> None:
    assert ask(pages, (0, "1")) == [("1", 30.0)]


def test_of_a_burst_the_last_request_is_carried_out_alone(pages: FlowRunner) -> None:
    assert ask(pages, (0, "1"), (5, "2"), (20, "3")) == [("3", 50.0)]
    result = pages.run()
    assert [*result.table("pages")] == [{"page": "a", "text": "3"}]


def test_a_request_after_the_quiet_time_is_another_burst(pages: FlowRunner) -> None:
    assert ask(pages, (0, "1"), (31, "2"), (90, "3")) == [("1", 30.0), ("2", 61.0), ("3", 120.0)]


def test_a_burst_without_an_end_is_carried_out_after_the_longest_time(pages: FlowRunner) -> None:
    every_ten_seconds = [(float(second), str(second)) for second in range(0, 130, 10)]
    assert ask(pages, *every_ten_seconds) == [("60", 70.0), ("120", 141.0)]


def test_after_a_failed_attempt_a_newer_request_waits_again(pages: FlowRunner) -> None:
    """A retry is not put off: its own rest is long enough. The newer request begins a burst."""
    assert ask(pages, (0, "fails"), (32, "2")) == [("fails", 30.0), ("2", 62.0)]
    RENDERED.clear()
    assert ask(pages, (100, "fails")) == [("fails", 130.0), ("fails", 150.0)]


def test_an_older_request_that_comes_late_changes_nothing(pages: FlowRunner) -> None:
    pages.deliver(sqs_event("pages", {"page": "a", "text": "new"}, sent_at=int(FIRST * 1000)))
    pages.run(within=timedelta(seconds=10))
    pages.deliver(sqs_event("pages", {"page": "a", "text": "old"}, sent_at=int(FIRST * 1000) - 9_000))
    pages.run()
    assert RENDERED == [("new", 30.0)]


def test_a_copy_of_the_request_changes_nothing(pages: FlowRunner) -> None:
    pages.send(Pages, Change(page="a", text="1"), request_id="r")
    pages.run(within=timedelta(seconds=10))
    pages.send(Pages, Change(page="a", text="1"), request_id="r")
    pages.run()
    assert [text for text, _ in RENDERED] == ["1"]
    assert RENDERED[0][1] <= 40.0


def test_a_cancelled_run_ends_without_waiting_again(pages: FlowRunner) -> None:
    pages.send(Pages, Change(page="a", text="1"))
    pages.run(within=timedelta(seconds=10))
    assert pages.cancel(Pages, "a", why="not needed")
    assert pages.run().run("a").status == "FAILED"
    assert RENDERED == []


def test_who_calls_the_function_itself_waits_for_nothing() -> None:
    """There is no queue that could bring the request again."""
    with scene(debounced) as at:
        answer = at.handler({"order_id": "o1"}, None)
        assert "batchItemFailures" not in answer, answer
        assert (at.told(EventType.PUT_OFF), at.priced()) == (0, 1)


@pytest.mark.proof("explores a flow")
@pytest.mark.parametrize(
    "changes",
    [[Change(page="a", text="1")], [Change(page="a", text="1"), Change(page="a", text="2")]],
    ids=["alone", "two"],
)
def test_every_fault_is_survived(changes: list[Change]) -> None:
    report = explore(Pages, changes, tables=TABLES)
    assert report.ok, str(report)


# -- what the item says -----------------------------------------------------------------------------------------------


def debounced(script: Script) -> AnyFlow:
    class Orders(Flow, name="orders", object_id="order_id", dead_letters="dead", debounce=timedelta(seconds=30)):
        stages = two_stages(script)

    return Orders


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene(debounced) as found:
        yield found


def item_of(at: Scene) -> RunItem:
    item = at.item()
    assert item is not None
    return item


def test_the_item_says_until_when_its_run_is_put_off_and_forgets_it_with_the_commit(at: Scene) -> None:
    assert at.deliver(at.message()) == [True]
    item = item_of(at)
    assert item.burst == Burst(START, START + 30_000, START - 1_000)
    assert (item.lease_until, item.retry, item.epoch) == (START - 1_000, 0, 1), "the sender's clock; ours may be fast"
    assert at.calls == ["UpdateItem", "UpdateItem"], "a claim and a release"
    assert standing(item, START).startswith("it waits for newer requests of its object, and begins at ")
    assert is_put_off(item, START + 30_000)
    assert not is_put_off(item, START + 30_001), "its message is late"
    assert not is_left(item, START + 30_000)
    assert is_left(item, START + 30_001)
    assert not may_be_parked(item, START + 30_000)
    assert at.told(EventType.PUT_OFF) == 1
    at.clock.advance(seconds=30)
    assert at.deliver(at.message()) == [True]
    assert (item_of(at).burst, at.priced()) == (None, 1)


def test_the_messages_of_its_later_hops_are_not_put_off(at: Scene) -> None:
    at.deliver(at.message())
    at.clock.advance(seconds=30)
    at.deliver(at.message())
    assert at.deliver(at.second()) == [True]
    assert [stage for stage, *_ in at.script.handled] == ["price-order", "close-order"]
    assert at.told(EventType.PUT_OFF) == 1


def test_a_letter_that_is_sent_back_is_not_put_off(at: Scene) -> None:
    at.deliver(at.message(redrive=1))
    assert (at.told(EventType.PUT_OFF), at.priced()) == (0, 1)


def sends(seen: list[Any]) -> Any:
    """Note what is sent to SQS."""

    def note(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch":
            seen.extend(call.params["Entries"])
        return proceed()

    return note


def test_the_request_is_sent_once_more_with_the_time_that_is_left(at: Scene) -> None:
    seen: list[Any] = []
    with intercept(sends(seen)):
        at.deliver(at.message())
        at.clock.advance(seconds=12.5)
        at.deliver(at.message())
    assert [entry["DelaySeconds"] for entry in seen] == [30, 18]
    assert {entry["MessageAttributes"]["uniquerequestid"]["StringValue"] for entry in seen} == {"run-1"}
    assert item_of(at).burst == Burst(START, START + 30_000, START - 1_000), "the time of the burst is kept"


def test_a_worker_that_dies_before_it_has_sent_the_request_again_leaves_its_record(at: Scene) -> None:
    with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
        at.deliver(at.message())
    assert item_of(at).burst is not None
    at.clock.advance(seconds=30)
    at.deliver(at.message())
    assert at.priced() == 1


def test_a_request_that_its_queue_does_not_take_stays(at: Scene) -> None:
    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch":
            raise ConnectionError("no way to SQS")
        return proceed()

    with intercept(refuse):
        assert at.deliver(at.message()) == [False]
    assert at.priced() == 0
    assert at.deliver(at.message()) == [True]


def test_a_request_that_fits_no_queue_once_more_stays_for_the_quiet_time(
    at: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_too_large(*_: Any) -> Any:
        raise TooLarge("the message", {"body": 1_048_577}, 1_048_576)

    monkeypatch.setattr("flowguard.worker.fail_phase.retried", is_too_large)
    monkeypatch.setattr("flowguard.worker.put_off.retried", is_too_large)
    seen: list[Any] = []

    def note(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation.startswith("ChangeMessageVisibility"):
            seen.append(call.params)
        return proceed()

    with intercept(note):
        assert at.deliver(at.message()) == [False]
    assert [entry["VisibilityTimeout"] for call in seen for entry in call.get("Entries", [call])] == [30]


@pytest.mark.parametrize(("length", "priced"), [(1_000, 0), (1_100_000, 1)], ids=["small", "too large for SQS"])
def test_a_record_of_a_stream_that_fits_no_queue_begins_at_once(at: Scene, length: int, priced: int) -> None:
    event = kinesis_event("orders", Order(order_id="o1", note="x" * length))
    assert at.handler(event) == {"batchItemFailures": []}
    assert (at.priced(), at.told(EventType.PUT_OFF)) == (priced, 1 - priced)


def test_what_else_goes_wrong_with_a_streams_record_begins_no_run(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a mistake of flowguard's")

    monkeypatch.setattr("flowguard.worker.put_off.retried", breaks)
    at.handler(kinesis_event("orders", Order(order_id="o1")))
    assert at.priced() == 0


def test_a_cancelled_request_ends_at_once(at: Scene) -> None:
    at.deliver(at.message(cancelled="not needed"))
    assert (at.told(EventType.PUT_OFF), item_of(at).status) == (0, Status.FAILED)


def test_a_run_that_was_cancelled_ends_with_its_next_message(at: Scene) -> None:
    at.deliver(at.message())
    store = aws_store(Settings(), same_clients())
    assert store.cancellations.cancel("orders", ObjectId("o1"), START, "not needed", START) is not None
    at.deliver(at.message())
    assert (at.told(EventType.PUT_OFF), item_of(at).status) == (1, Status.FAILED)


def test_what_an_earlier_run_remembered_is_left_for_whoever_begins(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HopMemory, "begin", lambda memory: pytest.fail("nothing has begun"))
    at.deliver(at.message())
    assert at.told(EventType.PUT_OFF) == 1


def test_what_the_run_before_had_to_send_is_sent_once_however_many_requests_follow(at: Scene) -> None:
    at.deliver(at.message())
    at.clock.advance(seconds=30)
    with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
        at.deliver(at.message())
    for number in range(2, 6):
        at.deliver(at.message(request_id=RequestId(f"run-{number}"), requested_at=START + number))
    assert len(at.sent("emails")) == 1
    assert item_of(at).outbox is None


def test_what_a_worker_with_a_fast_clock_puts_off_is_not_busy_for_others(at: Scene) -> None:
    at.clock.advance(seconds=300)
    at.deliver(at.message())
    at.clock.advance(seconds=-270)
    at.deliver(at.message())
    assert at.told(EventType.BUSY) == 0


def test_a_request_of_a_sender_whose_clock_is_fast_is_not_busy_for_others(at: Scene) -> None:
    at.deliver(at.message(requested_at=START + 60_000))
    assert item_of(at).lease_until == START


def test_a_release_removes_no_outbox_where_none_is(at: Scene) -> None:
    with intercept(recorder := Recorder()):
        at.deliver(at.message())
    assert not [call for call in recorder.calls if "REMOVE outbox" in str(call.params.get("UpdateExpression"))]


@pytest.mark.parametrize("delay", [0, 30])
def test_a_record_is_postponed_for_a_burst_alone(delay: int) -> None:
    """One whose group is to be saved further comes again at its queue's own pace."""
    postponed: list[int] = []
    phase: Any = object.__new__(FailPhase)
    sender = SimpleNamespace(postpone=lambda envelope, seconds: postponed.append(seconds))
    phase._services = SimpleNamespace(sender=sender)
    arrival: Any = SimpleNamespace(envelope=None)
    assert not phase._left(arrival, delay, "not sent").ack
    assert postponed == [delay] * bool(delay)


def test_a_request_whose_message_is_not_taken_stays_for_the_quiet_time(at: Scene) -> None:
    seen: list[Any] = []

    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch":
            why = {"SenderFault": False, "Code": "InternalError", "Message": "not now"}
            return {"Successful": [], "Failed": [{"Id": entry["Id"], **why} for entry in call.params["Entries"]]}
        if call.operation.startswith("ChangeMessageVisibility"):
            seen.extend(entry["VisibilityTimeout"] for entry in call.params.get("Entries", [call.params]))
        return proceed()

    with intercept(refuse):
        at.deliver(at.message())
    assert seen[0] == 30


def test_a_retry_that_rests_is_no_letter_yet() -> None:
    message = "Boom", "the gateway is down", START
    item = RunItem(RequestId("r"), START, 1, Status.RUNNING, "price-order", 1, 0, 0, 1, Owner("me"), START, done=False)
    resting = item._replace(burst=Burst(START, START, START), back_off=BackOff(ErrorNote(*message), START + 900_000))
    assert not may_be_parked(resting, START + 500_000)


def test_a_flow_without_it_writes_nothing_of_it() -> None:
    with scene() as at, intercept(recorder := Recorder()):
        at.deliver(at.message())
        at.deliver(at.second())
    assert at.told(EventType.COMPLETED) == 1
    assert not [call for call in recorder.calls if "burst" in str(call.params)]


# -- when a burst is over ---------------------------------------------------------------------------------------------

NOW = START + 1_000_000
OLDER, LAST = NOW - 20_000, NOW - 10_000
"""The times of two requests."""


def burst(
    before: Burst | None,
    *,
    requested_at: int = LAST,
    attempt: int = 1,
    problem: RunFailed | None = None,
    **stored: Any,
) -> Burst | None:
    """What a claim of a first hop waits for whose item was like this before."""

    class Orders(Flow, name="orders", object_id="order_id", debounce=Debounce(timedelta(seconds=30))):
        stages = two_stages(Script())

    message = Message(
        flow="orders",
        stage="price-order",
        version=1,
        object_id=ObjectId("o1"),
        request_id=RequestId("r"),
        requested_at=requested_at,
        body="{}",
        retry=attempt - 1,
    )
    [envelope] = normalize({"Records": [record(message)]})
    assert isinstance(envelope, Envelope)
    stage, owner = Orders.stage("price-order"), Owner("me")
    status = Status.RUNNING
    left = RunItem(RequestId("left"), OLDER, 1, status, stage.name, 1, 0, 0, 1, owner, 0, done=False, burst=before)
    left = left._replace(**stored)
    claimed = left._replace(request_id=RequestId("r"), requested_at=requested_at)
    assert Orders.debounce is not None
    return burst_of(
        Orders.debounce, Arrival(envelope, Orders, stage, message, problem=problem), Claim(message, claimed, left), NOW
    )


@pytest.mark.parametrize(
    ("before", "until"),
    [
        (None, 30_000),
        (Burst(NOW - 10_000, NOW + 20_000, OLDER), 30_000),
        (Burst(NOW - 290_000, NOW + 20_000, OLDER), 10_000),
        (Burst(NOW - 10_000, NOW + 20_000, LAST), 20_000),
        (Burst(NOW + 60_000, NOW + 90_000, OLDER), 30_000),
        (Burst(NOW + 60_000, NOW + 90_000, LAST), 30_000),
    ],
    ids=["no burst", "another's", "nearly the longest", "its own", "by a fast clock", "its own by a fast clock"],
)
def test_how_long_a_request_waits(before: Burst | None, until: int) -> None:
    is_own = before is not None and before.requested_at == LAST
    since = NOW if before is None else before.since if is_own else min(NOW, before.since)
    assert burst(before) == Burst(since, NOW + until, LAST)


@pytest.mark.parametrize(
    "before",
    [Burst(NOW - 300_000, NOW + 5_000, OLDER), Burst(NOW - 30_000, NOW, LAST), Burst(NOW - 90_000, NOW - 60_000, LAST)],
    ids=["the longest time is over", "its own quiet time is over", "it was over long ago"],
)
def test_when_a_request_begins(before: Burst) -> None:
    assert burst(before) is None


def test_what_cannot_work_waits_for_nothing() -> None:
    assert burst(None, problem=RunFailed("its functions were killed")) is None


@pytest.mark.parametrize(
    "stored",
    [{"retry": 1}, {"hop": 2}, {"done": True}, {"lease_until": NOW + 5_000}, {"lease_until": NOW + 6_000}],
    ids=str,
)
def test_a_burst_is_over_where_its_run_has_begun(stored: dict[str, Any]) -> None:
    assert burst(Burst(NOW - 300_000, NOW + 5_000, OLDER), **stored) == Burst(NOW, NOW + 30_000, LAST)


def test_a_burst_goes_on_while_the_worker_that_puts_its_run_off_has_it() -> None:
    assert burst(Burst(NOW - 10_000, NOW + 20_000, OLDER), lease_until=NOW + 19_999) == Burst(
        NOW - 10_000, NOW + 30_000, LAST
    )


@pytest.mark.parametrize(("ended", "since"), [(30_000, NOW), (29_999, NOW - 310_000)])
def test_a_burst_is_over_where_its_message_is_late_by_the_quiet_time(ended: int, since: int) -> None:
    """As after an outage. The request that comes first then would begin at once, before others that come with it."""
    left = Burst(NOW - 310_000, NOW - ended, OLDER)
    assert burst(left) == (Burst(NOW, NOW + 30_000, LAST) if since == NOW else None)


def test_an_attempt_after_one_that_failed_waits_for_nothing() -> None:
    assert burst(None, attempt=2) is None


# -- what a flow may say ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"debounce": 30}, "debounce is 30; write a timedelta, or Debounce(quiet, longest=…)"),
        ({"debounce": Debounce(30)}, "its quiet time is 30, which has no unit; write timedelta(seconds=30)"),  # type: ignore[arg-type]  # what is refused
        ({"debounce": timedelta(0)}, "its quiet time is 0:00:00; a queue can put messages off by 1 second to 15 min"),
        ({"debounce": timedelta(minutes=16)}, "its quiet time is 0:16:00"),
        (
            {"debounce": Debounce(timedelta(seconds=9), longest=timedelta(seconds=8))},
            "longest is 0:00:08; give it from its quiet time, 0:00:09, to 1 day, 0:00:00",
        ),
        ({"debounce": Debounce(timedelta(seconds=9), longest=timedelta(days=2))}, "longest is 2 days, 0:00:00"),
        (
            {"debounce": Debounce(timedelta(seconds=9), longest=90)},  # type: ignore[arg-type]  # what is refused
            "longest is 90, which has no unit",
        ),
        ({"debounce": timedelta(seconds=9), "on_conflict": IGNORE}, "its flow's on_conflict is SUPERSEDE"),
        ({"debounce": timedelta(seconds=9), "on_conflict": ATTACH}, "its flow's on_conflict is SUPERSEDE"),
        ({"debounce": timedelta(seconds=9), "object_id": PER_REQUEST}, "with PER_REQUEST each request has one of its"),
        ({"debounce": timedelta(seconds=9), "inbox": "orders.fifo"}, "only a standard queue does; first reads"),
        ({"debounce": timedelta(seconds=9), "entries": ("second",)}, "leave lease=False of second out"),
    ],
)
def test_what_is_refused_where_a_flow_is_defined(options: dict[str, Any], problem: str) -> None:
    class First(Stage[Order], name="first", then="second"):
        def handle(self, order: Order, step: Step) -> Outcome:
            return Done()

    class Second(Stage[Order], name="second", lease=False):
        def handle(self, order: Order, step: Step) -> Outcome:
            return Done()

    with pytest.raises(DefinitionError) as refused:
        type("Orders", (Flow,), {"stages": (First, Second)}, **{"name": "orders", "object_id": "order_id", **options})
    assert problem in str(refused.value)


@pytest.mark.parametrize("seconds", [1, 900])
def test_the_shortest_and_the_longest_quiet_time(seconds: int) -> None:
    given = Debounce(timedelta(seconds=seconds))
    assert (given.problem(), given.most) == (None, timedelta(seconds=10 * seconds))
    alike = Debounce(timedelta(seconds=seconds), longest=timedelta(seconds=seconds))
    assert (alike.problem(), alike.most) == (None, timedelta(seconds=seconds))
