"""A wait of hours is looked at every quarter of an hour: a look that repeats another is no place to try faults at."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.testing.explorer import explore, in_memory
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.testing.explorer.run.sandbox import Sandbox
from flowguard.testing.explorer.search.next_schedules import choices_in
from flowguard.testing.explorer.search.repeated_looks import repeated_looks
from flowguard.testing.explorer.search.runs import Runs
from tests.testing.explorer import seeded


class Ask(Stage[seeded.Order], name="ask", then=("book", "lapse"), inbox="to-ask"):
    def handle(self, order: seeded.Order, step: Step) -> Outcome:
        ask = step.ask("bank", {"ref": step.answer_id("paid")})
        return Book.when_all(paid=ask, within=timedelta(hours=3), on_timeout="lapse")


class Book(Stage[dict[str, Any]], name="book", inbox="to-book"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Lapse(Book, name="lapse", inbox="to-book"):
    """Nobody has answered."""


class Asks(Flow, name="asks", object_id="order_id"):
    stages = (Ask, Book, Lapse)


ORDER = seeded.Order(order_id="o1")


@pytest.fixture(scope="module")
def history() -> History:
    with Sandbox([Asks], [ORDER], {}, in_memory, 0) as sandbox:
        return Runs(sandbox).run_one_by_one(Schedule())


def test_the_first_two_looks_and_the_last_are_tried(history: History) -> None:
    assert len(history.deliveries) == 14, "the request, eleven looks, the deadline and the stage after it"
    assert sorted(repeated_looks(history)) == [*range(4, 12)]


def test_no_fault_is_tried_at_the_others(history: History) -> None:
    left_out = repeated_looks(history)
    calls = {call for number in left_out for call in history.deliveries[number - 1].calls}
    tried = {choice.at for choice in choices_in(history) if choice.kind.value not in "xn"}
    assert calls
    assert not tried & calls
    assert {choice.at for choice in choices_in(history) if choice.kind.value == "x"} == {*range(1, 15)} - left_out


class Hinted:
    """A progress that stops the search at its first schedule, and notes what it was hinted until then."""

    def __init__(self) -> None:
        self.hints: list[str] = []

    def hint(self, text: str) -> None:
        self.hints.append(text)

    def __call__(self, schedules: int, violations: int) -> None:
        raise KeyboardInterrupt


def test_before_the_first_schedule_it_says_what_nobody_answers() -> None:
    progress = Hinted()
    report = explore([Asks], [ORDER], progress=progress)
    assert progress.hints == [
        "nobody answers paid, so each schedule lasts until the deadline; to say what is answered: "
        "answers={'paid': …}, ANSWERS in the module or --answer paid=…"
    ]
    assert progress.hints[0] in report.summary()
    assert report.as_json()["unanswered"] == ["paid"]


def test_it_says_nothing_of_what_is_answered() -> None:
    progress = Hinted()
    explore([Asks], [ORDER], progress=progress, answers={"paid": {"amount": 1}})
    assert progress.hints == []
