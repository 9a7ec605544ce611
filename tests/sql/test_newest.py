"""The condition of an upsert by whose row one sees how new it is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import pytest

from flowguard.errors import RunFailed
from flowguard.items.newest import item_fence
from flowguard.names.ids import RequestId
from flowguard.sql import is_newer
from tests.sql.databases import queried, schema_of_its_own

TABLE: Final = "CREATE TABLE pages (id text PRIMARY KEY, newest_at bigint, newest_by text, newest_epoch bigint)"
UPSERT: Final = (
    "INSERT INTO pages VALUES ('home', {newest_at}, '{newest_by}', {newest_epoch}) ON CONFLICT (id) DO UPDATE SET"  # noqa: S608 - values of this module
    " newest_at = excluded.newest_at, newest_by = excluded.newest_by, newest_epoch = excluded.newest_epoch"
    f" WHERE {is_newer('pages')}"
)
THERE: Final = (100, "b", 5)
OF_BEFORE: Final = "INSERT INTO pages (id) VALUES ('home')"

ROWS = [
    pytest.param((101, "a", 1), True, id="a newer request"),
    pytest.param((99, "c", 9), False, id="an older request"),
    pytest.param((100, "c", 1), True, id="another request of the same time, whose id is later"),
    pytest.param((100, "a", 9), False, id="another request of the same time, whose id is earlier"),
    pytest.param((100, "b", 5), True, id="the same attempt again"),
    pytest.param((100, "b", 6), True, id="a later attempt"),
    pytest.param((100, "b", 4), False, id="an earlier attempt"),
]


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as made:
        yield made


def upsert(row: tuple[int, str, int]) -> str:
    at, by, epoch = row
    return UPSERT.format(**item_fence(RequestId(by), at, epoch).attributes)


@pytest.mark.parametrize(("row", "counts"), ROWS)
def test_what_is_newer_counts(row: tuple[int, str, int], counts: bool, connection: sqlite3.Connection) -> None:
    for sql in (TABLE, upsert(THERE), upsert(row)):
        connection.execute(sql)
    assert connection.execute("SELECT * FROM pages").fetchall() == [("home", *(row if counts else THERE))]


@pytest.mark.proof("starts PostgreSQL")
@pytest.mark.parametrize(("row", "counts"), ROWS)
def test_it_does_so_in_postgres(row: tuple[int, str, int], counts: bool, postgres_url: str) -> None:
    with schema_of_its_own(postgres_url) as address:
        for sql in (TABLE, upsert(THERE), upsert(row)):
            queried(address, sql)
        assert queried(address, "SELECT * FROM pages") == [("home", *(row if counts else THERE))]


def test_a_row_without_a_mark_is_older_than_any_request(connection: sqlite3.Connection) -> None:
    """It was there before the columns were, or another program has written it."""
    for sql in (TABLE, OF_BEFORE, upsert((1, "a", 1))):
        connection.execute(sql)
    assert connection.execute("SELECT * FROM pages").fetchall() == [("home", 1, "a", 1)]


@pytest.mark.proof("starts PostgreSQL")
def test_it_is_so_in_postgres(postgres_url: str) -> None:
    with schema_of_its_own(postgres_url) as address:
        for sql in (TABLE, OF_BEFORE, upsert((1, "a", 1))):
            queried(address, sql)
        assert queried(address, "SELECT * FROM pages") == [("home", 1, "a", 1)]


@pytest.mark.parametrize("row", [(101, "a", 1), (100, "b", 6)], ids=["a newer request", "a later attempt"])
def test_it_is_a_condition_beside_others(row: tuple[int, str, int], connection: sqlite3.Connection) -> None:
    for sql in (TABLE, upsert(THERE), f"{upsert(row)} AND false"):
        connection.execute(sql)
    assert connection.execute("SELECT * FROM pages").fetchall() == [("home", *THERE)]


def test_a_table_may_be_in_a_schema() -> None:
    later = "(web.pages.newest_at, web.pages.newest_by) < (excluded."
    assert is_newer("web.pages").startswith(f"(web.pages.newest_at IS NULL OR {later}")


@pytest.mark.parametrize("table", ["", "a b", "a;b", "a.b.c", "1a", 'a"'])
def test_what_is_no_name_is_refused(table: Any) -> None:
    with pytest.raises(RunFailed, match="names no table"):
        is_newer(table)
