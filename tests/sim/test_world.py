"""The local world: flows on virtual time, killed, copied and shuffled, with the effects of one undisturbed run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from boto3.dynamodb.types import Binary
from pydantic import BaseModel

from flowguard.destinations import Bus, Function, Topic
from flowguard.errors import Retry
from flowguard.events import Event, EventType
from flowguard.flow import PER_REQUEST, AnyFlow, Flow
from flowguard.outcome import Done, Outcome
from flowguard.project.loading import NoSuchFlow, load_flows
from flowguard.sim.crash import Crashes, Died
from flowguard.sim.delivered import Counts, Delivered
from flowguard.sim.delivery_trace import DeliveryTrace
from flowguard.sim.event_source import STEP
from flowguard.sim.final_state import FinalState, plain
from flowguard.sim.in_process import AWSInProcess
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.points import Point
from flowguard.sim.recording import RecordedRecord, plan, read_recording
from flowguard.sim.script import Script
from flowguard.sim.virtual import VirtualTime
from flowguard.sim.world import START, World
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import batch, invocation, sns_event, sqs_event
from flowguard.wire.message import Message
from flowguard.worker.patience import MANY_RECEIVES
from tests.aws.engines import kept
from tests.scene import ENGINES

TABLES = {"orders": "order_id", "totals": "day"}
MESSAGES = Topic("arn:aws:sns:us-east-1:123456789012:parcels")


class Order(BaseModel):
    order_id: str
    amount: int = 1
    fails: int = 0


class Take(Stage[Order], name="take", then="pack", inbox="orders"):
    def handle(self, order: Order, step: Step[Any]) -> Outcome:
        if step.attempt <= order.fails:
            raise Retry("not yet", after=timedelta(minutes=10))
        step.put("orders", {"order_id": order.order_id, "amount": order.amount, "seen": f"{datetime.now(UTC):%H:%M}"})
        step.update("totals", {"day": "today"}, "ADD amount :amount", values={":amount": order.amount})
        return Pack.message(order)


class Pack(Stage[Order], name="pack", inbox="parcels"):
    def handle(self, order: Order, step: Step[Any]) -> Outcome:
        step.update("totals", {"day": "packed"}, "ADD amount :amount", values={":amount": order.amount})
        step.send("mails", {"order_id": order.order_id})
        return Done({"amount": order.amount})


class Shop(Flow, name="shop", object_id="order_id"):
    stages = (Take, Pack)


def order(number: int, *, at: int = START, **fields: Any) -> Any:
    payload = {"order_id": f"order-{number}", "amount": number, **fields}
    return sqs_event("orders", payload, message_id=f"message-{number}", sent_at=at)


def put(world: World, *events: Any, repeat: int = 1, shuffle: int | None = None) -> None:
    recorded = [one for event in events for one in read_recording(event) if isinstance(one, RecordedRecord)]
    for one in plan(recorded, repeat=repeat, shuffle=shuffle):
        world.put(one.recorded.envelope, one.recorded.raw, at=one.at)


@dataclass(frozen=True)
class Stand:
    """The engine on which the worlds of a test are opened."""

    engine: type[AWSInProcess]

    @contextmanager
    def world(self, flows: Iterable[AnyFlow] = (Shop,), *, seed: int = 0, **options: Any) -> Iterator[World]:
        with (
            VirtualTime(START) as clock,
            self._opened(seed, clock) as aws,
            kept(),
            World(list(flows), aws=aws, clock=clock, seed=seed, **options) as world,
        ):
            yield world

    def _opened(self, seed: int, clock: VirtualTime) -> AWSInProcess:
        return MemoryAWS(clock, seed=seed) if self.engine is MemoryAWS else self.engine(seed=seed)

    def play(
        self,
        *events: Any,
        flows: Iterable[AnyFlow] = (Shop,),
        crashes: Iterable[Point] = (),
        repeat: int = 1,
        shuffle: int | None = None,
        seed: int = 0,
    ) -> tuple[list[Delivered], FinalState]:
        plan_of_deaths = Crashes(crashes)
        with self.world(
            flows,
            seed=seed,
            passed=lambda point, delivery, _: plan_of_deaths.strike(point, delivery.message_id),
            most_receives=3 + len(plan_of_deaths.points),
        ) as world:
            put(world, *events, repeat=repeat, shuffle=shuffle)
            rows = list(world.run())
            return rows, FinalState.of(world)


@pytest.fixture(params=ENGINES, scope="module")
def on(request: pytest.FixtureRequest) -> Stand:
    return Stand(request.param)


def verdicts(rows: Iterable[Delivered]) -> list[str | None]:
    return [row.verdict for row in rows]


# -- one record -------------------------------------------------------------------------------------------------------


def test_a_record_goes_through_the_functions_of_its_flow(on: Stand) -> None:
    rows, left = on.play(order(7))
    assert [(row.flow, row.stage, row.hop, row.verdict, row.outcome) for row in rows] == [
        ("shop", "take", 1, "CLAIMED", "committed"),
        ("shop", "pack", 2, "CLAIMED", "completed"),
    ]
    assert [run.status for run in left.runs] == ["COMPLETED"]
    assert left.runs[0].result == {"amount": 7}
    assert left.tables["totals"] == ({"amount": 7, "day": "packed"}, {"amount": 7, "day": "today"})
    assert left.queues == {"mails": 1}


def test_a_world_works_on_an_engine_and_a_clock_that_are_open_and_leaves_them_so() -> None:
    with VirtualTime(START) as clock, MemoryAWS(clock) as aws:
        for number in (1, 2):
            with World([Shop], aws=aws, clock=clock) as world:
                put(world, order(number))
                assert [row.outcome for row in world.run()] == ["committed", "completed"]
        assert len(aws.items("orders")) == 2


def test_a_line_says_what_was_written_and_sent_and_at_which_cost(on: Stand) -> None:
    first, second = on.play(order(7))[0]
    assert [(one.kind, one.table, one.key) for one in first.writes] == [
        ("put", "orders", "order-7"),
        ("update", "totals", "today"),
    ]
    assert [one.to for one in first.sends] == ["parcels"]
    assert (first.calls, second.calls) == (2, 2)


def test_a_recorded_record_keeps_its_id_and_is_delivered_when_it_was_sent(on: Stand) -> None:
    rows, _ = on.play(order(1), order(2, at=START + 60_000))
    assert [(row.record, row.at - START) for row in rows if row.stage == "take"] == [
        ("message-1", 0),
        ("message-2", 60_000),
    ]


def test_a_handler_that_asks_the_machine_for_the_time_is_told_the_virtual_one(on: Stand) -> None:
    _, left = on.play(order(1), order(2, at=START + 90 * 60_000))
    assert [item["seen"] for item in left.tables["orders"]] == ["00:00", "01:30"]


def test_a_retry_comes_after_its_delay_and_nothing_sleeps(on: Stand) -> None:
    began = datetime.now(UTC)
    rows, left = on.play(order(1, fails=2))
    assert datetime.now(UTC) - began < timedelta(minutes=1)
    assert [(row.attempt, row.outcome, row.at - START) for row in rows] == [
        (1, "retried", 0),
        (2, "retried", 600_000),
        (3, "committed", 1_200_000),
        (1, "completed", 1_200_000 + STEP),
    ]
    assert [one.delay for one in rows[0].sends] == [600]
    assert left.runs[0].status == "COMPLETED"


# -- what a queue does ------------------------------------------------------------------------------------------------


def test_a_worker_that_dies_leaves_the_record_until_its_visibility_timeout_is_over(on: Stand) -> None:
    rows, _ = on.play(order(1), crashes=[Point.AFTER_CLAIM])
    assert [(row.crash, row.receive, row.at - START) for row in rows][:2] == [
        (Point.AFTER_CLAIM, 1, 0),
        (None, 2, 30_000),
    ]


def test_a_copy_that_finds_the_record_in_another_hand_waits_for_the_end_of_its_lease(on: Stand) -> None:
    rows, left = on.play(order(1), crashes=[Point.AFTER_CLAIM], repeat=2)
    assert (rows[0].crash, rows[1].verdict) == (Point.AFTER_CLAIM, "BUSY")
    assert rows[2].at - START >= 30_000
    assert left.tables["totals"][0]["amount"] == 1


def test_a_record_that_kills_its_worker_each_time_ends_among_the_dead_letters_and_its_run_failed(on: Stand) -> None:
    def deadly(point: Point, _: object, message: Message | None) -> None:
        if point is Point.BEFORE_COMMIT and message is not None and not any(row.to_dlq for row in rows):
            raise Died(point)

    rows: list[Delivered] = []
    with on.world(passed=deadly) as world:
        put(world, order(1))
        for row in world.run():
            rows.append(row)
        left = FinalState.of(world)
    assert [(row.to_dlq, row.receive) for row in rows] == [(False, 1), (False, 2), (True, 3), (False, 1)]
    assert [run.status for run in left.runs] == ["FAILED"]
    assert [(one.queue, one.stage, one.object_id) for one in left.dead_letters] == [
        ("shop-dead-letters", "shop/take", "order-1")
    ]


REQUEST = {
    "version": "2.0",
    "routeKey": "$default",
    "rawPath": "/answers/token",
    "headers": {},
    "requestContext": {"http": {"method": "POST", "path": "/answers/token"}, "timeEpoch": START},
    "body": "{}",
    "isBase64Encoded": False,
}


@pytest.mark.parametrize("is_request", [False, True])
def test_what_came_too_early_comes_again_as_often_as_in_queues_of_templates(on: Stand, is_request: bool) -> None:
    early = DeliveryTrace()
    early.add(Event(EventType.ANSWERED, None, {"verdict": "EARLY"}))
    with on.world() as world:
        put(world, REQUEST if is_request else order(1))
        delivery = world.source.next(world.clock, world)
        assert delivery is not None
        assert delivery.is_request is is_request
        for receive in range(1, MANY_RECEIVES):
            delivery.receives = receive
            assert not world._end(delivery, early, acked=False, died=False)
            assert world.source.is_waiting(delivery), receive
        delivery.receives = MANY_RECEIVES
        assert world._end(delivery, early, acked=False, died=False) is not is_request
        assert world.source.is_waiting(delivery) is not is_request, "a sender gives up, a queue gives it on"


@pytest.mark.parametrize("acked", [False, True])
def test_a_request_that_came_in_time_is_sent_once(on: Stand, acked: bool) -> None:
    with on.world() as world:
        put(world, REQUEST)
        delivery = world.source.next(world.clock, world)
        assert delivery is not None
        assert not world._end(delivery, DeliveryTrace(), acked=acked, died=False)
        assert not world.source.is_waiting(delivery)


def test_a_record_that_no_function_can_place_is_shown_once(on: Stand) -> None:
    rows, left = on.play(sqs_event("elsewhere", "?", attributes={"flowstage": "other/stage"}))
    assert verdicts(rows) == ["UNROUTABLE"]
    assert not rows[0].acked
    assert (left.runs, left.dead_letters) == ((), ())


def test_a_record_whose_place_cannot_be_read_is_shown_once(on: Stand) -> None:
    assert verdicts(on.play(sqs_event("orders", "?", attributes={"flowguard": "no JSON"}))[0]) == ["UNREADABLE"]


def test_a_record_that_claims_what_its_flow_does_not_allow_is_shown_once(on: Stand) -> None:
    rows, left = on.play(sqs_event("orders", {"order_id": "order-1"}, attributes={"flowstage": "shop/nowhere"}))
    assert verdicts(rows) == ["UNTRUSTED"]
    assert (rows[0].acked, left.runs) == (False, ())


def test_a_recorded_signature_is_believed_for_its_keys_are_elsewhere(on: Stand) -> None:
    there = '"reply_to":"sqs:arn:aws:sqs:eu-west-1:999999999999:theirs"'
    signed = {"flowstage": "shop/take", "flowguard": f'{{"object":"order-1",{there},"sig":"k.00"}}'}
    unsigned = {"flowstage": "shop/take", "flowguard": f'{{"object":"order-1",{there}}}'}
    body = {"order_id": "order-1", "n": 1}
    assert verdicts(on.play(sqs_event("orders", body, attributes=signed))[0])[0] == "CLAIMED"
    assert verdicts(on.play(sqs_event("orders", body, attributes=unsigned))[0]) == ["UNTRUSTED"]


def test_records_of_one_group_come_one_after_another(on: Stand) -> None:
    class Line(Flow, name="line", object_id=PER_REQUEST, inbox="line.fifo"):
        stages = (Note,)

    events = [sqs_event("line.fifo", {"n": n}, message_id=f"m-{n}", group="g") for n in (1, 2)]
    rows, _ = on.play(*events, flows=[Line], crashes=[Point.BEFORE_COMMIT])
    assert [(row.record, row.crash is not None) for row in rows] == [
        ("m-1", True),
        ("m-1", False),
        ("m-2", True),
        ("m-2", False),
    ]


# -- what no queue delivers -------------------------------------------------------------------------------------------


def test_a_direct_invocation_goes_to_the_flow_whose_first_stage_can_read_it(on: Stand) -> None:
    rows, _ = on.play(invocation({"order_id": "order-5"}), flows=[Line, Shop])
    assert [(row.flow, row.stage) for row in rows] == [("shop", "take"), ("shop", "pack")]


def test_a_call_by_a_topic_goes_there_too(on: Stand) -> None:
    rows, _ = on.play(sns_event("anything", {"order_id": "order-5"}), flows=[Line, Shop])
    assert [(row.flow, row.stage) for row in rows] == [("shop", "take"), ("shop", "pack")]


def test_a_payload_that_several_flows_could_read_is_not_guessed_at(on: Stand) -> None:
    assert verdicts(on.play(invocation({"order_id": "order-5", "n": 1}), flows=[Line, Shop])[0]) == ["UNROUTABLE"]


# -- what is used is there --------------------------------------------------------------------------------------------


class Numbered(BaseModel):
    n: int


class Note(Stage[Numbered], name="note"):
    def handle(self, payload: Numbered, step: Step[Any]) -> Outcome:
        return Done()


class Line(Flow, name="lines", object_id=PER_REQUEST):
    stages = (Note,)


class Spread(Stage[Numbered], name="spread", then="heard", inbox="spread"):
    def handle(self, payload: Numbered, step: Step[Any]) -> Outcome:
        step.update("made-up", {"pk": "a", "sk": payload.n}, "ADD hits :one", values={":one": 1})
        step.send(Topic("arn:aws:sns:us-east-1:123456789012:news"), "news")
        step.send(Bus("orders", "shop", "Spread"), {"n": payload.n})
        step.send(Function("other"), "hello")
        return Heard.message(payload)


class Heard(Stage[Numbered], name="heard", inbox=MESSAGES):
    def handle(self, payload: Numbered, step: Step[Any]) -> Outcome:
        return Done()


class Spreading(Flow, name="spreading", object_id=PER_REQUEST):
    stages = (Spread, Heard)


def test_queues_topics_buses_and_tables_need_not_be_listed(on: Stand) -> None:
    rows, left = on.play(sqs_event("spread", {"n": 3}), flows=[Spreading])
    assert sorted(one.to for one in rows[0].sends) == ["events:Spread", "lambda:other", "sns:news", "sns:parcels"]
    assert left.tables["made-up"] == ({"hits": 1, "pk": "a", "sk": 3},)


def test_a_stage_behind_a_topic_gets_its_messages(on: Stand) -> None:
    rows, _ = on.play(sqs_event("spread", {"n": 3}), flows=[Spreading])
    assert [(row.stage, row.queue, row.outcome) for row in rows][1:] == [("heard", "spreading-heard", "completed")]


# -- exactly once -----------------------------------------------------------------------------------------------------


ORDERS = [order(number, at=START + number * 1_000) for number in (1, 2, 3)]


@pytest.fixture(scope="module")
def undisturbed(on: Stand) -> FinalState:
    return on.play(*ORDERS)[1]


def effects(left: FinalState) -> Any:
    """Everything but the time of day, which death delays."""
    runs = [(run.object_id, run.status, run.request_id, run.result) for run in left.runs]
    items = {name: [{**item, "seen": None} for item in items] for name, items in left.tables.items()}
    return runs, items, left.dead_letters


@pytest.mark.parametrize("point", Point)
def test_a_death_at_any_point_changes_no_effect(on: Stand, point: Point, undisturbed: FinalState) -> None:
    rows, left = on.play(*ORDERS, crashes=[point])
    assert sum(row.crash is point for row in rows) == 6
    assert effects(left) == effects(undisturbed)


@pytest.mark.parametrize("point", Point)
def test_nor_does_it_with_copies_and_in_another_order(on: Stand, point: Point, undisturbed: FinalState) -> None:
    _, left = on.play(*ORDERS, crashes=[point], repeat=2, shuffle=4)
    assert effects(left) == effects(undisturbed)


def test_nor_do_deaths_at_all_points_at_once(on: Stand, undisturbed: FinalState) -> None:
    rows, left = on.play(*ORDERS, crashes=Point, repeat=3, shuffle=1)
    assert {row.crash for row in rows} >= set(Point)
    assert effects(left) == effects(undisturbed)


def test_equal_seeds_give_equal_lines_and_another_seed_gives_other_ids(on: Stand) -> None:
    once, again = (on.play(*ORDERS, crashes=[Point.AFTER_COMMIT], repeat=2, shuffle=3) for _ in range(2))
    assert once == again
    assert {row.record for row in on.play(*ORDERS, seed=1)[0]} != {row.record for row in on.play(*ORDERS)[0]}


def test_a_worker_held_up_is_fenced_and_its_write_refused(on: Stand) -> None:
    script, rows = Script(), list[Delivered]()
    newer = sqs_event("orders", {"order_id": "order-1", "amount": 50}, message_id="newer", sent_at=START + 5)

    def reset() -> None:
        put(world, newer)
        rows.extend(world.run())

    script.meanwhile(Point.BEFORE_COMMIT, "pack", reset)
    with on.world(passed=script) as world:
        put(world, order(1))
        rows.extend(world.run())
        left = FinalState.of(world)
    late = rows[-1]
    assert (late.verdict, late.outcome, late.acked) == ("CLAIMED", "fenced", True)
    assert [one.key for one in late.refused] == ["packed"]
    assert late.writes == ()
    assert left.tables["totals"][0] == {"amount": 50, "day": "packed"}
    counts = Counts.of(world.put_in, rows)
    assert (counts.messages, counts.executions, counts.fenced, counts.refused_writes) == (2, 4, 1, 1)


# -- its parts --------------------------------------------------------------------------------------------------------


def test_a_shuffle_deals_the_records_out_to_the_same_moments() -> None:
    recorded = [one for one in read_recording(batch(*ORDERS)) if isinstance(one, RecordedRecord)]
    plain_plan, shuffled = plan(recorded, repeat=2), plan(recorded, repeat=2, shuffle=1)
    assert [one.at for one in shuffled] == [one.at for one in plain_plan]
    ids = [one.recorded.envelope.message_id for one in shuffled]
    assert ids != sorted(ids)
    assert sorted(ids) == [f"message-{number}" for number in (1, 1, 2, 2, 3, 3)]


def test_a_record_without_a_time_comes_with_the_one_before_it() -> None:
    events = [order(2, at=START + 2_000), invocation({"order_id": "x"}), order(1, at=START + 1_000)]
    recorded = [one for event in events for one in read_recording(event) if isinstance(one, RecordedRecord)]
    ids = [one.recorded.envelope.message_id for one in plan(recorded)]
    assert (ids[0], ids[1]) == ("message-1", "message-2")
    assert ids[2].startswith("invocation-")


def test_what_dynamodb_holds_becomes_json() -> None:
    found = plain(
        {"n": Decimal("1.50"), "i": Decimal(3), "s": {"b", "a"}, "b": b"x", "B": Binary(b"x"), "l": [Decimal(1)]}
    )
    assert found == {"n": 1.5, "i": 3, "s": ["a", "b"], "b": "b'x'", "B": "b'x'", "l": [1]}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("my_flows", "write MODULE:FLOW"),
        ("missing.module:Flow", "there is no module 'missing' here"),
        ("my_flows:Nothing", "my_flows has no 'Nothing'; its flows: Mine"),
        ("my_flows:other", "other is not a Flow; the flows of my_flows: Mine"),
        ("my_flows:guarded", "guarded is a function under @once, which 'flowguard explore' takes"),
    ],
)
def test_a_flow_that_is_not_there_is_named_with_those_that_are(name: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "my_flows.py").write_text(
        "from flowguard import *\nfrom flowguard import Flow\nother = 1\n"
        "guarded = once('charge', key='order_id')(lambda order: None)\n"
        "class Only(Stage[str], name='only'):\n    def handle(self, payload, step):\n        return Done()\n"
        "class Mine(Flow, name='mine', object_id=PER_REQUEST):\n    stages = (Only,)\n"
    )
    with pytest.raises(NoSuchFlow, match=problem):
        load_flows([name], directory=tmp_path)


def test_a_module_that_misses_something_else_says_what(tmp_path: Path) -> None:
    (tmp_path / "half_flows.py").write_text("import something_not_installed\n")
    with pytest.raises(NoSuchFlow, match=r"half_flows\.py:1: ModuleNotFoundError: .*something_not_installed"):
        load_flows(["half_flows:Flow"], directory=tmp_path)
