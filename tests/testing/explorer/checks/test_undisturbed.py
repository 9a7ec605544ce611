"""What fails though nothing goes wrong is a finding, unless it is said to be expected."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Reject, Stage, Step
from flowguard.errors import SettingsError
from flowguard.testing import sqs_event
from flowguard.testing.explorer import Later, PlainFunction, Report, explore, replay
from flowguard.testing.explorer.checks.undisturbed import (
    SENT_TWICE,
    UndisturbedEnd,
    mistaken,
    sent_twice,
    unexpected,
)
from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.testing.explorer.search.runs import Runs
from flowguard.worker import flush_phase, settler
from flows.approval.flow import TABLES, ApproveExpense, RemindApprover
from tests.flows.samples import sample
from tests.proofs.prove.cases import CASES
from tests.testing.explorer import seeded

ORDER = seeded.Order(order_id="o1")


def explored(flow: Any, **about: Any) -> Report:
    return explore(flow, [ORDER], **{"tables": seeded.TABLES, "bound": 0, "walks": 0, "for_good": False, **about})


def raises(event: Any, context: Any) -> None:
    raise ValueError("no such item")


@pytest.mark.proof("explores a flow")
def test_a_flow_that_never_worked_is_found() -> None:
    report = explored(seeded.BrokenOne)
    (violation,) = report.violations
    assert (violation.rule, violation.schedule) == ("undisturbed", "none")
    assert "fails though nothing goes wrong: KeyError" in violation.problems[0].text
    assert "failing" not in violation.fix
    assert violation.option.startswith("failing=[…]")
    assert any("KeyError" in line for line in violation.timeline) or violation.timeline
    assert "undisturbed: broken-one of o1 FAILED, KeyError" in str(report)
    assert report.as_json()["undisturbed"][0]["status"] == "FAILED"


class Bill(Stage[seeded.Order], name="bill", inbox="orders"):
    def handle(self, order: seeded.Order, step: Step) -> Outcome:
        step.put("bills", {"order_id": order.order_id})
        return Done()


class Bills(Flow, name="bills", object_id="order_id"):
    stages = (Bill,)


def test_a_table_that_nobody_has_named_is_named_with_what_names_it() -> None:
    (violation,) = explored(Bills).violations
    assert violation.problems[0].text == "a stage writes to the table 'bills', which is not there"
    assert violation.fix.endswith("or --table bills=…")
    assert explored(Bills, tables={"bills": "order_id"}, most=1).ok


@pytest.mark.proof("explores a flow")
def test_it_is_none_where_its_object_is_expected_to_fail() -> None:
    report = explored(seeded.BrokenOne, failing=["o1"])
    assert report.ok, str(report)
    assert "undisturbed: broken-one of o1 FAILED" in str(report)


@pytest.mark.proof("explores a flow twice")
def test_a_message_that_its_stage_cannot_read_is_found() -> None:
    unread = sqs_event("orders", {"number": 1})
    search: dict[str, Any] = {"tables": seeded.TABLES, "bound": 0, "walks": 0}
    (violation,) = explore(seeded.ToldTwoStages, [ORDER, unread], **search).violations
    (problem,) = violation.problems
    stage = problem.where.removesuffix(" of no object")
    assert problem.text.startswith("fails though nothing goes wrong: the payload of ")
    assert stage != problem.where
    assert explore(seeded.ToldTwoStages, [ORDER, unread], failing=[stage], **search).ok


class Paid(BaseModel):
    paid: int


class Wait(Stage[seeded.Order], name="wait", then="go-on", inbox="orders"):
    def handle(self, order: seeded.Order, step: Step) -> Outcome:
        return GoOn.when_all(paid=step.event(f"paid/{order.order_id}"), within=timedelta(minutes=5))


class GoOn(Stage[Paid], name="go-on", inbox="orders"):
    def handle(self, paid: Paid, step: Step) -> Outcome:
        return Done()


class Waits(Flow, name="waits", object_id="order_id"):
    stages = (Wait, GoOn)


@pytest.mark.proof("explores a flow twice")
def test_a_wait_that_nobody_answers_is_found_with_what_would_answer_it() -> None:
    (violation,) = explored(Waits).violations
    assert violation.problems[0].text.endswith("RunFailed: no answer to paid came in time")
    assert violation.fix.startswith(
        "nobody answers 'paid': say what does, as ANSWERS = {'paid': …} in the flow's module"
    )
    assert "--answer paid=…" in violation.fix
    assert explored(Waits, answers={"paid": 3}).ok


class Quotes(BaseModel):
    near: int | None = None
    far: int | None = None


class AskBoth(Stage[seeded.Order], name="ask-both", then="choose", inbox="orders"):
    def handle(self, order: seeded.Order, step: Step) -> Outcome:
        near, far = step.event(f"near/{order.order_id}"), step.event(f"far/{order.order_id}")
        return Choose.when_any(near=near, far=far, within=timedelta(minutes=5))


class Choose(Stage[Quotes], name="choose", inbox="orders"):
    """Forgets that the other answer may be the first."""

    refuses: ClassVar = False

    def handle(self, quotes: Quotes, step: Step) -> Outcome:
        if self.refuses and quotes.near is None:
            raise Reject("too far away")
        return Done({"price": quotes.near + 1})  # type: ignore[operator]  # what is to be found


class Choices(Flow, name="choices", object_id="order_id"):
    stages = (AskBoth, Choose)


@pytest.mark.proof("explores a flow three times")
def test_a_mistake_that_another_order_of_answers_shows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"near": 3, "far": 4}
    report = explored(Choices, answers=answers, most=1)
    (violation,) = report.violations
    assert (violation.rule, violation.schedule) == ("undisturbed", "o2-1")
    assert violation.problems[0].text.startswith(
        "fails where answers and messages come like this, though no call fails: TypeError"
    )
    assert violation.site is not None
    assert "quotes.near + 1" in violation.site.text
    assert violation.fix.startswith("answers and messages come in any order")
    about: Any = {"tables": seeded.TABLES, "answers": answers}
    assert replay(Choices, [ORDER], "o2-1", **about).violations == (violation,)
    assert replay(Choices, [ORDER], "o2-1", may_fail=["o1"], **about).ok
    monkeypatch.setattr(Choose, "refuses", True)
    assert replay(Choices, [ORDER], "o2-1", **about).ok, "what is refused there may be meant"


class GoOnWithout(Stage[dict[str, Any]], name="go-on-without", inbox="orders"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Done({"paid": answers["amount"]})


class WaitOrGoOn(Stage[seeded.Order], name="wait", then=("go-on", "go-on-without"), inbox="orders"):
    def handle(self, order: seeded.Order, step: Step) -> Outcome:
        paid = step.event(f"paid/{order.order_id}")
        return GoOn.when_all(paid=paid, within=timedelta(minutes=5), on_timeout="go-on-without")


class WaitsOrGoesOn(Flow, name="waits-or-goes-on", object_id="order_id"):
    stages = (WaitOrGoOn, GoOn, GoOnWithout)


@pytest.mark.proof("explores a flow")
def test_a_mistake_where_an_answer_never_comes_is_found() -> None:
    (violation,) = explored(WaitsOrGoesOn, answers={"paid": 3}, most=1).violations
    assert (violation.rule, violation.schedule) == ("undisturbed", "n1")
    assert "no call fails: KeyError: 'amount'" in violation.problems[0].text


@pytest.mark.parametrize(
    ("why", "meant", "is_mistake"),
    [
        ("KeyError: 'sku' (attempt 5 of 5)", (), True),
        ("KeyError: 'sku' (attempt 5 of 5)", ("o1",), False),
        ("OutOfStock: tea", (), False),
        (None, (), False),
    ],
)
def test_what_python_raises_by_itself_is_a_mistake(
    why: str | None, meant: tuple[str, ...], *, is_mistake: bool
) -> None:
    end = UndisturbedEnd("orders of o1", "o1", "FAILED", why)
    assert [problem.where for problem in mistaken([end], meant)] == (["orders of o1"] if is_mistake else [])
    assert not list(mistaken([end._replace(status="COMPLETED")], meant))


@pytest.mark.proof("explores flows")
def test_what_is_expected_to_fail_and_works_is_found() -> None:
    (violation,) = explored(seeded.ToldTwoStages, failing=["o1"]).violations
    assert violation.problems[0].text == "does not fail, and was expected to"
    assert violation.fix == "o1 works now"
    assert violation.option.startswith("leave o1 out of failing")


@pytest.mark.proof("explores a handler twice")
def test_a_plain_handler_that_always_raises_is_found_by_its_queue() -> None:
    function = PlainFunction("orders", raises)
    (violation,) = explored(function).violations
    assert "ValueError: no such item" in violation.problems[0].text
    assert explored(function, failing=["orders"]).violations == ()


@pytest.mark.parametrize(
    ("is_held", "found"), [(True, set()), (False, {"sqs:approval-mails", "sqs:approval-decisions"})]
)
def test_a_mail_that_is_sent_twice_though_nothing_fails_is_found(
    is_held: bool, found: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link is clicked twice, before the run has gone on."""
    if not is_held:
        monkeypatch.setattr(settler, "_is_held", lambda *about: False)
    messages = [sample(f"approval/{name}.json") for name in ("01-request", "03-approved", "04-clicked-twice")]
    trace = replay([ApproveExpense, RemindApprover], messages, "none", tables=TABLES, invariants_only=True)
    assert {one.problems[0].where for one in trace.violations} == found
    assert bool(trace.violations) == bool(found)
    assert all((one.rule, one.problems[0].text) == ("undisturbed", SENT_TWICE) for one in trace.violations)
    assert all(one.fix.startswith("flowguard sends it once") for one in trace.violations)


@pytest.mark.parametrize(
    ("is_proved", "found"), [(True, set()), (False, {"sqs:approval-mails", "sqs:approval-reminders"})]
)
def test_a_mail_that_a_takeover_sends_though_a_look_proves_it_is_found(
    is_proved: bool, found: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_proved:
        monkeypatch.setattr(flush_phase, "_has_sent", lambda before: False)
    first, newer = (sample(f"approval/{name}.json") for name in ("10-request-replaced", "11-newer"))
    messages = [first, Later(newer, timedelta(hours=1))]
    trace = replay([ApproveExpense, RemindApprover], messages, "none", tables=TABLES, invariants_only=True)
    assert {one.problems[0].where for one in trace.violations} == found


@pytest.mark.parametrize("name", ["repeated", "keyed", "superseded", "wait-newer", "wait-event"])
def test_what_a_repeated_or_newer_request_or_a_quick_answer_sends_again_is_none(name: str) -> None:
    case = next(one for one in CASES if one.name == name)
    with case.sandbox() as sandbox:
        history = Runs(sandbox, case.free).run(Schedule())
    assert [*sent_twice(history)] == []


def test_many_ends_are_cut_and_the_failed_ones_come_first() -> None:
    ends = [UndisturbedEnd(f"flow of o{n}", f"o{n}", "COMPLETED", None) for n in range(9)]
    ends.append(UndisturbedEnd("flow of bad", "bad", "FAILED", "x" * 10_000))
    report = Report(("flow",), 1, 1, 1, 0, {}, (), undisturbed_ends=tuple(ends))
    lines = str(report).splitlines()
    assert lines[0].startswith("undisturbed: flow of bad FAILED, xxx")
    assert len(lines[0]) < 400
    assert "undisturbed: and 5 more" in lines
    assert [one.where for one in unexpected(ends, ())] == ["flow of bad"]


def test_an_interrupted_search_reports_what_it_has_found() -> None:
    def interrupt(schedules: int, violations: int) -> None:
        if violations:
            raise KeyboardInterrupt

    report = explored(seeded.flow_of(seeded.PlainAdd), progress=interrupt)
    assert not report.is_complete
    assert report.violations
    assert "interrupted" in str(report)
    assert report.as_json()["complete"] is False


def test_progress_is_told_after_each_schedule() -> None:
    heard: list[tuple[int, int]] = []
    report = explored(seeded.flow_of(seeded.PlainPut), progress=lambda *numbers: heard.append(numbers))
    assert heard[-1] == (report.schedules, 0)
    assert heard == sorted(heard)


@pytest.mark.parametrize("name", ["typo", "ordres", ""])
def test_what_may_differ_names_what_there_is(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"nothing is written or sent to '{name}'; there is .*orders"):
        explored(seeded.flow_of(seeded.PlainPut), free={name: ["at"]})
