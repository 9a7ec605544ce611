"""Runs of flows that meet between their stages, and end as in no order of the whole runs."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.errors import SettingsError
from flowguard.testing.explorer import Report, View, Violation, explore, replay
from flowguard.testing.explorer.search import right_ends
from tests.testing.explorer import interleaved
from tests.testing.explorer.interleaved import CountStock, IgnoreWhileReserved, Order, ReserveStock, TakeStock

RULE = "not one after the other"
TWO = [Order(order_id="o1", amount=1), Order(order_id="o2", amount=2)]
CHANGED = [Order(order_id="o1", amount=1), Order(order_id="o1", amount=2)]
ABOUT: dict[str, Any] = {"tables": interleaved.TABLES, "items": interleaved.STOCK}


def enough(view: View) -> str:
    """End the search after its first schedule."""
    return "the orders are known"


def undisturbed(flow: Any, messages: list[Order], **about: Any) -> Report:
    """Judge the orders, and try none of the faults."""
    return explore(flow, messages, **{**ABOUT, "invariants": [enough], "most": 1, **about})


def findings(report: Report) -> list[Violation]:
    assert report.schedules < 20
    return [one for one in report.violations if one.rule == RULE]


def test_an_update_that_is_lost_between_two_stages_is_found_at_the_line_that_writes() -> None:
    report = undisturbed(TakeStock, TWO)
    (violation,) = findings(report)
    (problem,) = violation.problems
    assert (problem.where, problem.expected, problem.found) == ("stock", 2, 3)
    assert problem.text == "sku tea: n is as in no order of the runs, one after the other"
    assert violation.site is not None
    assert violation.site.text.startswith('step.update("stock"')
    assert "any_order=True, or ANY_ORDER = True" in violation.option
    assert report.orders == 6, "of the orders of four hops those in which each run's second comes after its first"


def test_what_is_subtracted_from_whatever_is_there_is_sound() -> None:
    report = undisturbed(CountStock, TWO)
    assert report.orders == 1, "to subtract twice from what is there is the same in either order"
    assert findings(report) == []


@pytest.mark.parametrize("flow", [ReserveStock, IgnoreWhileReserved])
def test_of_two_requests_for_one_object_on_conflict_decides(flow: Any) -> None:
    report = undisturbed(flow, CHANGED)
    assert report.orders > 1
    assert findings(report) == []


def test_the_flow_or_the_caller_may_say_that_it_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings(undisturbed(TakeStock, TWO, any_order=True)) == []
    monkeypatch.setattr(interleaved, "ANY_ORDER", True, raising=False)
    assert findings(undisturbed(TakeStock, TWO)) == []
    monkeypatch.setattr(interleaved, "ANY_ORDER", "yes")
    with pytest.raises(SettingsError, match=r"ANY_ORDER.*interleaved says 'yes'; give True or False"):
        undisturbed(TakeStock, TWO)


@pytest.mark.slow("explores flows and handlers")
def test_its_schedule_shows_it_again_and_an_order_of_whole_runs_shows_nothing() -> None:
    (found,) = findings(undisturbed(TakeStock, TWO))
    trace = replay(TakeStock, TWO, found.schedule, **ABOUT)
    assert [(one.rule, str(one.site)) for one in trace.violations] == [(RULE, str(found.site))]
    assert replay(TakeStock, TWO, "o2-1", **ABOUT).ok


def test_a_search_whose_time_is_over_tries_no_more_orders_and_has_no_verdict() -> None:
    report = explore(TakeStock, TWO, **ABOUT, seconds=0.000_001)
    assert (report.orders, report.stopped_after) == (1, 0.000_001)
    assert (report.violations, report.is_judged, report.ok) == ((), False, False)
    assert report.singles_left == report.as_json()["singles_left"] > 20
    assert f"not tried, {report.singles_left} single faults: so this is no verdict; give more time" in str(report)
    assert (report.has_all_orders, report.as_json()["has_all_orders"]) == (False, False)


def test_a_report_says_where_there_are_more_orders_than_were_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("MOST_ORDERS_OF_FEW", "MOST_TO_EXPLAIN"):
        monkeypatch.setattr(right_ends, bound, 5)
    report = undisturbed(TakeStock, TWO)
    assert findings(report) == []
    assert "not judged, runs that meet: there are more undisturbed orders than were run" in report.summary()
    monkeypatch.undo()
    assert not any("not judged" in line for line in undisturbed(TakeStock, TWO).summary())
