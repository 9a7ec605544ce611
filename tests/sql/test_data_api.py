"""What only the Data API does: values with types of their own, and transactions by name."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from flowguard.errors import RunFailed, SettingsError
from flowguard.sql import DataApi, DataApiTransaction
from flowguard.sql.fence import made_once
from tests.sql.data_api import CLUSTER, SECRET, data_api
from tests.sql.databases import queried, schema_of_its_own
from tests.sql.test_fence import FIRST

pytestmark = pytest.mark.proof("starts PostgreSQL")

VALUES = [
    ("boolean", True, True),
    ("bigint", 2**62, 2**62),
    ("double precision", 1.5, 1.5),
    ("text", "it's; DROP TABLE x", "it's; DROP TABLE x"),
    ("bytea", b"\x00\xff", b"\x00\xff"),
    ("text", None, None),
    ("numeric", Decimal("12.30"), "12.30"),
    ("uuid", UUID(int=7), str(UUID(int=7))),
    ("date", date(2026, 1, 2), "2026-01-02"),
    ("timestamptz", datetime(2026, 1, 2, 3, 4, 5, 678000, UTC), "2026-01-02 03:04:05.678000+00:00"),
    ("jsonb", {"a": [1]}, '{"a": [1]}'),
]


@pytest.fixture
def address(postgres_url: str) -> Iterator[str]:
    with schema_of_its_own(postgres_url) as made:
        yield made


@pytest.fixture
def client(address: str) -> Iterator[Any]:
    with data_api(address) as made:
        yield made


@pytest.fixture
def database(client: Any) -> DataApi:
    return DataApi(client, cluster=CLUSTER, secret=SECRET, database="books")


@pytest.mark.parametrize(("kind", "sent", "read"), VALUES)
def test_a_value_goes_there_and_back(database: DataApi, kind: str, sent: object, read: object) -> None:
    with database.transaction() as transaction:
        handle: DataApiTransaction = transaction.handle
        handle.execute(f"CREATE TABLE kept (value {kind})")
        handle.execute("INSERT INTO kept VALUES (:value)", {"value": sent})
        assert handle.execute("SELECT value AS it FROM kept") == [{"it": read}]


def test_a_list_comes_back_and_two_columns_of_one_name_do_not(database: DataApi) -> None:
    with database.transaction() as transaction:
        assert transaction.handle.execute("SELECT ARRAY['a', 'b'] AS it") == [{"it": ["a", "b"]}]
        with pytest.raises(RunFailed, match="two columns of a result have one name: 'id, id'"):
            transaction.handle.execute("SELECT 1 AS id, 2 AS id")


@pytest.mark.parametrize(
    "config", ["none", None, Config(retries={"total_max_attempts": 2}), Config(retries={"mode": "standard"})]
)
def test_a_client_that_repeats_calls_is_refused(config: Any) -> None:
    client = boto3.Session(region_name="us-east-1").client("rds-data", config=config) if config != "none" else None
    with pytest.raises(SettingsError, match=r'a statement that is repeated counts twice; .*"total_max_attempts": 1'):
        DataApi(client, cluster=CLUSTER, secret=SECRET, database="books")


def test_a_statement_whose_answer_is_lost_takes_all_back(database: DataApi, client: Any, address: str) -> None:
    def lose(model: Any, **_: object) -> None:
        raise ConnectionError("the answer was lost")

    def once(number: int) -> str:
        return made_once(database, FIRST, "book", book)

    client.meta.events.register("after-call.rds-data.ExecuteStatement", lose)
    with pytest.raises(ConnectionError):
        once(1)
    client.meta.events.unregister("after-call.rds-data.ExecuteStatement", lose)
    assert once(2) == "booked"
    assert len(queried(address, "SELECT * FROM bookings")) == 1


@pytest.mark.parametrize("value", [datetime(2026, 1, 2), object(), {1, 2}])  # noqa: DTZ001 - what is refused
def test_other_values_are_refused_by_name(database: DataApi, value: object) -> None:
    with (
        pytest.raises(RunFailed, match=f"takes no '{type(value).__name__}' for :value"),
        database.transaction() as begun,
    ):
        begun.handle.execute("SELECT :value", {"value": value})


def test_a_commit_whose_answer_is_lost_is_not_made_twice(database: DataApi, client: Any, address: str) -> None:
    def lose(**_: object) -> None:
        raise ConnectionError("the answer was lost")

    client.meta.events.register("after-call.rds-data.CommitTransaction", lose)
    with pytest.raises(ConnectionError):
        made_once(database, FIRST, "book", book)
    client.meta.events.unregister("after-call.rds-data.CommitTransaction", lose)
    assert made_once(database, FIRST, "book", book) == "booked"
    assert len(queried(address, "SELECT * FROM bookings")) == 1


def test_an_error_of_the_database_rolls_back_and_is_the_users(database: DataApi, client: Any, address: str) -> None:
    def twice(transaction: DataApiTransaction) -> str:
        book(transaction)
        transaction.execute("SELECT 1 / 0")
        return ""

    with pytest.raises(ClientError, match="division by zero"):
        made_once(database, FIRST, "book", twice)
    assert queried(address, "SELECT * FROM bookings") == []


def test_a_rollback_that_fails_hides_no_error(database: DataApi, client: Any) -> None:
    def fail(**_: object) -> None:
        raise ConnectionError("away")

    client.meta.events.register("before-call.rds-data.RollbackTransaction", fail)
    with pytest.raises(ClientError, match="division by zero"):
        made_once(database, FIRST, "book", lambda transaction: str(transaction.execute("SELECT 1 / 0")))


def book(transaction: DataApiTransaction) -> str:
    transaction.execute("INSERT INTO bookings VALUES (:number, :amount)", {"number": "n", "amount": 1})
    return "booked"
