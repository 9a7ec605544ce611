"""A run that takes over from another: what that one had committed is sent, once, and not too late."""

from __future__ import annotations

import pytest

from flowguard.events import EventType
from flowguard.names.ids import RequestId
from flowguard.sim.calls import intercept
from tests.scene import START, Scene
from tests.sent_ids import readable
from tests.worker.runtime.mishaps import Died, dies_at


def test_what_a_dead_worker_had_committed_is_sent_by_the_run_that_takes_over(at: Scene) -> None:
    with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
        at.deliver(at.message())
    at.deliver(at.newer())
    ids = [readable(m["MessageAttributes"]["uniquerequestid"]["StringValue"]) for m in at.sent("emails")]
    assert ids == ["run-1.1.0", "run-2.1.0"]
    nexts = [m["MessageAttributes"]["uniquerequestid"]["StringValue"] for m in at.sent("close-order")]
    assert nexts == ["run-2"], "the old run's next hop is dropped"
    assert at.told(EventType.FLUSHED) == 1


def test_a_takeover_that_dies_while_flushing_leaves_the_rest_to_the_next_attempt(at: Scene) -> None:
    for message in (at.message(), at.newer()):
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            at.deliver(message)
    assert at.sent("emails") == []
    at.clock.advance(seconds=31)
    at.deliver(at.newer())
    ids = [readable(m["MessageAttributes"]["uniquerequestid"]["StringValue"]) for m in at.sent("emails")]
    assert ids == ["run-1.1.0", "run-2.1.0"]


def test_a_takeover_of_a_takeover_still_sends_what_the_first_run_had_committed(at: Scene) -> None:
    for message in (at.message(), at.newer()):
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            at.deliver(message)
    at.deliver(at.newer(requested_at=START, request_id=RequestId("run-3")))
    ids = [readable(m["MessageAttributes"]["uniquerequestid"]["StringValue"]) for m in at.sent("emails")]
    assert ids == ["run-1.1.0", "run-3.1.0"]


def test_a_takeover_does_not_repeat_what_was_committed_longer_ago_than_any_message_lives(at: Scene) -> None:
    at.deliver(at.message())
    at.deliver(at.second())
    assert len(at.sent("completed")) == 1
    at.clock.advance(seconds=15 * 86_400)
    later = at.message(request_id=RequestId("run-9"), requested_at=at.clock.now())
    at.deliver(later)
    assert at.sent("completed") == [], "receivers may have forgotten the id by which they would drop the copy"


def test_a_takeover_within_that_time_sends_the_old_complete_message_once_more(at: Scene) -> None:
    at.deliver(at.message())
    with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
        at.deliver(at.second())
    at.clock.advance(seconds=13 * 86_400)
    at.deliver(at.message(request_id=RequestId("run-9"), requested_at=at.clock.now()))
    assert len(at.sent("completed")) == 1


def test_the_last_messages_are_sent_once_until_a_newer_request_repeats_them_under_their_ids(at: Scene) -> None:
    at.deliver(at.message())
    at.deliver(at.second())
    [first] = [m["MessageAttributes"]["uniquerequestid"]["StringValue"] for m in at.sent("completed")]
    at.deliver(at.message(requested_at=START - 5_000, request_id=RequestId("older")))
    at.deliver(at.message(redrive=1))
    assert at.sent("completed") == [], (
        "an older request takes nothing over, and a copy of the run's first message neither"
    )
    at.clock.advance(seconds=60)
    at.deliver(at.message(request_id=RequestId("run-9"), requested_at=at.clock.now()))
    ids = [m["MessageAttributes"]["uniquerequestid"]["StringValue"] for m in at.sent("completed")]
    assert ids == [first], "the newer request cannot know that it was sent"
    at.deliver(at.second(request_id=RequestId("run-9"), requested_at=at.clock.now()))
    assert len(at.sent("completed")) == 1, "its own end"
