"""What a surgery's website sends, what the flow leaves behind, and what patients get."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


TimeOfDay = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]


# -- messages ---------------------------------------------------------------------------------------------------------


class AppointmentWanted(Frozen):
    """What the website sends, perhaps more than once. ``days`` stand in the order that the patient prefers."""

    booking_id: str = Field(min_length=1)
    patient: str = Field(min_length=1)
    doctor: str = Field(min_length=1)
    days: tuple[date, ...] = Field(min_length=1, max_length=5)
    not_before: TimeOfDay = "00:00"


class Letter(Frozen):
    """For the function that writes to patients."""

    patient: str
    text: str


class BookingSettled(Frozen):
    """The result of the run. ``day`` and ``at`` are None where no slot was free."""

    booking_id: str
    status: BookingStatus
    day: date | None = None
    at: TimeOfDay | None = None


# -- items of tables --------------------------------------------------------------------------------------------------


class BookingStatus(StrEnum):
    BOOKED = "BOOKED"
    NONE_FREE = "NONE_FREE"


class Slot(Frozen):
    """A place in a doctor's day."""

    doctor: str
    day: date
    at: TimeOfDay


class Appointment(Frozen):
    """An item of the table ``appointments``."""

    booking_id: str
    patient: str
    doctor: str
    day: date
    at: TimeOfDay


BookingSettled.model_rebuild()
