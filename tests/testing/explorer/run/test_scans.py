"""Scans answer in another order and in pages: who relies on either is found, with the line."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from boto3.dynamodb.conditions import Key

from flowguard.testing import sqs_event
from flowguard.testing.explorer import PlainFunction, UnmetSchedule, explore, on_moto, replay
from flowguard.testing.explorer.record.schedule import FaultKind, Schedule
from flowguard.testing.explorer.search.next_schedules import scans_in
from tests.testing.explorer.histories import history_of

MESSAGE = [sqs_event("orders", {"order_id": "o1"})]
TABLES: Any = {
    "prices": {"key": "sku", "indexes": {"by-kind": "kind", "by-price": {"kind": "S", "price": "N"}}},
    "chosen": "id",
}
ITEMS = {
    "prices": [
        {"sku": "cup", "kind": "ware", "price": 1},
        {"sku": "pot", "kind": "ware", "price": 5},
        {"sku": "tea", "kind": "food", "price": 4},
    ]
}


def table(name: str) -> Any:
    return boto3.resource("dynamodb").Table(name)


def choose(value: Any) -> None:
    table("chosen").put_item(Item={"id": "c", "value": value})


def takes_the_first(event: Any, context: object) -> None:
    choose(table("prices").scan(ConsistentRead=True)["Items"][0]["sku"])


def adds_one_page(event: Any, context: object) -> None:
    choose(sum(item["price"] for item in table("prices").scan(ConsistentRead=True)["Items"]))


def adds_one_page_of_a_query(event: Any, context: object) -> None:
    choose(sum(item["price"] for item in table("prices").query(**of_ware("by-price"))["Items"]))


def looks_one_up(event: Any, context: object) -> None:
    choose(table("prices").query(KeyConditionExpression=Key("sku").eq("tea"), ConsistentRead=True)["Count"])


def adds_all(event: Any, context: object) -> None:
    pages = boto3.client("dynamodb").get_paginator("scan").paginate(TableName="prices", ConsistentRead=True)
    choose(sum(int(item["price"]["N"]) for page in pages for item in page["Items"]))


def sorts_a_page(event: Any, context: object) -> None:
    choose(min(item["sku"] for item in table("prices").scan(ConsistentRead=True, Limit=3)["Items"]))


def reads_none(event: Any, context: object) -> None:
    choose("none")


def of_ware(index: str) -> Any:
    return {"IndexName": index, "KeyConditionExpression": Key("kind").eq("ware")}


def takes_the_first_of_an_index(event: Any, context: object) -> None:
    choose(table("prices").query(**of_ware("by-kind"))["Items"][0]["sku"])


def takes_the_cheapest(event: Any, context: object) -> None:
    choose(table("prices").query(**of_ware("by-price"))["Items"][0]["sku"])


def looks_at_once_for_what_it_wrote(event: Any, context: object) -> None:
    table("prices").put_item(Item={"sku": "jug", "kind": "ware", "price": 9})
    choose(len(table("prices").query(**of_ware("by-kind"))["Items"]))


def replayed(handler: Any, schedule: str, **about: Any) -> Any:
    return replay(PlainFunction("orders", handler), MESSAGE, schedule, tables=TABLES, items=ITEMS, **about)


@pytest.mark.parametrize(
    ("handler", "schedule", "fix"),
    [
        (takes_the_first, "y1", "answers in no order that may be relied on: sort what it answers"),
        (takes_the_first_of_an_index, "y1", "this boto3 Query at"),
        (takes_the_first_of_an_index, "y1", "answers items of one key in any order"),
        (adds_one_page, "q1", "answers in pages: go on from LastEvaluatedKey"),
        (adds_one_page_of_a_query, "q1", "this boto3 Query at"),
        (adds_one_page_of_a_query, "q1", "answers in pages: go on from LastEvaluatedKey"),
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


def test_what_an_index_orders_comes_in_its_order() -> None:
    assert replayed(takes_the_cheapest, "y1").ok
    assert replayed(takes_the_cheapest, "q1").ok


def test_what_was_written_last_is_not_in_an_index_yet() -> None:
    about: Any = {"tables": TABLES, "items": ITEMS, "bound": 0, "walks": 0, "for_good": False}
    report = explore(PlainFunction("orders", looks_at_once_for_what_it_wrote), MESSAGE, **about)
    assert [one.schedule for one in report.violations if one.schedule.startswith("s")] == ["s2"]
    assert "an index is always behind: read the table by its key" in report.violations[0].fix


def test_a_query_of_an_index_is_turned_and_paged_and_that_of_a_table_paged() -> None:
    history = history_of(PlainFunction("orders", looks_at_once_for_what_it_wrote), MESSAGE, "none", tables=TABLES)
    assert scans_in(history) == (FaultKind.TURNED, FaultKind.PAGED)
    history = history_of(PlainFunction("orders", looks_one_up), MESSAGE, "none", tables=TABLES)
    assert scans_in(history) == (FaultKind.PAGED,)


def test_both_are_tried_where_user_code_makes_a_scan() -> None:
    about: Any = {"tables": TABLES, "items": ITEMS, "bound": 0, "walks": 0, "for_good": False}
    report = explore(PlainFunction("orders", takes_the_first), MESSAGE, **about)
    assert [one.schedule for one in report.violations] == ["y1"]
    assert {"y", "q"} <= set(next(kinds for call, kinds in report.coverage.items() if "Scan" in call))
    history = history_of(PlainFunction("orders", reads_none), MESSAGE, "none", tables=TABLES)
    assert scans_in(history) == ()


def test_where_nothing_could_answer_otherwise_a_schedule_of_it_is_refused() -> None:
    with pytest.raises(UnmetSchedule, match="no Scan or Query in the run could answer otherwise"):
        replayed(reads_none, "y1")


@pytest.mark.long("runs moto")
def test_moto_answers_as_it_does() -> None:
    with pytest.raises(UnmetSchedule, match="no Scan or Query in the run could answer otherwise"):
        replayed(takes_the_first, "q1", engine=on_moto)


def test_the_next_schedule_scans_as_always_again() -> None:
    first = history_of(PlainFunction("orders", takes_the_first), MESSAGE, "none", tables=TABLES)
    assert all(made.fault is None for made in first.calls)
    assert Schedule.parse("q1").id == "q1"
