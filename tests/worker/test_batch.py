"""The records of one invocation: each on its own way, their messages sent together, none begun too late."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard.aws.transport.time_left import KEPT_MS
from flowguard.clock import ManualClock
from flowguard.destinations import Queue
from flowguard.errors import KeyUnavailable
from flowguard.events import EventType, Tally
from flowguard.flow import Flow
from flowguard.names.ids import Owner, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.payload.codec import Codecs
from flowguard.protocol.outbox import Kind, Outbox, Send
from flowguard.protocol.run import (
    BackOff,
    Claim,
    ClaimRequest,
    Commit,
    Committed,
    Fenced,
    Refused,
    Rest,
    RunItem,
    Status,
)
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import sqs_event
from flowguard.verdicts import Verdict
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import FLOW_STAGE, PLACE, ErrorNote
from flowguard.worker.batch import _NO_TIME, Batch
from flowguard.worker.dispatch import MOST_DUE, RESERVE_MS, DueSends
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.patience import MANY_RECEIVES
from flowguard.worker.place_store import PlaceStore
from flowguard.worker.ports import Budget, CallerLists, Cancellations, Memos, Refusal, Services, Unlimited, Waits
from flowguard.worker.routing import Arrival, Routes
from flowguard.worker.trust import STRICT, Trust


class Order(BaseModel):
    order_id: str


class Price(Stage[Order], name="price", inbox="orders", timeout=timedelta(seconds=20)):
    def handle(self, payload: Order, step: Step) -> Outcome:
        return Done()


class Note(Stage[Order], name="note", inbox="notes"):
    def handle(self, payload: Order, step: Step) -> Outcome:
        return Done()


class Glance(Stage[Order], name="glance", inbox="orders", timeout=timedelta(milliseconds=1)):
    def handle(self, payload: Order, step: Step) -> Outcome:
        return Done()


class Quick(Flow, name="quick", object_id="order_id"):
    stages = (Glance,)


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
    codecs: Codecs = field(default_factory=Codecs)

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
    def places(self) -> PlaceStore:
        raise AssertionError("no stage here has a limit")

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

    def release(self, claim: Claim, now: int, *, failed: bool, rest: Rest = None, called_attempt: str = "") -> None:
        raise AssertionError("nothing was claimed")

    def back_off(self, claim: Claim, back_off: BackOff) -> None:
        raise AssertionError("nothing was claimed")

    def tell(self, claim: Claim, error: ErrorNote) -> None:
        raise AssertionError("nothing was claimed")

    def note_kills(self, claim: Claim) -> None:
        raise AssertionError("nothing was claimed")

    def commit(self, claim: Claim, commit: Commit) -> Committed | Fenced:
        raise AssertionError("nothing was claimed")

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        names = [send.body for send in sends]
        self.asked.append(" ".join(["send", *names]))
        return {place: Refusal("the queue is full") for place, name in enumerate(names) if name in self.full}

    def postpone(self, envelope: Envelope, seconds: int) -> None:
        raise AssertionError("nothing is busy")

    def hand_back(self, records: Sequence[tuple[Envelope, int]]) -> None:
        self.asked.append(" ".join(["show", *(f"{record.message_id}:{seconds}" for record, seconds in records)]))


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


def is_outage(error: Exception) -> bool:
    """What the store says of its own errors here."""
    return isinstance(error, TimeoutError)


def services(others: Others) -> Services:
    return Services(
        store=others, sender=others, clock=ManualClock(), observer=Tally(), draw=random.Random(0), is_outage=is_outage
    )


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


def test_a_hundred_messages_are_sent_before_a_further_record_is_begun_and_each_once() -> None:
    """Else a batch whose time is too short for all would send none, however often it comes."""
    names = [f"o{number}" for number in range(205)]
    others = Others(full=["o3", "o204"])
    assert kept(run(others, *map(record, names))) == ["o3", "o204"]
    sent = [(place, asked.split()[1:]) for place, asked in enumerate(others.asked) if asked.startswith("send")]
    assert sent == [(100, names[:100]), (201, names[100:200]), (207, names[200:])]


def test_of_a_fifo_queue_no_message_waits_for_a_hundred_others() -> None:
    others = Others()
    assert kept(run(others, *(record(f"o{number}", "orders.fifo") for number in range(101)))) == []
    assert [asked for asked in others.asked if "send" in asked] == [f"send o{number}" for number in range(101)]


@pytest.mark.parametrize(
    ("due", "left", "begun"), [(9, 1_002, True), (10, 1_026, False), (99, 1_226, False), (99, 1_227, True)]
)
def test_a_further_record_is_begun_only_if_there_is_time_to_send_what_is_due(due: int, left: int, begun: bool) -> None:
    budget = Left(60_000)

    def work() -> None:
        budget.ms = left if len(others.asked) == due else 60_000

    others = Others(while_claiming=work)
    run(others, *(record(f"o{number}") for number in range(due + 1)), budget=budget, flow=Quick)
    assert (f"claim o{due}" in others.asked) is begun


def test_what_was_sent_in_between_leaves_its_time_to_the_next_record() -> None:
    budget = Left(60_000)

    def work() -> None:
        budget.ms = 1_002 if len(others.asked) >= 100 else 60_000

    others = Others(while_claiming=work)
    assert kept(run(others, *(record(f"o{number}") for number in range(103)), budget=budget, flow=Quick)) == []


def test_a_record_that_stays_in_a_standard_queue_holds_up_no_other_not_even_of_its_tenant() -> None:
    others = Others(early=["o1"])
    assert kept(run(others, record("o1", group="shop"), record("o2", group="shop"), record("o3"))) == ["o1"]
    others = Others(early=["o1"])
    assert kept(run(others, record("o1"), record("o2"))) == ["o1"]
    assert others.asked == ["claim o1", "claim o2", "send o2", "show o1:6"]


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
    world = services(Others(down=["o1"]))._replace(observer=told)
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


def test_what_waits_behind_a_record_that_stays_is_shown_again_before_another_group_is_begun() -> None:
    """SQS gives out nothing of a group while one of its messages is hidden: a delay of seconds would take minutes."""
    others = Others(early=["o1"])
    names = {"o1": "red", "o2": "red", "o3": "blue", "o4": "red"}
    run(others, *(record(name, "orders.fifo", group=group) for name, group in names.items()))
    assert others.asked == ["claim o1", "show o1:6 o2:0 o4:0", "claim o3", "send o3"]


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


@pytest.mark.parametrize("queue", ["orders", "orders.fifo"])
def test_records_that_are_not_begun_are_shown_again_at_once_ten_in_a_call_after_the_others_messages(queue: str) -> None:
    others = Others()
    names = [f"o{number}" for number in range(1, 13)]
    run(others, *(record(name, queue, group=name) for name in names), budget=Left(15_000))
    shown = [" ".join(["show", *(f"{name}:0" for name in some)]) for some in (names[1:11], names[11:])]
    assert others.asked == ["claim o1", "send o1", *shown]


@pytest.mark.parametrize(("left", "shown"), [(300, True), (299, False)])
def test_in_the_last_moment_of_an_invocation_records_are_left_to_their_queues_pace(left: int, shown: bool) -> None:
    others = Others()
    run(others, record("o1"), record("o2"), budget=Left(left))
    assert ("show o2:0" in others.asked) is shown


@pytest.mark.parametrize(
    ("left", "begun"),
    [(10_001, ["o1", "o2"]), (10_000, ["o1"]), (14_501, ["o1", "o2", "o3"])],
)
def test_a_stage_that_names_no_time_is_begun_again_where_it_has_time_for_the_longest_so_far(
    left: int, begun: list[str]
) -> None:
    budget = Left(left)

    def work() -> None:
        budget.ms -= 4_500

    others = Others(while_claiming=work)
    run(others, *map(record, ("o1", "o2", "o3", "o4")), budget=budget, flow=Notes)
    assert [asked for asked in others.asked if asked.startswith("claim")] == [f"claim {name}" for name in begun]


@pytest.mark.parametrize("flow", [Orders, Notes])
def test_of_two_hundred_queued_records_of_a_slow_stage_each_is_handled_before_its_receives_are_used_up(
    flow: type[Flow],
) -> None:
    """A timeout of 30 s, a handler of 4.5 s, batches of ten: SQS hands out again at once what was not begun."""
    waiting = [record(f"o{number}", "notes" if flow is Notes else "orders") for number in range(200)]
    receives: Counter[str] = Counter()
    handled: list[str] = []
    while waiting:
        batch, waiting = waiting[:10], waiting[10:]
        receives.update(envelope.message_id for envelope in batch)
        budget = Left(30_000)

        def work(budget: Left = budget) -> None:
            budget.ms -= 4_500

        left = set(kept(run(Others(while_claiming=work), *batch, budget=budget, flow=flow)))
        assert budget.ms >= 0, "the function is not cut off"
        handled += [envelope.message_id for envelope in batch if envelope.message_id not in left]
        waiting = [envelope for envelope in batch if envelope.message_id in left] + waiting
    assert len(handled) == len(set(handled)) == 200
    assert max(receives.values()) <= MANY_RECEIVES / 10


def test_a_record_that_was_quick_does_not_hide_how_long_one_before_it_took() -> None:
    budget, takes = Left(10_001), iter((4_500, 1, 0))

    def work() -> None:
        budget.ms -= next(takes)

    others = Others(while_claiming=work)
    assert kept(run(others, *map(record, ("o1", "o2", "o3")), budget=budget, flow=Notes)) == ["o3"]


def test_a_stage_that_names_its_time_is_judged_by_that_alone() -> None:
    budget = Left(70_000)

    def work() -> None:
        budget.ms -= 24_000

    others = Others(while_claiming=work)
    assert kept(run(others, *map(record, ("o1", "o2", "o3")), budget=budget)) == []


def test_what_one_stage_takes_says_nothing_of_another() -> None:
    budget = Left(10_000)

    def work() -> None:
        budget.ms -= 4_500

    world = services(Others(while_claiming=work))
    routes = Routes([Notes, Orders])
    slow, other = record("o1", "notes", stage="notes/note"), record("o2", "notes", stage="orders/pay", hop=2)
    endings = Batch(routes, world, budget).run([slow, other])
    assert (endings[0].ack, endings[1].why.partition(":")[0]) == (True, "OtherRelease"), "it was begun"


def test_the_first_record_is_begun_however_little_time_there_is_or_no_work_would_ever_be_done() -> None:
    assert kept(run(Others(), record("o1"), budget=Left(3_000))) == []


def test_a_message_that_can_never_work_needs_no_time_of_a_stage() -> None:
    endings = run(Others(), record("o1"), record("o2", stage="orders/pay", hop=2), budget=Left(1_001))
    assert endings[1].why.startswith("OtherRelease: ")


class SlowKeys(Routes):
    """Routes whose records are sealed. Their keys are waited for until calls may wait no longer, and do not answer."""

    def __init__(self, budget: Left) -> None:
        super().__init__([Notes])
        self.opened: list[str] = []
        self._budget = budget

    def resolve(self, envelope: Envelope, now: int, trust: Trust | None = STRICT) -> Arrival:
        self.opened.append(envelope.message_id)
        self._budget.ms = min(self._budget.ms, KEPT_MS)
        raise KeyUnavailable("alias/x", "ReadTimeoutError")


def test_a_record_is_not_even_opened_when_no_time_is_left_but_the_first() -> None:
    """Each of them may be sealed by a key of its own, for which the key service is asked."""
    others, budget = Others(), Left(35_000)
    routes = SlowKeys(budget)
    endings = Batch(routes, services(others), budget).run([record(name, "notes") for name in ("o1", "o2", "o3")])
    assert routes.opened == ["o1"]
    assert [ending.why.partition(":")[0] for ending in endings] == ["KeyUnavailable", *[_NO_TIME] * 2]
    assert [shown.split(":")[0] for shown in others.asked] == ["show o1"], "all are handed back, in one call"


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
    world = services(others)._replace(alarm=alarm, observer=told)
    Batch(Routes([Orders]), world, Left(10_000)).run([record("o1")])
    [warning] = [h for h in told.events if h.type is EventType.TIME_SHORT]
    assert warning.message is not None
    assert (rings[0][0], warning.message.object_id, called_off) == (9_000, "o1", [True])


def test_without_a_time_limit_no_alarm_is_set() -> None:
    def alarm(ms: int, ring: Callable[[], None]) -> Callable[[], None]:
        raise AssertionError("nobody is counting")

    world = services(Others())._replace(alarm=alarm)
    assert kept(Batch(Routes([Orders]), world, Unlimited()).run([record("o1")])) == []


# -- outages ----------------------------------------------------------------------------------------------------------


def times_out() -> None:
    raise TimeoutError("no answer")


def test_the_endings_of_what_was_sent_in_between_come_back_with_those_that_have_nothing_to_send() -> None:
    services: Any = SimpleNamespace(observer=Tally(), clock=ManualClock(0))
    due = DueSends(services, Emitter(services.observer))
    (envelope,) = normalize(sqs_event("orders", {}))
    assert isinstance(envelope, Envelope)
    many = Ending(envelope, ack=True, sends=(Send(Kind.SIDE, Queue("mails"), "{}", "id"),) * MOST_DUE)
    plain, few = Ending(envelope, ack=True, why="nothing to send"), {1: many._replace(sends=many.sends[:3])}
    assert (due.add(few), due.reserve_ms) == (few, RESERVE_MS)
    assert due.add({2: many, 3: plain}) == {1: many._replace(sends=()), 2: many._replace(sends=()), 3: plain}


def test_after_a_record_has_met_an_outage_the_others_of_the_batch_are_not_begun() -> None:
    told = Tally()
    others = Others(while_claiming=times_out)
    endings = Batch(Routes([Orders]), services(others)._replace(observer=told), Unlimited()).run(
        [record("o1"), record("o2"), record("o3", stage="carts/price")]
    )
    assert kept(endings) == ["o1", "o2", "o3"]
    assert others.asked == ["claim o1", "show o1:6 o2:6 o3:8"]
    assert (told.count(EventType.BROKEN), told.count(EventType.RETURNED)) == (1, 2)
    assert endings[1].why == "what the records need has failed for one before it: TimeoutError: no answer"


def test_an_error_that_is_of_one_record_keeps_no_other_from_its_work() -> None:
    others = Others(down=["o1"])
    assert kept(run(others, record("o1"), record("o2"))) == ["o1"]
    assert others.asked == ["claim o1", "claim o2", "send o2", "show o1:6"]


def test_a_message_that_its_queue_refuses_for_now_lets_its_record_come_again_after_a_pause() -> None:
    others = Others(full=["o1"])
    run(others, record("o1"), record("o2"))
    assert others.asked == ["claim o1", "claim o2", "send o1 o2", "show o1:6"]


@pytest.mark.parametrize(("receives", "shortest", "longest"), [(1, 5, 10), (10, 26, 52), (30, 989, 1978)])
def test_the_pause_grows_with_the_receives_of_the_record(receives: int, shortest: int, longest: int) -> None:
    others = Others(down=["o1"])
    (found,) = normalize(sqs_event("orders", Order(order_id="o1"), message_id="o1", receive_count=receives))
    assert isinstance(found, Envelope)
    run(others, found)
    seconds = int(others.asked[-1].rpartition(":")[2])
    assert shortest <= seconds <= longest


def test_the_pause_is_measured_by_the_retention_of_the_records_flow() -> None:
    class Brief(Flow, name="orders", object_id="order_id", retention=timedelta(hours=1)):
        stages = (Price,)

    pauses = set()
    for down in (["o1"], []):  # the arrival is known, or not
        others = Others(down=down, early=[] if down else ["o1"])
        (found,) = normalize(sqs_event("orders", Order(order_id="o1"), message_id="o1", receive_count=90))
        assert isinstance(found, Envelope)
        run(others, found, flow=Brief)
        pauses.add(int(others.asked[-1].rpartition(":")[2]))
    assert max(pauses) <= 3_600 * 2 / 7 / 70
