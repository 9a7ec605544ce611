"""Runs of flows that meet between their stages, and end as in no order of the whole runs."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.errors import SettingsError
from flowguard.testing.explorer import Report, Violation, explore, replay
from tests.testing.explorer import interleaved
from tests.testing.explorer.interleaved import CountStock, IgnoreWhileReserved, Order, ReserveStock, TakeStock

RULE = "not one after the other"
TWO = [Order(order_id="o1", amount=1), Order(order_id="o2", amount=2)]
CHANGED = [Order(order_id="o1", amount=1), Order(order_id="o1", amount=2)]
ABOUT: dict[str, Any] = {"tables": interleaved.TABLES, "items": interleaved.STOCK}


def undisturbed(flow: Any, messages: list[Order], **about: Any) -> Report:
    """Only the orders, with none of the faults."""
    return explore(flow, messages, **{**ABOUT, "bound": 0, "walks": 0, "seconds": 0.000_001, **about})


def finding(report: Report) -> Violation:
    (violation,) = [one for one in report.violations if one.rule == RULE]
    return violation


def test_an_update_that_is_lost_between_two_stages_is_found_at_the_line_that_writes() -> None:
    report = undisturbed(TakeStock, TWO)
    violation = finding(report)
    (problem,) = violation.problems
    assert (problem.where, problem.expected, problem.found) == ("stock", 2, 3)
    assert problem.text == "sku tea: n is as in no order of the runs, one after the other"
    assert violation.site is not None
    assert violation.site.text.startswith('step.update("stock"')
    assert "any_order=True, or ANY_ORDER = True" in violation.fix
    assert report.orders == 6, "of the orders of four hops those in which each run's second comes after its first"


def test_what_is_subtracted_from_whatever_is_there_is_sound() -> None:
    report = undisturbed(CountStock, TWO)
    assert report.orders == 6
    assert report.ok, str(report)


@pytest.mark.parametrize("flow", [ReserveStock, IgnoreWhileReserved])
def test_of_two_requests_for_one_object_on_conflict_decides(flow: Any) -> None:
    report = undisturbed(flow, CHANGED)
    assert report.orders > 1
    assert report.ok, str(report)


def test_the_flow_or_the_caller_may_say_that_it_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    assert undisturbed(TakeStock, TWO, any_order=True).ok
    monkeypatch.setattr(interleaved, "ANY_ORDER", True, raising=False)
    assert undisturbed(TakeStock, TWO).ok
    monkeypatch.setattr(interleaved, "ANY_ORDER", "yes")
    with pytest.raises(SettingsError, match=r"ANY_ORDER.*interleaved says 'yes'; give True or False"):
        undisturbed(TakeStock, TWO)


def test_its_schedule_shows_it_again_and_an_order_of_whole_runs_shows_nothing() -> None:
    found = finding(undisturbed(TakeStock, TWO))
    trace = replay(TakeStock, TWO, found.schedule, **ABOUT)
    assert [(one.rule, str(one.site)) for one in trace.violations] == [(RULE, str(found.site))]
    assert replay(TakeStock, TWO, "o2-1", **ABOUT).ok
