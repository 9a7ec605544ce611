"""The appointments: each booking gets one slot, and each slot goes to one booking, however many consumers there are."""

from __future__ import annotations

from datetime import date
from itertools import islice

import pytest

from flowguard import Reject
from flowguard.events import EventType
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.testing import FlowResult, FlowRunner, MemoryAWS, step_for
from flows.appointments.flow import BookAppointment, GiveAppointment
from flows.appointments.models import AppointmentWanted, BookingSettled, BookingStatus
from flows.appointments.surgery import OPEN
from tests.flows.mishaps import Copies, Death, Meanwhile
from tests.flows.samples import sample

MONDAY, TUESDAY = date(2026, 1, 5), date(2026, 1, 6)


@pytest.fixture
def surgery(flow_runner: FlowRunner) -> FlowRunner:
    return flow_runner.serve(BookAppointment)


def wanted(booking_id: str, *days: date, not_before: str = "00:00") -> AppointmentWanted:
    return AppointmentWanted(
        booking_id=booking_id, patient="ada@x", doctor="dr-lee", days=days or (MONDAY,), not_before=not_before
    )


def book(surgery: FlowRunner, request: AppointmentWanted) -> FlowRunner:
    surgery.send(BookAppointment, request)
    return surgery


def given(result: FlowResult, booking_id: str) -> tuple[str, str] | None:
    """Return the day and time of a booking's appointment."""
    found = result.item("appointments", booking_id=booking_id)
    return None if found is None else (found["day"], found["at"])


def taken(result: FlowResult, day: date = MONDAY) -> dict[str, str]:
    diary = result.item("diaries", diary=f"dr-lee/{day}")
    return {} if diary is None else dict(diary["taken"])


# -- one appointment for each booking ---------------------------------------------------------------------------------


def test_a_booking_gets_the_first_free_slot_and_the_patient_a_letter(surgery: FlowRunner) -> None:
    result = surgery.deliver(sample("appointments/01-wanted.json")).run()
    assert given(result, "bk-6001") == ("2026-01-05", "09:00")
    assert taken(result) == {"09:00": "bk-6001"}
    [letter] = result.sent("patient-letters")
    assert letter.body == {"patient": "ada@example.com", "text": "dr-lee sees you on 2026-01-05 at 09:00"}
    assert [one.body["status"] for one in result.sent("appointments-settled")] == ["COMPLETED"]


@pytest.mark.parametrize("again", ["02-duplicate", "03-sent-again"])
def test_a_booking_that_comes_again_gets_no_second_appointment(surgery: FlowRunner, again: str) -> None:
    first = surgery.deliver(sample("appointments/01-wanted.json")).run()
    second = surgery.deliver(sample(f"appointments/{again}.json")).run()
    assert taken(second) == taken(first) == {"09:00": "bk-6001"}
    assert second.verdicts == ["DONE"]
    assert {letter.id for letter in second.messages} <= {letter.id for letter in first.messages}, "copies"


def test_a_consumer_that_gets_a_copy_while_another_is_at_work_gives_it_back(surgery: FlowRunner) -> None:
    copies: list[FlowResult] = []

    def another_consumer() -> None:
        copies.append(surgery.deliver(sample("appointments/02-duplicate.json")).step())

    with intercept(Meanwhile("TransactWriteItems", another_consumer)):
        surgery.deliver(sample("appointments/01-wanted.json")).step()
    assert [(one.verdict, one.acked) for one in copies[0].deliveries] == [("BUSY", False)]
    result = surgery.run()
    assert (taken(result), result.verdicts) == ({"09:00": "bk-6001"}, ["DONE"])


@pytest.mark.parametrize("made", [False, True])
def test_a_consumer_that_dies_at_its_commit_leaves_no_slot_behind(surgery: FlowRunner, made: bool) -> None:
    with intercept(Death("TransactWriteItems", made=made)):
        died = surgery.deliver(sample("appointments/01-wanted.json")).step()
    assert (taken(died) != {}, given(died, "bk-6001") is not None) == (made, made)
    result = surgery.run()
    assert (taken(result), given(result, "bk-6001")) == ({"09:00": "bk-6001"}, ("2026-01-05", "09:00"))
    assert len({letter.id for letter in result.sent("patient-letters")}) == 1


def test_a_booking_whose_run_item_is_gone_is_refused_rather_than_given_a_second_slot(
    surgery: FlowRunner, flow_engine: MemoryAWS
) -> None:
    surgery.deliver(sample("appointments/01-wanted.json")).run()
    expired = {"pk": {"S": "run#book-appointment#bk-6001"}, "sk": {"S": "run"}}
    flow_engine.client("dynamodb").delete_item(TableName="flowguard", Key=expired)
    result = book(surgery, wanted("bk-6001")).run()
    assert taken(result) == {"09:00": "bk-6001"}
    assert result.run("bk-6001").status == "FAILED"


# -- one booking for each slot ----------------------------------------------------------------------------------------


def test_a_consumer_that_finds_its_slot_gone_at_its_commit_takes_the_next(surgery: FlowRunner) -> None:
    def a_quicker_consumer() -> None:
        surgery.deliver(sample("appointments/04-the-same-time.json")).step()

    with intercept(Meanwhile("TransactWriteItems", a_quicker_consumer)):
        result = surgery.deliver(sample("appointments/01-wanted.json")).step()
    assert taken(result) == {"09:00": "bk-6002", "09:20": "bk-6001"}
    assert result.count(EventType.COMPLETED) == 1, "in the same attempt"


def test_consumers_that_are_always_quicker_only_make_it_later(surgery: FlowRunner) -> None:
    quicker = (f"quick-{number}" for number in range(10))

    def another_was_quicker(call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation == "TransactWriteItems" and "slow" in str(call.params):
            for booking_id in islice(quicker, 1):
                book(surgery, wanted(booking_id)).step()
        return proceed()

    with intercept(another_was_quicker):
        late = book(surgery, wanted("slow")).step()
    assert given(late, "slow") is None
    assert late.count(EventType.RETRIED) == 1, "ten times in a row"
    result = surgery.run()
    assert given(result, "slow") == ("2026-01-05", OPEN[10])
    assert len(set(taken(result).values())) == 11


def test_of_more_bookings_than_slots_the_last_are_told_so(surgery: FlowRunner) -> None:
    for number in range(len(OPEN) + 2):
        book(surgery, wanted(f"b-{number}"))
    with intercept(Copies(2)):
        result = surgery.run()
    assert sorted(taken(result)) == sorted(OPEN)
    results = [run.result for run in result.runs()]
    assert [one["status"] for one in results].count("NONE_FREE") == 2


def test_a_full_day_gives_way_to_the_next_that_the_patient_named(surgery: FlowRunner) -> None:
    book(surgery, wanted("b-1", not_before="15:40")).run()
    result = book(surgery, wanted("b-2", MONDAY, TUESDAY, not_before="15:40")).run()
    assert (given(result, "b-1"), given(result, "b-2")) == (("2026-01-05", "15:40"), ("2026-01-06", "15:40"))


# -- a stage is a plain method ----------------------------------------------------------------------------------------


def test_a_doctor_that_the_surgery_does_not_have_is_rejected() -> None:
    with pytest.raises(Reject, match="there is no dr-who here"):
        GiveAppointment().handle(
            wanted("b-1").model_copy(update={"doctor": "dr-who"}), step_for(GiveAppointment, object_id="b-1")
        )


def test_the_samples_end_as_their_page_says(surgery: FlowRunner) -> None:
    names = ("01-wanted", "04-the-same-time", "05-afternoon", "06-the-next-day", "07-none-free", "08-no-such-doctor")
    for name in names:
        surgery.deliver(sample(f"appointments/{name}.json"))
    result = surgery.run()
    assert taken(result) == {"09:00": "bk-6001", "09:20": "bk-6002", "15:40": "bk-6003"}
    assert taken(result, TUESDAY) == {"15:40": "bk-6004"}
    settled = BookingSettled(booking_id="bk-6005", status=BookingStatus.NONE_FREE)
    assert result.run("bk-6005").result == settled.model_dump(mode="json")
    assert [str(letter.id) for letter in result.dead_letters] == ["bk-6006"]
