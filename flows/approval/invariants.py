"""What must hold of the expenses and of the mails at every end, for the explorer."""

from __future__ import annotations

from flowguard.testing import View, invariant
from flows.approval.flow import DECISIONS, EXPENSES, MAILS, ApproveExpense
from flows.approval.models import ExpenseStatus


@invariant
def a_completed_run_leaves_no_expense_asked(view: View) -> str | None:
    completed = {run.object_id for run in view.runs() if run.flow == ApproveExpense.name and run.status == "COMPLETED"}
    asked = {row["expense_id"] for row in view.table(EXPENSES) if row["status"] == ExpenseStatus.ASKED}
    return f"{sorted(asked & completed)} are still asked, and nothing comes any more" if asked & completed else None


@invariant
def an_approver_whose_decision_is_recorded_is_not_reminded(view: View) -> str | None:
    """Allow a reminder before the decision: a late redrive may record it."""
    if any(row["status"] == ExpenseStatus.LAPSED for row in view.table(EXPENSES)):
        return None
    sent = [one.to if one.to == DECISIONS else one.body["about"] for one in view.sent(DECISIONS, MAILS)]
    late = sent[sent.index(DECISIONS) :] if DECISIONS in sent else []
    return "a reminder was sent after the decision" if any("still waits" in about for about in late) else None
