"""Databases that are not played: who connects to one is named with the library, and gets no green verdict."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import boto3
import psycopg
import pytest
import redis
from botocore.exceptions import ClientError
from pydantic import BaseModel
from redis.backoff import NoBackoff
from redis.retry import Retry

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.testing import sqs_event
from flowguard.testing.explorer import PlainFunction, Report, View, explore, replay

CONNECT = psycopg.connect
HOST = "host=127.0.0.1 port=1 dbname=shop connect_timeout=1"


def explored(handler: Any, **about: Any) -> Report:
    return explore(PlainFunction("orders", handler), [{"order_id": "o1"}], bound=0, walks=0, **about)


def connects(event: Any, context: Any) -> None:
    psycopg.connect(HOST)


def connects_by_a_name_of_its_own(event: Any, context: Any) -> None:
    CONNECT(HOST)


def connects_and_goes_on(event: Any, context: Any) -> None:
    try:
        psycopg.Connection.connect(HOST)
    except OSError:
        return


def awaits_a_connection(event: Any, context: Any) -> None:
    async def connect() -> None:
        await psycopg.AsyncConnection.connect(HOST)

    asyncio.run(connect())


def asks_redis(event: Any, context: Any) -> None:
    redis.Redis(host="127.0.0.1", port=1, retry=Retry(NoBackoff(), 0)).incr("orders")


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize(
    "handler", [connects, connects_by_a_name_of_its_own, connects_and_goes_on, awaits_a_connection]
)
def test_a_driver_that_is_written_in_c_is_refused_by_its_name(handler: Any) -> None:
    report = explored(handler)
    assert (report.verdict, report.violations) == ("not looked at", ())
    (place,) = report.unplayed
    assert (place.stage, place.driver) == ("orders", "psycopg")
    assert "by psycopg, which an exploration does not play" in place.what
    assert 'network=["psycopg"]' in place.fix
    assert "sqlite3" in place.fix
    assert place.line.startswith("tests/testing/explorer/run/test_outside_drivers.py:")
    assert str(place) in str(report)
    assert report.as_json()["unplayed"] == [place._asdict()]


def test_a_driver_that_is_allowed_connects() -> None:
    report = explored(connects, network=["psycopg"])
    assert not report.ok
    assert "OperationalError" in str(report)
    assert "does not play" not in str(report)


def test_redis_is_refused_by_its_name_and_outside_is_not_what_helps() -> None:
    report = explored(asks_redis)
    assert (report.verdict, report.violations) == ("not looked at", ())
    (place,) = report.unplayed
    assert "by redis, which an exploration does not play" in place.what
    assert "is a fake" in place.fix
    assert "outside=" not in place.fix


def adds(event: Any, context: Any) -> None:
    boto3.client("dynamodb").update_item(
        TableName="totals",
        Key={"day": {"S": "monday"}},
        UpdateExpression="ADD orders :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
    )


@pytest.mark.slow("explores flows and handlers")
def test_what_else_is_wrong_in_the_same_search_stays_a_violation() -> None:
    functions = [PlainFunction("orders", connects), PlainFunction("counts", adds)]
    messages = [sqs_event("orders", "{}", message_id="m1"), sqs_event("counts", "{}", message_id="m2")]
    report = explore(functions, messages, tables={"totals": "day"}, bound=0, walks=0)
    assert report.verdict == "broken"
    assert {violation.problems[0].where for violation in report.violations} == {"totals"}
    assert [place.stage for place in report.unplayed] == ["orders"]
    assert not report.coverage.keys() & {"orders"}


def fails(event: Any, context: Any) -> None:
    raise ValueError("this was wrong before")


def test_what_fails_for_another_reason_is_a_violation() -> None:
    functions = [PlainFunction("orders", connects), PlainFunction("counts", fails)]
    messages = [sqs_event("orders", "{}", message_id="m1"), sqs_event("counts", "{}", message_id="m2")]
    report = explore(functions, messages, bound=0, walks=0)
    assert [violation.rule for violation in report.violations] == ["undisturbed"]
    assert "this was wrong before" in report.violations[0].problems[0].text


class Order(BaseModel):
    order_id: str


class Price(Stage[Order], name="price", then="save"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Save.message(order)


class Save(Stage[Order], name="save"):
    def handle(self, order: Order, step: Step) -> Outcome:
        psycopg.connect(HOST)
        return Done()


class SaveOrders(Flow, name="save-orders", object_id="order_id"):
    stages = (Price, Save)


def test_the_stage_that_connects_is_named_and_its_failed_run_is_no_violation() -> None:
    report = explore(SaveOrders, [Order(order_id="o1")], invariants=[is_never_so], bound=0, walks=0)
    assert (report.verdict, report.violations) == ("not looked at", ())
    assert [place.stage for place in report.unplayed] == ["save"]


def test_a_schedule_that_is_played_again_says_so_too() -> None:
    trace = replay(SaveOrders, [Order(order_id="o1")], "none", invariants=[is_never_so])
    assert (trace.ok, trace.violations) == (False, ())
    assert str(trace.unplayed[0]) in str(trace)


def is_never_so(view: View) -> bool:
    return False


class SaveElsewhere(Stage[Order], name="save-elsewhere"):
    """Falls back on a database where its table refuses."""

    def handle(self, order: Order, step: Step) -> Outcome:
        try:
            boto3.client("dynamodb").put_item(TableName="totals", Item={"day": {"S": "monday"}})
        except ClientError:
            with suppress(OSError):
                psycopg.connect(HOST)
        return Done()


class SaveAnyhow(Flow, name="save-anyhow", object_id="order_id"):
    stages = (SaveElsewhere,)


@pytest.mark.slow("explores flows and handlers")
def test_an_end_is_not_compared_where_a_fault_alone_leads_to_a_driver() -> None:
    report = explore(SaveAnyhow, [Order(order_id="o1")], tables={"totals": "day"}, bound=0, walks=0)
    assert (report.verdict, report.violations) == ("not looked at", ())
    assert [place.stage for place in report.unplayed] == ["save-elsewhere"]


def test_what_was_changed_is_as_before_afterwards() -> None:
    before = psycopg.connect, vars(psycopg.Connection)["connect"]
    explored(connects)
    assert (psycopg.connect, vars(psycopg.Connection)["connect"]) == before
