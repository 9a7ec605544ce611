"""What only PostgreSQL does: connections that are kept and lost, and transactions that somebody else has opened."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from flowguard.errors import RunFailed
from flowguard.names.ids import ObjectId
from flowguard.sql import Postgres
from flowguard.sql.fence import SqlFence, made_once
from tests.sql.databases import kept_connections, queried, schema_of_its_own
from tests.sql.test_fence import FIRST

pytestmark = pytest.mark.proof("starts PostgreSQL")


@pytest.fixture
def address(postgres_url: str) -> Iterator[str]:
    with schema_of_its_own(postgres_url) as made:
        yield made


def book(cursor: Any) -> str:
    cursor.execute("INSERT INTO bookings VALUES ('n', 1)")
    return str(cursor.connection.info.backend_pid)


def next_hop(number: int) -> SqlFence:
    return FIRST._replace(hop=number, epoch=number)


def test_a_connection_is_kept_and_opened_anew_when_its_server_has_closed_it(address: str) -> None:
    with kept_connections(address) as connect:
        database = Postgres(connect)
        first, same = (made_once(database, next_hop(number), "book", book) for number in (1, 2))
        queried(address, f"SELECT pg_terminate_backend({first})")
        other = made_once(database, next_hop(3), "book", book)
    assert first == same != other
    assert len(queried(address, "SELECT * FROM bookings")) == 3


def test_a_server_that_is_away_is_an_error_at_once(address: str) -> None:
    opened = []

    def connect() -> psycopg.Connection[Any]:
        opened.append(1)
        return psycopg.connect(address.replace("/postgres?", "/no_books?"))

    with pytest.raises(psycopg.OperationalError, match="no_books"):
        made_once(Postgres(connect), FIRST, "book", book)
    assert len(opened) == 1


def test_a_connection_that_ends_among_the_statements_leaves_nothing(address: str) -> None:
    def end(cursor: Any) -> str:
        queried(address, f"SELECT pg_terminate_backend({book(cursor)})")
        cursor.execute("SELECT 1")
        return ""

    with kept_connections(address) as connect:
        database = Postgres(connect)
        with pytest.raises(psycopg.OperationalError):
            made_once(database, FIRST, "book", end)
        assert queried(address, "SELECT * FROM bookings") == []
        made_once(database, FIRST, "book", book)
    assert len(queried(address, "SELECT * FROM bookings")) == 1


def test_there_are_as_many_connections_as_are_used_at_once(address: str) -> None:
    """Threads end with their batch, and leave theirs to those of the next."""
    with kept_connections(address) as connect:
        database, made = Postgres(connect), set[str]()
        for batch in range(3):
            flows = [f"f{batch} {number}" for number in range(10)]
            with ThreadPoolExecutor(3) as pool:
                made.update(pool.map(lambda name: made_once(database, FIRST._replace(flow=name), "a", book), flows))
        assert len(made) <= 3
        assert len(database._idle) == len(made)


def test_where_one_is_lost_those_beside_it_are_opened_anew(address: str) -> None:
    with kept_connections(address) as connect:
        database = Postgres(connect)

        def beside(cursor: Any) -> str:
            return made_once(database, next_hop(1)._replace(flow="beside"), "book", book)

        made_once(database, next_hop(1), "book", lambda cursor: book(cursor) + beside(cursor))
        for kept in database._idle:
            queried(address, f"SELECT pg_terminate_backend({kept.info.backend_pid})")
        assert len(database._idle) == 2
        made_once(database, next_hop(2), "book", book)
        assert len(database._idle) == 1
    assert len(queried(address, "SELECT * FROM bookings")) == 3


def test_a_connection_that_somebody_has_used_since_is_opened_anew(address: str) -> None:
    kept: list[Any] = []

    def keep(cursor: Any) -> str:
        kept.append(cursor)
        return book(cursor)

    with kept_connections(address) as connect:
        database = Postgres(connect)
        made_once(database, next_hop(1), "book", keep)
        kept[0].execute("SELECT 1")
        made_once(database, next_hop(2), "book", book)
        assert len(queried(address, "SELECT * FROM bookings")) == 2


def test_a_server_that_is_read_only_by_now_is_left(address: str) -> None:
    """It was the writer when the connection was opened."""
    with kept_connections(address) as connect:
        database = Postgres(connect)
        first = made_once(database, next_hop(1), "book", book)
        [kept] = database._idle
        kept.execute("SET default_transaction_read_only = on")
        kept.commit()
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            made_once(database, next_hop(2), "book", book)
        assert made_once(database, next_hop(2), "book", book) != first


def test_a_database_without_an_encoding_is_read_all_the_same(address: str) -> None:
    with kept_connections(
        address,
        options="-csearch_path=" + address.partition("search_path%3D")[2].partition("%20")[0],
        client_encoding="SQL_ASCII",
    ) as connect:
        assert len({made_once(Postgres(connect), FIRST, "book", book) for _ in range(2)}) == 1
    assert len(queried(address, "SELECT * FROM bookings")) == 1


def test_an_open_transaction_is_refused(address: str) -> None:
    with kept_connections(address) as connect:

        def begun() -> psycopg.Connection[Any]:
            connection = connect()
            connection.execute("SELECT 1")
            return connection

        with pytest.raises(
            RunFailed, match="has an open transaction; open one of its own, and commit what connect sets"
        ):
            made_once(Postgres(begun), FIRST, "book", book)


@pytest.mark.parametrize("autocommit", [True, False])
def test_connections_may_be_set_as_the_user_likes(address: str, autocommit: bool) -> None:
    def number(cursor: Any) -> str:
        return str(cursor.execute("SELECT 7 AS number").fetchone()["number"])

    with kept_connections(address, autocommit=autocommit, row_factory=dict_row) as connect:
        assert [made_once(Postgres(connect), FIRST, "book", number) for _ in range(2)] == ["7", "7"]


def test_a_commit_among_the_statements_is_refused_by_psycopg(address: str) -> None:
    with kept_connections(address) as connect, pytest.raises(psycopg.ProgrammingError, match="commit"):
        made_once(Postgres(connect), FIRST, "book", lambda cursor: str(cursor.connection.commit()))


def test_a_rollback_among_the_statements_is_refused(address: str) -> None:
    def roll_back(cursor: Any) -> str:
        book(cursor)
        raise psycopg.Rollback

    with kept_connections(address) as connect, pytest.raises(RunFailed, match="rolled its transaction back"):
        made_once(Postgres(connect), FIRST, "book", roll_back)
    assert queried(address, "SELECT * FROM bookings") == []


def test_what_is_locked_waits_and_finds_the_result(address: str) -> None:
    """A copy of the hop that began later, while the first was at its statements."""
    with kept_connections(address) as connect, ThreadPoolExecutor(1) as pool:
        others = []

        def slowly(cursor: Any) -> str:
            others.append(pool.submit(made_once, Postgres(connect), FIRST, "book", book))
            return book(cursor)

        first = made_once(Postgres(connect), FIRST, "book", slowly)
        assert others[0].result(30) == first
    assert len(queried(address, "SELECT * FROM bookings")) == 1


def test_where_transactions_are_serialized_workers_of_other_objects_do_not_meet(address: str) -> None:
    """PostgreSQL scans a small table rather than its index, and has read all its rows then."""
    rows = "SELECT 'x', 'o' || n, '', 0, 0, '', 0, '{}', 0 FROM generate_series(1, 20) n"
    queried(address, f"INSERT INTO flowguard_fence {rows}")
    queried(address, "ANALYZE flowguard_fence")

    with kept_connections(address) as connect:

        def serialized() -> psycopg.Connection[Any]:
            connection = connect()
            connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
            return connection

        def beside_another(cursor: Any) -> str:
            other = FIRST._replace(object_id=ObjectId("o-2"))
            made_once(Postgres(serialized), other, "book", book)
            return book(cursor)

        made_once(Postgres(serialized), FIRST, "book", beside_another)
    assert len(queried(address, "SELECT * FROM bookings")) == 2


def test_a_prepared_statement_knows_of_another_schema(address: str) -> None:
    """psycopg prepares what a kept connection has asked a few times."""
    [(schema,)] = queried(address, "SELECT current_schema() || '_tenant'")

    def move(cursor: Any) -> str:
        cursor.execute(f"SET LOCAL search_path TO {schema}")
        return "moved"

    queried(address, f"CREATE SCHEMA {schema}")
    queried(address, f"CREATE TABLE {schema}.flowguard_fence (LIKE flowguard_fence INCLUDING ALL)")
    with kept_connections(address, prepare_threshold=0) as connect:
        database = Postgres(connect)
        for number in (1, 2, 3):
            made_once(database, next_hop(number), "book", book)
            with pytest.raises(RunFailed, match="have set search_path"):
                made_once(database, next_hop(number), "move", move)
        assert len(database._idle) == 1
    queried(address, f"DROP SCHEMA {schema} CASCADE")


def test_a_connection_may_make_raw_cursors(address: str) -> None:
    def book_raw(cursor: Any) -> str:
        cursor.execute("INSERT INTO bookings VALUES ($1, $2)", ("n", 1))
        return "made"

    with psycopg.connect(address, cursor_factory=psycopg.RawCursor) as connection:
        database = Postgres(lambda: connection)
        for _ in range(2):
            assert made_once(database, FIRST, "book", book_raw) == "made"
    assert queried(address, "SELECT * FROM bookings") == [("n", 1)]
