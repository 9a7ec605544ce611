"""What the Lambda functions point at: one for the flow, and one for the answers from outside."""

from __future__ import annotations

from flowguard import callback_handler, lambda_handler
from flows.answer_ticket.flow import AnswerTicket

answer_ticket = lambda_handler(AnswerTicket)
answers = callback_handler(AnswerTicket)
