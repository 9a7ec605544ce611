"""Denials: final once they and the record have lasted for minutes, whatever used up the record's receives."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flowguard.protocol.run import Status
from flowguard.sim.calls import intercept
from flowguard.testing import sqs_event
from flowguard.wire.envelope import Envelope, normalize
from flowguard.worker.denials import FORGOTTEN_AFTER, Denials, writes_of
from flowguard.worker.patience import SOME_MINUTES
from tests.scene import Scene
from tests.worker.runtime.mishaps import boom, refuses, refuses_writes, reject_once

SENT = 1_800_000_000_000
MINUTES = SOME_MINUTES // timedelta(milliseconds=1)
FORGOTTEN = FORGOTTEN_AFTER // timedelta(milliseconds=1)


def received(receives: int, **changes: object) -> Envelope:
    [record] = sqs_event("orders", {}, receive_count=receives)["Records"]
    [envelope] = normalize({"Records": [record | changes]})
    assert isinstance(envelope, Envelope)
    return envelope


@pytest.mark.parametrize(
    ("receives", "lasted", "final"),
    [(2, MINUTES, False), (3, MINUTES, True), (3, MINUTES - 1, False), (99, MINUTES - 1, False), (99, 0, False)],
)
def test_a_denial_is_final_when_it_and_its_record_have_lasted_for_minutes(
    receives: int, lasted: int, final: bool
) -> None:
    denials = Denials()
    assert not denials.are_final("a queue", received(1), SENT)
    assert denials.are_final("a queue", received(receives), SENT + lasted) is final


@pytest.mark.parametrize(("since", "final"), [(SENT - MINUTES + 1, False), (SENT - MINUTES, True)])
def test_a_record_that_went_back_has_waited_since_it_was_sent(since: int, final: bool) -> None:
    assert Denials().are_final("a queue", received(1), SENT, since) is final


def test_a_record_that_no_queue_brings_again_cannot_wait() -> None:
    assert Denials().are_final("a queue", received(1, eventSourceARN=None), SENT)


def test_what_was_taken_between_is_denied_anew() -> None:
    denials = Denials()
    denials.are_final("a queue", received(9), SENT)
    denials.are_final("a table", received(9), SENT)
    denials.ended("a queue")
    assert not denials.are_final("a queue", received(9), SENT + MINUTES)
    assert denials.are_final("a table", received(9), SENT + MINUTES), "each for itself"


@pytest.mark.parametrize(("later", "final"), [(FORGOTTEN, True), (FORGOTTEN + 1, False)])
def test_a_denial_of_hours_ago_is_another(later: int, final: bool) -> None:
    denials = Denials()
    denials.are_final("a queue", received(9), SENT)
    assert denials.are_final("a queue", received(9), SENT + later) is final


@pytest.mark.parametrize("to", ["emails", "close-order"])
def test_a_record_of_a_backlog_that_meets_a_moment_of_denial_parks_nothing(at: Scene, to: str) -> None:
    at.receives = 12
    with intercept(refuses(to)):
        assert at.deliver(at.message()) == [False]
    at.clock.advance(seconds=31)
    assert at.deliver(at.message()) == [True]
    assert (at.priced(), at.sent("dead")) == (1, [])


def test_a_stage_whose_writes_were_taken_between_is_denied_anew(at: Scene) -> None:
    denials, writes = at.handler._services.denials, writes_of(at.message())
    denials.are_final(writes, received(9), at.clock.now())
    at.deliver(at.message())
    at.clock.advance(seconds=SOME_MINUTES.seconds)
    assert not denials.are_final(writes, received(9), at.clock.now())


def test_the_end_of_a_run_that_is_given_up_for_a_denial_is_no_sign_that_it_is_over(at: Scene) -> None:
    denials, writes = at.handler._services.denials, writes_of(at.message())
    denials.are_final(writes, received(9), at.clock.now())
    at.script.pricing = lambda step: reject_once(at)
    at.deliver(at.message())
    at.clock.advance(seconds=SOME_MINUTES.seconds)
    assert denials.are_final(writes, received(9), at.clock.now())


def test_a_queue_that_has_taken_a_message_between_is_denied_anew(at: Scene) -> None:
    at.receives = 12
    with intercept(refuses("emails")):
        assert at.deliver(at.message()) == [False]
    assert at.deliver(at.order("o2", request_id="run-2")) == [True]
    at.clock.advance(seconds=SOME_MINUTES.seconds)
    with intercept(refuses("emails")):
        assert at.deliver(at.message()) == [False]


def test_throttles_before_it_are_no_denial(at: Scene) -> None:
    at.receives = 12
    with intercept(refuses("emails", "RequestThrottled", 400)):
        assert at.deliver(at.message()) == [False]
    at.clock.advance(seconds=SOME_MINUTES.seconds)
    with intercept(refuses("emails")):
        assert at.deliver(at.message()) == [False]
        at.clock.advance(seconds=SOME_MINUTES.seconds)
        assert at.deliver(at.message()) == [True]


def test_a_table_that_is_denied_for_a_moment_ends_no_run(at: Scene) -> None:
    at.receives = 12
    with intercept(refuses_writes("AccessDeniedException")):
        assert at.deliver(at.message()) == [False]
        at.clock.advance(seconds=SOME_MINUTES.seconds)
        assert at.deliver(at.message()) == [True]
    item: Any = at.item()
    assert (item.status, len(at.sent("dead"))) == (Status.FAILED, 1), "no flow would undo it"


def test_a_backlog_whose_retry_is_denied_for_a_moment_ends_no_run(at: Scene) -> None:
    at.receives, at.script.pricing = 12, boom
    with intercept(refuses("price-order")):
        assert at.deliver(at.message()) == [False]
        at.clock.advance(seconds=SOME_MINUTES.seconds - 1)
        assert at.deliver(at.message()) == [False]
    item: Any = at.item()
    assert item.status is Status.RUNNING
    assert at.deliver(at.message()) == [True]
    at.clock.advance(seconds=SOME_MINUTES.seconds)
    with intercept(refuses("price-order")):
        assert at.deliver(at.message(retry=1)) == [False], "its queue has taken one between"
