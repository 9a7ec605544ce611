"""What must hold of the tables of payments at every end, for the explorer."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal

from flowguard.testing import View, invariant
from flows.take_payment.books import BALANCES, PAYMENTS
from flows.take_payment.models import PaymentStatus


@invariant
def what_a_merchant_is_due_is_what_was_booked(view: View) -> str | None:
    booked: defaultdict[str, Decimal] = defaultdict(Decimal)
    for payment in view.table(PAYMENTS):
        if payment["status"] == PaymentStatus.BOOKED.value:
            booked[payment["merchant_id"]] += payment["amount"]
    due = {row["merchant_id"]: row["balance"] for row in view.table(BALANCES)}
    return None if due == booked else f"{due} is due, and {dict(booked)} was booked"


@invariant
def a_completed_run_has_booked_its_payment(view: View) -> str | None:
    for run in view.runs():
        payment = view.item(PAYMENTS, payment_id=run.object_id) or {}
        if run.status == "COMPLETED" and payment.get("status") != PaymentStatus.BOOKED.value:
            return f"{run} is COMPLETED, and its payment is {payment}"
    return None
