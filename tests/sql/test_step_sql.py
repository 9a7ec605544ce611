"""``step.sql`` in whole runs: what a database has after crashes, retries, newer requests and lost run items."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import boto3
import pytest
from pydantic import BaseModel

from flowguard import Done, Fixed, Flow, Outcome, RetryPolicy, Stage, Step
from flowguard.errors import FenceAhead, RunFailed, SettingsError, WorkerFenced
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.run import FencedBy
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sql import Postgres, SQLite
from flowguard.sql.once_per_hop import SqlOfHop
from flowguard.testing import FlowClock, FlowRunner, MemoryAWS
from flowguard.wire.message import Message
from tests.scene import OrderState, scene
from tests.sql.databases import Books, sqlite_books
from tests.worker.runtime.test_resets import client, triggered_cache

THRICE: Final = RetryPolicy(attempts=3, backoff=Fixed(1))


class Order(BaseModel):
    order_id: str
    version: int = 1


class Booked(BaseModel):
    number: str
    attempt: int


class World:
    """What the handlers of this module do, and what they saw."""

    books: Books
    handle: Callable[[Order, Step], Outcome]
    seen: list[Any]


WORLD = World()


class BookIt(Stage[Order], name="book-it", then="ship-it", retry=THRICE):
    def handle(self, order: Order, step: Step) -> Outcome:
        return WORLD.handle(order, step)


class ShipIt(Stage[Order], name="ship-it", retry=THRICE):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done(booked(step, order, "ship"))


class SqlOrders(Flow, name="sql-orders", object_id="order_id"):
    stages = (BookIt, ShipIt)


class Unclaimed(Stage[Order], name="unclaimed", lease=False):
    def handle(self, order: Order, step: Step) -> Outcome:
        return WORLD.handle(order, step)


class UnclaimedOrders(Flow, name="unclaimed-orders", object_id="order_id"):
    stages = (Unclaimed,)


@pytest.fixture(autouse=True)
def world(tmp_path: Path) -> Iterator[World]:
    with sqlite_books(tmp_path / "books.db") as WORLD.books:
        WORLD.seen = []
        yield WORLD


@pytest.fixture
def runner() -> Iterator[FlowRunner]:
    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as made:
        yield made


def booked(step: Step, order: Order, name: str = "book") -> Booked:
    def make(cursor: sqlite3.Cursor) -> Booked:
        number = f"{order.order_id} {order.version} {step.hop}"
        WORLD.books.book(cursor, number)
        return Booked(number=number, attempt=step.attempt)

    made = step.sql(name, WORLD.books.database, make, Booked)
    WORLD.seen.append(made)
    assert isinstance(made, Booked)
    return made


def test_an_attempt_that_fails_after_its_statements_does_not_repeat_them(runner: FlowRunner) -> None:
    def handle(order: Order, step: Step) -> Outcome:
        made = booked(step, order)
        if step.attempt < 3:
            raise ConnectionError("after the commit of the database, before that of the hop")
        return Done(made)

    WORLD.handle = handle
    runner.send(SqlOrders, Order(order_id="o-1"))
    assert runner.run().run("o-1").status == "COMPLETED"
    assert WORLD.books.booked == ["o-1 1 1"]
    assert WORLD.seen == [Booked(number="o-1 1 1", attempt=1)] * 3


def test_each_hop_and_request_has_statements_of_its_own(runner: FlowRunner) -> None:
    def handle(order: Order, step: Step) -> Outcome:
        booked(step, order)
        return ShipIt.message(order)

    WORLD.handle = handle
    for version in (1, 2):
        runner.send(SqlOrders, Order(order_id="o-1", version=version))
        runner.run()
    assert WORLD.books.booked == ["o-1 1 1", "o-1 1 2", "o-1 2 1", "o-1 2 2"]


@pytest.mark.parametrize("attempts", [1, 2])
def test_an_id_that_comes_again_after_another_request_makes_its_statements(runner: FlowRunner, attempts: int) -> None:
    def handle(order: Order, step: Step) -> Outcome:
        if step.attempt < attempts:
            raise ConnectionError("before its statements")
        return Done(booked(step, order) if order.version == 1 else "nothing is booked")

    WORLD.handle = handle
    for day, version in enumerate((1, 2, 1, 1)):
        at = 1_767_225_600_000 + 1_000 * min(day, 2)
        runner.send(SqlOrders, Order(order_id="o-1", version=version), request_id=f"r-{version}", requested_at=at)
        runner.run()
    assert WORLD.books.booked == ["o-1 1 1", "o-1 1 1"], "the last one is a copy"


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize("has_expired", [False, True])
def test_an_id_that_comes_again_after_its_run_item_has_expired_makes_its_statements(
    has_expired: bool, attempts: int
) -> None:
    """The copy of one whose item is there is acknowledged, and makes none."""
    failing = 0

    def handle(order: Order, step: Step) -> Outcome:
        if step.attempt <= failing:
            raise ConnectionError("before its statements")
        return Done(booked(step, order))

    WORLD.handle = handle
    with FlowClock() as clock, MemoryAWS(clock) as aws, FlowRunner(aws, clock) as runner:
        runner.send(SqlOrders, Order(order_id="o-1"), request_id="r-1")
        runner.run()
        clock.advance(days=60 if has_expired else 1)
        if has_expired:
            tables = aws.client("dynamodb")
            for item in tables.scan(TableName="flowguard")["Items"]:
                tables.delete_item(TableName="flowguard", Key={"pk": item["pk"], "sk": item["sk"]})
        failing = attempts - 1
        runner.send(SqlOrders, Order(order_id="o-1"), request_id="r-1")
        runner.run()
    assert WORLD.books.booked == ["o-1 1 1"] * (2 if has_expired else 1)


def test_a_copy_of_a_request_makes_no_statement(runner: FlowRunner) -> None:
    WORLD.handle = lambda order, step: Done(booked(step, order))
    for _ in range(2):
        runner.send(SqlOrders, Order(order_id="o-1"), request_id="r-1", requested_at=1_767_225_600_000)
        runner.run()
    assert WORLD.books.booked == ["o-1 1 1"]


def test_statements_that_raise_fail_the_attempt_and_leave_nothing(runner: FlowRunner) -> None:
    def handle(order: Order, step: Step) -> Outcome:
        def make(cursor: sqlite3.Cursor) -> int:
            WORLD.books.book(cursor, f"attempt {step.attempt}")
            if step.attempt == 1:
                raise ConnectionError("the database went away")
            return step.attempt

        return Done({"attempt": step.sql("book", WORLD.books.database, make)})

    WORLD.handle = handle
    runner.send(SqlOrders, Order(order_id="o-1"))
    assert runner.run().run("o-1").status == "COMPLETED"
    assert WORLD.books.booked == ["attempt 2"]


def test_what_sql_has_committed_is_seen_before_the_hop_is_and_stays_when_its_run_fails(runner: FlowRunner) -> None:
    seen = []

    def handle(order: Order, step: Step) -> Outcome:
        step.put("orders", {"id": order.order_id})
        booked(step, order)
        seen.append((WORLD.books.booked, boto3.resource("dynamodb").Table("orders").scan()["Count"]))
        raise ConnectionError("in each attempt")

    WORLD.handle = handle
    runner.table("orders", "id")
    runner.send(SqlOrders, Order(order_id="o-1"))
    result = runner.run()
    assert seen == [(["o-1 1 1"], 0)] * 3
    assert (result.run("o-1").status, result.table("orders"), WORLD.books.booked) == ("FAILED", (), ["o-1 1 1"])


def test_a_worker_that_lost_its_claim_may_write_before_the_newer_request_has() -> None:
    message = Message("sql-orders", "book-it", 1, ObjectId("o-1"), RequestId("r-1"), 100, "{}")
    newer = message._replace(request_id=RequestId("r-2"), requested_at=200)

    def book(cursor: sqlite3.Cursor, number: str) -> str:
        WORLD.books.book(cursor, number)
        return number

    for epoch, each in ((1, message), (2, newer)):
        hop = SqlOfHop(sqlite(), each, epoch, 1_000, lambda: False)
        hop.once("book", partial(book, number=each.request_id))
    assert WORLD.books.booked == ["r-1", "r-2"]


@pytest.mark.parametrize("kind", [bytes, str])
def test_a_connection_may_read_texts_as_bytes(kind: type, runner: FlowRunner) -> None:
    def connect() -> sqlite3.Connection:
        (_, _, path), *_ = WORLD.books.query("PRAGMA database_list")
        connection = sqlite3.connect(path)
        connection.text_factory = kind
        return connection

    def handle(order: Order, step: Step) -> Outcome:
        def book(cursor: sqlite3.Cursor) -> int:
            WORLD.books.book(cursor, f"n-{step.attempt}")
            return step.attempt

        made = step.sql("book", SQLite(connect), book)
        if step.attempt < 3:
            raise ConnectionError
        return Done({"made": made})

    WORLD.handle = handle
    runner.send(SqlOrders, Order(order_id="o-1"))
    assert runner.run().run("o-1").status == "COMPLETED"
    assert WORLD.books.booked == ["n-1"]


def test_a_handler_may_repeat_statements_that_raised(runner: FlowRunner) -> None:
    """So PostgreSQL asks for it where a transaction could not be serialized, or met a deadlock."""
    raising = [sqlite3.OperationalError("could not serialize access"), None]

    def handle(order: Order, step: Step) -> Outcome:
        def make(cursor: sqlite3.Cursor) -> str:
            WORLD.books.book(cursor, f"n-{len(raising)}")
            if (error := raising.pop(0)) is not None:
                raise error
            return "made"

        with suppress(sqlite3.OperationalError):
            step.sql("book", WORLD.books.database, make)
        return Done(step.sql("book", WORLD.books.database, make))

    WORLD.handle = handle
    runner.send(SqlOrders, Order(order_id="o-1"))
    assert runner.run().run("o-1").status == "COMPLETED"
    assert WORLD.books.booked == ["n-1"]


def test_after_its_statements_a_handler_remembers_other_things(runner: FlowRunner) -> None:
    def handle(order: Order, step: Step) -> Outcome:
        booked(step, order)
        return Done({"more": step.once("more", lambda: 7)})

    WORLD.handle = handle
    runner.send(SqlOrders, Order(order_id="o-1"))
    assert runner.run().run("o-1").status == "COMPLETED"


def test_a_cursor_is_no_result(runner: FlowRunner) -> None:
    def handle(order: Order, step: Step) -> Outcome:
        insert = "INSERT INTO bookings VALUES ('n-1', 1)"
        assert step.sql("book", WORLD.books.database, lambda cursor: cursor.execute(insert)) is None
        return Done()

    WORLD.handle = handle
    runner.send(SqlOrders, Order(order_id="o-1"))
    assert runner.run().run("o-1").status == "COMPLETED"
    assert WORLD.books.booked == ["n-1"]


def test_it_writes_nothing_to_the_run_item_and_makes_no_call(runner: FlowRunner) -> None:
    calls: list[str] = []

    def handle(order: Order, step: Step) -> Outcome:
        def note(call: ApiCall, proceed: Proceed, /) -> Response:
            calls.append(call.operation)
            return proceed()

        with intercept(note):
            booked(step, order)
        return Done()

    WORLD.handle = handle
    runner.send(SqlOrders, Order(order_id="o-1"))
    runner.run()
    assert calls == []


def test_a_database_that_alone_knows_of_a_newer_claim_fails_the_attempt_and_loses_nothing(runner: FlowRunner) -> None:
    """Such a run item was restored from a backup."""
    WORLD.handle = lambda order, step: Done(booked(step, order))
    books = WORLD.books
    books.query(
        "INSERT INTO flowguard_fence VALUES ('sql-orders', 'o-1', 'lost', 9000000000000, 1, '', 7, '{}', 0)",
    )
    runner.send(SqlOrders, Order(order_id="o-1"))
    end = runner.run().run("o-1")
    assert (end.status, books.booked) == ("FAILED", [])
    assert end.error is not None
    assert "FenceAhead: flowguard_fence has a newer request or claim of 'o-1'" in end.error


def sqlite() -> SQLite:
    assert isinstance(WORLD.books.database, SQLite)
    return WORLD.books.database


async def asynchronous(_: object) -> None: ...


def twice(step: Step, database: SQLite) -> None:
    for _ in range(2):
        step.sql("a", database, lambda _: None)


def ends(cursor: sqlite3.Cursor) -> None:
    cursor.execute("COMMIT")


@pytest.mark.parametrize(
    ("call", "why"),
    [
        pytest.param(lambda step, db: step.sql("a", "ledger", str), "a str is no database", id="an address"),
        pytest.param(
            lambda step, db: step.sql("a", db._connect(), str), "a Connection is no database", id="a connection"
        ),
        pytest.param(lambda step, db: step.sql("", db, str), "names nothing to remember", id="no name"),
        pytest.param(lambda step, db: step.sql("a", db, 7), r"step\.sql\('a', …\) has 7 to call", id="no function"),
        pytest.param(lambda step, db: step.sql("a", db, str, "int"), "no type but text", id="a type's name"),
        pytest.param(lambda step, db: step.sql("a", db, asynchronous), "an async function", id="an async function"),
        pytest.param(twice, "two calls or blocks of one handler", id="a name twice"),
        pytest.param(lambda step, db: step.sql("a", db, lambda c: str), "cannot remember the result", id="no JSON"),
        pytest.param(lambda step, db: step.sql("a", db, lambda _: step.sql("b", db, str)), "within", id="in another"),
        pytest.param(lambda step, db: step.sql("a", db, lambda _: step.once("b", str)), "within", id="once in it"),
        pytest.param(lambda step, db: step.sql("a", db, ends), "ended its transaction", id="a commit of its own"),
    ],
)
def test_what_is_no_use_is_refused(runner: FlowRunner, call: Callable[[Step, SQLite], object], why: str) -> None:
    def handle(order: Order, step: Step) -> Outcome:
        with pytest.raises(RunFailed, match=why):
            call(step, sqlite())
        return Done()

    WORLD.handle = handle
    runner.send(SqlOrders, Order(order_id="o-1"))
    assert runner.run().run("o-1").status == "COMPLETED"


@pytest.mark.parametrize("kind", [SQLite, Postgres])
def test_an_address_opens_no_connection(kind: Any) -> None:
    with pytest.raises(SettingsError, match=r"a str opens no connection; give a function that does: \w+\(lambda: …\)"):
        kind("postgresql://ledger")


@pytest.mark.parametrize(("kind", "wanted"), [(SQLite, "sqlite3.Connection"), (Postgres, "psycopg.Connection")])
def test_what_is_no_connection_is_named(kind: Any, wanted: str) -> None:
    with pytest.raises(RunFailed, match=f"connects to NoneType, and not a {wanted}"), kind(lambda: None).transaction():
        pass


def test_a_stage_without_a_claim_has_no_fence_to_write(runner: FlowRunner) -> None:
    def handle(order: Order, step: Step) -> Outcome:
        with pytest.raises(RunFailed, match=r"step\.sql works only under a claim"):
            booked(step, order)
        return Done()

    WORLD.handle = handle
    runner.send(UnclaimedOrders, Order(order_id="o-1"))
    assert runner.run().run("o-1").status == "COMPLETED"


def test_after_a_reset_the_statements_are_made_anew() -> None:
    message = Message("sql-orders", "book-it", 1, ObjectId("o-1"), RequestId("r-1"), 100, "{}")

    def hop(epoch: int, reset_by: str | None) -> SqlOfHop:
        return SqlOfHop(sqlite(), message, epoch, 1_000, lambda: True, reset_by)

    assert hop(1, None).once("read", lambda _: "old") == "old"
    assert hop(3, "a reset").once("read", lambda _: "new") == "new"
    with pytest.raises(FenceAhead):
        hop(1, None).once("write", lambda _: "late")


def test_a_cache_that_is_reset_at_work_reads_its_database_anew() -> None:
    read: list[str] = []

    def work(step: Step[OrderState]) -> None:
        read.append(step.sql("read", sqlite(), lambda _: "new" if read else "old"))
        if len(read) == 1:
            client(at).reset(at.flow, "o1")

    with scene(triggered_cache) as at:
        at.script.pricing = work
        at.clock.advance(seconds=1)
        at.deliver(at.message())
        at.clock.advance(seconds=31)
        at.deliver(at.message())
    assert read == ["old", "new"]


@pytest.mark.parametrize(("is_current", "error"), [(True, FenceAhead), (False, WorkerFenced)])
def test_who_is_refused_asks_the_run_item_who_is_right(is_current: bool, error: type[Exception]) -> None:
    message = Message("sql-orders", "book-it", 1, ObjectId("o-1"), RequestId("r-1"), 100, "{}")
    newer = SqlOfHop(sqlite(), message._replace(requested_at=200), 2, 1_000, lambda: False)
    newer.once("book", lambda _: "newer")
    late = SqlOfHop(sqlite(), message, 1, 1_000, lambda: is_current)
    with pytest.raises(error) as raised:
        late.once("another", lambda _: "late")
    if isinstance(raised.value, WorkerFenced):
        assert raised.value.by == FencedBy.OTHER_ATTEMPT  # its record stays in the queue, and is judged when it comes
