"""The surgery's tables: the one place that knows how they are laid out, and on which conditions they change."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from flowguard import Step
from flows.appointments.models import Appointment, Slot

DIARIES: Final = "diaries"
APPOINTMENTS: Final = "appointments"

DOCTORS: Final = ("dr-lee", "dr-okafor")

OPEN: Final = tuple(f"{hour:02}:{minute:02}" for hour in (9, 10, 11, 14, 15) for minute in (0, 20, 40))
"""When a doctor sees patients, each day."""


class Diary:
    """The doctors' days. Each is an item with the slots that are taken: the time, and whose booking it is."""

    def __init__(self, step: Step[Any]) -> None:
        self._step = step

    def take_the_first_free(self, doctor: str, day: date, not_before: str, booking_id: str) -> Slot | None:
        """Take a slot for a booking. None where the day has none left, which must be so at the commit too."""

        def with_one_more(diary: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
            taken = {} if diary is None else diary["taken"]
            free = next((at for at in OPEN if at >= not_before and at not in taken), None)
            return diary if free is None else {"taken": {**taken, free: booking_id}}

        diary = self._step.modify(DIARIES, {"diary": f"{doctor}/{day}"}, with_one_more)
        taken = {} if diary is None else diary["taken"]
        at = next((at for at, whose in taken.items() if whose == booking_id), None)
        return None if at is None else Slot(doctor=doctor, day=day, at=at)


class Appointments:
    """What patients have been given."""

    def __init__(self, step: Step[Any]) -> None:
        self._step = step

    def confirm(self, appointment: Appointment) -> None:
        """Write the appointment of a booking that has none. The run is rejected where it has one."""
        self._step.put(APPOINTMENTS, appointment, condition="attribute_not_exists(booking_id)", else_reject=True)
