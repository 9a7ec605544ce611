"""What a wait is after each answer, how it ends, and that its plan is stored whole."""

from __future__ import annotations

from itertools import product

import pytest

from flowguard.protocol.waiting import Child, Wait, WaitEnd, WaitPlan
from flowguard.wire.attributes import Attribute

PLAN = WaitPlan(
    stage="confirm",
    names={"search": "search#1", "paid": "payment/1", "filter": None},
    asked=frozenset({"search", "filter"}),
    early=frozenset({"paid"}),
    on_timeout="late",
    on_error="sorry",
    reply_to="sqs:replies",
    answer_to='{"flow":"parent"}',
    carried={"tenant": Attribute.string("t1"), "raw": Attribute("Binary", "AAE=")},
    children={"search": Child("sqs:searches", "search", "first", 2, "s-1", "run-1.3", 1_000)},
)
NAMES = frozenset("abc")


@pytest.mark.parametrize(
    "plan", [PLAN, WaitPlan("confirm", {"a": None}, looks=True), WaitPlan("confirm", {"é😀\x00": "\n"})]
)
def test_a_plan_is_read_as_it_was_written(plan: WaitPlan) -> None:
    assert WaitPlan.from_text(plan.to_text()) == plan


def test_a_plan_of_a_later_release_is_read_as_far_as_it_is_known() -> None:
    text = '["confirm",{"a":null},[],[],null,null,null,null,{},{},null,null,0,%s,null,false,"later"]'
    assert WaitPlan.from_text(text % "false") == WaitPlan("confirm", {"a": None})
    assert WaitPlan.from_text(text % "true") == WaitPlan("confirm", {"a": None}, looks=True)


def test_a_plan_says_that_what_its_group_asks_is_cancelled_with_the_run() -> None:
    plan = WaitPlan("confirm", {}, cancels_group=True)
    assert WaitPlan.from_text(plan.to_text()) == plan


def test_a_plan_without_children_is_written_as_it_always_was() -> None:
    assert WaitPlan("confirm", {"a": None}).to_text() == '["confirm",{"a":null},[],[],null,null,null,null,{}]'


@pytest.mark.parametrize(
    ("end", "stage"),
    [(WaitEnd.ANSWERED, "confirm"), (WaitEnd.TIMED_OUT, "late"), (WaitEnd.FAILED, "sorry")],
)
def test_each_end_has_its_stage(end: WaitEnd, stage: str) -> None:
    assert PLAN.stage_at(end) == stage
    assert PLAN._replace(on_timeout=None, on_error=None).stage_at(end) == "confirm"


@pytest.mark.parametrize("needed", [1, 2, 3])
def test_a_wait_ends_with_as_many_answers_as_it_needs_or_when_it_cannot_have_them(needed: int) -> None:
    for counts in product((True, False), repeat=3):
        wait = Wait(NAMES, 3 - needed, 0)
        assert wait.end is None
        for name, counted in zip("abc", counts, strict=True):
            wait = wait.after(name, counts=counted)
            assert name in wait.answered
            assert name not in wait.waiting
            if wait.end is not None:
                break
        given = sum(counts[: len(wait.answered)])
        reached = given == needed
        assert wait.end is (WaitEnd.ANSWERED if reached else WaitEnd.FAILED)


def test_a_timeout_is_the_end_whatever_was_answered() -> None:
    for waiting, spare in product((frozenset[str](), NAMES), (-1, 0, 3)):
        assert Wait(waiting, spare, 0, timed_out=True).end is WaitEnd.TIMED_OUT
    assert Wait(frozenset(), -1, 0).end is WaitEnd.FAILED
