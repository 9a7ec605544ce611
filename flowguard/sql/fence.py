"""The fence of an object in a database, which has the results of its newest hop.

::

    begin   INSERT … ON CONFLICT … RETURNING              the row of the flow's object is locked
            the hop's result is there                     return it: nothing runs
            a newer request or claim has written          FenceIsNewer: nothing runs
            else                                          the statements run
            UPDATE                                        the fence, and the result
    commit                                                all of it, or nothing

Copies of a hop wait for each other at the row. A worker that dies before the commit has changed nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, TypeVar

from flowguard.errors import FlowguardError, RunFailed, SettingsError, shown
from flowguard.names.ids import ObjectId, RequestId
from flowguard.startup.named_tuple import NamedTuple

Connection = TypeVar("Connection")

TABLE: Final = "flowguard_fence"

SCHEMA: Final = f"""CREATE TABLE IF NOT EXISTS {TABLE} (
    flow text NOT NULL,
    object_id text NOT NULL,
    request_id text NOT NULL,
    requested_at bigint NOT NULL,
    hop bigint NOT NULL,
    reset_by text NOT NULL,
    epoch bigint NOT NULL,
    results text NOT NULL,
    written_at bigint NOT NULL,
    PRIMARY KEY (flow, object_id)
)"""
"""What makes the table of the fences. It has a row for each object; times are in ms since 1970."""

ADD: Final = f"""INSERT INTO {TABLE}
    (flow, object_id, request_id, requested_at, hop, reset_by, epoch, results, written_at)
    VALUES (:flow, :object_id, '', 0, 0, '', 0, '{{}}', :written_at)
    ON CONFLICT (flow, object_id) DO NOTHING"""  # noqa: S608 - the name is a constant

READ: Final = f"""SELECT request_id, requested_at, hop, reset_by, epoch, written_at, results FROM {TABLE}
    WHERE flow = :flow AND object_id = :object_id"""  # noqa: S608 - the name is a constant

_PLACE: Final = f"'{TABLE}'::regclass::oid::text"
"""Which table of PostgreSQL the name is in this statement. A ``search_path`` that is set makes another one of it."""

LOCK: Final = f"""{ADD.replace("NOTHING", f"UPDATE SET hop = {TABLE}.hop")}
    RETURNING request_id, requested_at, hop, reset_by, epoch, written_at, results, {_PLACE},
    pg_current_xact_id()::text"""
"""Both in PostgreSQL, with the table that it is, and the number of the transaction. Copies of the hop wait here.

This and :data:`WRITE_SAME` find the row by its key and no scan: at SERIALIZABLE a scan of a small table would be a read
of all its rows, and workers of other objects would fail.
"""

WRITE: Final = f"""UPDATE {TABLE} SET request_id = :request_id, requested_at = :requested_at, hop = :hop,
    reset_by = :reset_by, epoch = :epoch, results = :results, written_at = :written_at
    WHERE flow = :flow AND object_id = :object_id"""  # noqa: S608 - the name is a constant

WRITE_SAME: Final = f"""INSERT INTO {TABLE}
    (flow, object_id, request_id, requested_at, hop, reset_by, epoch, results, written_at)
    SELECT CAST(:flow AS text), CAST(:object_id AS text), CAST(:request_id AS text), CAST(:requested_at AS bigint),
    CAST(:hop AS bigint), CAST(:reset_by AS text), CAST(:epoch AS bigint), CAST(:results AS text),
    CAST(:written_at AS bigint) WHERE pg_current_xact_id()::text = :transaction AND {_PLACE} = :place
    ON CONFLICT (flow, object_id) DO UPDATE SET request_id = excluded.request_id,
    requested_at = excluded.requested_at, hop = excluded.hop, reset_by = excluded.reset_by, epoch = excluded.epoch,
    results = excluded.results, written_at = excluded.written_at RETURNING hop"""
"""The same in PostgreSQL, in the transaction of that number and in that table alone."""

NUMBER: Final = "SELECT pg_current_xact_id()::text"
"""What tells apart why nothing was written: it is asked only then."""


def _forgetting(flow: str, object_id: str) -> str:
    return f"UPDATE {TABLE} SET results = '{{}}' WHERE flow = {flow} AND object_id = {object_id}"  # noqa: S608 - a constant


_FORGET: Final = _forgetting(":flow", ":object_id")

MOST_RESULTS: Final = 60_000
"""Bytes that the results of a hop may take: the Data API returns no row above 64 KB."""


AFTER: Final = ""
"""What stands among the results of a first hop for the commit before its run. No key of a result is empty."""

HAS_ENDED: Final = (
    "the statements of step.sql have ended its transaction; leave COMMIT and ROLLBACK to the step. What they have "
    "committed stays, and is not remembered"
)

HAS_MOVED: Final = (
    f"the statements of step.sql have set search_path, and the {TABLE} that was locked is not the one that is "
    f"found now; keep {TABLE} in one schema alone, and let each search_path end with that schema. The step has "
    "committed nothing"
)


IS_GONE: Final = (
    f"the {TABLE} that was locked is not found after what step.sql was given: that has set search_path or the role. "
    f"Keep {TABLE} in one schema alone, let each search_path end with it, and let each role use it. The step itself "
    "has committed nothing; what the statements have committed stays"
)


class Transaction(Protocol):
    """An open transaction of a database."""

    @property
    def handle(self) -> Any:
        """Return what the statements of a handler are made with."""

    def rows(self, sql: str, parameters: Mapping[str, str | int]) -> Sequence[Sequence[Any]]:
        """Run a statement with ``:name`` for its parameters. Return its rows, none where it returns none."""

    def locked(self, place: Mapping[str, str | int]) -> Sequence[Any]:
        """Read the row of an object, or add it as of ``written_at``. It stays locked until the transaction ends."""

    def written(self, values: Mapping[str, str | int]) -> bool:
        """Write the row. Answer whether the transaction is still the one in which it was locked."""


class SqlDatabase(Protocol):
    """A database in which a step runs statements."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open a transaction that the end of the block commits, and an error takes back.

        Raises :class:`ConnectionLost` where a connection that was kept cannot begin one.
        """


class NoFence(RunFailed):
    """The database has no table for the fences. Nothing was written."""


class ConnectionLost(FlowguardError):
    """A connection that was kept is closed by now. Nothing was done with it."""


class FenceIsNewer(FlowguardError):
    """Something newer has written the fence, a request or a later claim of the same. Nothing was written."""


def check_connect(database: str, connect: object) -> None:
    """Raise :class:`SettingsError` if ``connect`` cannot be called. Some pass the URL of a database."""
    if not callable(connect):
        fix = f"give a function that does: {database}(lambda: …)"
        raise SettingsError(database, f"a {type(connect).__name__} opens no connection; {fix}")


def checked_connection(connection: Any, kind: type[Connection]) -> Connection:
    """Return the connection. Raises :class:`RunFailed` for one of another library."""
    if not isinstance(connection, kind):
        wanted = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
        raise RunFailed(f"the database of step.sql connects to {type(connection).__name__}, and not a {wanted}")
    return connection


class SqlFence(NamedTuple):
    """Which hop of which run asks, under which claim. Times are in ms since 1970.

    ``reset_by`` is the last reset of the object, empty where there was none. ``begins`` says that the claim has taken
    the object from another request. ``after`` is when the object's item was committed before the run, the same in each
    attempt of its first hop, and None elsewhere. ``expired_since`` is the last moment at which a row was written whose
    run item has expired by now, if no other attempt has kept that alive.
    """

    flow: str
    object_id: ObjectId
    request_id: RequestId
    requested_at: int
    hop: int
    epoch: int
    now: int
    reset_by: str = ""
    begins: bool = False
    after: int | None = None
    expired_since: int = 0

    def is_behind(self, row: Sequence[Any]) -> bool:
        """Answer whether what has written the row is newer.

        Within a request the claims decide. A message of a request may have an earlier time than a copy of it. No hop
        comes behind a later one without a reset, however many claims it has had: the run item was lost in between. Nor
        does a hop that knows of no reset come behind one that did.
        """
        request_id, requested_at, hop, reset_by, epoch, *_ = row
        if request_id == self.request_id:
            is_later_hop = hop > self.hop and reset_by == self.reset_by
            is_after_reset = reset_by and not self.reset_by
            return bool((epoch > self.epoch or is_later_hop or is_after_reset) and requested_at >= self.requested_at)
        return bool((requested_at, epoch) >= (self.requested_at, self.epoch))

    def results_of(self, row: Sequence[Any]) -> dict[str, str]:
        """Return what this hop has in the row, each result by its key."""
        request_id, requested_at, hop, reset_by, _, written_at, text = row
        is_same = (request_id, hop, reset_by) == (self.request_id, self.hop, self.reset_by)
        results = dict(json.loads(text)) if is_same else {}
        return {} if self._is_of_earlier_run(requested_at, written_at, results) else results

    def _is_of_earlier_run(self, requested_at: int, written_at: int, results: Mapping[str, str]) -> bool:
        """Answer whether the results are of a run that the request's id had before another request had the object.

        Or before its run item expired. A copy of the request may have a later time in the first hop alone, and nothing
        was committed in between.
        """
        if requested_at >= self.requested_at:
            return False
        is_after_another = self.after is not None and results.get(AFTER, self._after) != self._after
        return self.hop > 1 or self.begins or is_after_another or written_at <= self.expired_since

    @property
    def _after(self) -> str:
        return str(self.after)

    def noted(self, results: Mapping[str, str]) -> Mapping[str, str]:
        """Return the results as the row has them."""
        return results if self.after is None else {**results, AFTER: self._after}


def made_once(database: SqlDatabase, fence: SqlFence, key: str, make: Callable[[Any], str]) -> str:
    """Return the text that ``make`` returns, which is called in the first transaction that commits under this key.

    Raises :class:`FenceIsNewer`, and what ``make`` and the database raise: nothing was written then, unless the answer
    to the commit was lost.
    """
    try:
        return _made_once(database, fence, key, make)
    except ConnectionLost:
        return _made_once(database, fence, key, make)


def forget_fence(database: SqlDatabase, flow: str, object_id: str) -> None:
    """Empty what the fence of an object keeps of its newest hop: the results of its statements.

    The row stays, and keeps late workers out. Call this once the object's run is forgotten, for no attempt asks for the
    results then. Nothing happens where the object has no fence.
    """
    with database.transaction() as transaction:
        transaction.rows(_FORGET, {"flow": flow, "object_id": object_id})


def forget_statement(flow: str, object_id: str) -> str:
    """Return what :func:`forget_fence` does as a statement that a person runs."""
    return _forgetting(*("'" + text.replace("'", "''") + "'" for text in (flow, object_id)))


def _made_once(database: SqlDatabase, fence: SqlFence, key: str, make: Callable[[Any], str]) -> str:
    place: dict[str, str | int] = {"flow": fence.flow, "object_id": fence.object_id}
    now: dict[str, str | int] = {"written_at": fence.now}
    with database.transaction() as transaction:
        row = [_text(value) for value in transaction.locked({**place, **now})]
        results = fence.results_of(row)
        if key in results:
            return results[key]
        if fence.is_behind(row):
            raise FenceIsNewer(f"{TABLE} has a newer request or claim of {shown(fence.object_id)}")
        results[key] = make(transaction.handle)
        text = json.dumps(fence.noted(results))
        if len(text) > MOST_RESULTS:
            raise RunFailed(f"the results of step.sql take {len(text)} bytes in this hop, more than {MOST_RESULTS}")
        mine: dict[str, str | int] = {
            "request_id": fence.request_id,
            "requested_at": fence.requested_at,
            "hop": fence.hop,
            "reset_by": fence.reset_by,
            "epoch": fence.epoch,
            "results": text,
        }
        if not transaction.written({**place, **mine, **now}):
            raise RunFailed(HAS_ENDED)
        return results[key]
    raise RunFailed("the statements of step.sql have rolled its transaction back; raise an error for that")


class LockedRow:
    """The row of an object in PostgreSQL, the table and the number of the transaction in which it is locked."""

    def __init__(self, rows: Callable[[str, Mapping[str, str | int]], Sequence[Sequence[Any]]]) -> None:
        self._rows = rows
        self._locked_in: dict[str, str] = {}

    def locked(self, place: Mapping[str, str | int]) -> Sequence[Any]:
        (row,) = self._rows(LOCK, place)
        *values, table, number = row
        self._locked_in = {"place": _text(table), "transaction": _text(number)}
        return values

    def written(self, values: Mapping[str, str | int]) -> bool:
        """Write the row. Raises :class:`RunFailed` if the table was renamed, replaced or dropped since the lock."""
        try:
            if self._rows(WRITE_SAME, {**values, **self._locked_in}):
                return True
            ((number,),) = self._rows(NUMBER, {})
        except NoFence:
            raise RunFailed(IS_GONE) from None
        if _text(number) != self._locked_in["transaction"]:
            return False
        raise RunFailed(HAS_MOVED)


def _text(value: Any) -> Any:
    """Return what a connection without an encoding has for a text."""
    return value.decode() if isinstance(value, bytes) else value
