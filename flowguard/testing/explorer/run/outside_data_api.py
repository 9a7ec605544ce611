"""The Data API of RDS, answered by a test database of PostgreSQL.

A transaction belongs to no worker: that of a worker which has died goes on, and keeps its locks, until it was idle for
three minutes. Who waits for them gets no answer in time.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.testing.explorer.record.outside_call import DATA_API
from flowguard.testing.explorer.run.outside_postgres import PostgresDatabases, statement_of

_LONGEST_IDLE: Final = 180_000
"""After so many ms without a call a transaction is rolled back."""

_HINTED: Final[Mapping[str, Callable[[str], Any]]] = {
    "DECIMAL": Decimal,
    "UUID": UUID,
    "DATE": date.fromisoformat,
    "TIME": time.fromisoformat,
    "TIMESTAMP": lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC),
}

_ANY_DAY: Final = date(2000, 1, 1)
_LARGEST_ROW: Final = 64 * 1024
_LARGEST_ANSWER: Final = 1024 * 1024
_JSON: Final = (114, 3802)
"""The types json and jsonb, by PostgreSQL's numbers."""

_WORDS: Final = re.compile(
    r"(?P<kept>\bE'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(\w*)\$.*?\$\2\$|--[^\n]*|/\*.*?\*/|::)"
    r"|:(?P<name>[A-Za-z_]\w*)|%",
    re.DOTALL | re.IGNORECASE,
)


class DataApiCalls:
    """An interceptor that answers the calls of the Data API. ``now`` is the virtual time in ms."""

    def __init__(self, databases: PostgresDatabases, now: Callable[[], int]) -> None:
        self._databases = databases
        self._now = now
        self._open: dict[str, tuple[str, Any, int]] = {}
        self._begun = 0

    def begin(self) -> None:
        """Forget the transactions of the schedule before."""
        for _, connection, _ in self._open.values():
            connection.close()
        self._open, self._begun = {}, 0

    def plays(self, call: ApiCall) -> bool:
        """Answer whether it answers a call."""
        return call.service == DATA_API and self._databases.are_given and hasattr(self, f"_{call.operation}")

    def target(self, call: ApiCall) -> str:
        """Return the database of a call and the table that its statement is about."""
        database = self._database(call.params)
        made = statement_of(str(call.params.get("sql", "")))
        return f"{database}/{made.table}" if made is not None and made.table else database

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if not self.plays(call):
            return proceed()
        self._end_idle()
        with _refusals(call):
            answer = getattr(self, f"_{call.operation}")(call.params)
        return {"ResponseMetadata": {"HTTPStatusCode": 200}, **answer}

    def _database(self, params: Mapping[str, Any]) -> str:
        if params.get("transactionId") in self._open:
            return self._open[params["transactionId"]][0]
        return self._databases.shown_name(str(params.get("database", "")))

    def _end_idle(self) -> None:
        for name, (_, connection, used) in list(self._open.items()):
            if self._now() - used >= _LONGEST_IDLE:
                connection.close()
                del self._open[name]

    def _connected(self, params: Mapping[str, Any]) -> Any:
        from psycopg.types.string import StrDumper  # there where postgres= is given

        connection = self._databases.connect(str(params.get("database", "")))
        connection.adapters.register_dumper(str, StrDumper)  # a text is text, and nothing else that it could be read as
        return connection

    def _BeginTransaction(self, params: Mapping[str, Any]) -> Response:  # noqa: N802 - as the API says
        self._begun += 1
        name = f"transaction-{self._begun}"
        self._open[name] = (self._database(params), self._connected(params), self._now())
        return {"transactionId": name}

    def _CommitTransaction(self, params: Mapping[str, Any]) -> Response:  # noqa: N802 - as the API says
        with self._taken(params) as connection:
            connection.commit()
        return {"transactionStatus": "Transaction Committed"}

    def _RollbackTransaction(self, params: Mapping[str, Any]) -> Response:  # noqa: N802 - as the API says
        with self._taken(params) as connection:
            connection.rollback()
        return {"transactionStatus": "Rollback Complete"}

    def _taken(self, params: Mapping[str, Any]) -> Any:
        return self._open.pop(params["transactionId"])[1]

    def _ExecuteStatement(self, params: Mapping[str, Any]) -> Response:  # noqa: N802 - as the API says
        if params.get("formatRecordsAs", "NONE") != "NONE":
            self._databases.refuse("asks the Data API for formatRecordsAs, which is not played", "read its records")
        with self._statements(params) as connection:
            cursor = connection.execute(in_words_of_psycopg(params["sql"]), _read(params.get("parameters", ())))
            if cursor.description is None:
                return {"numberOfRecordsUpdated": max(cursor.rowcount, 0), "generatedFields": []}
            kinds = [column.type_code for column in cursor.description]
            rows = cursor.fetchall()
            records = [[_field(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in rows]
            _check_size(records)
            columns = [{"name": column.name, "label": column.name} for column in cursor.description]
            return {"records": records, **({"columnMetadata": columns} if params.get("includeResultMetadata") else {})}

    def _BatchExecuteStatement(self, params: Mapping[str, Any]) -> Response:  # noqa: N802 - as the API says
        with self._statements(params) as connection:
            for given in params.get("parameterSets") or [()]:
                connection.execute(in_words_of_psycopg(params["sql"]), _read(given))
        return {"updateResults": []}

    @contextmanager
    def _statements(self, params: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the connection of a transaction, or one that commits a statement by itself."""
        self._databases.check(params["sql"])
        if (name := params.get("transactionId")) is not None:
            database, connection, _ = self._open[name]
            self._open[name] = (database, connection, self._now())
            yield connection
            return
        with self._connected(params) as connection:
            yield connection


@contextmanager
def _refusals(call: ApiCall) -> Iterator[None]:
    import psycopg  # there where postgres= is given

    try:
        yield
    except psycopg.errors.LockNotAvailable as error:
        raise _error(call, "StatementTimeoutException", str(error)) from None
    except _TooLarge as error:
        raise _error(call, "BadRequestException", str(error)) from None
    except psycopg.Error as error:
        raise _error(call, "DatabaseErrorException", f"{error}; SQLState: {error.sqlstate}") from None
    except KeyError:
        raise _error(call, "TransactionNotFoundException", "no such transaction") from None


def _error(call: ApiCall, code: str, message: str) -> Exception:
    answer = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    exceptions: Any = call.client.exceptions
    error: Exception = exceptions.from_code(code)(answer, call.operation)
    return error


def _read(parameters: Any) -> dict[str, Any]:
    return {given["name"]: _value_of(given) for given in parameters}


def _value_of(given: Mapping[str, Any]) -> Any:
    from psycopg.types.json import Json  # there where postgres= is given

    ((kind, value),) = given["value"].items()
    if kind == "isNull":
        return None
    if given.get("typeHint") == "JSON":
        return Json(json.loads(value))
    return _HINTED[given["typeHint"]](value) if "typeHint" in given else value


def in_words_of_psycopg(sql: str) -> bytes:
    """Return a statement with ``%(name)s`` where it has ``:name`` outside of texts, names and comments."""

    def word(match: re.Match[str]) -> str:
        return f"%({match['name']})s" if match["name"] else match[0].replace("%", "%%")

    return _WORDS.sub(word, sql).encode()


class _TooLarge(Exception):
    pass


def _check_size(records: list[list[dict[str, Any]]]) -> None:
    sizes = [len(json.dumps(record, default=lambda value: b64encode(value).decode())) for record in records]
    if sum(sizes) > _LARGEST_ANSWER:
        raise _TooLarge("Database returned more than the allowed response size limit")
    if max(sizes, default=0) > _LARGEST_ROW:
        raise _TooLarge("Database returned a row of more than 64 KB")


def _field(value: Any, kind: int = 0) -> dict[str, Any]:
    match value:
        case None:
            return {"isNull": True}
        case _ if kind in _JSON:
            return {"stringValue": json.dumps(value)}
        case bool():
            return {"booleanValue": value}
        case int():
            return {"longValue": value}
        case float():
            return {"doubleValue": value}
        case bytes():
            return {"blobValue": value}
        case [*parts]:
            return {"arrayValue": _array(parts)}
        case _:
            return {"stringValue": _text(value)}


def _text(value: Any) -> str:
    """Return a value as text. A time with a zone comes in UTC, and without it."""
    match value:
        case datetime(tzinfo=zone) if zone is not None:
            return str(value.astimezone(UTC).replace(tzinfo=None))
        case time(tzinfo=zone) if zone is not None:
            return str(datetime.combine(_ANY_DAY, value).astimezone(UTC).time())
        case _:
            return str(value)


def _array(parts: list[Any]) -> dict[str, Any]:
    """Return a list of PostgreSQL by the kind of its values. One without values has texts."""
    for kind, name in ((str, "stringValues"), (bool, "booleanValues"), (int, "longValues"), (float, "doubleValues")):
        if all(isinstance(part, kind) for part in parts):
            return {name: parts}
    if all(isinstance(part, list) for part in parts):
        return {"arrayValues": [_array(part) for part in parts]}
    return {"stringValues": [str(part) for part in parts]}
