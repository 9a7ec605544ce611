"""Values and statements of the Data API, as an exploration plays them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, time, timedelta, timezone
from typing import Any

import boto3
import pytest
from botocore.config import Config

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.testing.explorer import replay
from flowguard.testing.explorer.run import outside_data_api
from flowguard.testing.explorer.run.outside_data_api import in_words_of_psycopg
from tests.sql.data_api import CLUSTER, SECRET
from tests.sql.databases import queried
from tests.sql.test_explored_postgres import Order

WEST = timezone(timedelta(hours=-8))


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ([1, 2], 0, {"arrayValue": {"longValues": [1, 2]}}),
        ([True], 0, {"arrayValue": {"booleanValues": [True]}}),
        ([1.5], 0, {"arrayValue": {"doubleValues": [1.5]}}),
        (["a"], 0, {"arrayValue": {"stringValues": ["a"]}}),
        ([], 0, {"arrayValue": {"stringValues": []}}),
        ([[1], [2]], 0, {"arrayValue": {"arrayValues": [{"longValues": [1]}, {"longValues": [2]}]}}),
        ([None, "a"], 0, {"arrayValue": {"stringValues": ["None", "a"]}}),
        (["a"], 3802, {"stringValue": '["a"]'}),
        (None, 3802, {"isNull": True}),
        (datetime(2026, 1, 2, 15, 30, tzinfo=WEST), 0, {"stringValue": "2026-01-02 23:30:00"}),
        (datetime(2026, 1, 2, 15, 30), 0, {"stringValue": "2026-01-02 15:30:00"}),  # noqa: DTZ001 - a timestamp has none
        (time(15, 30, tzinfo=WEST), 0, {"stringValue": "23:30:00"}),
        (time(15, 30), 0, {"stringValue": "15:30:00"}),
        (datetime(2026, 1, 2, tzinfo=UTC), 0, {"stringValue": "2026-01-02 00:00:00"}),
    ],
)
def test_a_value_is_answered_in_the_form_of_the_data_api(value: object, kind: int, expected: Any) -> None:
    assert outside_data_api._field(value, kind) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT :a, :b_2", b"SELECT %(a)s, %(b_2)s"),
        ("SELECT 'x:a', :a", b"SELECT 'x:a', %(a)s"),
        ("SELECT 'it''s :a', E'\\':a', :a", b"SELECT 'it''s :a', E'\\':a', %(a)s"),
        ('SELECT "x:a", :a::text', b'SELECT "x:a", %(a)s::text'),
        ("SELECT $$:a$$, $x$:b$x$, :c", b"SELECT $$:a$$, $x$:b$x$, %(c)s"),
        ("SELECT :a -- :b", b"SELECT %(a)s -- :b"),
        ("SELECT 7 % 2 WHERE x LIKE 'a%'", b"SELECT 7 %% 2 WHERE x LIKE 'a%%'"),
    ],
)
def test_a_parameter_is_one_outside_of_texts_alone(sql: str, expected: bytes) -> None:
    assert in_words_of_psycopg(sql) == expected


class Asks(Stage[Order], name="asks"):
    call: Callable[[Any], None]

    def handle(self, order: Order, step: Step) -> Outcome:
        client: Any = boto3.client("rds-data", config=Config(retries={"total_max_attempts": 1}))
        Asks.call(client)
        return Done()


class AsksTheDataApi(Flow, name="asks-the-data-api", object_id="order_id"):
    stages = (Asks,)


def asked(url: str, monkeypatch: pytest.MonkeyPatch, sql: str, **more: Any) -> tuple[Any, str]:
    """What the Data API has answered to a statement, and the trace."""
    answers: list[Any] = []

    def call(client: Any) -> None:
        where = {"resourceArn": CLUSTER, "secretArn": SECRET, "database": "shop"}
        try:
            answers.append(client.execute_statement(**where, sql=sql, **more)["records"])
        except client.exceptions.ClientError as error:
            answers.append(error.response["Error"]["Message"])

    monkeypatch.setattr(Asks, "call", staticmethod(call), raising=False)
    trace = str(replay(AsksTheDataApi, [Order(order_id="o-1")], "none", postgres=url))
    return (answers or [None])[0], trace


@pytest.mark.proof("starts PostgreSQL")
def test_a_time_is_hinted_at(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [{"name": "at", "value": {"stringValue": "15:30:00"}, "typeHint": "TIME"}]
    answer, _ = asked(empty_database, monkeypatch, "SELECT :at + interval '1 hour', 'x:at'", parameters=given)
    assert answer == [[{"stringValue": "16:30:00"}, {"stringValue": "x:at"}]]


@pytest.mark.proof("starts PostgreSQL")
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT repeat('x', 70000)", "Database returned a row of more than 64 KB"),
        (
            "SELECT repeat('x', 60000) FROM generate_series(1, 20)",
            "Database returned more than the allowed response size limit",
        ),
    ],
)
def test_an_answer_above_the_limit_is_refused(
    empty_database: str, monkeypatch: pytest.MonkeyPatch, sql: str, expected: str
) -> None:
    assert asked(empty_database, monkeypatch, sql)[0] == expected


@pytest.mark.proof("starts PostgreSQL")
def test_records_in_another_format_are_refused_by_name(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, trace = asked(empty_database, monkeypatch, "SELECT 1", formatRecordsAs="JSON")
    assert (answer, "asks the Data API for formatRecordsAs, which is not played" in trace) == (None, True)


@pytest.fixture(scope="module")
def empty_database(postgres_url: str) -> Iterator[str]:
    """The address of a database without a table."""
    queried(postgres_url, "CREATE DATABASE played_data_api")
    yield f"{postgres_url.rpartition('/')[0]}/played_data_api"
    queried(postgres_url, "DROP DATABASE played_data_api")
