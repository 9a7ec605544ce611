"""PostgreSQL by psycopg."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from flowguard.errors import RunFailed
from flowguard.sql.fence import ConnectionLost, LockedRow, Transaction, check_connect, checked_connection
from flowguard.sql.sqlite import no_table

if TYPE_CHECKING:
    import psycopg


class Postgres:
    """A database of PostgreSQL. ``connect`` opens a connection of psycopg 3.

    It keeps as many connections as were used at once, and opens a new one where they are closed: a function that Lambda
    froze may find that its server has gone. Use the connections for nothing else.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        check_connect("Postgres", connect)
        self._connect = connect
        self._idle: list[psycopg.Connection[Any]] = []

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a transaction that the end of the block commits. The handler's statements get a ``psycopg.Cursor``."""
        import psycopg  # there where somebody connects by it

        connection, was_kept = self._connection()
        try:
            with ExitStack() as begun:
                try:
                    begun.enter_context(connection.transaction())
                except psycopg.OperationalError as error:
                    if was_kept and connection.closed:
                        self._close_idle()
                        raise ConnectionLost(str(error)) from None
                    raise
                yield PostgresTransaction(connection)
        except psycopg.Error:  # of a server that is read-only by now, for one: the next attempt asks for another
            connection.close()
            raise
        finally:
            if not connection.closed:
                self._idle.append(connection)

    def _connection(self) -> tuple[psycopg.Connection[Any], bool]:
        """Return a connection without a transaction, and whether it was used before."""
        # They are there where somebody connects by psycopg.
        import psycopg
        from psycopg.pq import TransactionStatus

        while self._idle:
            with suppress(IndexError):  # another thread has taken the last one
                kept = self._idle.pop()
                if kept.info.transaction_status == TransactionStatus.IDLE:
                    return kept, True
                kept.close()  # or closed before: somebody has used it since
        connection = checked_connection(self._connect(), psycopg.Connection)
        if connection.info.transaction_status != TransactionStatus.IDLE:
            fix = "open one of its own, and commit what connect sets there, or set it by options='-c lock_timeout=5s'"
            raise RunFailed(f"the connection of step.sql has an open transaction; {fix}. Nothing was done")
        return connection, False

    def _close_idle(self) -> None:
        """Close what is kept beside a connection that was lost: it is as old, and may be lost as well."""
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()


class PostgresTransaction:
    """An open transaction of PostgreSQL."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._row = LockedRow(self.rows)
        self.locked, self.written = self._row.locked, self._row.written

    @property
    def handle(self) -> Any:
        return self._connection.cursor()

    def rows(self, sql: str, parameters: Mapping[str, str | int]) -> Sequence[Sequence[Any]]:
        # They are there where somebody connects by psycopg.
        import psycopg
        from psycopg.rows import tuple_row

        cursor = self._connection.cursor(row_factory=tuple_row)
        is_raw = isinstance(cursor, psycopg.RawCursor)
        statement, values = _numbered(sql, parameters) if is_raw else (in_words_of_psycopg(sql), parameters)
        try:
            cursor.execute(statement, values)
        except psycopg.errors.UndefinedTable:
            raise no_table() from None
        return cursor.fetchall() if cursor.description else []


_NAME: Final = re.compile(r"(?<!:):([a-z_]+)")


def in_words_of_psycopg(sql: str) -> bytes:
    """Return a statement with ``%(name)s`` where it has ``:name``."""
    return _NAME.sub(r"%(\1)s", sql).encode()


def _numbered(sql: str, parameters: Mapping[str, str | int]) -> tuple[bytes, list[str | int]]:
    """Return a statement for a ``RawCursor``, and its values in order: each ``:name`` becomes ``$1``, ``$2`` …"""
    numbers = itertools.count(1)
    values = [parameters[name] for name in _NAME.findall(sql)]
    return _NAME.sub(lambda name: f"${next(numbers)}", sql).encode(), values
