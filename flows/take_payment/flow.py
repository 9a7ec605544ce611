"""TakePayment: two stages, each a Lambda function with a queue of its own."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from flowguard import IGNORE, Done, Exponential, Fixed, Flow, Outcome, Reject, Retry, RetryPolicy, Stage, Step
from flows.take_payment.books import BALANCES, PAYMENTS, Books
from flows.take_payment.gateway import CardDeclined, Charge, GatewayDown, GatewayTimeout, RateLimited, gateway_for
from flows.take_payment.models import CardCharged, PaymentBooked, PaymentRequested, PaymentState

RESULTS: Final = "payment-results"

TABLES: Final = {PAYMENTS: "payment_id", BALANCES: "merchant_id"}
"""The tables that the stages write to, and the name of each one's key."""

QUEUES: Final = (RESULTS,)
"""The queues beside the stages' own that messages go to."""

CHARGING: Final = RetryPolicy(
    attempts=5,
    backoff=Exponential(first=10, factor=3),
    for_errors={
        # it comes back, but a customer does not wait for ever: at most 10 minutes after the payment was asked for
        GatewayDown: RetryPolicy(
            attempts=6,
            backoff=Exponential(first=30, factor=2),
            jitter=0,
            max_delay=timedelta(minutes=5),
            give_up_after=timedelta(minutes=10),
        ),
        # each try may have charged the card, so somebody should look soon
        GatewayTimeout: RetryPolicy(attempts=3, backoff=Fixed(20), jitter=0),
    },
)
"""When a charge is tried again. What the table does not name follows the first two lines, spread by a little jitter."""


class ChargeCard(
    Stage[PaymentRequested, PaymentState], name="charge-card", then="book-payment", inbox="payments", retry=CHARGING
):
    """Have the gateway charge the card."""

    def handle(self, payment: PaymentRequested, step: Step[PaymentState]) -> Outcome:
        gateway = gateway_for(payment, step.attempt)
        try:
            authorization = gateway.charge(Charge(key=step.request_id, card=payment.card, amount=payment.amount))
        except RateLimited as limited:
            raise Retry("the gateway asks for a pause", after=limited.pause) from limited
        except CardDeclined as declined:
            raise Reject(f"the card was declined: {declined}") from declined
        step.state = PaymentState(merchant_id=payment.merchant_id, amount=payment.amount, authorization=authorization)
        Books(step).note_charged(payment, authorization)
        return BookPayment.message(CardCharged(payment_id=payment.payment_id))


class BookPayment(Stage[CardCharged, PaymentState], name="book-payment", inbox="payments-to-book"):
    """Add the amount to the merchant's balance."""

    def handle(self, charged: CardCharged, step: Step[PaymentState]) -> Outcome:
        state = step.state
        books = Books(step)
        books.credit(state.merchant_id, state.amount)
        books.note_booked(charged.payment_id)
        return Done(
            PaymentBooked(payment_id=charged.payment_id, amount=state.amount, authorization=state.authorization)
        )


class TakePayment(Flow, name="take-payment", object_id="payment_id", on_conflict=IGNORE, complete_to=RESULTS):
    """Charge, then book. While a payment is under way no other request for it is let in; after it failed, one is."""

    stages = (ChargeCard, BookPayment)
