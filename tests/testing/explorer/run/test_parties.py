"""Answers of parties outside: what gives them, when they come, and what is no answer."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.errors import SettingsError
from flowguard.failed import Failed
from flowguard.testing.explorer import Question, Trace, UnmetSchedule, replay
from tests.testing.explorer import waiting
from tests.testing.explorer.waiting import Order

ONE = Order(order_id="o1", asks=("parcel",))
THREE = Order(order_id="o1", asks=("parcel", "paid", "approval"))
ANY = Order(order_id="o1", asks=("parcel", "paid"), quorum=1)


def answered(order: Order, schedule: str = "none", **answers: Any) -> Trace:
    return replay(waiting.FLOWS, [order], schedule, tables=waiting.TABLES, answers=answers)


def stages(trace: Trace) -> list[str]:
    """The stages at which the run went on, as the time line names them."""
    lines = [line for line in trace.timeline if ", hop 2" in line and "receive" not in line]
    return [line.split()[3].rstrip(",") for line in lines]


def test_a_function_gets_the_question_and_what_was_asked() -> None:
    got: list[Question] = []

    def carrier(question: Question) -> dict[str, Any]:
        got.append(question)
        return {"number": 17}

    assert answered(ONE, parcel=carrier).ok
    question = got[0]
    assert (question.flow, question.object_id, question.request_id, question.hop) == ("waits", "o1", "request-1", 1)
    assert question.name == "parcel"
    assert question.payload == {"ref": question.id}
    assert question.id.startswith("parcel#request-1-")
    assert all(one == question for one in got)


def test_a_failure_and_a_value_are_answers_and_none_is_not() -> None:
    for answer in ({"number": 17}, Failed(type="Lost", text="by the carrier")):
        assert set(stages(answered(ONE, parcel=answer))) == {"go-on"}
    assert stages(answered(ONE, parcel=lambda question: None)) == ["late"]


@pytest.mark.parametrize(
    ("schedule", "stage"), [("n1", "late"), ("n1-1", "late"), ("n1-2", "go-on"), ("x2", "go-on"), ("x2-1", "go-on")]
)
def test_an_answer_comes_never_late_at_the_deadline_and_twice(schedule: str, stage: str) -> None:
    trace = answered(ONE, schedule, parcel={"number": 17})
    assert trace.ok, str(trace)
    assert stages(trace)[0] == stage


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize(
    "schedule", ["d10", "d10-1", "a11", "a11-1", "a12", "a12-1", "a13-1", "u13", "l12", "z12", "f11"]
)
def test_who_answers_may_die_and_not_try_again(schedule: str) -> None:
    trace = answered(ONE, schedule, parcel={"number": 17})
    assert trace.ok, str(trace)


def test_an_answer_whose_party_died_before_its_copy_was_there_never_comes() -> None:
    assert stages(answered(ONE, "d10-1", parcel={"number": 17})) == ["late"]
    again = answered(ONE, "d10", parcel={"number": 17})
    assert stages(again)[0] == "go-on"


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize("schedule", ["n1", "n2.n3", "n1-2.d16", "n2.a8", "o2-1", "x3.d5"])
def test_three_answers_in_any_order_and_without_some(schedule: str) -> None:
    trace = answered(THREE, schedule, parcel={"number": 17}, paid={"amount": 3}, approval={"yes": True})
    assert trace.ok, str(trace)


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize("schedule", ["n1", "n2", "n1.n2", "o2-1", "a9"])
def test_one_answer_of_two(schedule: str) -> None:
    trace = answered(ANY, schedule, parcel={"number": 17}, paid={"amount": 3})
    assert trace.ok, str(trace)


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ({"letter": 1}, "no run awaits 'letter' from outside; there is parcel"),
        ({"stock": 1}, "no run awaits 'stock' from outside"),
        ({"parcel": "\udcff"}, "the answer for 'parcel' cannot be given"),
        ({"parcel": {1, 2}}, "the answer for 'parcel' cannot be given"),
        ({"parcel": 17}, "the answer for 'parcel' cannot be given: parcel"),
        ({"": 17}, "gives no answers"),
    ],
)
def test_what_is_no_answer_is_refused_by_name(answers: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError) as refused:
        answered(ONE, **answers)
    assert problem in str(refused.value)
    assert refused.value.setting == "answers"


def test_answers_that_are_no_mapping_are_refused() -> None:
    with pytest.raises(SettingsError, match="gives no answers"):
        replay(waiting.FLOWS, [ONE], "none", tables=waiting.TABLES, answers=["parcel"])  # type: ignore[arg-type]  # the mistake


def test_a_schedule_may_not_name_an_answer_that_there_is_not() -> None:
    with pytest.raises(UnmetSchedule, match="parties outside were asked 1 question"):
        answered(ONE, "n2", parcel={"number": 17})
