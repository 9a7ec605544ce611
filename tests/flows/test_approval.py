"""The approval: a person's link decides once, a reminder comes after a day, and three days are the end."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from flowguard import AnswerVerdict, Done, Failed, Settings
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.errors import RunFailed
from flowguard.sim.account import SIMULATED_SECRETS
from flowguard.testing import FlowClock, FlowResult, FlowRunner, step_for
from flows.approval import handlers
from flows.approval.flow import ANSWERS_URL, ApproveExpense, AskApprover, RecordDecision, RemindApprover
from flows.approval.models import Decided, Decision, ExpenseSettled, ExpenseState, ExpenseStatus, ExpenseSubmitted
from tests.flows.samples import sample

APPROVER, EMPLOYEE = "grace@example.com", "ada@example.com"


@pytest.fixture
def approvals(flow_runner: FlowRunner, flow_clock: FlowClock) -> FlowRunner:
    flow_clock.advance(hours=2)  # later than the last request of the samples
    return flow_runner.serve(ApproveExpense, RemindApprover)


def of(runner: FlowRunner, name: str) -> tuple[str | None, int | None]:
    """Deliver a sample, and return the verdict and the status of the response."""
    [row] = runner.deliver(sample(f"approval/{name}.json")).step().deliveries
    return row.verdict, row.status


def asked(runner: FlowRunner, name: str = "01-request") -> FlowRunner:
    """Submit an expense. Its mail is sent, and both runs wait."""
    runner.deliver(sample(f"approval/{name}.json")).run(within=timedelta(seconds=1))
    return runner


def after(runner: FlowRunner, **span: float) -> FlowResult:
    return runner.run(within=timedelta(**span))


def status(result: FlowResult, expense_id: str = "exp-5001") -> str | None:
    found = result.item("expenses", expense_id=expense_id)
    return None if found is None else str(found["status"])


def mails(result: FlowResult) -> list[str]:
    """What the mails were about, each once: a receiver drops copies by their ids."""
    found = {mail.id: mail.body["about"] for mail in result.sent("approval-mails")}
    return [about for about in found.values() if "spent" not in about]  # a copy of the first mail may come later


REMINDED, APPROVED = "an expense still waits for your answer", "your expense is APPROVED"


# -- a stage is a plain method ----------------------------------------------------------------------------------------


def test_the_approver_gets_a_link_with_both_answers_and_a_comment() -> None:
    step = step_for(AskApprover, object_id="e1", request_id="r1")
    expense = ExpenseSubmitted(expense_id="e1", employee=EMPLOYEE, approver=APPROVER, amount=Decimal(7))
    outcome = AskApprover().handle(expense, step)
    mail, reminder = step.sends
    token = outcome.awaited["decision"]  # type: ignore[union-attr]  # it waits
    assert f'"{ANSWERS_URL}/{token.text}?answers=approve%2Cdecline&comment=yes"' in mail.body  # type: ignore[union-attr]  # a token
    assert '"decision_id":"decided/r1"' in reminder.body
    assert step.state == ExpenseState(employee=EMPLOYEE, amount=Decimal(7), decision_id="decided/r1")


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (Decision(answer="approve"), ExpenseStatus.APPROVED),
        (Decision(answer="decline", comment="no"), ExpenseStatus.DECLINED),
        (Failed(type="Failed", text="on leave"), ExpenseStatus.UNDECIDED),
    ],
)
def test_each_answer_has_its_status(decision: Decision | Failed, expected: ExpenseStatus) -> None:
    step = step_for(RecordDecision, object_id="e1", hop=2)
    outcome = RecordDecision().handle(Decided(decision=decision), step)
    assert outcome == Done(ExpenseSettled(expense_id="e1", status=expected))


# -- the whole flow ---------------------------------------------------------------------------------------------------


def test_a_person_approves_by_the_link_and_the_employee_is_told(approvals: FlowRunner) -> None:
    asked(approvals)
    assert of(approvals, "03-approved") == ("RESUMED", 200)
    result = after(approvals, days=4)
    expense = result.item("expenses", expense_id="exp-5001")
    assert expense is not None
    assert (expense["status"], expense["comment"]) == ("APPROVED", "within the budget")
    assert mails(result) == [APPROVED]
    assert result.run("exp-5001", "approve-expense").result == {"expense_id": "exp-5001", "status": "APPROVED"}
    assert result.run("exp-5001", "remind-approver").result == "not needed"


def test_each_mail_is_sent_once_where_nothing_fails(approvals: FlowRunner) -> None:
    assert asked(approvals).run(within=timedelta(minutes=1)).copies() == []
    approvals.deliver(sample("approval/03-approved.json"))
    result = after(approvals, days=4)
    assert mails(result) == [APPROVED]
    assert result.copies() == []


def test_each_mail_is_sent_once_also_where_the_link_is_clicked_at_once_and_twice(approvals: FlowRunner) -> None:
    """Both clicks come before anybody has looked at the wait."""
    assert approvals.deliver(sample("approval/01-request.json")).step().verdicts == ["CLAIMED"]
    approvals.deliver(*(sample(f"approval/{name}.json") for name in ("03-approved", "04-clicked-twice")))
    at_once, later = after(approvals, seconds=1), after(approvals, days=4)
    assert status(at_once) == "APPROVED", "it waits for the look, not for the answer's copy"
    assert (mails(at_once), at_once.copies()) == ([APPROVED], [])
    assert later.sent("approval-mails") == []


def test_who_only_opens_the_link_decides_nothing(approvals: FlowRunner) -> None:
    asked(approvals)
    assert of(approvals, "02-opened") == (None, 200)
    assert status(after(approvals, minutes=1)) == "ASKED"


def test_a_second_click_is_a_duplicate_before_and_after_the_run_has_ended(approvals: FlowRunner) -> None:
    asked(approvals)
    assert of(approvals, "03-approved") == ("RESUMED", 200)
    assert of(approvals, "04-clicked-twice") == ("DUPLICATE", 200)
    after(approvals, minutes=1)
    assert of(approvals, "04-clicked-twice") == ("DUPLICATE", 200)


def test_a_forged_link_changes_nothing(approvals: FlowRunner) -> None:
    asked(approvals)
    assert of(approvals, "05-forged") == ("REFUSED", 403)
    assert status(after(approvals, minutes=1)) == "ASKED"


def test_after_a_day_the_approver_is_reminded_and_the_same_link_still_counts(approvals: FlowRunner) -> None:
    [first] = approvals.deliver(sample("approval/06-request-to-remind.json")).step().sent("approval-mails")
    assert mails(after(approvals, hours=23)) == []
    result = after(approvals, hours=2)
    [reminder] = result.sent("approval-mails")
    assert (reminder.body["to"], reminder.body["about"]) == (APPROVER, REMINDED)
    assert reminder.body["link"] == first.body["link"]
    assert result.run("exp-5002", "remind-approver").result == "reminded"
    assert of(approvals, "07-declined-after-a-day") == ("RESUMED", 200)
    assert status(after(approvals, minutes=1), "exp-5002") == "DECLINED"


def test_after_three_days_the_expense_lapses_and_a_late_answer_is_told_so(approvals: FlowRunner) -> None:
    asked(approvals, "08-request-nobody-answers")
    result = after(approvals, days=3)
    assert status(result, "exp-5003") == "LAPSED"
    assert mails(result) == [REMINDED, "your expense is LAPSED"]
    assert of(approvals, "09-late") == ("EXPIRED", 410)
    assert status(after(approvals, minutes=1), "exp-5003") == "LAPSED"


def test_an_expense_that_is_submitted_again_makes_the_first_link_worthless(approvals: FlowRunner) -> None:
    asked(approvals, "10-request-replaced")
    asked(approvals, "11-newer")
    assert of(approvals, "12-answer-to-the-old-link") == ("SUPERSEDED", 409)
    assert status(after(approvals, seconds=1), "exp-5004") == "ASKED"
    assert of(approvals, "13-answer-to-the-new-link") == ("RESUMED", 200)
    result = after(approvals, days=4)
    assert status(result, "exp-5004") == "APPROVED"
    assert mails(result) == [APPROVED], "no reminder of either request"


def test_a_decision_that_is_quicker_than_the_reminders_run_is_not_missed(approvals: FlowRunner) -> None:
    approvals.deliver(sample("approval/01-request.json")).step()  # the approver has the mail, nothing else has happened
    assert of(approvals, "03-approved") == ("RESUMED", 200)
    result = after(approvals, days=2)
    assert result.run("exp-5001", "remind-approver").result == "not needed"
    assert mails(result) == [APPROVED]


@pytest.mark.parametrize("answer", [{"answer": "maybe"}, {}, {"answer": "approve", "comment": "x" * 501}])
def test_what_the_model_does_not_admit_is_refused_and_can_be_answered_again(approvals: FlowRunner, answer: Any) -> None:
    [mail] = approvals.deliver(sample("approval/01-request.json")).step().sent("approval-mails")
    token = mail.body["link"].removeprefix(f"{ANSWERS_URL}/").partition("?")[0]
    with pytest.raises(RunFailed, match="decision"):
        approvals.answer(ApproveExpense, token, answer)
    assert approvals.answer(ApproveExpense, token, {"answer": "approve"}) is AnswerVerdict.RESUMED


def test_the_functions_serve_their_flows(approvals: FlowRunner, flow_clock: FlowClock) -> None:
    services = aws_services(Settings.model_validate(SIMULATED_SECRETS), Clients(), clock=flow_clock)
    request = sample("approval/01-request.json")
    assert handlers.approve_expense.using(services)(request) == {"batchItemFailures": []}
    assert handlers.answers.using(services)(sample("approval/05-forged.json"))["statusCode"] == 403
    assert status(after(approvals, seconds=1)) == "ASKED"
