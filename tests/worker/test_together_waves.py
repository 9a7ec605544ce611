"""Records that go at once, wave by wave: what stays holds its own group alone, and nothing is begun too late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from botocore.exceptions import ClientError

from flowguard.errors import KeyUnavailable
from flowguard.events import EventType
from flowguard.names.ids import ObjectId, RequestId
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.testing import sqs_event
from flowguard.testing.context import FakeContext
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import Message
from flowguard.worker.routing import Arrival, Routes
from flowguard.worker.together import Turn, waves
from flowguard.worker.trust import Trust
from tests.scene import Scene, scene
from tests.worker.test_together import (
    BATCH,
    UPDATE,
    deliver_fifo,
    fails_for,
    fifo,
    order,
    orders,
    plain,
    taking,
    together,
)


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene(plain) as found:
        yield together(found)


def newer(at: Scene, number: int) -> Message:
    """A later request for the object, which goes in a later wave than the one before it."""
    later = order(at, number, requested_at=order(at, number).requested_at + 1)
    return later._replace(request_id=RequestId(f"later-{number}"))


def handled(at: Scene) -> list[str]:
    return [name for name, _, _ in at.script.handled]


# -- groups -----------------------------------------------------------------------------------------------------------


def test_of_groups_that_are_held_nothing_more_is_claimed_or_begun(at: Scene) -> None:
    at.script.pricing = fails_for("o0", "o1")
    records = [fifo(order(at, place), place, group) for place, group in enumerate(["red", "blue", "red", "blue"])]
    assert deliver_fifo(at, *records) == [0, 1, 2, 3]
    assert handled(at) == ["o0", "o1"]
    assert [at.item("o2"), at.item("o3")] == [None, None]
    assert at.told(EventType.RETURNED) == 2


def test_a_record_that_stays_in_a_standard_queue_holds_no_later_wave(at: Scene) -> None:
    unknown = order(at, 9)._replace(stage="nowhere", flow="nobody")
    assert at.deliver(unknown, order(at, 0), newer(at, 0)) == [False, True, True]
    assert handled(at) == ["o0", "o0"]


def test_what_the_records_of_fifo_groups_send_is_sent_once(at: Scene) -> None:
    records = [fifo(order(at, place), place, group) for place, group in enumerate(["red", "blue", "red"])]
    assert deliver_fifo(at, *records) == []
    assert sorted(one["Body"] for one in at.sent("emails")) == [f'{{"priced":"o{place}"}}' for place in range(3)]
    assert len(at.sent("close-order")) == 3


# -- time -------------------------------------------------------------------------------------------------------------


def ten_seconds(at: Scene) -> FakeContext:
    return FakeContext(timeout=timedelta(seconds=10), clock=at.clock)


def slow_request(at: Scene, number: int) -> Callable[[ApiCall, Proceed], Response]:
    """The common call of this number takes nearly all the time that the invocation has."""
    met: list[None] = []

    def watch(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        if call.operation == BATCH:
            met.append(None)
            if len(met) == number:
                at.clock.advance(ms=9_500)
        return answer

    return watch


def test_the_first_record_is_begun_though_the_claims_took_all_the_time(at: Scene) -> None:
    with intercept(slow_request(at, 1)):
        assert at.deliver(*orders(at, 3), context=ten_seconds(at)) == [True, False, False]
    assert handled(at) == ["o0"]
    assert at.calls == [BATCH, UPDATE, BATCH], "the claim that it has is used, and those of the others are given back"


@pytest.mark.parametrize(("took", "opened"), [(9_000, ["0", "0"]), (8_999, ["0", "1", "2"])])
def test_a_record_is_not_even_opened_when_the_key_of_the_first_took_all_the_time(
    at: Scene, monkeypatch: pytest.MonkeyPatch, took: int, opened: list[str]
) -> None:
    seen: list[str] = []
    resolve = Routes.resolve

    def slow(routes: Routes, envelope: Envelope, now: int, trust: Trust | None) -> Arrival:
        if not seen:
            at.clock.advance(ms=took)
        arrival = resolve(routes, envelope, now, trust)
        seen.append(arrival.message.object_id[1:])
        if seen == ["0"]:
            raise KeyUnavailable("alias/x", "ReadTimeoutError")
        return arrival

    monkeypatch.setattr(Routes, "resolve", slow)
    at.deliver(*orders(at, 3), context=ten_seconds(at))
    assert seen[: len(opened)] == opened
    assert len(seen) >= len(opened)
    assert (at.told(EventType.RETURNED) == 2) is (took == 9_000)


def test_after_an_outage_what_has_no_time_either_is_left_alone_for_the_outage(at: Scene) -> None:
    """It comes back after a pause, and not at once."""

    def down(call: ApiCall, proceed: Proceed) -> Response:
        if call.service == "dynamodb" and at.script.handled:
            raise ClientError({"Error": {"Code": "InternalServerError", "Message": "no"}}, call.operation)
        return proceed()

    at.script.pricing = lambda step: at.clock.advance(ms=9_500)
    with intercept(down):
        assert at.deliver(*orders(at, 3), context=ten_seconds(at)) == [False] * 3
    assert (at.told(EventType.BROKEN), at.told(EventType.RETURNED)) == (1, 2)


def test_of_a_later_wave_nothing_is_begun_when_the_claims_took_all_the_time(at: Scene) -> None:
    with intercept(slow_request(at, 3)):
        records = *orders(at, 2), newer(at, 0), newer(at, 1)
        assert at.deliver(*records, context=ten_seconds(at)) == [True, True, False, False]
    assert handled(at) == ["o0", "o1"]
    assert at.told(EventType.RETURNED) == 2


def test_with_little_time_from_the_start_the_first_record_alone_is_begun(at: Scene) -> None:
    context = FakeContext(timeout=timedelta(milliseconds=900), clock=at.clock)
    assert at.deliver(*orders(at, 3), context=context) == [True, False, False]
    assert handled(at) == ["o0"]
    assert at.calls == [UPDATE, UPDATE]


def test_what_was_claimed_and_not_begun_may_be_claimed_by_another_at_once(at: Scene) -> None:
    at.script.pricing = taking(at, 9_100)
    assert at.deliver(*orders(at, 3), context=ten_seconds(at)) == [True, False, False]
    assert at.calls == [BATCH, UPDATE, BATCH]
    assert at.told(EventType.RETURNED) == 2
    at.script.pricing = lambda step: None
    assert at.deliver(*orders(at, 3)) == [True] * 3
    assert handled(at) == ["o0", "o1", "o2"]


def test_what_was_refused_and_has_no_time_left_is_returned_and_harms_no_other(at: Scene) -> None:
    assert at.deliver(order(at, 1)) == [True]
    at.script.pricing = taking(at, 9_100)
    assert at.deliver(*orders(at, 3), context=ten_seconds(at)) == [True, False, False]
    at.script.pricing = lambda step: None
    assert at.deliver(*orders(at, 3)) == [True] * 3
    assert handled(at) == ["o1", "o0", "o2"]


def test_the_warning_that_time_is_short_names_what_was_begun_and_not_what_was_returned(at: Scene) -> None:
    rings: list[Callable[[], None]] = []

    def alarm(ms: int, ring: Callable[[], None]) -> Callable[[], None]:
        rings.append(ring)
        return rings.clear

    def ring_while_sending(call: ApiCall, proceed: Proceed) -> Response:
        if call.service == "sqs" and "Send" in call.operation and rings:
            rings.pop()()
        return proceed()

    at.handler = at.handler.using(at.handler._services._replace(alarm=alarm))
    at.script.pricing = taking(at, 9_100)
    with intercept(ring_while_sending):
        assert at.deliver(*orders(at, 3), context=ten_seconds(at)) == [True, False, False]
    [warning] = [event for event in at.tally.events if event.type is EventType.TIME_SHORT]
    assert warning.message is not None
    assert warning.message.object_id == "o0"


# -- many records -----------------------------------------------------------------------------------------------------


def test_a_wave_has_a_hundred_records_and_no_later_one_of_an_object_goes_before_an_earlier_one(at: Scene) -> None:
    (envelope,) = normalize(sqs_event("orders", {"order_id": "o1"}))
    assert isinstance(envelope, Envelope)
    turns = [Turn(place, envelope, about=("orders", ObjectId(f"o{min(place, 100)}"))) for place in range(103)]
    assert [[turn.place for turn in wave] for wave in waves(turns)] == [[*range(100)], [100], [101], [102]]


def test_of_a_large_batch_messages_are_sent_while_others_are_not_claimed_yet(at: Scene) -> None:
    told: list[str] = []

    def noted(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation in ("BatchExecuteStatement", "SendMessageBatch"):
            told.append(call.operation)
        return proceed()

    with intercept(noted):
        assert all(at.deliver(*orders(at, 120)))
    first, last = told.index("SendMessageBatch"), len(told) - 1 - told[::-1].index("BatchExecuteStatement")
    assert first < last
    assert at.told(EventType.SENT) == 240
