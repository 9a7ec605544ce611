"""BookAppointment: one stage, which as many Lambda functions run at once as there are messages."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from flowguard import Done, Fixed, Flow, ItemChanged, Outcome, Reject, RetryPolicy, Stage, Step
from flows.appointments.models import Appointment, AppointmentWanted, BookingSettled, BookingStatus, Letter, Slot
from flows.appointments.surgery import APPOINTMENTS, DIARIES, DOCTORS, Appointments, Diary

TABLES: Final = {DIARIES: "diary", APPOINTMENTS: "booking_id"}
"""The tables that the stage writes to, and the name of each one's key."""

LETTERS: Final = "patient-letters"

SETTLED: Final = "appointments-settled"

QUEUES: Final = (LETTERS, SETTLED)
"""The queues beside the flow's own that messages go to."""

MANY_AT_ONE_DIARY: Final = RetryPolicy(
    attempts=5, backoff=Fixed(10), for_errors={ItemChanged: RetryPolicy(attempts=20, backoff=Fixed(2), jitter=0.5)}
)
"""When it is tried again. Ten times in a row other bookings of one day were quicker: that does not last."""


class GiveAppointment(
    Stage[AppointmentWanted], name="give-appointment", timeout=timedelta(seconds=10), retry=MANY_AT_ONE_DIARY
):
    """Take the first slot that suits the patient, and write to them."""

    def handle(self, wanted: AppointmentWanted, step: Step) -> Outcome:
        if wanted.doctor not in DOCTORS:
            raise Reject(f"there is no {wanted.doctor} here")
        slot = _first_free(wanted, Diary(step))
        if slot is None:
            step.send(LETTERS, Letter(patient=wanted.patient, text=f"{wanted.doctor} has no slot free on these days"))
            return Done(BookingSettled(booking_id=wanted.booking_id, status=BookingStatus.NONE_FREE))
        Appointments(step).confirm(
            Appointment(booking_id=wanted.booking_id, patient=wanted.patient, **slot.model_dump())
        )
        step.send(LETTERS, Letter(patient=wanted.patient, text=f"{slot.doctor} sees you on {slot.day} at {slot.at}"))
        return Done(BookingSettled(booking_id=wanted.booking_id, status=BookingStatus.BOOKED, day=slot.day, at=slot.at))


class BookAppointment(
    Flow,
    name="book-appointment",
    object_id="booking_id",
    request_id="booking_id",
    inbox="appointment-requests",
    complete_to=SETTLED,
):
    """One run for each booking, whoever asks for it, however often, and with whatever message ids."""

    stages = (GiveAppointment,)


def _first_free(wanted: AppointmentWanted, diary: Diary) -> Slot | None:
    slots = (
        diary.take_the_first_free(wanted.doctor, day, wanted.not_before, wanted.booking_id)
        for day in dict.fromkeys(wanted.days)
    )
    return next((slot for slot in slots if slot is not None), None)
