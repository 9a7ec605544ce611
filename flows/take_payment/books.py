"""The tables of payments: the one place that knows how they are laid out, and how they change."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from flowguard import Step
from flows.take_payment.models import Payment, PaymentRequested, PaymentStatus

PAYMENTS: Final = "payments"
BALANCES: Final = "merchant-balances"


class Books:
    """What was charged, and what each merchant is due."""

    def __init__(self, step: Step[Any]) -> None:
        self._step = step

    def note_charged(self, payment: PaymentRequested, authorization: str) -> None:
        self._step.put(
            PAYMENTS,
            Payment(
                payment_id=payment.payment_id,
                merchant_id=payment.merchant_id,
                status=PaymentStatus.CHARGED,
                amount=payment.amount,
                authorization=authorization,
                attempt=self._step.attempt,
                request_id=self._step.request_id,
            ),
        )

    def credit(self, merchant_id: str, amount: Decimal) -> None:
        """Add to what a merchant is due. An ``ADD`` applied twice would be money from nowhere."""
        self._step.update(
            BALANCES,
            {"merchant_id": merchant_id},
            "ADD balance :amount, payments :one",
            values={":amount": amount, ":one": 1},
        )

    def note_booked(self, payment_id: str) -> None:
        self._step.update(
            PAYMENTS,
            {"payment_id": payment_id},
            "SET #status = :booked",
            names={"#status": "status"},
            values={":booked": PaymentStatus.BOOKED.value},
        )
