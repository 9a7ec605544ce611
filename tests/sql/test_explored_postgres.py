"""What an exploration finds of statements on a real PostgreSQL: by psycopg, and by the Data API."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import boto3
import psycopg
import pytest
from botocore.config import Config
from click.testing import CliRunner
from pydantic import BaseModel

from flowguard import Done, Fixed, Flow, Outcome, RetryPolicy, Stage, Step
from flowguard.cli import main
from flowguard.errors import SettingsError
from flowguard.sql import SCHEMA, DataApi, DataApiTransaction, Postgres
from flowguard.testing import sqs_event
from flowguard.testing.explorer import Report, explore, replay
from flowguard.testing.explorer.run import postgres_copies
from flowguard.testing.explorer.run.left_copies import drop_left
from flowguard.testing.explorer.run.outside_postgres import statement_of
from flowguard.testing.explorer.run.outside_sql import Statement
from flowguard.testing.explorer.run.postgres_copies import read_postgres
from tests.engines.postgres import postgres
from tests.sql.data_api import CLUSTER, SECRET
from tests.sql.databases import queried

pytestmark = pytest.mark.proof("starts PostgreSQL and explores each fault of each call and statement")

PATIENT = RetryPolicy(attempts=3, backoff=Fixed(60))
LIVE = "host=live.example dbname=shop user=shop"
ADD = "UPDATE accounts SET balance = balance + 5 WHERE id = 'shop'"


class Order(BaseModel):
    order_id: str


DATABASE = Postgres(lambda: psycopg.connect(LIVE))


class AddOnce(Stage[Order], name="add", then="note", retry=PATIENT):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.sql("add", DATABASE, lambda cursor: cursor.execute(ADD) and None)
        return Note.message(order)


class Note(Stage[Order], name="note", retry=PATIENT):
    def handle(self, order: Order, step: Step) -> Outcome:
        noting = "INSERT INTO notes (order_id) VALUES (%s)"
        step.sql("note", DATABASE, lambda cursor: cursor.execute(noting, (order.order_id,)) and None)
        return Done()


class OnceInPostgres(Flow, name="once-in-postgres", object_id="order_id"):
    stages = (AddOnce, Note)


class OneInPostgres(Flow, name="one-in-postgres", object_id="order_id"):
    stages = (Note,)


class AddBesideTheFence(Stage[Order], name="add", retry=PATIENT):
    """Adds in a connection of its own, which commits whatever becomes of the hop."""

    def handle(self, order: Order, step: Step) -> Outcome:
        with psycopg.connect(LIVE) as connection:
            connection.execute(ADD)
        return Done()


class BesideTheFence(Flow, name="beside-the-fence", object_id="order_id"):
    stages = (AddBesideTheFence,)


def by_data_api() -> DataApi:
    client = boto3.client("rds-data", config=Config(retries={"total_max_attempts": 1}))
    return DataApi(client, cluster=CLUSTER, secret=SECRET, database="shop")


def add(transaction: DataApiTransaction) -> None:
    transaction.execute("UPDATE accounts SET balance = balance + :more WHERE id = 'shop'", {"more": 5})


class AddByDataApi(Stage[Order], name="add", retry=RetryPolicy(attempts=5, backoff=Fixed(120))):
    """Its attempts outlast the three minutes for which a dead worker's transaction keeps the row."""

    def handle(self, order: Order, step: Step) -> Outcome:
        step.sql("add", by_data_api(), add)
        return Done()


class OnceByDataApi(Flow, name="once-by-data-api", object_id="order_id"):
    stages = (AddByDataApi,)


class AddBesideByDataApi(Stage[Order], name="add", retry=PATIENT):
    def handle(self, order: Order, step: Step) -> Outcome:
        client: Any = boto3.client("rds-data", config=Config(retries={"total_max_attempts": 1}))
        client.execute_statement(resourceArn=CLUSTER, secretArn=SECRET, database="shop", sql=ADD)
        return Done()


class BesideByDataApi(Flow, name="beside-by-data-api", object_id="order_id"):
    stages = (AddBesideByDataApi,)


class AddImpatiently(AddByDataApi, name="add", retry=RetryPolicy(attempts=3, backoff=Fixed(1))):
    """Its last attempt is over long before the transaction of a dead worker is."""


class ImpatientByDataApi(Flow, name="impatient-by-data-api", object_id="order_id"):
    stages = (AddImpatiently,)


@pytest.fixture(scope="module")
def shop(postgres_url: str) -> Iterator[str]:
    """The address of a test database of a user's."""
    queried(postgres_url, "CREATE DATABASE shop_test")
    address = f"{postgres_url.rpartition('/')[0]}/shop_test"
    for sql in (
        SCHEMA,
        "CREATE TABLE accounts (id text PRIMARY KEY, balance bigint)",
        "INSERT INTO accounts VALUES ('shop', 100)",
        "CREATE TABLE notes (number serial PRIMARY KEY, order_id text)",
    ):
        queried(address, sql)
    yield address
    queried(postgres_url, "DROP DATABASE shop_test")


def explored(flow: Any, shop: str, *orders: Order, **about: Any) -> Report:
    return explore(flow, list(orders or (Order(order_id="o-1"),)), postgres=shop, bound=0, walks=0, **about)


def left(shop: str) -> list[tuple[Any, ...]]:
    return queried(shop, "SELECT datname FROM pg_database WHERE datname LIKE 'flowguard%'")


def test_statements_of_a_step_are_sound_whatever_happens(shop: str) -> None:
    report = explored(OnceInPostgres, shop)
    assert report.verdict == "clean", str(report)
    tables = {"postgres:shop_test/accounts", "postgres:shop_test/notes"}
    assert tables == {name for name in report.compared if name.startswith("postgres:")}
    assert (queried(shop, "SELECT balance FROM accounts"), left(shop)) == ([(100,)], [])


PAGE = Path(__file__).parents[2] / "docs" / "guides" / "sql.md"


def test_the_flow_of_the_page_is_sound_whatever_happens(
    shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"^```python[^\n]*\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    [explored_block] = [block for block in blocks if "postgres=" in block]
    assert explored_block.count("postgresql://localhost/ledger_test") == 1
    program = blocks[0] + explored_block.replace("postgresql://localhost/ledger_test", shop)
    (tmp_path / "page_on_sql.py").write_text(program, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    report = import_module("page_on_sql").report
    assert report.verdict == "clean", str(report)
    assert "postgres:shop_test/accounts" in report.compared
    assert report.schedules > 10
    assert (queried(shop, "SELECT balance FROM accounts"), left(shop)) == ([(100,)], [])


def test_a_statement_beside_the_fence_is_found_at_its_line(shop: str) -> None:
    report = explored(BesideTheFence, shop)
    (problem,) = {
        (problem.where, problem.expected, problem.found)
        for violation in report.violations
        if violation.rule == "equivalence"
        for problem in violation.problems
    }
    assert problem == ("postgres:shop_test/accounts", 105, 110)
    assert "connection.execute(ADD)" in str(report)
    assert "in the same transaction insert a row with the message's id" in str(report)


def test_statements_by_the_data_api_are_sound_whatever_happens(shop: str) -> None:
    report = explored(OnceByDataApi, shop)
    assert report.verdict == "clean", str(report)
    assert "postgres:shop_test/accounts" in report.compared


def test_a_statement_beside_the_fence_by_the_data_api_is_found(shop: str) -> None:
    report = explored(BesideByDataApi, shop)
    assert "postgres:shop_test/accounts" in {
        problem.where for violation in report.violations for problem in violation.problems
    }


def test_a_retry_that_is_shorter_than_a_lock_is_told_so(shop: str) -> None:
    report = explored(ImpatientByDataApi, shop)
    assert {violation.rule for violation in report.violations} == {"equivalence", "I14"}
    assert all("let the stage's retry= outlast that worker" in violation.fix for violation in report.violations)
    assert {violation.site.text for violation in report.violations if violation.site} == {
        'step.sql("add", by_data_api(), add)'
    }


def test_two_requests_of_one_object_are_sound(shop: str) -> None:
    orders = Order(order_id="o-1"), Order(order_id="o-1")
    report = explored(OneInPostgres, shop, *orders, any_order=True, for_good=False)
    assert report.ok, str(report)


def test_a_database_that_is_not_named_is_refused(shop: str) -> None:
    report = explored(BesideTheFence, {"ledger": shop})  # type: ignore[arg-type]
    assert report.verdict == "not looked at"
    assert "connects to shop, which postgres= does not name" in str(report)


class AddAsync(Stage[Order], name="add-async", retry=PATIENT):
    def handle(self, order: Order, step: Step) -> Outcome:
        async def add() -> None:
            await psycopg.AsyncConnection.connect(LIVE)

        asyncio.run(add())
        return Done()


class AddsAsync(Flow, name="adds-async", object_id="order_id"):
    stages = (AddAsync,)


class Before:
    connection: psycopg.Connection[Any]
    awaited: psycopg.AsyncConnection[Any]
    loop: asyncio.AbstractEventLoop
    address: str


class AddByBefore(Stage[Order], name="add-by-before", retry=PATIENT):
    def handle(self, order: Order, step: Step) -> Outcome:
        Before.connection.execute(ADD)
        return Done()


class AddsByBefore(Flow, name="adds-by-before", object_id="order_id"):
    stages = (AddByBefore,)


def add_awaited() -> None:
    async def added() -> None:
        await Before.awaited.execute(ADD)

    Before.loop.run_until_complete(added())


def add_by_libpq() -> None:
    Before.connection.pgconn.exec_(ADD.encode())


def add_by_a_connection_of_libpq() -> None:
    connection = psycopg.pq.PGconn.connect(Before.address.encode())
    connection.exec_(ADD.encode())
    connection.finish()


class AddBelow(Stage[Order], name="add-below", retry=PATIENT):
    add: Callable[[], None]

    def handle(self, order: Order, step: Step) -> Outcome:
        AddBelow.add()
        return Done()


class AddsBelow(Flow, name="adds-below", object_id="order_id"):
    stages = (AddBelow,)


def played(flow: Any, postgres: Any, schedule: str = "none") -> str:
    return str(replay(flow, [Order(order_id="o-1")], schedule, postgres=postgres))


def test_an_async_connection_is_refused_by_its_name(shop: str) -> None:
    assert "by psycopg's AsyncConnection, which an exploration does not play" in played(AddsAsync, shop)


def test_a_connection_that_was_opened_before_is_refused_and_nothing_is_written(shop: str, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as Before.connection:
        told = played(AddsByBefore, shop)
    assert "uses a connection that was opened before the exploration" in told
    assert queried(shop, "SELECT balance FROM accounts") == [(100,)]


@pytest.fixture
def live(shop: str) -> Iterator[str]:
    """The address of a database that no exploration may write, with connections that are open before one."""
    queried(shop, "CREATE DATABASE live_shop TEMPLATE shop_test")
    Before.address = f"{shop.rpartition('/')[0]}/live_shop"
    Before.loop = asyncio.new_event_loop()
    connecting = psycopg.AsyncConnection.connect(Before.address, autocommit=True)
    Before.awaited = Before.loop.run_until_complete(connecting)
    with psycopg.connect(Before.address, autocommit=True) as Before.connection:
        yield Before.address
    Before.loop.run_until_complete(Before.awaited.close())
    Before.loop.close()
    queried(shop, "DROP DATABASE live_shop")


@pytest.mark.parametrize("is_given", [True, False])
@pytest.mark.parametrize(
    ("add", "expected"),
    [
        (add_awaited, "uses a connection that was opened before the exploration"),
        (add_by_libpq, "uses a connection that was opened before the exploration"),
        (add_by_a_connection_of_libpq, "connects by psycopg.pq"),
    ],
)
def test_what_reaches_the_server_beside_a_connection_of_the_handler_is_refused(
    shop: str, live: str, add: Callable[[], None], expected: str, is_given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AddBelow, "add", staticmethod(add), raising=False)
    report = replay(AddsBelow, [Order(order_id="o-1")], "none", postgres=shop if is_given else {})
    assert queried(live, "SELECT balance FROM accounts") == [(100,)]
    assert (report.ok, [expected in str(place) for place in report.unplayed]) == (False, [True])


def test_a_connection_opened_before_is_used_again_after_the_exploration(shop: str, live: str) -> None:
    played(AddsByBefore, shop)
    assert Before.connection.execute("SELECT balance FROM accounts").fetchall() == [(100,)]
    assert psycopg.pq.PGconn.connect(live.encode()).status == psycopg.pq.ConnStatus.OK


class CreatesARole(Stage[Order], name="creates-a-role", retry=PATIENT):
    def handle(self, order: Order, step: Step) -> Outcome:
        with psycopg.connect(LIVE, autocommit=True) as connection:
            connection.execute("CREATE ROLE clerk_of_a_flow")
        return Done()


class CreatesARoleByTheDataApi(Stage[Order], name="creates-a-role-there", retry=PATIENT):
    def handle(self, order: Order, step: Step) -> Outcome:
        client: Any = boto3.client("rds-data", config=Config(retries={"total_max_attempts": 1}))
        sql = "CREATE ROLE clerk_of_a_flow"
        client.execute_statement(resourceArn=CLUSTER, secretArn=SECRET, database="shop", sql=sql)
        return Done()


class CreatesRoles(Flow, name="creates-roles", object_id="order_id"):
    stages = (CreatesARole,)


class CreatesRolesByTheDataApi(Flow, name="creates-roles-there", object_id="order_id"):
    stages = (CreatesARoleByTheDataApi,)


@pytest.mark.parametrize("flow", [CreatesRoles, CreatesRolesByTheDataApi])
def test_what_is_of_the_whole_server_is_refused_before_it_is_sent(shop: str, flow: Any) -> None:
    told = played(flow, shop)
    assert queried(shop, "SELECT 1 FROM pg_roles WHERE rolname = 'clerk_of_a_flow'") == []
    assert "sends CREATE ROLE, which reaches beyond the database" in told


def test_a_dict_names_the_databases_that_handlers_connect_to(shop: str) -> None:
    told = played(BesideTheFence, {"shop": shop})
    assert "UPDATE shop_test/accounts" in told
    assert "COMMIT shop_test" in told


def test_a_worker_whose_commit_is_not_answered_has_lost_its_connection(shop: str) -> None:
    told = played(BesideTheFence, shop, "u3")
    assert "COMMIT shop_test" in told
    assert "balance" in told, "it is added once more"


class AddByStream(Stage[Order], name="add-by-stream", retry=PATIENT):
    def handle(self, order: Order, step: Step) -> Outcome:
        with psycopg.connect(LIVE) as connection, connection.cursor() as cursor:
            (row,) = cursor.stream(f"{ADD} RETURNING id")
            assert row == ("shop",)
        return Done()


class AddsByStream(Flow, name="adds-by-stream", object_id="order_id"):
    stages = (AddByStream,)


def test_a_streamed_statement_and_its_commit_are_points(shop: str) -> None:
    told = played(AddsByStream, shop)
    assert "UPDATE shop_test/accounts" in told
    assert "COMMIT shop_test" in told
    assert explored(AddsByStream, shop).verdict == "broken"


@pytest.fixture(scope="module")
def shop_elsewhere(shop: str) -> Iterator[str]:
    """The address of a database of the same name on another server."""
    with postgres() as other:
        queried(other, "CREATE DATABASE shop_test")
        address = f"{other.rpartition('/')[0]}/shop_test"
        queried(address, "CREATE TABLE accounts (id text PRIMARY KEY, balance bigint)")
        queried(address, "INSERT INTO accounts VALUES ('shop', 100)")
        yield address


@pytest.mark.parametrize("is_first", [True, False])
def test_databases_of_one_name_on_two_servers_do_not_hide_each_other(
    shop: str, shop_elsewhere: str, is_first: bool
) -> None:
    given = {"shop": shop, "ledger": shop_elsewhere}
    report = explore(
        BesideTheFence,
        [Order(order_id="o-1")],
        postgres=given if is_first else dict(reversed(given.items())),
        bound=0,
        walks=0,
    )
    assert report.verdict == "broken"
    assert "postgres:shop/accounts" in {
        problem.where for violation in report.violations for problem in violation.problems
    }
    assert {"postgres:shop/accounts", "postgres:ledger/accounts"} <= set(report.compared)


def test_one_database_by_two_names_is_refused(shop: str) -> None:
    same = shop.replace("127.0.0.1", "localhost")
    with pytest.raises(SettingsError, match="'shop' and 'ledger' name one database, 'shop_test'"):
        played(BesideTheFence, {"shop": shop, "ledger": same})
    assert left(shop) == []


def test_the_command_line_takes_the_url(shop: str, tmp_path: Path) -> None:
    event = sqs_event("beside-the-fence", Order(order_id="o-1"), message_id="m-1")
    (tmp_path / "event.json").write_text(json.dumps(event))
    named = ["explore", "--flow", f"{__name__}:BesideTheFence", str(tmp_path / "event.json"), "--schedule", "none"]
    ran = CliRunner().invoke(main, [*named, "--postgres", shop])
    assert "UPDATE shop_test/accounts" in ran.output, ran.output


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("INSERT INTO shop.orders VALUES (1)", Statement("INSERT", "orders")),
        ("-- why\nUPDATE ONLY orders SET a = 1", Statement("UPDATE", "orders")),
        ("WITH gone AS (DELETE FROM orders RETURNING *) SELECT * FROM gone", Statement("DELETE", "orders")),
        ("WITH some AS (SELECT 1) SELECT * FROM some", Statement("SELECT", "some")),
        ("SELECT post_booking(1)", Statement("CALL", "")),
        ("MERGE INTO shop.orders USING x ON true", Statement("MERGE", "orders")),
        ("TRUNCATE TABLE orders", Statement("TRUNCATE", "orders")),
        ("COPY orders FROM STDIN", Statement("COPY", "orders")),
        ("CALL book(1)", Statement("CALL", "")),
        ("SET search_path = shop", None),
        ("BEGIN", None),
        ("COMMIT", Statement("COMMIT", "")),
    ],
)
def test_a_statement_of_postgres_is_read_for_what_it_does(sql: str, expected: Statement | None) -> None:
    assert statement_of(sql) == expected


@pytest.mark.parametrize("given", [7, "shop_test", {"shop": 7}, {7: "postgresql://localhost/shop"}, ["shop"]])
def test_what_names_no_database_is_refused_without_what_it_says(given: Any) -> None:
    with pytest.raises(SettingsError, match="give the URL of a test database"):
        read_postgres(given)


def test_a_database_whose_rows_cannot_be_read_leaves_no_copy(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_copies, "_TABLES", "SELECT no_such_column, %s")
    with pytest.raises(SettingsError, match="no_such_column"):
        played(BesideTheFence, shop)
    assert left(shop) == []


def test_a_database_above_the_largest_size_is_refused(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_copies, "LARGEST", 1)
    with pytest.raises(SettingsError, match=r"'shop_test' has \d+ MiB, and may have 1; .*; nothing was copied"):
        played(BesideTheFence, shop)
    assert left(shop) == []


def test_copies_of_a_killed_search_are_dropped_by_the_next_and_those_of_a_running_one_stay(shop: str) -> None:
    ((oid,),) = queried(shop, "SELECT oid FROM pg_database WHERE datname = current_database()")
    killed, running, another = (
        f"flowguard_{oid}_0000000000aa",
        f"flowguard_{oid}_0000000000bb",
        "flowguard_1_0000000000aa",
    )
    base = f"{shop.rpartition('/')[0]}/postgres"
    for name in (killed, f"{killed}_1", running, another):
        queried(base, f'CREATE DATABASE "{name}"')
    try:
        with psycopg.connect(shop, autocommit=True) as search, psycopg.connect(shop, autocommit=True) as next_search:
            search.execute("SELECT pg_advisory_lock(%s)", (0xBB,))
            drop_left(next_search, oid)
            assert {*left(base)} == {(another,), (running,)}
        played(BesideTheFence, shop)
        assert left(base) == [(another,)]
    finally:
        for name in (killed, f"{killed}_1", running, another):
            queried(base, f'DROP DATABASE IF EXISTS "{name}"')


class AddsToItsSchema(Stage[Order], name="adds-to-its-schema", retry=PATIENT):
    def handle(self, order: Order, step: Step) -> Outcome:
        with psycopg.connect(LIVE) as connection:
            sql = "INSERT INTO things VALUES (current_setting('shop.name')) RETURNING x"
            assert connection.execute(sql).fetchall() == [("it's, a shop",)]
        return Done()


class AddsThings(Flow, name="adds-things", object_id="order_id"):
    stages = (AddsToItsSchema,)


def test_the_settings_of_a_database_are_those_of_its_copies(shop: str) -> None:
    base = shop.rpartition("/")[0]
    queried(shop, "CREATE DATABASE settings_test")
    address = f"{base}/settings_test"
    try:
        for sql in (
            'CREATE SCHEMA "my ""app"',
            'CREATE TABLE "my ""app".things (x text)',
            'ALTER DATABASE settings_test SET search_path = "my ""app", public',
            "ALTER ROLE postgres IN DATABASE settings_test SET shop.name = 'it''s, a shop'",
        ):
            queried(address, sql)
        trace = replay(AddsThings, [Order(order_id="o-1")], "none", postgres=address)
        assert trace.ok, str(trace)
    finally:
        queried(shop, "DROP DATABASE settings_test")


def test_a_database_that_cannot_be_copied_is_said(shop: str) -> None:
    with psycopg.connect(shop), pytest.raises(SettingsError, match="close other connections"):
        explored(BesideTheFence, shop)
    assert left(shop) == []
