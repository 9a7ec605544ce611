"""The records of one invocation: each on its own way, their messages sent together, none begun too late."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from pydantic import BaseModel

from flowguard.clock import ManualClock
from flowguard.destinations import Queue
from flowguard.events import EventType, Tally
from flowguard.flow import Flow
from flowguard.ids import Owner, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.outbox import Kind, Outbox, Send
from flowguard.protocol.run import Claim, ClaimRequest, Commit, Committed, Fenced, Refused, RunItem, Status
from flowguard.protocol.verdicts import Verdict
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import sqs_event
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import FLOW_STAGE, PLACE, ErrorNote
from flowguard.worker.batch import Batch
from flowguard.worker.ending import Ending
from flowguard.worker.ports import Budget, CallerLists, Cancellations, Memos, Refusal, Services, Unlimited, Waits
from flowguard.worker.routing import Routes


class Order(BaseModel):
    order_id: str


class Price(Stage[Order], name="price", inbox="orders", timeout=timedelta(seconds=20)):
    def handle(self, payload: Order, step: Step) -> Outcome:
        return Done()


class Note(Stage[Order], name="note", inbox="notes"):
    def handle(self, payload: Order, step: Step) -> Outcome:
        return Done()


class Orders(Flow, name="orders", object_id="order_id"):
    stages = (Price,)


class Notes(Flow, name="notes", object_id="order_id"):
    stages = (Note,)


@dataclass
class Others:
    """Store and sender of a world where others have committed each run, and left its one message to be sent.

    The claim of an order in ``early`` is refused, that of one in ``down`` is not answered, and the message of one in
    ``full`` is not taken. ``asked`` is what was asked for, in order.
    """

    early: Sequence[str] = ()
    down: Sequence[str] = ()
    full: Sequence[str] = ()
    while_claiming: Callable[[], None] = lambda: None
    asked: list[str] = field(default_factory=list)

    @property
    def waits(self) -> Waits:
        raise AssertionError("nothing is awaited")

    @property
    def memos(self) -> Memos:
        raise AssertionError("nothing is remembered")

    @property
    def cancellations(self) -> Cancellations:
        raise AssertionError("nothing is cancelled")

    @property
    def callers(self) -> CallerLists:
        raise AssertionError("nobody is attached")

    @property
    def batches(self) -> None:
        return None

    def claim(self, request: ClaimRequest) -> Refused:
        name = request.message.object_id
        self.asked.append(f"claim {name}")
        self.while_claiming()
        if name in self.down:
            raise ConnectionError("no answer")
        return Refused(Verdict.EARLY, None) if name in self.early else Refused(Verdict.DONE, committed(request))

    def judge(self, request: ClaimRequest) -> Refused:
        raise AssertionError("every stage takes a lease")

    def release(self, claim: Claim, now: int, *, failed: bool) -> None:
        raise AssertionError("nothing was claimed")

    def tell(self, claim: Claim, error: ErrorNote) -> None:
        raise AssertionError("nothing was claimed")

    def commit(self, claim: Claim, commit: Commit) -> Committed | Fenced:
        raise AssertionError("nothing was claimed")

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        names = [send.body for send in sends]
        self.asked.append(" ".join(["send", *names]))
        return {place: Refusal("the queue is full") for place, name in enumerate(names) if name in self.full}

    def postpone(self, envelope: Envelope, seconds: int) -> None:
        raise AssertionError("nothing is busy")


def committed(request: ClaimRequest) -> RunItem:
    """The item of a run that stands where the message asks for, all its work done."""
    m = request.message
    left = Send(Kind.SIDE, Queue("emails"), m.object_id, f"{m.hop_id}.0")
    return RunItem(
        request_id=m.request_id,
        requested_at=m.requested_at,
        version=m.version,
        status=Status.COMPLETED,
        stage=m.stage,
        hop=m.hop,
        retry=0,
        redrive=0,
        epoch=1,
        owner=Owner("other"),
        lease_until=0,
        done=True,
        committed_at=request.now,
        outbox=Outbox(RequestId(m.request_id), request.now, (left,)),
    )


@dataclass
class Left:
    """What is left of the invocation, ms."""

    ms: int

    def remaining(self) -> int | None:
        return self.ms


def record(
    name: str, queue: str = "orders", *, group: str | None = None, stage: str | None = None, hop: int = 1
) -> Envelope:
    """What a queue hands out. A ``stage`` is named by the message, and then its object too."""
    said = {} if stage is None else {FLOW_STAGE: stage, PLACE: f'{{"object":"{name}","hop":{hop}}}'}
    (found,) = normalize(sqs_event(queue, Order(order_id=name), message_id=name, group=group, attributes=said))
    assert isinstance(found, Envelope)
    return found


def services(others: Others) -> Services:
    return Services(store=others, sender=others, clock=ManualClock(), observer=Tally())


def run(others: Others, *records: Envelope, budget: Budget | None = None, flow: type[Flow] = Orders) -> list[Ending]:
    return Batch(Routes([flow]), services(others), budget or Unlimited()).run(records)


def kept(endings: Sequence[Ending]) -> list[str]:
    """The records that stay in their queue."""
    return [ending.envelope.message_id for ending in endings if not ending.ack]


# -- together, and apart ----------------------------------------------------------------------------------------------


def test_the_records_messages_are_sent_together_and_the_endings_are_in_their_order() -> None:
    others = Others()
    endings = run(others, record("o1"), record("o2"), record("o3"))
    assert [(ending.envelope.message_id, ending.ack) for ending in endings] == [
        ("o1", True),
        ("o2", True),
        ("o3", True),
    ]
    assert others.asked == ["claim o1", "claim o2", "claim o3", "send o1 o2 o3"]


def test_a_record_that_stays_in_a_standard_queue_holds_up_no_other_not_even_of_its_tenant() -> None:
    others = Others(early=["o1"])
    assert kept(run(others, record("o1", group="shop"), record("o2", group="shop"), record("o3"))) == ["o1"]
    others = Others(early=["o1"])
    assert kept(run(others, record("o1"), record("o2"))) == ["o1"]
    assert others.asked == ["claim o1", "claim o2", "send o2"]


def test_a_message_that_is_not_taken_keeps_its_own_record_alone() -> None:
    assert kept(run(Others(full=["o1"]), record("o1"), record("o2"))) == ["o1"]


@pytest.mark.parametrize(
    ("bad", "event", "why"),
    [
        (record("o1"), EventType.BROKEN, "ConnectionError: no answer"),
        (record("o1", stage="carts/price"), EventType.UNROUTABLE, "Unroutable: 'carts/price' is not served here"),
    ],
)
def test_what_goes_wrong_outside_a_stage_leaves_that_record_in_its_queue(
    bad: Envelope, event: EventType, why: str
) -> None:
    told = Tally()
    world = replace(services(Others(down=["o1"])), observer=told)
    endings = Batch(Routes([Orders]), world, Unlimited()).run([bad, record("o2")])
    assert (kept(endings), told.count(event)) == (["o1"], 1)
    assert endings[0].why.startswith(why)


# -- FIFO queues; with their attempts: runtime/test_fifo.py -----------------------------------------------------------


def test_of_a_fifo_queue_each_records_messages_are_sent_before_the_next_is_begun_and_once() -> None:
    others = Others()
    assert kept(run(others, record("o1", "orders.fifo"), record("o2", "orders.fifo"))) == []
    assert others.asked == ["claim o1", "send o1", "claim o2", "send o2"]


@pytest.mark.parametrize("others", [Others(early=["o1"]), Others(down=["o1"]), Others(full=["o1"])])
def test_what_stays_in_a_fifo_queue_holds_its_own_group_of_its_own_queue_and_no_other(others: Others) -> None:
    records = [
        record("o1", "orders.fifo", group="red"),
        record("o2", "orders.fifo", group="red"),
        record("o3", "orders.fifo", group="blue"),
        record("o4", "others.fifo", group="red"),
        record("o5", "orders.fifo", group="red"),
    ]
    assert kept(run(others, *records)) == ["o1", "o2", "o5"]
    assert [asked for asked in others.asked if asked.startswith("claim")] == ["claim o1", "claim o3", "claim o4"]


# -- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flow", "left", "begun"),
    [(Orders, 21_001, True), (Orders, 21_000, False), (Notes, 1_001, True), (Notes, 1_000, False)],
)
def test_no_further_record_is_begun_when_less_is_left_than_its_stage_may_take(
    flow: type[Flow], left: int, begun: bool
) -> None:
    others = Others()
    records = record("o1"), record("o2"), record("o3")
    assert kept(run(others, *records, budget=Left(left), flow=flow)) == ([] if begun else ["o2", "o3"])
    assert ("claim o2" in others.asked) is begun


def test_the_first_record_is_begun_however_little_time_there_is_or_no_work_would_ever_be_done() -> None:
    assert kept(run(Others(), record("o1"), budget=Left(3_000))) == []


def test_a_message_that_can_never_work_needs_no_time_of_a_stage() -> None:
    assert kept(run(Others(), record("o1"), record("o2", stage="orders/pay", hop=2), budget=Left(1_001))) == []


def test_an_invocation_warns_before_it_is_cut_off_naming_the_message_it_is_in() -> None:
    rings: list[tuple[int, Callable[[], None]]] = []
    called_off: list[bool] = []

    def alarm(ms: int, ring: Callable[[], None]) -> Callable[[], None]:
        rings.append((ms, ring))
        return lambda: called_off.append(True)

    def time_goes_by() -> None:
        for _, ring in rings:
            ring()

    told = Tally()
    others = Others(while_claiming=time_goes_by)
    world = replace(services(others), alarm=alarm, observer=told)
    Batch(Routes([Orders]), world, Left(10_000)).run([record("o1")])
    [warning] = [h for h in told.events if h.type is EventType.TIME_SHORT]
    assert warning.message is not None
    assert (rings[0][0], warning.message.object_id, called_off) == (9_000, "o1", [True])


def test_without_a_time_limit_no_alarm_is_set() -> None:
    def alarm(ms: int, ring: Callable[[], None]) -> Callable[[], None]:
        raise AssertionError("nobody is counting")

    world = replace(services(Others()), alarm=alarm)
    assert kept(Batch(Routes([Orders]), world, Unlimited()).run([record("o1")])) == []
