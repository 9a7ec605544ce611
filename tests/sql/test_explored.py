"""What an exploration finds of statements in SQL: crashes between both commits, late workers, repeats."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import Done, Fixed, Flow, Outcome, RetryPolicy, Stage, Step
from flowguard.sql import SCHEMA, SQLite
from flowguard.testing.explorer import Report, explore

pytestmark = pytest.mark.proof("explores each fault of each call and statement")

PATIENT = RetryPolicy(attempts=3, backoff=Fixed(60))
"""A worker that is held up keeps the database locked until its time is over."""


class Order(BaseModel):
    order_id: str
    amount: int = 5


class Shop:
    path: Path


def connect() -> sqlite3.Connection:
    return sqlite3.connect(Shop.path)


DATABASE = SQLite(connect)


def add(cursor: sqlite3.Cursor, order: Order) -> None:
    cursor.execute("UPDATE accounts SET balance = balance + ? WHERE id = 'shop'", (order.amount,))


class AddOnce(Stage[Order], name="add", then="note", retry=PATIENT):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.sql("add", DATABASE, lambda cursor: add(cursor, order))
        return Note.message(order)


class Note(Stage[Order], name="note", retry=PATIENT):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.sql("note", DATABASE, lambda cursor: cursor.execute("INSERT INTO notes VALUES (?)", (order.order_id,)))
        return Done()


class OnceInSql(Flow, name="once-in-sql", object_id="order_id"):
    stages = (AddOnce, Note)


class AddEachTime(Stage[Order], name="add", retry=PATIENT):
    def handle(self, order: Order, step: Step) -> Outcome:
        with closing(connect()) as connection, connection:
            add(connection.cursor(), order)
        return Done()


class EachTimeInSql(Flow, name="each-time-in-sql", object_id="order_id"):
    stages = (AddEachTime,)


@pytest.fixture(autouse=True)
def shop(tmp_path: Path) -> None:
    Shop.path = tmp_path / "shop.db"
    with closing(connect()) as connection, connection:
        for sql in (
            SCHEMA,
            "CREATE TABLE accounts (id text PRIMARY KEY, balance bigint)",
            "INSERT INTO accounts VALUES ('shop', 0)",
            "CREATE TABLE notes (order_id text)",
        ):
            connection.execute(sql)


def explored(flow: Any, *orders: Order, **about: Any) -> Report:
    return explore(flow, list(orders), **about)


def test_statements_of_a_step_are_sound_whatever_happens() -> None:
    report = explored(OnceInSql, Order(order_id="o-1"))
    assert report.ok, str(report)
    assert {name.rpartition("/")[2] for name in report.compared if "shop.db" in name} == {"accounts", "notes"}


def test_statements_beside_a_step_are_made_again() -> None:
    report = explored(EachTimeInSql, Order(order_id="o-1"))
    assert "equivalence" in {violation.rule for violation in report.violations}


def test_two_requests_of_one_object_are_sound() -> None:
    report = explored(OnceInSql, Order(order_id="o-1"), Order(order_id="o-1", amount=7), any_order=True)
    assert report.ok, str(report)
