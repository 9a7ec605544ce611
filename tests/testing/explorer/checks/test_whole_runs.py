"""Orders of whole runs, and those in which runs meet."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.sim.engines import in_memory
from flowguard.testing.explorer import Schedule
from flowguard.testing.explorer.checks.whole_runs import are_of_one_object, happened_in, is_of_whole_runs
from flowguard.testing.explorer.run.driver import run
from flowguard.testing.explorer.run.sandbox import Needs, Sandbox
from tests.testing.explorer import interleaved
from tests.testing.explorer.interleaved import CountStock, TakeStock


class Order(BaseModel):
    order_id: str
    amount: int = 1


class Await(Stage[Order], name="await", inbox="orders", then=("book", "late")):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Book.when_all(paid=step.event("payment/1"), within=timedelta(minutes=10), on_timeout="late")


class Paid(BaseModel):
    paid: int


class Book(Stage[Paid], name="book"):
    def handle(self, paid: Paid, step: Step) -> Outcome:
        return Done()


class Late(Stage[dict[str, Any]], name="late"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Done()


class BookPaid(Flow, name="book-paid", object_id="order_id"):
    stages = (Await, Book, Late)


def judged(flow: Any, schedule: str, objects: tuple[str, ...]) -> tuple[bool, bool]:
    entry = flow.entry().payload
    messages = [entry(order_id=one) for one in objects]
    items = interleaved.STOCK if flow is TakeStock else {}
    with Sandbox([flow], messages, {}, in_memory, 0, items, needs=Needs(answers={"paid": 5})) as sandbox:
        history = run(sandbox, Schedule.parse(schedule))
    return is_of_whole_runs(history, happened_in(history)), are_of_one_object(history)


@pytest.mark.parametrize(
    ("schedule", "is_whole"),
    [("none", False), ("o2-1", True), ("o1-1", False), ("o1-1.o2-1", True)],
    ids=["A B a b", "A a B b", "B A b a", "B b A a"],
)
def test_a_run_is_whole_where_no_other_began_before_its_end(schedule: str, is_whole: bool) -> None:
    assert judged(TakeStock, schedule, ("o1", "o2")) == (is_whole, False)


def test_runs_that_meet_and_change_nothing_of_one_anothers_are_whole() -> None:
    assert judged(CountStock, "none", ("o1", "o2")) == (True, False)


def test_what_another_request_for_the_object_stopped_is_not_whole() -> None:
    assert judged(CountStock, "none", ("o1", "o1")) == (False, True)


def test_answers_are_of_the_run_that_awaits_them_and_a_deadline_that_is_over_counts_for_nothing() -> None:
    assert judged(BookPaid, "none", ("o1",)) == (True, False)


def test_two_runs_may_await_one_answer() -> None:
    assert judged(BookPaid, "none", ("o1", "o2")) == (False, False)
