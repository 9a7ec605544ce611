"""Which lines of handlers an exploration ran, and the verdict where these are too few."""

from __future__ import annotations

import linecache
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.errors import SettingsError
from flowguard.testing.exploration import Exploration, MarkerError
from flowguard.testing.explorer import PlainFunction, Report, explore
from flowguard.testing.explorer.record.ran_lines import RanLines
from tests.testing.explorer import named_by_handlers


class Order(BaseModel):
    order_id: str
    amount: int


class Save(Stage[Order], name="save"):
    def handle(self, order: Order, step: Step) -> Outcome:
        if order.amount > 100:
            return self.big(order)
        step.put("orders", {"order_id": order.order_id})
        return Done()

    def big(self, order: Order) -> Outcome:
        return Done({"big": order.amount})


class SaveOrders(Flow, name="save-orders", object_id="order_id"):
    stages = (Save,)


def explored(*amounts: int, **about: Any) -> Report:
    orders = [Order(order_id=f"o{amount}", amount=amount) for amount in amounts]
    return explore(SaveOrders, orders, tables={"orders": "order_id"}, bound=0, walks=0, **about)


def sources(report: Report) -> dict[str, list[str]]:
    assert report.lines is not None
    left = report.lines.left
    return {file: [linecache.getline(file, line).strip() for line in lines] for file, lines in left.items()}


@pytest.mark.slow("explores flows and handlers")
def test_no_verdict_where_fewer_lines_ran_than_are_asked_for_and_the_others_are_named() -> None:
    report = explored(5, fail_under=80)
    assert (report.verdict, report.violations) == ("not looked at", ())
    assert [*sources(report).values()] == [["return self.big(order)", 'return Done({"big": order.amount})']]
    assert "3 of 5 ran, 60.0 %; 80 % are asked for, so this is no verdict; no schedule ran tests/" in str(report)


@pytest.mark.slow("explores flows and handlers")
def test_lines_are_noted_after_an_invocation_that_waits_for_good() -> None:
    """The error that is to end its thread is never raised there: see ``async_errors``."""

    def waits(event: Any, context: Any) -> None:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()

    held = explore(PlainFunction("orders", waits), [{"order_id": "o1"}], patience=0.5)
    (violation,) = held.violations
    assert "it did not end" in violation.problems[0].text
    assert explored(5, fail_under=60).verdict == "clean"


@pytest.mark.slow("explores flows and handlers")
def test_clean_where_as_many_ran_and_the_others_are_named_all_the_same() -> None:
    report = explored(5, fail_under=60)
    assert report.verdict == "clean"
    assert "lines of the handlers: 3 of 5 ran, 60.0 %; no schedule ran tests/" in str(report)


@pytest.mark.slow("explores flows and handlers")
def test_lines_that_any_schedule_ran_are_run() -> None:
    report = explored(5, 500, fail_under=100)
    assert report.verdict == "clean"
    assert report.lines is not None
    assert str(report.lines) == "lines of the handlers: 5 of 5 ran, 100.0 %"


@pytest.mark.slow("explores flows and handlers")
def test_lines_are_in_the_json() -> None:
    lines = explored(5, fail_under=80).as_json()["lines"]
    assert {name: lines[name] for name in ("ran", "all", "percent", "wanted")} == {
        "ran": 3, "all": 5, "percent": 60.0, "wanted": 80.0,
    }  # fmt: skip
    assert [*map(len, lines["left"].values())] == [2]


@pytest.mark.slow("explores flows and handlers")
def test_lines_are_not_watched_where_nobody_asks() -> None:
    report = explored(5)
    assert (report.lines, report.as_json()["lines"]) == (None, None)
    assert "lines" not in str(report)


def test_the_lines_are_those_of_what_handlers_name() -> None:
    function = PlainFunction("orders", named_by_handlers.handler)
    report = explore(function, [{"order_id": "o1"}], bound=0, walks=0, fail_under=0)
    files = [f"tests/testing/explorer/{name}.py" for name in ("named_by_handlers", "named_elsewhere")]
    of_known = ['if sku != "tea":', "return 0", "return self.tea"]
    assert sources(report) == {
        files[0]: [
            "return 3",
            "return 5",
            'raise ValueError("no order")',
            *of_known,
            "return -amount",
            'return "never"',
        ],
        files[1]: ['return "nothing"', "return -1"],
    }


def test_the_methods_of_an_object_are_those_of_its_class() -> None:
    function = PlainFunction("orders", named_by_handlers.asks_an_object)
    report = explore(function, [{"order_id": "o1"}], bound=0, walks=0, fail_under=0)
    assert "return 0" in next(iter(sources(report).values()))


@pytest.mark.parametrize("wrong", [-1, 101, "90", True])
def test_what_is_no_percentage_is_refused(wrong: Any) -> None:
    with pytest.raises(SettingsError, match=r"fail_under.*from 0 to 100"):
        explored(5, fail_under=wrong)
    with pytest.raises(MarkerError, match=r"fail_under.*from 0 to 100"):
        Exploration((SaveOrders,), {"messages": [Order(order_id="o1", amount=5)], "fail_under": wrong})


@pytest.mark.parametrize(
    ("lines", "shown"), [([3], "f.py:3"), ([3, 4, 5, 7], "f.py:3-5,7"), ([1, 3, 4], "f.py:1,3-4"), ([], "")]
)
def test_lines_that_follow_one_another_are_one_range(lines: Sequence[int], shown: str) -> None:
    left = {"f.py": lines} if lines else {}
    assert str(RanLines(1, 2, left, 0)).partition("; no schedule ran ")[2] == shown


def test_where_there_is_no_line_of_user_code_none_ran() -> None:
    assert RanLines(0, 0, {}, 0).are_enough
    assert not RanLines(0, 0, {}, 1).are_enough
