"""The Data API of RDS over a real PostgreSQL: what boto3 sends is read, run and answered, and nothing is connected."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import boto3
import psycopg
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from psycopg.types.json import Json
from psycopg.types.string import StrDumper

from flowguard.sql.postgres import in_words_of_psycopg

CLUSTER: Final = "arn:aws:rds:us-east-1:123456789012:cluster:ledger"
SECRET: Final = "arn:aws:secretsmanager:us-east-1:123456789012:secret:ledger"

_HINTED: Final[dict[str, Callable[[str], Any]]] = {
    "DECIMAL": Decimal,
    "UUID": UUID,
    "DATE": date.fromisoformat,
    "TIMESTAMP": lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC),
    "JSON": lambda text: Json(json.loads(text)),
}


@contextmanager
def data_api(url: str) -> Iterator[Any]:
    """A client of ``rds-data`` whose transactions are PostgreSQL's. Those that are open at the end are rolled back."""
    server = _Server(url)
    session = boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name="us-east-1")
    client = session.client("rds-data", config=Config(retries={"total_max_attempts": 1}))
    client.meta.events.register("before-send.rds-data", server.answer)
    try:
        yield client
    finally:
        for connection in server.open.values():
            connection.close()


class _Server:
    def __init__(self, url: str) -> None:
        self._url = url
        self.open: dict[str, psycopg.Connection[Any]] = {}
        self._begun = 0

    def answer(self, request: Any, **_: object) -> AWSResponse:
        asked = json.loads(request.body)
        assert (asked["resourceArn"], asked["secretArn"]) == (CLUSTER, SECRET)
        try:
            said = getattr(self, f"_{request.url.rpartition('/')[2]}")(asked)
        except psycopg.Error as error:
            return _response(
                request.url, 400, {"message": f"{error}; SQLState: {error.sqlstate}"}, "DatabaseErrorException"
            )
        except KeyError:
            return _response(request.url, 404, {"message": "no such transaction"}, "TransactionNotFoundException")
        return _response(request.url, 200, said)

    def _BeginTransaction(self, _: Any) -> dict[str, Any]:  # noqa: N802 - as its path says
        self._begun += 1
        name = f"transaction-{self._begun}"
        self.open[name] = connection = psycopg.connect(self._url)
        connection.adapters.register_dumper(str, StrDumper)  # a text is text, and nothing else that it could be read as
        return {"transactionId": name}

    def _Execute(self, asked: Any) -> dict[str, Any]:  # noqa: N802 - as its path says
        given = {one["name"]: _read(one) for one in asked.get("parameters", [])}
        cursor = self.open[asked["transactionId"]].execute(in_words_of_psycopg(asked["sql"]), given)
        if cursor.description is None:
            return {"numberOfRecordsUpdated": max(cursor.rowcount, 0), "generatedFields": []}
        columns = [{"name": column.name, "label": column.name} for column in cursor.description]
        return {"columnMetadata": columns, "records": [[_field(value) for value in row] for row in cursor.fetchall()]}

    def _CommitTransaction(self, asked: Any) -> dict[str, Any]:  # noqa: N802 - as its path says
        with self.open.pop(asked["transactionId"]) as connection:
            connection.commit()
        return {"transactionStatus": "Transaction Committed"}

    def _RollbackTransaction(self, asked: Any) -> dict[str, Any]:  # noqa: N802 - as its path says
        with self.open.pop(asked["transactionId"]) as connection:
            connection.rollback()
        return {"transactionStatus": "Rollback Complete"}


def _read(parameter: Any) -> Any:
    ((kind, value),) = parameter["value"].items()
    if kind == "isNull":
        return None
    if kind == "blobValue":
        return base64.b64decode(value)
    return _HINTED[parameter["typeHint"]](value) if "typeHint" in parameter else value


def _field(value: Any) -> dict[str, Any]:
    match value:
        case None:
            return {"isNull": True}
        case bool():
            return {"booleanValue": value}
        case int():
            return {"longValue": value}
        case float():
            return {"doubleValue": value}
        case bytes():
            return {"blobValue": base64.b64encode(value).decode()}
        case [*texts] if all(isinstance(text, str) for text in texts):
            return {"arrayValue": {"stringValues": texts}}
        case dict() | list():
            return {"stringValue": json.dumps(value)}
        case _:
            return {"stringValue": str(value)}


class _Raw:
    """A body as botocore reads it."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: object) -> Iterator[bytes]:
        yield self._content


def _response(url: str, status: int, body: Any, error: str | None = None) -> AWSResponse:
    headers: Any = {"content-type": "application/json", **({"x-amzn-errortype": error} if error else {})}
    return AWSResponse(url, status, headers, _Raw(json.dumps(body).encode()))
