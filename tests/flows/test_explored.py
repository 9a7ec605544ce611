"""The flows that wait, and the caches, under faults at every call."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest

from flowguard import Queue
from flowguard.flow import AnyFlow
from flowguard.names.ids import RequestId
from flowguard.sim.world import START
from flowguard.testing import explore, replay, sqs_event
from flowguard.testing.explorer.checks.problem import EQUIVALENCE
from flowguard.testing.explorer.run.inbox import Later
from flows.approval import flow as approval
from flows.approval.invariants import (
    a_completed_run_leaves_no_expense_asked,
    an_approver_whose_decision_is_recorded_is_not_reminded,
)
from flows.nightly_recount.flow import CountShop, RecountNight
from flows.nightly_recount.invariants import a_total_is_what_its_shops_have_counted
from flows.nightly_recount.models import NightBegun
from flows.page_cache.flow import READERS, ChangeSource, PageCache, SearchCache
from flows.page_cache.invariants import each_caller_gets_one_answer, the_last_to_ask_sees_every_change
from flows.page_cache.models import PageWanted, SearchWanted, SourceChanged
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
WAYS: Final[dict[str, dict[str, Any]]] = {
    "approved": {"batch": 10},
    "clicked twice": {},
    "a cart with a wish": {"batch": 10, "together": True},
}
"""How the records come: what follows from an approval is in what follows from two."""


def about(name: str) -> tuple[Any, Any, dict[str, Any]]:
    given = dict(EXPLORED[name])
    return given.pop("flows"), given.pop("messages"), given


@pytest.mark.proof("replays whole flows that wait")
@pytest.mark.parametrize(
    ("name", "schedule"),
    [
        ("approved", "none"),
        ("approved", "a7-1"),
        ("a cart with a wish", "none"),
        ("a cart with a wish", "d5"),
    ],
)
def test_a_flow_that_waits_survives(name: str, schedule: str) -> None:
    flows, messages, given = about(name)
    trace = replay(flows, messages, schedule, **given)
    assert trace.ok, str(trace)


@pytest.mark.proof("explores a flow that waits", first=True)
def test_a_recorded_request_is_posted_when_its_token_is_there() -> None:
    flows, messages, given = about("clicked twice")
    trace = replay(flows, messages, "none", **given)
    assert trace.ok, str(trace)
    lines = trace.timeline
    answers = [line for line in lines if "answer 'decision'" in line]
    assert len(answers) == 4, "two clicks, and the copy of each in the queue"
    assert lines.index(answers[0]) > next(place for place, line in enumerate(lines) if "(commit)" in line)


@pytest.mark.proof("explores whole flows, for minutes", first=True)
@pytest.mark.parametrize(
    "name",
    [
        "approved",
        pytest.param("clicked twice", marks=pytest.mark.long("one more message than that with one click")),
        "a cart with a wish",
    ],
)
def test_every_fault_at_a_flow_that_waits_is_survived(name: str) -> None:
    flows, messages, given = about(name)
    report = explore(flows, messages, bound=0, walks=0, **given, **WAYS[name])
    assert report.ok, str(report)
    assert report.ends <= 2


# -- caches -----------------------------------------------------------------------------------------------------------


def asked(flow: AnyFlow, payload: PageWanted | SearchWanted, reader: str, later: timedelta = timedelta(0)) -> Any:
    """A reader's request, which arrives at once or so much later."""
    at = START + later // timedelta(milliseconds=1)
    message, _ = flow.request(payload, request_id=RequestId(reader), requested_at=at, reply_to=Queue(READERS))
    queue = "pages-wanted" if flow is PageCache else "searches-wanted"
    event = sqs_event(queue, payload, attributes=message.attributes(), message_id=reader, sent_at=at)
    return Later(event, later) if later else event


HOME, TEA, MUCH_LATER = PageWanted(page="home"), SearchWanted(words="tea"), timedelta(days=3)


@pytest.mark.proof("explores whole flows")
@pytest.mark.parametrize("flow", [PageCache, pytest.param(SearchCache, marks=pytest.mark.long("another cache"))])
def test_every_fault_at_a_cache_with_several_callers_is_survived(flow: AnyFlow) -> None:
    payload = HOME if flow is PageCache else TEA
    messages = [asked(flow, payload, f"reader-{number}") for number in range(1, 3 if flow is PageCache else 4)]
    report = explore(flow, messages, invariants=[each_caller_gets_one_answer], bound=20, walks=10)
    assert report.ok, str(report)


@pytest.mark.proof("explores whole flows, for a minute")
def test_every_fault_at_a_page_that_is_reset_while_it_is_made_is_survived() -> None:
    """Its ends are not compared: a change whose dead letter is sent back may come after the last reader has asked."""
    change = SourceChanged(source="title", text="Coffee", revision=2)
    messages = [asked(PageCache, HOME, "reader-1"), change, asked(PageCache, HOME, "reader-2", MUCH_LATER)]
    report = explore(
        [PageCache, ChangeSource],
        messages,
        invariants=[each_caller_gets_one_answer, the_last_to_ask_sees_every_change],
        bound=0,
        walks=0,
        for_good=False,
    )
    problems = [problem for violation in report.violations for problem in violation.problems]
    assert [problem for problem in problems if problem.rule != EQUIVALENCE] == []
    assert report.schedules > 350


@pytest.mark.proof("explores whole flows")
@pytest.mark.parametrize("together", [True, False], ids=["together", "one after the other"])
def test_callers_in_one_batch_are_answered_as_one_by_one(*, together: bool) -> None:
    messages = [asked(PageCache, HOME, f"reader-{number}") for number in (1, 2)]
    invariants = [each_caller_gets_one_answer]
    report = explore(PageCache, messages, invariants=invariants, bound=0, walks=10, batch=10, together=together)
    assert report.ok, str(report)


# -- groups -----------------------------------------------------------------------------------------------------------

RECOUNT: Final[dict[str, Any]] = {
    "invariants": [a_total_is_what_its_shops_have_counted],
    "free": {"night-totals": ["pieces", "counted", "missing"]},
}
"""A shop whose message is given up is missing, so a total is not the same at every end. The invariant judges it."""


@pytest.mark.proof("replays a whole flow with a group")
def test_a_group_of_two_shards_survives_a_death_between_their_invocations(monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_shards(monkeypatch)
    in_two_invocations(monkeypatch)
    trace = replay([RecountNight, CountShop], [NightBegun(night="n", shops=3)], "d6", **RECOUNT)
    assert trace.ok, str(trace)
    assert str(trace).count("SendMessageBatch nights") == 2, "it was saved at once"


@pytest.mark.proof("explores whole flows")
def test_every_fault_at_a_group_is_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_shards(monkeypatch)
    in_two_invocations(monkeypatch)
    night = NightBegun(night="n", shops=3)
    report = explore([RecountNight, CountShop], [night], bound=0, walks=0, **RECOUNT)
    assert report.ok, str(report)
    assert report.schedules > 500


class Until:
    """The end of the time to save. At the very beginning there is time for one shard, and later for all."""

    def __init__(self, lease_until: int) -> None:
        self._left = 1 if lease_until <= START + 30_000 else 1_000

    def __gt__(self, now: int) -> bool:
        self._left -= 1
        return self._left >= 0


class Kept:
    """What is kept of a lease for the commit."""

    def __rsub__(self, lease_until: int) -> Until:
        return Until(lease_until)


def in_two_invocations(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first invocation has the time to save one shard."""
    monkeypatch.setattr("flowguard.worker.handle_phase.KEPT_TO_COMMIT_MS", Kept())


def in_small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two requests make a shard, one shard a turn, one item a page: each fault meets every kind of step of a group."""
    monkeypatch.setattr("flowguard.sim.memory.querying.LARGEST_PAGE", 1)
    for module in ("flowguard.protocol.groups", "flowguard.worker.group_planner"):
        monkeypatch.setattr(f"{module}.MOST_IN_SHARD", 2)
    monkeypatch.setattr("flowguard.worker.group_asks.SHARDS_A_TURN", 1)
