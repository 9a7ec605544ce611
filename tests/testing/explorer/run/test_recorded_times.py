"""Recorded messages come when they were sent: those of an hour at once, the others later."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.sim.recording import RecordedRecord, read_recording
from flowguard.sim.world import START
from flowguard.testing import replay, sqs_event
from flowguard.testing.explorer.run.inbox import Coming, at_their_times
from tests.testing.explorer import seeded

MINUTE = 60_000
HOUR = 60 * MINUTE


class Note(Stage[seeded.Order], name="note", inbox="to-note"):
    def handle(self, order: seeded.Order, step: Step) -> Outcome:
        return Done()


class NoteOrders(Flow, name="note-orders", object_id="order_id"):
    stages = (Note,)


def sent(minutes: int | None, after: int = 0) -> Coming:
    at = None if minutes is None else START + minutes * MINUTE
    event: dict[str, Any] = sqs_event("to-note", {"order_id": "o1"}, sent_at=at if at is not None else START)
    if at is None:
        del event["Records"][0]["attributes"]["SentTimestamp"]
    (record,) = read_recording(event)
    assert isinstance(record, RecordedRecord)
    return Coming(record, after)


@pytest.mark.parametrize(
    ("minutes", "begins", "come"),
    [
        ([0, 10], 0, [0, 0]),
        ([0, 20], 5, [0, 0]),
        ([0, 61], 0, [0, 61]),
        ([61, 0], 0, [61, 0]),
        ([0, 60, 120, 200], 105, [0, 0, 0, 95]),
        ([0, 100, 130], 0, [0, 115, 115]),
        ([None, 30, 200], 30, [0, 0, 170]),
    ],
)
def test_what_was_sent_within_an_hour_comes_at_once(minutes: Any, begins: int, come: Any) -> None:
    start, coming = at_their_times([sent(one) for one in minutes], START)
    assert (start - START) // MINUTE == begins
    assert [one.after // MINUTE for one in coming] == come


def test_what_is_said_to_come_later_does_so() -> None:
    start, coming = at_their_times([sent(None), sent(99, after=HOUR)], 7)
    assert (start, [one.after for one in coming]) == (7, [0, HOUR])


def test_a_message_of_the_next_day_is_run_on_the_next_day() -> None:
    events = [sqs_event("to-note", {"order_id": f"o{day}"}, sent_at=START + day * 24 * HOUR) for day in (1, 2)]
    trace = replay(NoteOrders, events, "none")
    assert trace.ok, str(trace)
    assert [line.split()[0] for line in trace.timeline if " w" in line] == ["0.000", "86400.000"]
