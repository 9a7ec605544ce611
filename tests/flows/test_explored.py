"""The flows that wait, under faults at every call, with the samples of them."""

from __future__ import annotations

from typing import Any, Final

import pytest

from flowguard.testing import explore, replay
from flows.approval import flow as approval
from flows.approval.invariants import (
    a_completed_run_leaves_no_expense_asked,
    an_approver_whose_decision_is_recorded_is_not_reminded,
)
from flows.validate_cart.flow import ValidateCart
from flows.validate_cart.invariants import (
    a_cart_costs_what_its_lines_cost,
    the_days_revenue_is_that_of_the_confirmed_carts,
)
from tests.flows.samples import sample

APPROVED: Final[dict[str, Any]] = {
    "flows": [approval.ApproveExpense, approval.RemindApprover],
    "messages": [sample("approval/01-request.json"), sample("approval/03-approved.json")],
    "invariants": [an_approver_whose_decision_is_recorded_is_not_reminded, a_completed_run_leaves_no_expense_asked],
}
CLICKED_TWICE: Final = {**APPROVED, "messages": [*APPROVED["messages"], sample("approval/04-clicked-twice.json")]}
WISHED: Final[dict[str, Any]] = {
    "flows": [ValidateCart],
    "messages": [sample("validate_cart/09-request-with-a-wish.json")],
    "invariants": [a_cart_costs_what_its_lines_cost, the_days_revenue_is_that_of_the_confirmed_carts],
}
EXPLORED: Final = {"approved": APPROVED, "clicked twice": CLICKED_TWICE, "a cart with a wish": WISHED}


def about(name: str) -> tuple[Any, Any, dict[str, Any]]:
    given = dict(EXPLORED[name])
    return given.pop("flows"), given.pop("messages"), given


@pytest.mark.proof("replays whole flows that wait")
@pytest.mark.parametrize(
    ("name", "schedule"),
    [
        ("approved", "none"),
        ("approved", "a7-1.r1"),
        ("clicked twice", "none"),
        ("a cart with a wish", "none"),
        ("a cart with a wish", "d5"),
    ],
)
def test_a_flow_that_waits_survives(name: str, schedule: str) -> None:
    flows, messages, given = about(name)
    trace = replay(flows, messages, schedule, **given)
    assert trace.ok, str(trace)


@pytest.mark.proof("explores a flow that waits")
def test_a_recorded_request_is_posted_when_its_token_is_there() -> None:
    flows, messages, given = about("clicked twice")
    lines = replay(flows, messages, "none", **given).timeline
    answers = [line for line in lines if "answer 'decision'" in line]
    assert len(answers) == 4, "two clicks, and the copy of each in the queue"
    assert lines.index(answers[0]) > next(place for place, line in enumerate(lines) if "(commit)" in line)


@pytest.mark.proof("explores whole flows, for minutes")
@pytest.mark.parametrize("name", EXPLORED)
def test_every_fault_at_a_flow_that_waits_is_survived(name: str) -> None:
    flows, messages, given = about(name)
    report = explore(flows, messages, bound=0, walks=0, **given)
    assert report.ok, str(report)
    assert report.ends <= 2
