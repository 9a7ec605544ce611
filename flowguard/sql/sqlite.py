"""SQLite, for tests and explorations of what is PostgreSQL in production."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from flowguard.sql.fence import ADD, READ, TABLE, WRITE, NoFence, Transaction, check_connect, checked_connection


class SQLite:
    """A database of SQLite. ``connect`` opens a connection; each transaction gets one, which is closed after it."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        check_connect("SQLite", connect)
        self._connect = connect

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a transaction that the end of the block commits. The handler's statements get a ``sqlite3.Cursor``."""
        with closing(checked_connection(self._connect(), sqlite3.Connection)) as connection:
            _leave_transactions_to_statements(connection)
            connection.row_factory = None
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield SQLiteTransaction(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise


def _leave_transactions_to_statements(connection: Any) -> None:
    """Let the connection begin no transaction by itself, whatever it was opened with."""
    if isinstance(getattr(connection, "autocommit", -1), bool):  # of Python 3.12 and later
        connection.autocommit = True
    else:
        connection.isolation_level = None


class SQLiteTransaction:
    """An open transaction of SQLite."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def handle(self) -> Any:
        return self._connection.cursor()

    def rows(self, sql: str, parameters: Mapping[str, str | int]) -> Sequence[Sequence[Any]]:
        try:
            return self._connection.execute(sql, parameters).fetchall()
        except sqlite3.OperationalError as error:
            if f"no such table: {TABLE}" in str(error):
                raise no_table() from None
            raise

    def locked(self, place: Mapping[str, str | int]) -> Sequence[Any]:
        """Read the row: the transaction has the whole database for itself."""
        self.rows(ADD, place)
        (row,) = self.rows(READ, place)
        return row

    def written(self, values: Mapping[str, str | int]) -> bool:
        if not self._connection.in_transaction:
            return False
        self.rows(WRITE, values)
        return True


def no_table() -> NoFence:
    """Return what says that a database has no table for the fences."""
    return NoFence(f"the database has no table {TABLE}; make it with flowguard.sql.SCHEMA. Nothing was written")
