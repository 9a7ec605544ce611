"""A schedule that repeats what an earlier one did before its fault has the history of one that runs all of it."""

from __future__ import annotations

import functools
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import boto3
import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, PerKey, Stage, Step
from flowguard.sim.engines import in_memory
from flowguard.sim.functions import Batching
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import Choice, FaultKind, Schedule
from flowguard.testing.explorer.run.driver import run
from flowguard.testing.explorer.run.sandbox import Needs, Sandbox
from flowguard.testing.explorer.run.shared_prefix import SharedPrefix
from flowguard.testing.explorer.search.next_schedules import SearchBudget, planned, reorderings
from flows.approval.flow import ApproveExpense, RemindApprover
from flows.page_cache.flow import ChangeSource, PageCache
from flows.page_cache.models import PageWanted, SourceChanged
from flows.validate_cart.flow import ValidateCart
from tests.flows.samples import sample

LINES: dict[str, str] = {"lines": "line"}


class Order(BaseModel):
    order_id: str


def put(line: str) -> None:
    client: Any = boto3.client("dynamodb", region_name="us-east-1")
    client.put_item(TableName="lines", Item={"line": {"S": line}})


class Plain(Stage[Order], name="plain", inbox="lines"):
    def handle(self, order: Order, step: Step) -> Outcome:
        put(order.order_id)
        return Done()


kept: list[str] = []


class Limited(Stage[Order], name="limited", inbox="lines", limit=PerKey(lambda _: "all", at_once=1, name="all")):
    def handle(self, order: Order, step: Step) -> Outcome:
        put(order.order_id)
        return Done()


class Keeping(Stage[Order], name="keeping", inbox="lines"):
    def handle(self, order: Order, step: Step) -> Outcome:
        kept.append(order.order_id)
        put(",".join(kept))
        return Done()


@functools.cache
def once() -> None:
    put("once")


class Caching(Stage[Order], name="caching", inbox="lines"):
    def handle(self, order: Order, step: Step) -> Outcome:
        once()
        put(order.order_id)
        return Done()


class Waiting(Stage[Order], name="waiting", inbox="lines"):
    def handle(self, order: Order, step: Step) -> Outcome:
        time.sleep(2)
        put(order.order_id)
        return Done()


class Paying(Stage[Order], name="paying", inbox="lines"):
    def handle(self, order: Order, step: Step) -> Outcome:
        urllib.request.urlopen("https://psp.example/payments", data=b"{}").close()
        put(order.order_id)
        return Done()


def flow_of(stage: Any) -> Any:
    return type("OfLines", (Flow,), {"stages": (stage,)}, name="of-lines", object_id="order_id")


ORDERS = [Order(order_id=name) for name in "abc"]


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many invocations each schedule has repeated."""
    counts: list[int] = []
    repeats, begin = SharedPrefix.repeats, SharedPrefix.__init__

    def begun(self: SharedPrefix, *given: Any) -> None:
        counts.append(0)
        begin(self, *given)

    def counted(self: SharedPrefix, *given: Any) -> bool:
        is_repeated = repeats(self, *given)
        counts[-1] += is_repeated
        return is_repeated

    monkeypatch.setattr(SharedPrefix, "__init__", begun)
    monkeypatch.setattr(SharedPrefix, "repeats", counted)
    return counts


def sandbox_of(flows: Sequence[Any], messages: Sequence[Any], **needs: Any) -> Sandbox:
    return Sandbox(flows, messages, LINES, in_memory, 0, needs=Needs(**needs))


def alone(sandbox: Sandbox, schedule: Schedule) -> History:
    """Run all of a schedule."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Sandbox, "shares", False)
        return run(sandbox, schedule)


def assert_alike(history: History | None, other: History | None) -> None:
    if history is None or other is None:
        assert history is other
        return
    for field in fields(History):
        if field.name not in ("before", "after"):
            assert getattr(history, field.name) == getattr(other, field.name), (history.schedule.id, field.name)
    assert_alike(history.after, other.after)


def schedules_of(first: History, flows: Sequence[Any], share: int) -> list[Schedule]:
    """Return every so many of the single faults and pairs."""
    orders = [Schedule((choice,)) for choice in reorderings(first)]
    odd = [Schedule((Choice(1, kind),)) for kind in (FaultKind.STAYS, FaultKind.TURNED, FaultKind.STALE)]
    budget = SearchBudget(0, 20, 0, 20, distrusted={flow.name: flow for flow in flows})
    return [*orders, *odd, *planned(first, budget)][::share]


@pytest.mark.proof("runs many schedules of flows twice")
@pytest.mark.parametrize(
    ("flows", "messages", "share"),
    [
        ([flow_of(Plain)], ORDERS, 1),
        ([flow_of(Limited)], ORDERS, 2),
        ([flow_of(Keeping)], ORDERS, 2),
        ([flow_of(Caching)], ORDERS, 2),
        ([flow_of(Waiting)], ORDERS, 2),
        (
            [ApproveExpense, RemindApprover],
            [sample("approval/01-request.json"), sample("approval/03-approved.json")],
            5,
        ),
        ([ValidateCart], [sample("validate_cart/09-request-with-a-wish.json")], 3),
        ([PageCache, ChangeSource], [PageWanted(page="home"), SourceChanged(source="title", text="a", revision=2)], 5),
    ],
    ids=["plain", "limited", "keeping", "caching", "waiting", "approval", "validate_cart", "page_cache"],
)
def test_a_history_is_that_of_the_whole_run(flows: Any, messages: Any, share: int) -> None:
    with sandbox_of(flows, messages) as sandbox:
        first = run(sandbox, Schedule())
        for schedule in schedules_of(first, flows, share):
            assert_alike(run(sandbox, schedule), alone(sandbox, schedule))


def ran(sandbox: Sandbox, *ids: str) -> None:
    for schedule in ids:
        run(sandbox, Schedule.parse(schedule))


def test_what_came_before_a_fault_is_repeated(repeated: list[int]) -> None:
    with sandbox_of([flow_of(Plain)], ORDERS) as sandbox:
        ran(sandbox, "none", "none", "d4", "e6", "o2-1", "x3", "none", "n1", "d1")
    assert repeated == [0, 3, 1, 1, 1, 2, 3, 3, 0]


@pytest.mark.parametrize("schedule", ["k1", "y1", "q1", "s1", "f8"])
def test_what_needs_all_that_was_before_is_run_from_the_beginning(repeated: list[int], schedule: str) -> None:
    with sandbox_of([flow_of(Plain)], ORDERS) as sandbox:
        ran(sandbox, "none", "none", "none", schedule)
    assert repeated[2:] == [3, 0]


@pytest.mark.parametrize("stage", [Keeping, Caching, Waiting])
def test_what_is_left_outside_the_engine_is_not_shared(repeated: list[int], stage: Any) -> None:
    with sandbox_of([flow_of(stage)], ORDERS) as sandbox:
        ran(sandbox, "none", "none", "none")
    assert repeated == [0, 0, 0]


@pytest.mark.parametrize(
    "needs",
    [{"batching": Batching(2)}, {"stubs": {"ssm.GetParameter": {}}}],
    ids=["batches", "stubs"],
)
def test_with_some_needs_nothing_is_shared(repeated: list[int], needs: dict[str, Any]) -> None:
    with sandbox_of([flow_of(Plain)], ORDERS, **needs) as sandbox:
        ran(sandbox, "none", "none", "none")
    assert repeated == [0, 0, 0]


def test_what_was_done_at_a_party_outside_is_not_shared(repeated: list[int]) -> None:
    with sandbox_of([flow_of(Paying)], ORDERS, outside={"psp.example": {}}) as sandbox:
        ran(sandbox, "none", "none", "none")
    assert repeated == [0, 0, 0]


def test_other_messages_another_time_and_a_new_table_begin_otherwise(repeated: list[int]) -> None:
    with sandbox_of([flow_of(Plain)], ORDERS) as sandbox:
        ran(sandbox, "none", "none", "none")
        sandbox.start += 1
        ran(sandbox, "none")
        sandbox.coming = sandbox.coming[1:]
        ran(sandbox, "none", "none")
        sandbox.memory.is_lost = True
        ran(sandbox, "none")
    assert repeated[2:] == [3, 0, 0, 2, 0]
