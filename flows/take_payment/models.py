"""What travels between the stages of TakePayment, what the run remembers, and what it leaves behind."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


# -- messages ---------------------------------------------------------------------------------------------------------

GatewayAnswer = Annotated[str, Field(pattern=r"^(ok|down|timeout|declined|limited:[0-9]{1,6})$")]
"""What the stand-in for a gateway answers: see ``gateway.py``. ``limited:60`` asks for a pause of 60 seconds."""


class PaymentRequested(Frozen):
    """What the shop sends. ``gateway_script`` is the recording that the gateway plays, an answer for each attempt."""

    payment_id: str = Field(min_length=1)
    merchant_id: str = Field(min_length=1)
    card: str = Field(min_length=1)
    amount: Decimal = Field(gt=0)
    gateway_script: tuple[GatewayAnswer, ...] = Field(("ok",), min_length=1)


class CardCharged(Frozen):
    payment_id: str


class PaymentBooked(Frozen):
    """The result of the run."""

    payment_id: str
    amount: Decimal
    authorization: str


# -- the run's own state ----------------------------------------------------------------------------------------------


class PaymentState(BaseModel):
    """Kept in the run item from stage to stage. ``authorization`` is the gateway's own word for the charge."""

    merchant_id: str = ""
    amount: Decimal = Decimal(0)
    authorization: str = ""


# -- items of tables --------------------------------------------------------------------------------------------------


class PaymentStatus(StrEnum):
    CHARGED = "CHARGED"
    BOOKED = "BOOKED"


class Payment(Frozen):
    """An item of the table ``payments``. ``attempt`` is the one that the gateway answered."""

    payment_id: str
    merchant_id: str
    status: PaymentStatus
    amount: Decimal
    authorization: str
    attempt: int
    request_id: str
