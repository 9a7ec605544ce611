"""Runs that fail, are cancelled, redriven, reset and taken over in any order keep what the guarantees say."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel

from flowguard.aws.services import aws_store
from flowguard.client import FlowClient
from flowguard.errors import FenceAhead, Reject
from flowguard.failed import Failure
from flowguard.flow import UNTIL_RESET, AnyFlow, Flow
from flowguard.handler import lambda_handler
from flowguard.names.ids import ObjectId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import ENDED, RunItem, Status
from flowguard.protocol.run_orders import cancel_attributes, reset_attributes
from flowguard.retry import Fixed, RetryPolicy
from flowguard.settings import Settings
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sql import SCHEMA, SQLite
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.wire.signing import UNSIGNED
from tests.aws.engines import same_clients
from tests.waits import record
from tests.worker.runtime.mishaps import Died
from tests.worker.storm import DEEPEST, Held, Senders, Storm, account, number_of, replies_in

STEPS: Final = 40
WHY: Final = "ordered by mistake"
KINDS: Final = ("supersede", "ignore", "attach", "cache")
QUEUES: Final = ("inbox", "answers", "mails", "completed", "dead", "replies")


class Order(BaseModel):
    order_id: str
    quantity: int


class Stock(BaseModel):
    reserved: int = 0


@dataclass
class Handlers:
    """What goes wrong in handlers, and what they saw that may not be."""

    draw: random.Random
    storm: Storm
    database: SQLite | None = None
    is_calm: bool = False
    problems: list[str] = field(default_factory=list)
    _count: int = 0
    _results: dict[str, int] = field(default_factory=dict)

    def fail(self) -> None:
        """Fail now and then: for good, or for now."""
        chance = 1.0 if self.is_calm else self.draw.random()
        if chance < 0.08:
            raise Reject("no")
        if chance < 0.2:
            raise RuntimeError("for now")

    def remember(self, step: Step[Any]) -> None:
        """What was returned to one attempt of a hop is returned to each after it, and what was applied stays so."""
        with step.apply("early"):
            done_once(step, f"{step.key('k')} early")
        self._same(f"{step.key('k')} remembers", step.once("read", self._next))

    def _next(self) -> int:
        self._count += 1
        return self._count

    def book(self, step: Step[Any]) -> None:
        """Book in SQL. A death, an error of the database or somebody else may come in between."""
        if self.database is None:
            return
        at = f"{step.request_id} {step.hop} {step.key('k')}"

        def insert(cursor: sqlite3.Cursor) -> int:
            cursor.execute("INSERT INTO books (at, requested) VALUES (?, ?)", (at, step.requested_at.timestamp()))
            self._meanwhile()
            return int(cursor.lastrowid or 0)

        try:
            self._same(at, step.sql("book", self.database, insert))
        except FenceAhead as error:
            self.problems.append(f"{at}: {error}")
            raise
        done_once(step, f"{at} booked")
        self._meanwhile()

    def _meanwhile(self) -> None:
        chance = 1.0 if self.is_calm else self.draw.random()
        if chance < 0.1:
            raise Died
        if chance < 0.2:
            raise RuntimeError("deadlock")
        if chance < 0.3:
            self.storm.step()

    def _same(self, name: str, result: int) -> None:
        if self._results.setdefault(name, result) != result:
            self.problems.append(f"{name}: {self._results[name]} and then {result}")


def done_once(step: Step[Any], name: str) -> None:
    step.update("effects", {"id": name}, "ADD times :one", values={":one": 1})


def reserve(step: Step[Stock], before: Stock, after: int) -> None:
    """Record the difference to what was reserved before, in the stock and in the state."""
    more = after - before.reserved
    step.update("stock", {"id": step.object_id}, "ADD reserved :more", values={":more": more})
    step.state.reserved = after


def flow_of(handlers: Handlers, kind: str, *, undoes: bool) -> AnyFlow:
    policy = RetryPolicy(attempts=3, backoff=Fixed(20), jitter=0)

    class Reserve(Stage[Order, Stock], name="reserve", then="charge", inbox="inbox", retry=policy):
        def handle(self, order: Order, step: Step[Stock]) -> Outcome:
            handlers.fail()
            handlers.remember(step)
            handlers.book(step)
            reserve(step, step.superseded or Stock(), order.quantity)
            done_once(step, f"{step.request_id} reserve")
            step.send("mails", {"of": step.request_id})
            handlers.fail()
            return Charge.message(order)

    class Charge(Stage[Order, Stock], name="charge", inbox="inbox", retry=policy):
        def handle(self, order: Order, step: Step[Stock]) -> Outcome:
            handlers.fail()
            handlers.remember(step)
            handlers.book(step)
            if step.state.reserved != order.quantity:
                handlers.problems.append(f"{step.request_id} has reserved {step.state.reserved} of {order.quantity}")
            reserve(step, step.state, order.quantity + 100)
            done_once(step, f"{step.request_id} charge")
            handlers.fail()
            return Done({"by": step.request_id})

    class Free(Stage[Failure, Stock], name="free", inbox="inbox", retry=RetryPolicy(attempts=20, backoff=Fixed(20))):
        def handle(self, failure: Failure, step: Step[Stock]) -> Outcome:
            if not handlers.is_calm and handlers.draw.random() < 0.2:
                raise RuntimeError("for now")
            handlers.book(step)
            reserve(step, step.superseded or step.state, 0)
            done_once(step, f"{step.request_id} free")
            return Done()

    options: dict[str, Any] = {"on_failed": Free} if undoes else {}
    options |= {"keep_result": UNTIL_RESET} if kind == "cache" else {"on_conflict": OnConflict(kind)}
    made = (Reserve, Charge, Free) if undoes else (Reserve, Charge)

    class Orders(
        Flow,
        name="orders",
        object_id="order_id",
        dead_letters="dead",
        answers="answers",
        complete_to="completed",
        abandoned_after=timedelta(minutes=30),
        trust_senders=True,
        **options,
    ):
        stages = made

    return Orders


class World:
    """Some objects of a flow, and all that is asked of them."""

    def __init__(self, storm: Storm, handlers: Handlers, flow: AnyFlow, client: FlowClient, objects: int) -> None:
        self.storm, self.handlers, self.flow = storm, handlers, flow
        self.objects = [f"o{number}" for number in range(objects)]
        self.senders = Senders(storm, self._start, most=4 * objects)
        self.cancelled: dict[str, set[str]] = {}
        self.was_redriven = False
        self._client = client
        self._orders = 0
        happenings = {
            "ask": (2, self.senders.ask),
            "again": (1, self.senders.again),
            "cancel": (1, self._cancel),
            "order": (1, self._order),
            "redrive": (1, self._redrive),
        }
        resets = {"reset": (1, self._reset)} if self.takes_callers else {}
        storm.happenings = {**happenings, **resets}

    @property
    def takes_callers(self) -> bool:
        return self.flow.on_conflict is OnConflict.ATTACH

    def object_of(self, request: str) -> str:
        return self.objects[number_of(request) % len(self.objects)]

    def item(self, object_id: str) -> RunItem | None:
        with self.storm.lull():
            return aws_store(Settings(), same_clients()).read("orders", ObjectId(object_id))

    def effects_of(self, run: str) -> set[str]:
        return {one["id"]["S"] for one in self.storm.aws.items("effects")} & {f"{run} reserve", f"{run} charge"}

    def _any(self) -> str:
        return self.storm.draw.choice(self.objects)

    def _start(self, name: str, at: int) -> None:
        order = Order(order_id=self.object_of(name), quantity=number_of(name))
        self._client.start(self.flow, order, request_id=name, requested_at=at, reply_to="replies")

    def _cancel(self) -> None:
        object_id = self._any()
        if self._client.cancel(self.flow, object_id, why=WHY):
            item = self.item(object_id)
            assert item is not None
            assert item.cancellation is not None
            run = item.cancellation.request_id
            kept = {name: effects for name, effects in self.cancelled.items() if name in self.senders.asked}
            before = self.cancelled.get(run, self.effects_of(run))
            self.cancelled = {**kept, run: before}  # of restarts the item remembers the one that was cancelled last

    def _reset(self) -> None:
        self._client.reset(self.flow, self._any())

    def _order(self) -> None:
        """A stage of another flow orders something. That may come late, and more than once."""
        self._orders += 1
        object_id, name = ObjectId(self._any()), f"order-{self._orders}"
        at = self.storm.clock.now() - self.storm.draw.choice((0, 1_500))
        if self.takes_callers and self.storm.draw.random() < 0.5:
            queue, attributes = "answers", reset_attributes("orders", object_id, name, at, UNSIGNED)
        else:
            queue, attributes = "inbox", cancel_attributes("orders", "reserve", object_id, name, at, WHY, UNSIGNED)
        self.storm.held.append(Held(queue, {**record(attributes, "{}", queue), "messageId": name}))

    def _redrive(self) -> None:
        for letter in self.storm.take("dead"):
            self.was_redriven = True
            came_from = letter["eventSourceARN"].replace(":dead", ":inbox")
            self.storm.held.append(Held("inbox", {**letter, "eventSourceARN": came_from}))


@contextmanager
def world(
    seed: int,
    kind: str,
    *,
    undoes: bool = False,
    objects: int = 1,
    database: SQLite | None = None,
) -> Iterator[World]:
    with account(seed, ("stock", "effects"), QUEUES) as given:
        storm = Storm(given.aws, given.clock, given.draw)
        handlers = Handlers(given.draw, storm, database)
        flow = flow_of(handlers, kind, undoes=undoes)
        handler = lambda_handler(flow, together=objects > 1)
        functions = [handler.using(given.services()) for _ in range(DEEPEST)]
        storm.functions, storm.largest_batch = {"inbox": functions, "answers": functions}, 1 if objects == 1 else 4
        with storm.blowing():
            yield World(storm, handlers, flow, FlowClient.of(given.services()), objects)


def blow(made: World) -> None:
    """Let anything happen for a while, and then only what ends it."""
    for _ in range(STEPS):
        made.storm.step()
    made.storm.is_wild, made.handlers.is_calm = False, True
    made.senders.ask_the_rest(2 * len(made.objects))
    assert made.storm.settle(), "records are left"


def judge(made: World) -> None:
    aws, undoes = made.storm.aws, made.flow.on_failed is not None
    assert made.handlers.problems == []
    effects = rows(aws, "effects", "times")
    assert set(effects.values()) <= {1}, "each effect once"
    ends = {object_id: ended(made, object_id, effects, undoes=undoes) for object_id in made.objects}
    begun = {name.removesuffix(" reserve") for name in effects if name.endswith(" reserve")}
    mails = {json.loads(one["body"])["of"] for one in made.storm.take("mails")}
    assert begun <= mails, "each message of a commit is sent"
    notices = {json.loads(one["body"])["request_id"] for one in made.storm.take("completed")}
    assert {item.request_id for item in ends.values()} <= notices
    replies = replies_in(made.storm.take("replies"))
    assert begun & set(made.senders.asked) <= set(replies), "who was carried out is told its end"
    judge_replies(made, replies, ends)


def judge_replies(made: World, replies: dict[str, dict[str, set[str]]], ends: dict[str, RunItem]) -> None:
    if made.takes_callers:
        assert set(made.senders.asked) == set(replies), "all are answered"
    else:
        assert all(len(texts) == 1 for by_id in replies.values() for texts in by_id.values()), replies
    if not made.was_redriven:
        assert all(len(by_id) == 1 for by_id in replies.values()), "each is told one end"
    for object_id, item in ends.items():
        times = {name: at for name, at in made.senders.asked.items() if made.object_of(name) == object_id}
        newest = max(times.values())
        assert {name for name, at in times.items() if at == newest} & set(replies), "the newest is told"
        if made.flow.on_conflict is OnConflict.SUPERSEDE:
            assert item.requested_at == newest


def ended(made: World, object_id: str, effects: dict[str, int], *, undoes: bool) -> RunItem:
    """The item of an object, whose last run has ended and agrees with what there is beside it."""
    aws, item = made.storm.aws, made.item(object_id)
    assert item is not None
    assert item.status in ENDED, item
    stock = rows(aws, "stock", "reserved").get(object_id, 0)
    assert stock == (0 if item.state is None else json.loads(item.state)["reserved"])
    if item.status is Status.COMPLETED:
        assert effects.keys() >= {f"{item.request_id} charge", f"{item.request_id} reserve"}
    else:
        assert item.error, "a failed run says why"
        assert not undoes or (stock, effects.get(f"{item.request_id} free")) == (0, 1), "it is taken back once"
    for run, before in made.cancelled.items():
        assert made.effects_of(run) == before, f"{run} went on after it was cancelled"
        assert (item.request_id, item.status) != (run, Status.COMPLETED)
    return item


def rows(aws: MemoryAWS, table: str, number: str) -> dict[str, int]:
    return {one["id"]["S"]: int(one[number]["N"]) for one in aws.items(table)}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("undoes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_happens_each_effect_is_applied_once_and_all_are_told_one_end(
    kind: str, seed: int, *, undoes: bool
) -> None:
    with world(seed, kind, undoes=undoes) as made:
        blow(made)
        judge(made)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_holds_of_records_that_share_their_calls(kind: str, seed: int) -> None:
    with world(seed, kind, undoes=True, objects=3) as made:
        blow(made)
        judge(made)


def books(path: Path) -> SQLite:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(SCHEMA)
        connection.execute("CREATE TABLE books (number INTEGER PRIMARY KEY, at text, requested real)")
    return SQLite(lambda: sqlite3.connect(path, timeout=0))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_statements_are_applied_once_in_a_hop_and_never_after_those_of_a_newer_request(
    kind: str, seed: int, tmp_path: Path
) -> None:
    with world(seed, kind, undoes=True, database=books(tmp_path / "books.db")) as made:
        blow(made)
        judge(made)
        with closing(sqlite3.connect(tmp_path / "books.db")) as connection:
            booked = connection.execute("SELECT at, requested FROM books ORDER BY number").fetchall()
        effects = {one["id"]["S"] for one in made.storm.aws.items("effects")}
    names, times = [at for at, _ in booked], [requested for _, requested in booked]
    assert len(set(names)) == len(names)
    assert {name.removesuffix(" booked") for name in effects if name.endswith(" booked")} <= set(names)
    assert times == sorted(times)
