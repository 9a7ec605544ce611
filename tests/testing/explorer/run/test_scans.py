"""Scans answer in another order and in pages: who relies on either is found, with the line."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from flowguard.testing import sqs_event
from flowguard.testing.explorer import PlainFunction, UnmetSchedule, explore, on_moto, replay
from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.testing.explorer.search.next_schedules import scans_in
from tests.testing.explorer.histories import history_of

MESSAGE = [sqs_event("orders", {"order_id": "o1"})]
TABLES = {"prices": "sku", "chosen": "id"}
ITEMS = {"prices": [{"sku": "cup", "price": 1}, {"sku": "pot", "price": 5}, {"sku": "tea", "price": 4}]}


def table(name: str) -> Any:
    return boto3.resource("dynamodb").Table(name)


def choose(value: Any) -> None:
    table("chosen").put_item(Item={"id": "c", "value": value})


def takes_the_first(event: Any, context: object) -> None:
    choose(table("prices").scan(ConsistentRead=True)["Items"][0]["sku"])


def adds_one_page(event: Any, context: object) -> None:
    choose(sum(item["price"] for item in table("prices").scan(ConsistentRead=True)["Items"]))


def adds_all(event: Any, context: object) -> None:
    pages = boto3.client("dynamodb").get_paginator("scan").paginate(TableName="prices", ConsistentRead=True)
    choose(sum(int(item["price"]["N"]) for page in pages for item in page["Items"]))


def sorts_a_page(event: Any, context: object) -> None:
    choose(min(item["sku"] for item in table("prices").scan(ConsistentRead=True, Limit=3)["Items"]))


def reads_none(event: Any, context: object) -> None:
    choose("none")


def replayed(handler: Any, schedule: str, **about: Any) -> Any:
    return replay(PlainFunction("orders", handler), MESSAGE, schedule, tables=TABLES, items=ITEMS, **about)


@pytest.mark.parametrize(
    ("handler", "schedule", "fix"),
    [
        (takes_the_first, "y1", "answers in no order that may be relied on: sort what it answers"),
        (adds_one_page, "q1", "answers in pages: go on from LastEvaluatedKey"),
    ],
)
def test_who_relies_on_how_a_scan_answers_is_found(handler: Any, schedule: str, fix: str) -> None:
    (violation,) = replayed(handler, schedule).violations
    assert violation.rule == "equivalence"
    assert violation.site is not None
    assert violation.site.line == handler.__code__.co_firstlineno + 1
    assert fix in violation.fix
    assert violation.option == ""


@pytest.mark.parametrize("handler", [adds_all, sorts_a_page])
@pytest.mark.parametrize("schedule", ["y1", "q1"])
def test_who_relies_on_neither_ends_as_always(handler: Any, schedule: str) -> None:
    assert replayed(handler, schedule).ok


def test_the_time_line_says_how_it_answered() -> None:
    for schedule, how in (("y1", "in another order"), ("q1", "in pages of one item")):
        assert any(f"╳ answers {how}" in line for line in replayed(adds_all, schedule).timeline)


def test_both_are_tried_where_user_code_makes_a_scan() -> None:
    about: Any = {"tables": TABLES, "items": ITEMS, "bound": 0, "walks": 0, "for_good": False}
    report = explore(PlainFunction("orders", takes_the_first), MESSAGE, **about)
    assert [one.schedule for one in report.violations] == ["y1"]
    assert {"y", "q"} <= set(next(kinds for call, kinds in report.coverage.items() if "Scan" in call))
    history = history_of(PlainFunction("orders", reads_none), MESSAGE, "none", tables=TABLES)
    assert scans_in(history) == ()


def test_where_nothing_could_answer_otherwise_a_schedule_of_it_is_refused() -> None:
    with pytest.raises(UnmetSchedule, match="no Scan of the run could answer otherwise"):
        replayed(reads_none, "y1")


@pytest.mark.long("runs moto")
def test_moto_answers_as_it_does() -> None:
    with pytest.raises(UnmetSchedule, match="no Scan of the run could answer otherwise"):
        replayed(takes_the_first, "q1", engine=on_moto)


def test_the_next_schedule_scans_as_always_again() -> None:
    first = history_of(PlainFunction("orders", takes_the_first), MESSAGE, "none", tables=TABLES)
    assert all(made.fault is None for made in first.calls)
    assert Schedule.parse("q1").id == "q1"
