"""SQLite, for tests and explorations of what is PostgreSQL in production."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from flowguard.errors import RunFailed
from flowguard.sql.fence import TABLE, Transaction


class SQLite:
    """A database of SQLite. ``connect`` opens a connection; each transaction gets one, which is closed after it."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a transaction that the end of the block commits. The handler's statements get a ``sqlite3.Cursor``."""
        with closing(self._connect()) as connection:
            connection.isolation_level = None  # no transaction but this, whatever the connection was opened with
            connection.row_factory = None
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield SQLiteTransaction(connection)
                if not connection.in_transaction:
                    raise RunFailed("the statements of step.sql have ended its transaction; leave COMMIT to the step")
                connection.commit()
            except BaseException:
                connection.rollback()
                raise


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

    def lock(self, sql: str, parameters: Mapping[str, str | int]) -> Sequence[Sequence[Any]]:
        """Run the query: the transaction has the whole database for itself."""
        return self.rows(sql, parameters)


def no_table() -> RunFailed:
    """Return what says that a database has no table for the fences."""
    return RunFailed(f"the database has no table {TABLE}; make it with flowguard.sql.SCHEMA. Nothing was written")
