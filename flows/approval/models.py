"""What travels between the stages of the two flows, what their runs remember, and what they leave behind."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from flowguard import Failed


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


# -- messages ---------------------------------------------------------------------------------------------------------


class ExpenseSubmitted(Frozen):
    """What the travel desk sends. A newer one for the same expense replaces it, and its link with it."""

    expense_id: str = Field(min_length=1)
    employee: str = Field(min_length=1)
    approver: str = Field(min_length=1)
    amount: Decimal = Field(gt=0)


class Decision(Frozen):
    """What the approver answers. The link offers both, and the model admits nothing else."""

    answer: Literal["approve", "decline"]
    comment: str = Field("", max_length=500)


class Decided(Frozen):
    """The answer for ``record-decision``. An approver's own program may say that it cannot decide."""

    decision: Decision | Failed


class ReminderWanted(Frozen):
    """The request for a reminder. ``decision_id`` names the decision that makes it needless."""

    expense_id: str
    decision_id: str
    approver: str
    link: str


class DecisionMade(Frozen):
    """The event that a decision was made, or is not waited for any more."""

    decision_id: str


class NotNeeded(Frozen):
    """The answer that makes the reminder needless."""

    decided: DecisionMade


class Unanswered(Frozen):
    """What there is at a deadline: nothing."""


class Mail(Frozen):
    """For the function that sends mails."""

    to: str
    about: str
    link: str | None = None


class ExpenseSettled(Frozen):
    """The result of the run."""

    expense_id: str
    status: ExpenseStatus


# -- the runs' own state ----------------------------------------------------------------------------------------------


class ExpenseState(BaseModel):
    """Kept in the run item from stage to stage."""

    employee: str = ""
    amount: Decimal = Decimal(0)
    decision_id: str = ""


class ReminderState(BaseModel):
    """Kept in the run item, with the link: who may read the table of the runs could answer."""

    approver: str = ""
    link: str = ""


# -- items of tables --------------------------------------------------------------------------------------------------


class ExpenseStatus(StrEnum):
    ASKED = "ASKED"
    APPROVED = "APPROVED"
    DECLINED = "DECLINED"
    UNDECIDED = "UNDECIDED"
    LAPSED = "LAPSED"


class Expense(Frozen):
    """An item of the table ``expenses``."""

    expense_id: str
    status: ExpenseStatus
    amount: Decimal
    comment: str = ""
    request_id: str


ExpenseSettled.model_rebuild()
