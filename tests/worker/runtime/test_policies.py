"""What a flow may say about requests that meet a run."""

from __future__ import annotations

import json
from contextlib import suppress

from flowguard.events import EventType
from flowguard.flow import IGNORE, PER_REQUEST, AnyFlow, Flow
from flowguard.names.ids import ObjectId, RequestId
from tests.scene import Script, scene, two_stages
from tests.worker.runtime.mishaps import Died, die


def patient(script: Script) -> AnyFlow:
    class Patient(Flow, name="patient", object_id="order_id", on_conflict=IGNORE, complete_to="completed"):
        stages = two_stages(script)

    return Patient


def each(script: Script) -> AnyFlow:
    class Each(Flow, name="each", object_id=PER_REQUEST):
        stages = two_stages(script)

    return Each


def test_a_flow_may_let_the_first_request_keep_the_object() -> None:
    with scene(patient) as at:
        at.deliver(at.message(flow="patient"))
        assert at.deliver(at.newer(flow="patient")) == [True]
        assert (at.calls, at.told(EventType.IGNORED), at.priced()) == (["UpdateItem"], 1, 1)
        at.deliver(at.second(flow="patient"))
        assert at.deliver(at.newer(flow="patient")) == [True]
        assert at.priced() == 1, "what was asked for meanwhile stays turned away, however late it is delivered again"
        at.deliver(at.newer(flow="patient", requested_at=at.clock.now() + 1_000))
        assert at.priced() == 2, "what is asked for after the first has ended finds the object free"


def test_a_run_that_nobody_works_on_any_more_is_taken_over_with_a_warning() -> None:
    with scene(patient) as at:
        at.deliver(at.message(flow="patient"))
        at.clock.advance(seconds=86_400 + 32)
        at.deliver(at.newer(flow="patient", requested_at=at.clock.now() - 500))
        assert (at.told(EventType.IGNORED), at.told(EventType.ABANDONED), at.priced()) == (0, 1, 2)


def test_a_request_that_was_ignored_is_not_carried_out_by_a_copy_when_the_run_is_abandoned() -> None:
    with scene(patient) as at:
        at.deliver(at.message(flow="patient"))
        at.deliver(at.newer(flow="patient", reply_to="sqs:completed"))
        at.clock.advance(seconds=86_400 + 32)
        at.deliver(at.newer(flow="patient", reply_to="sqs:completed"))
        assert (at.told(EventType.IGNORED), at.told(EventType.ABANDONED), at.priced()) == (2, 0, 1)
        assert {json.loads(one["Body"])["status"] for one in at.sent("completed")} == {"IGNORED"}


DAY = 86_400


def test_a_worker_whose_clock_is_a_week_fast_keeps_the_object_no_longer_than_others_when_it_dies() -> None:
    """Its record is lost too: a copy of that would be carried out within minutes."""
    with scene(patient) as at:
        at.clock.advance(seconds=7 * DAY)
        at.script.pricing = die
        with suppress(Died):
            at.deliver(at.message(flow="patient"))
        at.script.pricing = lambda step: None
        at.clock.advance(seconds=-7 * DAY + DAY - 60)
        at.deliver(at.newer(flow="patient", requested_at=at.clock.now()))
        assert (at.told(EventType.IGNORED), at.priced()) == (1, 0), "its time is not over"
        at.clock.advance(seconds=61)
        at.deliver(at.newer(flow="patient", request_id=RequestId("run-3"), requested_at=at.clock.now()))
        assert (at.told(EventType.IGNORED), at.told(EventType.ABANDONED), at.priced()) == (1, 1, 1)


def test_a_run_that_a_worker_has_ended_whose_clock_is_a_day_fast_keeps_nobody_away() -> None:
    with scene(patient) as at:
        at.clock.advance(seconds=DAY)
        at.deliver(at.message(flow="patient"))
        at.deliver(at.second(flow="patient"))
        at.clock.advance(seconds=-DAY + 3_600)
        at.deliver(at.newer(flow="patient", requested_at=at.clock.now() - 5))
        assert (at.told(EventType.IGNORED), at.priced()) == (0, 2)


def test_where_every_request_is_carried_out_none_supersedes_another() -> None:
    with scene(each) as at:
        for run in ("run-1", "run-2"):
            message = at.message(flow="each", object_id=ObjectId(""), request_id=RequestId(run))
            assert at.deliver(message) == [True]
        assert (at.told(EventType.TOOK_OVER), at.priced()) == (0, 2)
