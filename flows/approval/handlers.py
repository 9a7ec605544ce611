"""What the Lambda functions point at: one for each flow, and one for the answers from outside."""

from __future__ import annotations

from flowguard import callback_handler, lambda_handler
from flows.approval.flow import ApproveExpense, RemindApprover

approve_expense = lambda_handler(ApproveExpense)
remind_approver = lambda_handler(RemindApprover)
answers = callback_handler(ApproveExpense, RemindApprover)
