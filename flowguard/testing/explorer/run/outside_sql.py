"""SQLite databases of invocations, of which each schedule has its own.

A connection to ``/tmp/shop.db`` gets a copy of that file, which the exploration never changes. A worker that dies loses
what it had not committed. Statements are points at which something may go wrong, and so is each commit.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from flowguard.project.declared import TableKey
from flowguard.sql import fence
from flowguard.testing.explorer.record.history import Items
from flowguard.testing.explorer.record.outside_call import OF_DATABASES, SQL, outside_call
from flowguard.testing.explorer.record.schedule import FaultKind
from flowguard.testing.explorer.run.outside_http import Points

_WRITING: Final = re.compile(
    r"\s*(?:(INSERT)(?:\s+OR\s+\w+)?\s+INTO|(REPLACE)\s+INTO|(UPDATE)(?:\s+OR\s+\w+)?|(DELETE)\s+FROM)"
    r"\s+(?:ONLY\s+)?(?:[\"`\[]?\w+[\"`\]]?\.)?[\"'`\[]?(\w+)",
    re.IGNORECASE,
)
_ASKING: Final = re.compile(
    r"\s*(?:SELECT|WITH)\b(?:.*?\bFROM\s+(?:ONLY\s+)?(?:[\"`\[]?\w+[\"`\]]?\.)?[\"'`\[]?(\w+))?",
    re.IGNORECASE | re.DOTALL,
)
_TABLES: Final = """SELECT name, sql FROM sqlite_master
    WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name != ?"""
_ENDING: Final = re.compile(r"\s*(?:COMMIT|END)\b", re.IGNORECASE)
COMMIT: Final = "COMMIT"
_PARAMETERS: Final = (
    "timeout", "detect_types", "isolation_level", "check_same_thread", "factory", "cached_statements", "uri"
)  # fmt: skip
_OWN_NUMBERS: Final = re.compile(r"AUTOINCREMENT", re.IGNORECASE)


class Statement(NamedTuple):
    """What a statement does, and the table that it is about."""

    operation: str
    table: str


def statement(sql: str) -> Statement | None:
    """Return what a statement does. None for one at which nothing is to go wrong: it makes a table, or a setting."""
    if (writing := _WRITING.match(sql)) is not None:
        *words, table = writing.groups()
        return Statement(next(word for word in words if word).upper(), table)
    if (asking := _ASKING.match(sql)) is not None:
        return Statement("SELECT", asking[1] or "")
    return Statement(COMMIT, "") if _ENDING.match(sql) else None


class Databases:
    """The databases of the schedule that runs, and the connections to them."""

    def __init__(self, points: Points) -> None:
        self.points = points
        self._real = sqlite3.connect
        self._folder: Path | None = None
        self._files: dict[str, Path] = {}
        self._open: weakref.WeakSet[Any] = weakref.WeakSet()

    def begin(self) -> None:
        """Forget the databases of the schedule before."""
        while self._open:  # a connection that nobody has any more is closed already
            _closed(self._open.pop())
        for file in self._files.values():
            for ending in ("", "-journal", "-wal", "-shm"):
                Path(f"{file}{ending}").unlink(missing_ok=True)
        self._files = {}

    def end(self) -> None:
        """Remove all files."""
        self.begin()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def drop(self, worker: object) -> None:
        """Take back what a worker that died had not committed."""
        for connection in [known for known in self._open if known.used_by is worker]:
            self._open.discard(connection)
            _closed(connection)

    def failed(self, worker: object) -> None:
        """Take back what an invocation that raised left open: the collector closes what nobody has any more."""
        for connection in [known for known in self._open if known.opened_by is worker]:
            with suppress(sqlite3.Error):
                sqlite3.Connection.rollback(connection)

    def opened(self, database: Any, named: dict[str, Any]) -> Any:
        """Open the copy of a file, as ``sqlite3.connect`` opens the file."""
        name = self._name(os.fspath(database))
        factory = recorded(named.pop("factory", sqlite3.Connection))
        changed = {**named, "timeout": 0, "check_same_thread": False, "factory": factory}
        connection: Any = self._real(str(self._files[name]), **changed)
        connection.execute("PRAGMA synchronous=OFF")
        connection.database, connection.databases, connection.opened_by = name, self, self.points.worker
        self._open.add(connection)
        return connection

    def made(self, make: Callable[[], Any]) -> Any:
        """Make a statement. A worker whose time is over keeps no lock: Lambda has ended it."""
        try:
            return make()
        except sqlite3.OperationalError:
            over = [known for known in self._open if known.in_transaction and self.points.ends_if_over(known.used_by)]
            for connection in over:
                sqlite3.Connection.rollback(connection)
            if not over:
                raise
            return make()

    def items(self) -> Items:
        """Return the rows of each table but flowguard's own, which says which claim has written."""
        return {name: rows for name, (rows, _) in self._tables().items()}

    def keys(self) -> dict[str, TableKey]:
        """Return the primary key of each table that has one."""
        return {name: key for name, (_, key) in self._tables().items() if key is not None}

    def _tables(self) -> dict[str, tuple[tuple[dict[str, Any], ...], TableKey | None]]:
        tables = {}
        for name, file in self._files.items():
            with _reading(self._real, file) as database:
                for table, sql in database.execute(_TABLES, (fence.TABLE,)).fetchall():
                    tables[f"{OF_DATABASES}{name}/{table}"] = _rows(database, table, str(sql))
        return tables

    def _name(self, database: str) -> str:
        """Return the name of a file, whose copy is there from its first use on."""
        name = Path(database).name
        if name not in self._files:
            self._folder = self._folder or Path(tempfile.mkdtemp(prefix="flowguard-"))
            self._files[name] = self._folder / name
            if Path(database).exists():
                with _reading(self._real, Path(database)) as real, _reading(self._real, self._files[name]) as copy:
                    real.backup(copy)
        return name


@contextmanager
def answered_sql(databases: Databases) -> Iterator[None]:
    """Let invocations connect to the databases of their schedule while the block runs."""
    real = sqlite3.connect

    def connect(database: Any, *given: Any, **named: Any) -> Any:
        is_file = isinstance(database, str | os.PathLike) and str(database) not in ("", ":memory:")
        named |= dict(zip(_PARAMETERS, given, strict=False))
        if named.get("uri") or not is_file or not databases.points.is_inside():
            return real(database, **named)
        return databases.opened(database, named)

    modules: Any = (sqlite3, sqlite3.dbapi2)
    for module in modules:
        module.connect = connect
    try:
        yield
    finally:
        for module in modules:
            module.connect = real
        databases.end()


@functools.cache
def recorded(kind: type[sqlite3.Connection]) -> type[sqlite3.Connection]:
    """Return a kind of connection whose statements and commits are points."""

    class Recorded(_Recording, kind):  # type: ignore[valid-type, misc]
        pass

    return Recorded


class _Recording:
    """What a connection does more than its kind."""

    database = ""
    databases: Databases
    opened_by: object = None
    used_by: object = None
    in_transaction: bool

    def cursor(self, factory: type[sqlite3.Cursor] = sqlite3.Cursor) -> Any:
        return super().cursor(_cursor(factory))  # type: ignore[misc]

    def execute(self, sql: str, *given: Any) -> Any:
        return self.cursor().execute(sql, *given)

    def executemany(self, sql: str, *given: Any) -> Any:
        return self.cursor().executemany(sql, *given)

    def commit(self) -> None:
        real = super().commit  # type: ignore[misc]
        self.pointed(Statement(COMMIT, "") if self.in_transaction else None, real)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        if kind is None:
            try:
                self.commit()
            except BaseException:  # as sqlite3 does, which leaves no database locked
                super().rollback()  # type: ignore[misc]
                raise
            return False
        return super().__exit__(kind, error, trace)  # type: ignore[misc]

    def pointed(self, statement: Statement | None, make: Callable[[], Any]) -> Any:
        """Make a statement, which is a point unless it is of none of these kinds: ``BEGIN IMMEDIATE`` only locks."""
        if not self.database or not self.databases.points.is_inside():
            return make()
        self.used_by = self.databases.points.worker
        if statement is None:
            return self.databases.made(make)
        made: list[Any] = []

        def proceed() -> dict[str, Any]:
            made.append(self.databases.made(make))
            return {"changed": getattr(made[-1], "rowcount", 1) != 0}

        to = f"{self.database}/{statement.table}" if statement.table else self.database
        about = {"To": to, "Places": ((SQL, self.database),)}
        self.databases.points.point(outside_call(SQL, statement.operation, about, _failure), proceed)
        return made[-1]


@functools.cache
def _cursor(kind: type[sqlite3.Cursor]) -> Callable[[Any], sqlite3.Cursor]:
    class Recorded(kind):  # type: ignore[valid-type, misc]
        def execute(self, sql: str, *given: Any) -> Any:
            return self.connection.pointed(statement(sql), lambda: super(Recorded, self).execute(sql, *given))

        def executemany(self, sql: str, *given: Any) -> Any:
            return self.connection.pointed(statement(sql), lambda: super(Recorded, self).executemany(sql, *given))

    return Recorded


def _failure(_: FaultKind) -> Exception:
    return sqlite3.OperationalError("database is locked")


def _closed(connection: Any) -> None:
    with suppress(sqlite3.Error):
        sqlite3.Connection.rollback(connection)
    with suppress(sqlite3.Error):
        sqlite3.Connection.close(connection)


@contextmanager
def _reading(connect: Callable[..., sqlite3.Connection], file: Path) -> Iterator[sqlite3.Connection]:
    database = connect(str(file))
    try:
        yield database
    finally:
        database.close()


def _rows(database: sqlite3.Connection, table: str, sql: str) -> tuple[tuple[dict[str, Any], ...], TableKey | None]:
    """Return the rows of a table and its key. Numbers that the database gives to rows are left out."""
    cursor = database.execute(f'SELECT * FROM "{table}"')  # noqa: S608 - a name that the database says
    columns = [str(column[0]) for column in cursor.description]
    described = database.execute(f'PRAGMA table_info("{table}")').fetchall()
    key = tuple(str(name) for _, name, _, _, _, place in described if place)
    numbers = set(key) if _OWN_NUMBERS.search(sql) else set[str]()
    rows = [
        {name: _plain(value) for name, value in zip(columns, row, strict=True) if name not in numbers}
        for row in cursor.fetchall()
    ]
    in_order = tuple(sorted(rows, key=lambda row: repr(sorted(row.items()))))
    return in_order, TableKey(key, ("S",) * len(key)) if key and not numbers else None


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value
