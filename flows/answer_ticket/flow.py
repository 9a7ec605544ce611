"""AnswerTicket: an agent drafts, a person decides by a link, and the answer is sent."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Final

from flowguard import SUPERSEDE, Done, Exponential, Flow, Outcome, RetryPolicy, Stage, Step
from flowguard.ai import RememberedCalls
from flows.answer_ticket.agent import WRITER
from flows.answer_ticket.models import (
    Draft,
    Mail,
    Reviewed,
    Ticket,
    TicketRow,
    TicketState,
    TicketStatus,
    Unanswered,
)

TICKETS: Final = "tickets"
MAILS: Final = "ticket-mails"

TABLES: Final = {TICKETS: "ticket_id"}
"""The table that the stages write to, and the name of its key."""

QUEUES: Final = (MAILS,)
"""The queue beside the flow's own that messages go to."""

ANSWERS_URL: Final = os.environ.get("FLOWGUARD_ANSWERS_URL", "https://tickets.example.com/answers")
"""Where the function of answers is. What is deployed is told its URL, a replay has none."""

READ_WITHIN: Final = timedelta(days=1)


class DraftAnswer(
    Stage[Ticket, TicketState],
    name="draft-answer",
    then=("send-answer", "hand-over"),
    timeout=timedelta(minutes=4),
    retry=RetryPolicy(attempts=6, backoff=Exponential(first=10, factor=3), max_delay=timedelta(minutes=10)),
):
    """Let the agent draft, and mail the draft with a link to the reviewer."""

    async def handle(self, ticket: Ticket, step: Step[TicketState]) -> Outcome:
        drafted = await WRITER.run(ticket.question, capabilities=[RememberedCalls(step, "draft")], timeout=200)
        draft = drafted.output
        step.state = TicketState(customer=ticket.customer, reviewer=ticket.reviewer, draft=draft)
        step.put(TICKETS, _row(step, TicketStatus.DRAFTED, tokens=drafted.usage.total_tokens))
        review = step.token("review", valid=READ_WITHIN)
        link = review.link(ANSWERS_URL, choices=("send", "discard"), with_comment=True)
        step.send(MAILS, Mail(to=ticket.reviewer, subject=f"Draft: {draft.subject}", text=draft.text, link=link))
        return SendAnswer.when_all(review=review, within=READ_WITHIN, on_timeout=HandOver)


class SendAnswer(Stage[Reviewed, TicketState], name="send-answer"):
    """Send the draft to the customer, if the reviewer says so."""

    def handle(self, reviewed: Reviewed, step: Step[TicketState]) -> Outcome:
        if reviewed.review.answer == "discard":
            return _handed_over(step, reviewed.review.comment)
        draft = step.state.draft or Draft(subject="", text="")
        step.send(MAILS, Mail(to=step.state.customer, subject=draft.subject, text=draft.text))
        _settle(step, TicketStatus.SENT, reviewed.review.comment)
        return Done(TicketStatus.SENT)


class HandOver(Stage[Unanswered, TicketState], name="hand-over"):
    """Leave the ticket to a person: nobody has read the draft for a day."""

    def handle(self, nothing: Unanswered, step: Step[TicketState]) -> Outcome:
        return _handed_over(step, "nobody has read the draft")


class AnswerTicket(
    Flow,
    name="answer-ticket",
    object_id="ticket_id",
    inbox="tickets-opened",
    on_conflict=SUPERSEDE,
    long_delays=True,
):
    """Draft, review, send. A ticket that is asked anew makes the first draft and its link worthless."""

    stages = (DraftAnswer, SendAnswer, HandOver)


def _handed_over(step: Step[TicketState], comment: str) -> Outcome:
    step.send(MAILS, Mail(to=step.state.reviewer, subject=f"ticket {step.object_id} waits for a person"))
    _settle(step, TicketStatus.HANDED_OVER, comment)
    return Done(TicketStatus.HANDED_OVER)


def _settle(step: Step[TicketState], status: TicketStatus, comment: str) -> None:
    step.update(
        TICKETS,
        {"ticket_id": step.object_id},
        "SET #status = :status, #comment = :comment",
        names={"#status": "status", "#comment": "comment"},
        values={":status": status.value, ":comment": comment},
    )


def _row(step: Step[TicketState], status: TicketStatus, *, tokens: int) -> TicketRow:
    return TicketRow(ticket_id=step.object_id, status=status, tokens=tokens)
