"""A test database of PostgreSQL, of which each schedule gets a copy.

::

    the user's database ── once, at the start ──▶ base ── for each schedule that connects ──▶ copy
        never written                             never written                               dropped after it

A copy has all that PostgreSQL keeps by database: rows, schemas, sequences, triggers and settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final, TypeAlias

from flowguard.errors import SettingsError, shown
from flowguard.project.declared import TableKey
from flowguard.sql import fence
from flowguard.testing.explorer.run.left_copies import drop_left, new_name
from flowguard.testing.explorer.run.postgres_settings import settings_of, statements_for

GivenPostgres: TypeAlias = str | Mapping[str, str]
"""The URL of a test database, or such URLs by the names of the databases that handlers connect to."""

Row: TypeAlias = dict[str, Any]
Tables: TypeAlias = Mapping[str, tuple[tuple[Row, ...], TableKey | None]]

LARGEST: Final = 128
"""How large a database may be, in MiB. An empty one has about 8 MiB."""

_WITH_STRATEGIES: Final = 150_000
"""PostgreSQL 15 and later copy a database by its log, unless one asks for its files: these are quicker for few rows."""

_LIKE: Final = "give the URL of a test database: postgresql://localhost/shop_test"

_IDENTITY: Final = "SELECT pg_postmaster_start_time(), oid FROM pg_database WHERE datname = current_database()"
"""What tells a database from those of other servers, whatever names a server has."""

_TABLES: Final = """SELECT n.nspname, c.relname, c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%%' AND c.relname <> %s ORDER BY 1, 2"""
_COLUMNS: Final = """SELECT a.attname,
    a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%%', false)
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_KEYS: Final = """SELECT contype::text, confrelid,
    (SELECT array_agg(a.attname::text ORDER BY k.at) FROM unnest(conkey) WITH ORDINALITY k(num, at)
     JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = k.num),
    (SELECT array_agg(a.attname::text ORDER BY k.at) FROM unnest(confkey) WITH ORDINALITY k(num, at)
     JOIN pg_attribute a ON a.attrelid = confrelid AND a.attnum = k.num)
    FROM pg_constraint WHERE conrelid = %s AND contype IN ('p', 'f')"""


def read_postgres(given: object) -> Mapping[str, str]:
    """Return URLs by the names of databases, ``""`` for any. Raises :class:`SettingsError` for what gives none."""
    databases = {"": given} if isinstance(given, str) else given
    if not isinstance(databases, Mapping):
        raise SettingsError("postgres", f"{shown(type(given).__name__)} names no database; {_LIKE}")
    for name, url in databases.items():
        if not (isinstance(name, str) and isinstance(url, str) and re.match(r"postgres(ql)?://|.*=", url)):
            raise SettingsError("postgres", f"what is given for {shown(name)} is no URL; {_LIKE}")
    return dict(databases)


def declared_postgres(modules: Iterable[ModuleType]) -> Mapping[str, str]:
    """Return what modules declare as ``POSTGRES``."""
    declared = [getattr(module, "POSTGRES", {}) for module in modules]
    return {name: url for given in declared for name, url in read_postgres(given).items()}


class Copies:
    """The copies of one database, made one after the other. ``connect`` opens a connection with a conninfo.

    ``key`` is its name in ``postgres=``, ``name`` that of reports, and ``last`` is what was read last.
    """

    def __init__(self, url: str, connect: Callable[[str], Any], key: str = "") -> None:
        self.key = key
        self._url = url
        self._connect = connect
        self._made = ""
        self._number = 0
        self._server = _opened(connect, url)
        self.database = self.name = str(self._server.info.dbname)
        self.identity = self._server.execute(_IDENTITY).fetchone()

    def start(self) -> None:
        """Make the first copy. Raises :class:`SettingsError` where that cannot be done."""
        self._check_size()
        _, oid = self.identity
        drop_left(self._server, oid)
        self._made = new_name(self._server, oid)
        self._settings = settings_of(self._server)
        try:
            self._copied(self.database, self._made)
            self._untouched = self.last = self._read(self._made)
        except Exception as error:  # psycopg's, which is known where somebody connects by it
            fix = "let its user create databases (CREATEDB), and close other connections to it meanwhile"
            raise SettingsError("postgres", f"no copy of {shown(self.database)} can be made: {error}; {fix}") from None

    def _check_size(self) -> None:
        ((size,),) = self._server.execute("SELECT pg_database_size(current_database()) / 1024 / 1024").fetchall()
        if size > LARGEST:
            problem = f"{shown(self.database)} has {size} MiB, and may have {LARGEST}"
            fix = "give a test database with few rows: each schedule copies all of it"
            raise SettingsError("postgres", f"{problem}; {fix}; nothing was copied")

    @property
    def _copy(self) -> str:
        return f"{self._made}_{self._number}"

    def is_copy(self, database: object) -> bool:
        """Answer whether a database is the copy of this schedule."""
        return bool(self._number) and database == self._copy

    def conninfo(self) -> str:
        """Return what connects to the copy of this schedule. The first call makes it."""
        if not self._number:
            self._number = 1
            self._copied(self._made, self._copy)
        return self._of(self._copy)

    def begin(self) -> None:
        """Drop the copy of the schedule before. Its connections are closed."""
        if self._number:
            self._server.execute(f'DROP DATABASE "{self._copy}" WITH (FORCE)')
            self._number = 0

    def end(self) -> None:
        """Drop all copies."""
        self.begin()
        if self._made:
            self._server.execute(f'DROP DATABASE IF EXISTS "{self._made}" WITH (FORCE)')
        self._server.close()

    def tables(self) -> Tables:
        """Return the rows of each table and its key, but not flowguard's own."""
        self.last = self._read(self._copy) if self._number else self._untouched
        return self.last

    def _copied(self, template: str, copy: str) -> None:
        strategy = " STRATEGY FILE_COPY" if self._server.info.server_version >= _WITH_STRATEGIES else ""
        self._server.execute(f"CREATE DATABASE {quoted(copy)} TEMPLATE {quoted(template)}{strategy}")
        for statement in statements_for(copy, self._settings):
            self._server.execute(statement)

    def _read(self, database: str) -> Tables:
        with _opened(self._connect, self._of(database)) as connection:
            listed = connection.execute(_TABLES, (fence.TABLE,)).fetchall()
            numbered = {oid: _numbered(connection, oid) for _, _, oid in listed}
            names = [table for _, table, _ in listed]
            return {
                table if names.count(table) == 1 else f"{schema}.{table}": _rows(
                    connection, schema, table, oid, numbered
                )
                for schema, table, oid in listed
            }

    def _of(self, database: str) -> str:
        from psycopg.conninfo import make_conninfo  # it is there where somebody connects by psycopg

        return make_conninfo(self._url, dbname=database)


def tell_apart(all_copies: Sequence[Copies]) -> None:
    """Name databases in reports by their keys where two have one name. Raises :class:`SettingsError` for one twice."""
    by_identity: dict[Any, Copies] = {}
    for copies in all_copies:
        other = by_identity.setdefault(copies.identity, copies)
        if other is not copies:
            problem = f"{shown(other.key)} and {shown(copies.key)} name one database, {shown(copies.database)}"
            raise SettingsError("postgres", f"{problem}; give each name a test database of its own")
    if len({copies.database for copies in all_copies}) < len(all_copies):
        for copies in all_copies:
            copies.name = copies.key or "*"


def quoted(name: str) -> str:
    """Return a name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def _opened(connect: Callable[[str], Any], conninfo: str) -> Any:
    connection = connect(conninfo)
    connection.autocommit = True
    return connection


def _numbered(connection: Any, oid: int) -> frozenset[str]:
    """Return the columns that the database numbers: a sequence goes on also where its transaction is taken back."""
    return frozenset(name for name, is_number in connection.execute(_COLUMNS, (oid,)).fetchall() if is_number)


def _rows(
    connection: Any, schema: str, table: str, oid: int, numbered: Mapping[int, frozenset[str]]
) -> tuple[tuple[Row, ...], TableKey | None]:
    """Return the rows without numbers that the database gives, and without what refers to them."""
    keys = connection.execute(_KEYS, (oid,)).fetchall()
    left_out = set(numbered[oid])
    for kind, referred, columns, of in keys:
        if kind == "f":
            pairs = zip(columns, of, strict=True)
            left_out |= {column for column, name in pairs if name in numbered.get(referred, ())}
    cursor = connection.execute(f"SELECT * FROM {quoted(schema)}.{quoted(table)}")  # noqa: S608 - names that the database says
    columns = [column.name for column in cursor.description]
    rows = [
        {name: _plain(value) for name, value in zip(columns, row, strict=True) if name not in left_out}
        for row in cursor.fetchall()
    ]
    primary: Sequence[str] = next((names for kind, _, names, _ in keys if kind == "p"), ())
    key = TableKey(tuple(primary), ("S",) * len(primary)) if primary and not left_out & set(primary) else None
    return tuple(sorted(rows, key=lambda row: repr(sorted(row.items())))), key


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case bytes():
            return value.hex()
        case list() | tuple():
            return [_plain(part) for part in value]
        case dict():
            return {str(name): _plain(part) for name, part in value.items()}
        case _:
            return str(value)
