"""What must hold of the expenses and of the mails at every end, for the explorer."""

from __future__ import annotations

from flowguard.testing import View, invariant
from flows.approval.flow import EXPENSES, MAILS
from flows.approval.models import ExpenseStatus


@invariant
def no_expense_stays_asked(view: View) -> str | None:
    asked = [row["expense_id"] for row in view.table(EXPENSES) if row["status"] == ExpenseStatus.ASKED]
    return f"{asked} still wait, and nothing comes any more" if asked else None


@invariant
def an_approver_who_has_answered_is_not_reminded(view: View) -> str | None:
    decided = any(row["status"] != ExpenseStatus.LAPSED for row in view.table(EXPENSES))
    reminded = [mail for mail in view.sent(MAILS) if "still waits" in mail.body["about"]]
    return f"{len(reminded)} reminders were sent" if decided and reminded else None
