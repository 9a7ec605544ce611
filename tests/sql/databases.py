"""Databases of a test's own, with a table of bookings and that of the fences."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg

from flowguard.sql import SCHEMA, DataApi, Postgres, SQLite
from flowguard.sql.fence import SqlDatabase
from tests.sql.data_api import CLUSTER, SECRET, data_api

BOOKINGS: Final = "CREATE TABLE bookings (number text NOT NULL, amount bigint NOT NULL)"

Query = Callable[[str], list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Books:
    """A database, the statement that books as its handle makes it, and a query that looks from outside."""

    database: SqlDatabase
    book: Callable[[Any, str], None]
    query: Query

    @property
    def booked(self) -> list[str]:
        return [number for (number,) in self.query("SELECT number FROM bookings ORDER BY number")]


@contextmanager
def sqlite_books(path: Path) -> Iterator[Books]:
    def query(sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute(sql).fetchall()
            connection.commit()
            return rows

    def book(cursor: sqlite3.Cursor, number: str) -> None:
        cursor.execute("INSERT INTO bookings VALUES (?, ?)", (number, 1))

    query(SCHEMA)
    query(BOOKINGS)
    yield Books(SQLite(lambda: sqlite3.connect(path)), book, query)


@contextmanager
def postgres_books(url: str) -> Iterator[Books]:
    def book(cursor: Any, number: str) -> None:
        cursor.execute("INSERT INTO bookings VALUES (%s, %s)", (number, 1))

    with schema_of_its_own(url) as address, kept_connections(address) as connect:
        yield Books(Postgres(connect), book, lambda sql: queried(address, sql))


@contextmanager
def data_api_books(url: str) -> Iterator[Books]:
    def book(transaction: Any, number: str) -> None:
        transaction.execute("INSERT INTO bookings VALUES (:number, :amount)", {"number": number, "amount": 1})

    with schema_of_its_own(url) as address, data_api(address) as client:
        database = DataApi(client, cluster=CLUSTER, secret=SECRET, database="books")
        yield Books(database, book, lambda sql: queried(address, sql))


@contextmanager
def schema_of_its_own(url: str) -> Iterator[str]:
    """The address of a new schema with both tables, which is dropped in the end: it is quicker than a database."""
    name = f"books_{uuid.uuid4().hex}"
    queried(url, f"CREATE SCHEMA {name}")
    address = f"{url}?options=-csearch_path%3D{name}%20-ctimezone%3DUTC"
    queried(address, SCHEMA)
    queried(address, BOOKINGS)
    yield address
    queried(url, f"DROP SCHEMA {name} CASCADE")


@contextmanager
def kept_connections(address: str, **options: Any) -> Iterator[Callable[[], psycopg.Connection[Any]]]:
    """What connects with these options, and closes it all in the end."""
    opened: list[psycopg.Connection[Any]] = []

    def connect() -> psycopg.Connection[Any]:
        opened.append(psycopg.connect(address, **options))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


def queried(address: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(address, autocommit=True) as connection:
        cursor = connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []
