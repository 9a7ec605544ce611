"""What must hold of the surgery's tables at every end, for the explorer."""

from __future__ import annotations

from flowguard.testing import View, invariant
from flows.appointments.surgery import APPOINTMENTS, DIARIES


@invariant
def no_booking_has_two_slots(view: View) -> str | None:
    bookings = [whose for diary in view.table(DIARIES) for whose in diary["taken"].values()]
    return None if len(bookings) == len(set(bookings)) else f"{bookings} are in the diaries"


@invariant
def each_slot_is_of_the_appointment_that_names_it(view: View) -> str | None:
    taken = {(row["diary"], at): whose for row in view.table(DIARIES) for at, whose in row["taken"].items()}
    given = {(f"{row['doctor']}/{row['day']}", row["at"]): row["booking_id"] for row in view.table(APPOINTMENTS)}
    return None if taken == given else f"{taken} are in the diaries, and {given} are the appointments"
