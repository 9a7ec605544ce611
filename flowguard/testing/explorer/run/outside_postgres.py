"""Connections to PostgreSQL that invocations open by psycopg, each to the copy of its schedule.

Statements and commits are points at which something may go wrong. A worker that dies loses what it had not committed.
Only one worker runs at a time, so who waits for the lock of another one would wait for ever: it fails at once.
"""

from __future__ import annotations

import functools
import re
import select
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final, NoReturn

from flowguard.errors import SettingsError, shown
from flowguard.project.declared import TableKey
from flowguard.testing.explorer.record.history import Items
from flowguard.testing.explorer.record.outside_call import OF_POSTGRES, POSTGRES, outside_call
from flowguard.testing.explorer.record.schedule import FaultKind
from flowguard.testing.explorer.record.site import calling_site
from flowguard.testing.explorer.run.late_imports import Change, replaced
from flowguard.testing.explorer.run.network import NetworkRefused
from flowguard.testing.explorer.run.outside_http import Points
from flowguard.testing.explorer.run.outside_libpq import closed_libpq
from flowguard.testing.explorer.run.outside_sql import COMMIT, Statement, statement
from flowguard.testing.explorer.run.postgres_copies import Copies, GivenPostgres, Tables, read_postgres, tell_apart
from flowguard.testing.explorer.run.server_statements import of_server

_PATIENCE: Final = "20ms"
_CONNECT: Final = "open a connection of psycopg.Connection in the handler, to a database that postgres= names"
_LONGEST_CONNECT: Final = 10_000
_LEADING: Final = re.compile(r"(?:\s+|--[^\n]*\n|/\*.*?\*/)+", re.DOTALL)
_INSIDE: Final = re.compile(
    r"\b(?:INSERT\s+INTO|UPDATE\s+(?:ONLY\s+)?[\w.\"]+\s+(?:AS\s+)?(?:\w+\s+)?SET|DELETE\s+FROM)\b.*",
    re.IGNORECASE | re.DOTALL,
)
_OTHER: Final = re.compile(
    r"(MERGE)\s+INTO\s+(?:\w+\.)?(\w+)|(TRUNCATE|COPY)\s+(?:TABLE\s+)?(?:\w+\.)?(\w+)|(CALL|DO)\b", re.I
)

_RECORDED: Final[dict[type[Any], type[Any]]] = {}


class PostgresDatabases:
    """The databases of the schedule that runs, and the connections to them. None where none are given."""

    def __init__(self, points: Points, given: GivenPostgres) -> None:
        self.points = points
        self._urls = read_postgres(given)
        self._copies: dict[str, Copies] = {}
        self._open: weakref.WeakSet[Any] = weakref.WeakSet()
        self._real: Callable[..., Any] | None = None

    @property
    def are_given(self) -> bool:
        return bool(self._urls)

    def start(self) -> None:
        """Make a copy of each database. Raises :class:`SettingsError` where that cannot be done."""
        if not self.are_given:
            return
        try:
            import psycopg  # there where somebody connects by it
        except ImportError:
            fix = "pip install 'flowguard-aws[postgres]'"
            raise SettingsError(
                "postgres", f"an exploration reaches it by psycopg, which is not installed; {fix}"
            ) from None
        for name, url in self._urls.items():
            try:
                self._copies[name] = Copies(url, lambda conninfo: recorded(psycopg.Connection).connect(conninfo), name)
            except psycopg.OperationalError as error:
                raise SettingsError("postgres", f"the test database does not answer: {error}") from None
        tell_apart(list(self._copies.values()))
        for copies in self._copies.values():
            copies.start()

    def begin(self) -> None:
        """Forget the databases of the schedule before."""
        while self._open:
            self._open.pop().close()
        for copies in self._copies.values():
            copies.begin()

    def end(self) -> None:
        """Drop all copies."""
        self.begin()
        while self._copies:
            self._copies.popitem()[1].end()

    def drop(self, worker: object) -> None:
        """Take back what a worker that died had not committed. Its server sees that the connection is gone."""
        for connection in [known for known in self._open if known.used_by is worker]:
            self._open.discard(connection)
            connection.close()

    def failed(self, worker: object) -> None:
        """Take back what an invocation that raised left open: the collector closes what nobody has any more."""
        for connection in [known for known in self._open if known.used_by is worker]:
            _rolled_back(connection)

    def free_locks(self) -> None:
        """Take back the open transactions of workers that Lambda has ended meanwhile."""
        for connection in list(self._open):
            if not connection.closed and self.points.ends_if_over(connection.used_by):
                connection.close()

    def name_of(self, database: str) -> str | None:
        """Return the key under which a database is given. None for one that is not."""
        return next((name for name in (database, "") if name in self._copies), None)

    def shown_name(self, database: str) -> str:
        """Return the name of a database as reports show it."""
        return "" if (name := self.name_of(database)) is None else self._copies[name].name

    def connect(self, database: str) -> Any:
        """Open a connection to the copy of a database, whose statements are no points."""
        import psycopg  # there where somebody connects by it

        name = self.name_of(database)
        if name is None:
            raise SettingsError("postgres", f"names no database {shown(database)}")
        return recorded(psycopg.Connection).connect(self._conninfo(name))

    def _conninfo(self, name: str, options: str = "") -> str:
        """Return what connects to the copy. It waits for no lock."""
        from psycopg.conninfo import conninfo_to_dict, make_conninfo  # there where somebody connects by psycopg

        copy = self._copies[name].conninfo()
        given = conninfo_to_dict(copy).get("options") or ""
        return make_conninfo(copy, options=f"{given} {options} -c lock_timeout={_PATIENCE}".strip())

    def check(self, sql: str) -> None:
        """Refuse a statement of the whole server, before it is sent."""
        if (words := of_server(sql)) is not None:
            what = f"sends {words}, which reaches beyond the database: no copy holds it"
            self.refuse(what, "make it outside the flow, or give the call a fake")

    def items(self) -> Items:
        """Return the rows of each table but flowguard's own, which says which claim has written."""
        return {name: rows for name, (rows, _) in self._named(Copies.tables)}

    def keys(self) -> dict[str, TableKey]:
        """Return the primary key of each table that has one, as it was read last."""
        return {name: key for name, (_, key) in self._named(lambda copies: copies.last) if key is not None}

    def _named(
        self, tables: Callable[[Copies], Tables]
    ) -> Iterator[tuple[str, tuple[tuple[dict[str, Any], ...], TableKey | None]]]:
        for copies in self._copies.values():
            for table, content in tables(copies).items():
                yield f"{OF_POSTGRES}{copies.name}/{table}", content

    # -- what is changed in psycopg

    def changes(self) -> dict[str, Change]:
        """Return what lets psycopg connect to the copies. Nothing where none are given."""
        return {"psycopg": self._changed} if self.are_given else {}

    @contextmanager
    def _changed(self, module: Any) -> Iterator[None]:
        base = next(kind for kind in module.Connection.__mro__ if "_connect_gen" in vars(kind))
        with ExitStack() as changed:
            for owner, name, new in (
                (module.Connection, "_get_connection_params", self._directing),
                (module.AsyncConnection, "_get_connection_params", self._refusing),
                (base, "_connect_gen", self._connecting),
            ):
                changed.enter_context(replaced(owner, name, classmethod(new(vars(owner)[name].__func__))))
            changed.enter_context(closed_libpq(module, self.points.is_inside, self.refuse, (_Recording,)))
            yield

    def _directing(self, real: Any) -> Any:
        def parameters(kind: Any, conninfo: str, **given: Any) -> Any:
            if not self.points.is_inside() or issubclass(kind, _Recording):
                return real(kind, conninfo, **given)
            from psycopg.conninfo import conninfo_to_dict  # there where somebody connects by psycopg

            asked = conninfo_to_dict(conninfo, **given)
            database = str(asked.get("dbname") or "")
            if (name := self.name_of(database)) is None:
                self.refuse(f"connects to {database}, which postgres= does not name")
            return real(kind, self._conninfo(name, str(asked.get("options") or "")))

        return parameters

    def _refusing(self, real: Any) -> Any:
        async def parameters(kind: Any, conninfo: str, **given: Any) -> Any:
            if self.points.is_inside():
                self.refuse("connects by psycopg's AsyncConnection, which an exploration does not play")
            return await real(kind, conninfo, **given)

        return parameters

    def _connecting(self, real: Any) -> Any:
        def connect_gen(kind: Any, conninfo: str = "", **named: Any) -> Generator[Any, Any, Any]:
            if not self.points.is_inside():
                return (yield from real(kind, conninfo, **named))
            if issubclass(kind, _Recording):
                return waited_for(real(kind, conninfo, **named))
            from psycopg.conninfo import conninfo_to_dict  # there where somebody connects by psycopg

            copy = conninfo_to_dict(conninfo).get("dbname")
            connection = waited_for(real(recorded(kind), conninfo, **named))
            name = next(copies.name for copies in self._copies.values() if copies.is_copy(copy))
            connection.database, connection.databases = name, self
            connection.used_by = self.points.worker
            self._open.add(connection)
            return connection

        return connect_gen

    def refuse(self, what: str, fix: str = _CONNECT) -> NoReturn:
        """Note what is not played, and raise."""
        self.points.lack(calling_site(until="_work"), what, fix, driver="psycopg")
        raise NetworkRefused(f"psycopg {what} while a flow is explored")


class _Recording:
    """What a connection does more than its kind. It is mixed into that kind, which mypy cannot see."""

    database = ""
    databases: PostgresDatabases
    used_by: object = None
    has_written = False

    def __del__(self) -> None:
        """Close it without a warning: a worker that dies closes nothing."""
        with suppress(Exception):  # it may be half made
            self.close()  # type: ignore[attr-defined]  # psycopg's class, which is the base at run time

    def cursor(self, *given: Any, **named: Any) -> Any:
        cursor = super().cursor(*given, **named)  # type: ignore[misc]  # psycopg's class, which is the base at run time
        kind: Any = type(cursor)
        cursor.__class__ = _cursor(kind)
        return cursor

    def _exec_command(self, command: Any, *given: Any, **named: Any) -> Any:
        real = super()._exec_command  # type: ignore[misc]  # psycopg's class, which is the base at run time
        words = _text_of(command, self).upper()
        has_written = self.has_written
        if words.startswith(("COMMIT", "ROLLBACK")) and " TO " not in words:
            self.has_written = False
        if not (words == COMMIT and has_written):
            return (yield from real(command, *given, **named))
        wait: Any = self.wait  # type: ignore[attr-defined]  # psycopg's class, which is the base at run time
        return self.pointed(Statement(COMMIT, ""), lambda: wait(real(command, *given, **named)))

    @property
    def is_played(self) -> bool:
        """Answer whether a handler uses it, and not the exploration itself."""
        return bool(self.database) and self.databases.points.is_inside()

    def pointed(self, statement: Statement | None, make: Callable[[], Any]) -> Any:
        """Make a statement, which is a point unless it is of no such kind."""
        if not self.is_played:
            return make()
        self.used_by = self.databases.points.worker
        if statement is None:
            self.databases.free_locks()
            return make()
        if statement.operation not in ("SELECT", COMMIT):
            self.has_written = True
        made: list[Any] = []

        def proceed() -> dict[str, Any]:
            self.databases.free_locks()
            made.append(make())
            return {"changed": getattr(made[-1], "rowcount", 1) != 0}

        to = f"{self.database}/{statement.table}" if statement.table else self.database
        about = {"To": to, "Places": ((POSTGRES, self.database),)}
        self.databases.points.point(outside_call(POSTGRES, statement.operation, about, self._lost), proceed)
        return made[-1]

    def _lost(self, _: FaultKind) -> Exception:
        """Lose the connection, as in a failover: what was not committed is taken back."""
        import psycopg  # there where somebody connects by it

        self.close()  # type: ignore[attr-defined]  # psycopg's class, which is the base at run time
        return psycopg.OperationalError("server closed the connection unexpectedly")


def recorded(kind: type[Any]) -> Any:
    """Return a kind of connection whose statements and commits are points."""
    if kind not in _RECORDED:
        _RECORDED[kind] = kind if issubclass(kind, _Recording) else type("Recorded", (_Recording, kind), {})
    return _RECORDED[kind]


@functools.cache
def _cursor(kind: type[Any]) -> type[Any]:
    class Recorded(kind):  # type: ignore[misc]  # the base is psycopg's class, chosen at run time
        __slots__ = ()

        def execute(self, query: Any, *given: Any, **named: Any) -> Any:
            return self._pointed(query, lambda: super(Recorded, self).execute(query, *given, **named))

        def executemany(self, query: Any, *given: Any, **named: Any) -> Any:
            return self._pointed(query, lambda: super(Recorded, self).executemany(query, *given, **named))

        def copy(self, query: Any, *given: Any, **named: Any) -> Any:
            return self._pointed(query, lambda: super(Recorded, self).copy(query, *given, **named))

        def stream(self, query: Any, *given: Any, **named: Any) -> Iterator[Any]:
            """Yield the rows, which all come with the statement. It is a point."""
            yield from self._pointed(query, lambda: [*super(Recorded, self).stream(query, *given, **named)])

        def _pointed(self, query: Any, make: Callable[[], Any]) -> Any:
            connection = self.connection
            sql = _text_of(query, connection)
            if connection.is_played:
                connection.databases.check(sql)
            return connection.pointed(statement_of(sql), make)

    return Recorded


def statement_of(sql: str) -> Statement | None:
    """Return what a statement of PostgreSQL does. A SELECT of no table calls a function, which may write."""
    leading = _LEADING.match(sql)
    sql = sql[leading.end() :] if leading else sql
    if sql[:4].upper() == "WITH" and (inside := _INSIDE.search(sql)) is not None:
        return statement(inside[0])
    if (other := _OTHER.match(sql)) is not None:
        words = [word for word in other.groups() if word]
        return Statement(words[0].upper(), "".join(words[1:]))
    made = statement(sql)
    return Statement("CALL", "") if made == Statement("SELECT", "") else made


def waited_for(connecting: Any) -> Any:
    """Return what a generator of psycopg connects. It waits in real time, which the waits of invocations do not."""
    from psycopg.waiting import Ready, Wait  # there where somebody connects by psycopg

    try:
        file, wanted = next(connecting)
        while True:
            poll = select.poll()
            poll.register(file, (select.POLLIN if wanted & Wait.R else 0) | (select.POLLOUT if wanted & Wait.W else 0))
            ready = [event for _, event in poll.poll(_LONGEST_CONNECT)]
            if not ready:
                raise TimeoutError("the test database does not answer")
            given = (Ready.W if ready[0] & select.POLLOUT else 0) | (Ready.R if ready[0] & ~select.POLLOUT else 0)
            file, wanted = connecting.send(Ready(given))
    except StopIteration as made:
        return made.value


def _text_of(query: Any, connection: Any) -> str:
    if isinstance(query, bytes):
        return query.decode(errors="replace")
    return query if isinstance(query, str) else str(query.as_string(connection))


def _rolled_back(connection: Any) -> None:
    with suppress(Exception):  # it is closed already
        connection.rollback()
