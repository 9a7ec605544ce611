"""Aurora PostgreSQL by the Data API of RDS, which needs no connection and no VPC."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, Final
from uuid import UUID

from flowguard.errors import RunFailed, SettingsError, shown
from flowguard.sql.fence import TABLE, LockedRow, Transaction
from flowguard.sql.sqlite import no_table


class DataApi:
    """A database of Aurora PostgreSQL whose cluster has the Data API enabled.

    ``client`` is one of boto3 for ``rds-data`` that repeats no call: a statement whose answer was lost would be applied
    twice (``Config(retries={"total_max_attempts": 1})``). Raises :class:`flowguard.errors.SettingsError` for any other.
    ``cluster`` and ``secret`` are ARNs: of the cluster, and of the secret
    with its user; ``database`` is the name of the database. The function's role needs ``rds-data:BeginTransaction``,
    ``ExecuteStatement``, ``CommitTransaction`` and ``RollbackTransaction`` on the cluster, and
    ``secretsmanager:GetSecretValue`` on the secret. ``flowguard iac`` writes them where a handler names the database.
    """

    def __init__(self, client: Any, *, cluster: str, secret: str, database: str) -> None:
        config = getattr(getattr(client, "meta", None), "config", None)
        if config is None or (config.retries or {}).get("total_max_attempts") != 1:
            fix = 'boto3.client("rds-data", config=Config(retries={"total_max_attempts": 1}))'
            raise SettingsError(
                "client",
                f"is none of boto3 that repeats no call, and a statement that is repeated counts twice; write {fix}",
            )
        self.cluster = cluster
        self.secret = secret
        self._client = client
        self._where = {"resourceArn": cluster, "secretArn": secret}
        self._database = database

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a transaction that the end of the block commits. Its statements get a :class:`DataApiTransaction`."""
        begun = self._client.begin_transaction(**self._where, database=self._database)
        named = {**self._where, "transactionId": begun["transactionId"]}
        try:
            execute = partial(self._client.execute_statement, **named, includeResultMetadata=True)
            yield _FencedTransaction(DataApiTransaction(execute))
        except BaseException:
            with suppress(Exception):  # it is rolled back after three minutes by itself
                self._client.rollback_transaction(**named)
            raise
        self._client.commit_transaction(**named)


class DataApiTransaction:
    """An open transaction of the Data API, in which the handler's statements are made."""

    def __init__(self, execute: Callable[..., Any]) -> None:
        self._execute = execute

    def execute(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Run a statement with ``:name`` for its parameters. Return its rows by the names of their columns.

        Parameters may be None, bool, int, float, str, bytes, ``Decimal``, ``UUID``, date, a datetime with a time
        zone, and lists and dicts, which are sent as JSON. In rows numbers, texts, bytes, lists of them and None come
        back, anything else as text; so does a ``numeric``.
        """
        given = [_parameter(name, value) for name, value in (parameters or {}).items()]
        answer = self._execute(sql=sql, parameters=given)
        names = [column.get("label") or column["name"] for column in answer.get("columnMetadata", [])]
        if len(set(names)) < len(names):
            raise RunFailed(f"two columns of a result have one name: {shown(', '.join(names))}; name them apart")
        return [dict(zip(names, map(_value, record), strict=True)) for record in answer.get("records", [])]


class _FencedTransaction:
    """What reads and writes the fence in such a transaction."""

    def __init__(self, transaction: DataApiTransaction) -> None:
        self._transaction = transaction
        self._row = LockedRow(self.rows)
        self.locked, self.written = self._row.locked, self._row.written

    @property
    def handle(self) -> DataApiTransaction:
        return self._transaction

    def rows(self, sql: str, parameters: Mapping[str, str | int]) -> Sequence[Sequence[Any]]:
        try:
            return [tuple(row.values()) for row in self._transaction.execute(sql, parameters)]
        except Exception as error:
            if f'relation "{TABLE}" does not exist' in str(error):
                raise no_table() from None
            raise


def _parameter(name: str, value: Any) -> dict[str, Any]:
    field = next((_FIELDS[kind] for kind in type(value).__mro__ if kind in _FIELDS), None)
    if field is None or (isinstance(value, datetime) and value.tzinfo is None):
        raise RunFailed(f"the Data API takes no {shown(type(value).__name__)} for :{name}. Nothing was written")
    return {"name": name, **field(value)}


def _hinted(hint: str, text: Callable[[Any], str] = str) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {"value": {"stringValue": text(value)}, "typeHint": hint}


def _plain(field: str) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {"value": {field: value}}


def _milliseconds(value: datetime) -> str:
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


_FIELDS: Final[Mapping[type, Callable[[Any], dict[str, Any]]]] = {
    type(None): lambda _: {"value": {"isNull": True}},
    bool: _plain("booleanValue"),
    int: _plain("longValue"),
    float: _plain("doubleValue"),
    str: _plain("stringValue"),
    bytes: _plain("blobValue"),
    Decimal: _hinted("DECIMAL"),
    UUID: _hinted("UUID"),
    datetime: _hinted("TIMESTAMP", _milliseconds),
    date: _hinted("DATE"),
    list: _hinted("JSON", json.dumps),
    dict: _hinted("JSON", json.dumps),
}


def _value(field: Mapping[str, Any]) -> Any:
    if field.get("isNull"):
        return None
    ((kind, value),) = ((name, value) for name, value in field.items() if name != "isNull")
    return next(iter(value.values()), []) if kind == "arrayValue" else value
