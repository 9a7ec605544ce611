"""What the Lambda functions point at: one for each stage, and one for what SQS itself gives up."""

from __future__ import annotations

from flowguard import dlq_handler, lambda_handler
from flows.take_payment.flow import BookPayment, ChargeCard, TakePayment

charge_card = lambda_handler(TakePayment, ChargeCard)
book_payment = lambda_handler(TakePayment, BookPayment)
dead_letters = dlq_handler(TakePayment)
