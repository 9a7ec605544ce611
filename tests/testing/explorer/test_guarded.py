"""A plain handler under ``@once`` survives every fault, and the explorer finds it when the guard has a hole."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.aws import expressions
from flowguard.testing import PlainFunction, explore, replay
from tests.testing.explorer import guarded

TWICE = "totals, day monday: amount  5            10"
ORDER = {"order_id": "o1", "day": "monday", "amount": 5}


def explored(handler: Any) -> Any:
    function = PlainFunction("orders", handler, visibility=180, timeout=30)
    return explore(function, [ORDER], tables=guarded.TABLES, bound=0, walks=0)


@pytest.mark.proof("explores a handler")
@pytest.mark.parametrize("handler", [guarded.handler, guarded.with_own_table], ids=["own", "powertools"])
def test_a_handler_under_once_is_sound(handler: Any) -> None:
    report = explored(handler)
    assert report.ok, str(report)
    assert report.schedules > 40


def test_a_call_that_the_run_table_refuses_for_good_leads_to_nothing() -> None:
    function = PlainFunction("orders", guarded.guarded.batch, visibility=180, timeout=30)
    trace = replay(function, [ORDER], "f1", tables=guarded.TABLES)
    assert "(claim the call)  → AccessDeniedException" in "\n".join(trace.timeline)
    assert trace.ok, str(trace)


@pytest.mark.slow("explores a handler")
def test_without_the_guard_it_is_found() -> None:
    assert TWICE in str(explored(guarded.without_guard))


@pytest.mark.proof("explores a handler")
def test_a_guard_that_lets_a_second_call_in_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    hole = expressions.CLAIM_KEY.replace("attribute_not_exists(#owner)", "attribute_exists(#owner)")
    monkeypatch.setattr(expressions, "CLAIM_KEY", hole)
    assert TWICE in str(explored(guarded.handler))
