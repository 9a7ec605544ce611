"""ApproveExpense waits for a person's answer. RemindApprover waits beside it, to remind them after a day."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Final

from flowguard import SUPERSEDE, Callback, Done, Failed, Flow, Outcome, Stage, Step
from flows.approval.models import (
    Decided,
    DecisionMade,
    Expense,
    ExpenseSettled,
    ExpenseState,
    ExpenseStatus,
    ExpenseSubmitted,
    Mail,
    NotNeeded,
    ReminderState,
    ReminderWanted,
    Unanswered,
)

EXPENSES: Final = "expenses"
MAILS: Final = "approval-mails"
DECISIONS: Final = "approval-decisions"

TABLES: Final = {EXPENSES: "expense_id"}
"""The table that the stages write to, and the name of its key."""

QUEUES: Final = (MAILS,)
"""The queue beside the flows' own that messages go to."""

ANSWERS_URL: Final = os.environ.get("FLOWGUARD_ANSWERS_URL", "https://approvals.example.com/answers")
"""Where the function of answers is. What is deployed is told its URL, a replay has none."""

REMIND_AFTER: Final = timedelta(days=1)
WAIT_AT_MOST: Final = timedelta(days=3)
DECISION_KEPT: Final = timedelta(days=28)
"""A reminder that begins late, by a redrive, must find that the decision was made."""


class WaitADay(Stage[ReminderWanted, ReminderState], name="wait-a-day", then=("stay-silent", "remind")):
    """Wait for the decision that makes the reminder needless."""

    def handle(self, wanted: ReminderWanted, step: Step[ReminderState]) -> Outcome:
        step.state = ReminderState(approver=wanted.approver, link=wanted.link)
        return StaySilent.when_all(
            decided=step.event(wanted.decision_id, keep_early=True), within=REMIND_AFTER, on_timeout=Remind
        )


class StaySilent(Stage[NotNeeded, ReminderState], name="stay-silent"):
    """End without a reminder."""

    def handle(self, answer: NotNeeded, step: Step[ReminderState]) -> Outcome:
        step.state = ReminderState()
        return Done("not needed")


class Remind(Stage[Unanswered, ReminderState], name="remind"):
    """Send the same link once more."""

    def handle(self, nothing: Unanswered, step: Step[ReminderState]) -> Outcome:
        state, step.state = step.state, ReminderState()
        step.send(MAILS, Mail(to=state.approver, about="an expense still waits for your answer", link=state.link))
        return Done("reminded")


class RemindApprover(
    Flow,
    name="remind-approver",
    object_id="expense_id",
    inbox="approval-reminders",
    on_conflict=SUPERSEDE,
    long_delays=True,
    callbacks=(Callback(DECISIONS, id="decision_id", keep_early=DECISION_KEPT),),
):
    """Remind an approver after a day, unless the decision was made."""

    stages = (WaitADay, StaySilent, Remind)


class AskApprover(Stage[ExpenseSubmitted, ExpenseState], name="ask-approver", then=("record-decision", "lapse")):
    """Send the approver a link, and wait for what they answer."""

    def handle(self, expense: ExpenseSubmitted, step: Step[ExpenseState]) -> Outcome:
        decision = step.token("decision", valid=WAIT_AT_MOST)
        link = decision.link(ANSWERS_URL, choices=("approve", "decline"), with_comment=True)
        step.state = ExpenseState(
            employee=expense.employee, amount=expense.amount, decision_id=f"decided/{step.request_id}"
        )
        step.put(EXPENSES, _expense(expense.expense_id, ExpenseStatus.ASKED, step))
        step.send(MAILS, Mail(to=expense.approver, about=f"{expense.employee} spent {expense.amount}", link=link))
        step.start(
            RemindApprover,
            ReminderWanted(
                expense_id=expense.expense_id,
                decision_id=step.state.decision_id,
                approver=expense.approver,
                link=link,
            ),
        )
        return RecordDecision.when_all(decision=decision, within=WAIT_AT_MOST, on_timeout=Lapse)


class RecordDecision(Stage[Decided, ExpenseState], name="record-decision"):
    """Write down what the approver answered."""

    def handle(self, answers: Decided, step: Step[ExpenseState]) -> Outcome:
        decision = answers.decision
        if isinstance(decision, Failed):
            return _settled(ExpenseStatus.UNDECIDED, decision.text, step)
        status = ExpenseStatus.APPROVED if decision.answer == "approve" else ExpenseStatus.DECLINED
        return _settled(status, decision.comment, step)


class Lapse(Stage[Unanswered, ExpenseState], name="lapse"):
    """Give up: nobody has answered for three days."""

    def handle(self, nothing: Unanswered, step: Step[ExpenseState]) -> Outcome:
        return _settled(ExpenseStatus.LAPSED, "", step)


class ApproveExpense(
    Flow,
    name="approve-expense",
    object_id="expense_id",
    inbox="expenses-submitted",
    on_conflict=SUPERSEDE,
    long_delays=True,
):
    """Ask, wait, write down. An expense that is submitted again makes the first link worthless."""

    stages = (AskApprover, RecordDecision, Lapse)


def _settled(status: ExpenseStatus, comment: str, step: Step[ExpenseState]) -> Outcome:
    step.put(EXPENSES, _expense(step.object_id, status, step, comment))
    step.send(MAILS, Mail(to=step.state.employee, about=f"your expense is {status}"))
    step.send(DECISIONS, DecisionMade(decision_id=step.state.decision_id))
    return Done(ExpenseSettled(expense_id=step.object_id, status=status))


def _expense(expense_id: str, status: ExpenseStatus, step: Step[ExpenseState], comment: str = "") -> Expense:
    return Expense(
        expense_id=expense_id, status=status, amount=step.state.amount, comment=comment, request_id=step.request_id
    )
