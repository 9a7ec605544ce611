"""Two ends side by side, and the step at which a schedule parts from the undisturbed run."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest

from flowguard.testing.explorer import PlainFunction, Report, explore, replay
from flowguard.testing.explorer.checks.problem import EQUIVALENCE, UNDISTURBED, Problem
from flowguard.testing.explorer.report.page import page
from flowguard.testing.explorer.report.sides import Side, shown_sides, sides

AT = "tests/testing/explorer/report/test_sides.py"


def differs(expected: Any, found: Any, rule: str = EQUIVALENCE) -> Problem:
    return Problem(rule, "emails", "message m1", expected, found)


def test_of_two_bodies_only_the_fields_that_differ_are_shown() -> None:
    bodies = [json.dumps({"to": "a", "total": total, **more}) for total, more in ((5, {}), (7, {"cc": "b"}))]
    assert sides([differs(*bodies)]) == [
        Side("emails, message m1: cc", None, "b"),
        Side("emails, message m1: total", 5, 7),
    ]


@pytest.mark.parametrize(("left", "right"), [("[1]", "[2]"), (1, 2), (None, '{"a": 1}'), ("{", "}"), ("[" * 9999, "")])
def test_what_is_no_pair_of_objects_is_shown_whole(left: Any, right: Any) -> None:
    assert sides([differs(left, right)]) == [Side("emails, message m1", left, right)]


@pytest.mark.parametrize(
    "problem", [differs("COMPLETED", "FAILED", UNDISTURBED), differs(None, None), differs(1, 2, "x")]
)
def test_what_compares_no_ends_has_no_sides(problem: Problem) -> None:
    assert sides([problem]) == []


def test_a_run_that_failed_has_two_sides() -> None:
    assert len(sides([differs("COMPLETED", "FAILED", "I14"), differs("COMPLETED", "FAILED", "I20")])) == 2


def test_two_columns_fit_what_they_hold() -> None:
    assert shown_sides([Side("a", 1, None), Side("longer", "some text", 2)]) == [
        "        undisturbed  this schedule",
        "a       1            nothing",
        "longer  some text    2",
    ]


def test_long_values_are_shown_where_they_differ() -> None:
    same = "x" * 100
    line = shown_sides([Side("a", f"{same}left{same}", f"{same}right")])[1]
    assert line.split() == ["a", f"…xxxxxxxleft{'x' * 23}…", "…xxxxxxxright"]


def test_a_long_text_beside_nothing_begins_at_its_beginning() -> None:
    assert shown_sides([Side("a", None, "y" * 100)])[1].split() == ["a", "nothing", f"{'y' * 35}…"]


def adds(event: Any, context: Any) -> None:
    table = boto3.resource("dynamodb").Table("totals")
    table.update_item(Key={"day": "monday"}, UpdateExpression="ADD orders :one", ExpressionAttributeValues={":one": 1})
    table.put_item(Item={"day": "tuesday"})


def explored(handler: Any, **about: Any) -> Report:
    report = explore(PlainFunction("orders", handler), [{"order_id": "o1"}], tables={"totals": "day"}, **about)
    assert report.violations
    return report


@pytest.mark.slow("explores flows and handlers")
def test_they_part_where_what_differs_is_written_once_more() -> None:
    (violation,) = explored(adds, bound=0, walks=0).violations
    assert violation.schedule == "a1"
    assert str(violation.parts_at) == f"call 2 of w2, UpdateItem totals at {AT}:{line_of(adds, 2)}"


def line_of(function: Any, after: int) -> int:
    return int(function.__code__.co_firstlineno) + after


@pytest.mark.slow("explores flows and handlers")
def test_the_report_shows_it_in_each_form() -> None:
    report = explored(adds, bound=0, walks=0)
    parts_at = report.violations[0].parts_at
    lines = str(report).splitlines()
    place = lines.index(f"  they part at      {parts_at}")
    assert lines[place - 2 : place] == [
        "  what differs                                  undisturbed  this schedule",
        "                    totals, day monday: orders  1            2",
    ]
    (shown,) = report.as_json()["violations"]
    assert shown["sides"] == [{"what": "totals, day monday: orders", "undisturbed": 1, "here": 2}]
    assert shown["parts_at"] == {"step": str(parts_at), "call": 2}
    assert f"They part at {parts_at}." in page(report)


def test_a_schedule_that_is_played_again_shows_it_too() -> None:
    trace = replay(PlainFunction("orders", adds), [{"order_id": "o1"}], "a1", tables={"totals": "day"})
    assert "  they part at      call 2 of w2, " in str(trace)


def test_what_struck_the_step_is_said() -> None:
    trace = replay(PlainFunction("orders", adds), [{"order_id": "o1"}], "l1", tables={"totals": "day"})
    assert str(trace.violations[0].parts_at).endswith(f"{AT}:{line_of(adds, 2)}: answer lost, made again")


def leaves_out(event: Any, context: Any) -> None:
    table = boto3.resource("dynamodb").Table("totals")
    if "Item" in table.get_item(Key={"day": "monday"}, ConsistentRead=True):
        return
    table.put_item(Item={"day": "monday"})
    table.put_item(Item={"day": "tuesday"})


@pytest.mark.slow("explores flows and handlers")
def test_what_is_never_made_is_where_they_part() -> None:
    violation = next(one for one in explored(leaves_out).violations if one.schedule.startswith(("a", "d")))
    lost = f"call 3, PutItem totals at {AT}:{line_of(leaves_out, 5)}"
    assert str(violation.parts_at) == f"the undisturbed run goes on with {lost}; here it is never made"


@pytest.mark.slow("explores flows and handlers")
def test_where_the_writes_are_the_same_they_part_at_the_first_call_that_is_not() -> None:
    (violation,) = explored(counts_its_attempts, bound=0, walks=0).violations
    assert str(violation.parts_at).startswith("call 1 of w1, GetItem totals at ")


def counts_its_attempts(event: Any, context: Any) -> None:
    table = boto3.resource("dynamodb").Table("totals")
    attempts = event["Records"][0]["attributes"]["ApproximateReceiveCount"]
    table.get_item(Key={"day": "monday"})
    table.put_item(Item={"day": "monday", "attempts": attempts})


def adds_by_name(event: Any, context: Any) -> None:
    table = boto3.resource("dynamodb").Table("totals")
    if json.loads(event["Records"][0]["body"])["name"] == "a":
        table.put_item(Item={"day": "last", "by": "a"})
    else:
        table.put_item(Item={"day": "last", "by": "b"})
    table.update_item(Key={"day": "monday"}, UpdateExpression="ADD n :one", ExpressionAttributeValues={":one": 1})


def test_of_several_orders_the_one_that_ends_most_alike_is_what_they_part_from() -> None:
    function, messages = PlainFunction("orders", adds_by_name), [{"name": "a"}, {"name": "b"}]
    trace = replay(function, messages, "o1-1.a4", tables={"totals": "day"}, any_order=True)
    (violation,) = trace.violations
    assert str(violation.parts_at) == f"call 5 of w3, PutItem totals at {AT}:{line_of(adds_by_name, 3)}"
