"""What must hold of tickets and mails at every end, for the explorer."""

from __future__ import annotations

from flowguard.testing import View, invariant
from flows.answer_ticket.flow import MAILS, TICKETS
from flows.answer_ticket.models import TicketStatus


@invariant
def a_customer_gets_a_mail_only_after_a_person_said_so(view: View) -> str | None:
    sent = {row["ticket_id"] for row in view.table(TICKETS) if row["status"] == TicketStatus.SENT}
    mails = [mail for mail in view.sent(MAILS) if mail.body["to"].startswith("customer")]
    return "a draft was sent that nobody has approved" if mails and not sent else None
