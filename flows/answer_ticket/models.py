"""What travels between the stages of AnswerTicket, what the agent drafts, and what the run leaves behind."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


# -- messages ---------------------------------------------------------------------------------------------------------


class Ticket(Frozen):
    """What a customer asks. ``reviewer`` is the person who reads the draft."""

    ticket_id: str = Field(min_length=1)
    customer: str = Field(min_length=1)
    question: str = Field(min_length=1, max_length=10_000)
    reviewer: str = Field(min_length=1)


class Draft(Frozen):
    """What the agent writes."""

    subject: str
    text: str = Field(max_length=20_000)


class Review(Frozen):
    """What the reviewer answers. The link offers both."""

    answer: Literal["send", "discard"]
    comment: str = Field("", max_length=500)


class Reviewed(Frozen):
    """The answer for ``send-answer``."""

    review: Review


class Unanswered(Frozen):
    """What there is at a deadline: nothing."""


class Mail(Frozen):
    """For the function that sends mails."""

    to: str
    subject: str
    text: str = ""
    link: str | None = None


# -- the run's own state ----------------------------------------------------------------------------------------------


class TicketState(BaseModel):
    """Kept in the run item while the reviewer reads."""

    customer: str = ""
    reviewer: str = ""
    draft: Draft | None = None


# -- items of tables --------------------------------------------------------------------------------------------------


class TicketStatus(StrEnum):
    DRAFTED = "DRAFTED"
    SENT = "SENT"
    HANDED_OVER = "HANDED_OVER"


class TicketRow(Frozen):
    """An item of the table ``tickets``. ``tokens`` is what the draft took, counted once however often it was tried."""

    ticket_id: str
    status: TicketStatus
    tokens: int
    comment: str = ""
