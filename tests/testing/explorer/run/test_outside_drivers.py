"""Databases that are not played: who connects to one is named with the library, and gets no green verdict."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
import redis

from flowguard.testing.explorer import PlainFunction, Report, explore

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
    redis.Redis(host="127.0.0.1", port=1).incr("orders")


@pytest.mark.parametrize(
    "handler", [connects, connects_by_a_name_of_its_own, connects_and_goes_on, awaits_a_connection]
)
def test_a_driver_that_is_written_in_c_is_refused_by_its_name(handler: Any) -> None:
    report = explored(handler)
    assert not report.ok
    violation = report.violations[0]
    assert "by psycopg, which an exploration does not play" in violation.problems[0].text
    assert 'network=["psycopg"]' in violation.fix
    assert "sqlite3" in violation.fix
    assert violation.site is not None
    assert violation.site.file == __file__


def test_a_driver_that_is_allowed_connects() -> None:
    report = explored(connects, network=["psycopg"])
    assert not report.ok
    assert "OperationalError" in str(report)
    assert "does not play" not in str(report)


def test_redis_is_refused_by_its_name_and_outside_is_not_what_helps() -> None:
    report = explored(asks_redis)
    assert not report.ok
    violation = report.violations[0]
    assert "by redis, which an exploration does not play" in violation.problems[0].text
    assert "give a fake" in violation.fix
    assert "outside=" not in violation.fix


def test_what_was_changed_is_as_before_afterwards() -> None:
    before = psycopg.connect, vars(psycopg.Connection)["connect"]
    explored(connects)
    assert (psycopg.connect, vars(psycopg.Connection)["connect"]) == before
