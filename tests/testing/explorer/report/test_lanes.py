"""What a picture of a schedule is made of: who got which record from whom, and what went wrong at which call."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.testing import sqs_event
from flowguard.testing.explorer import Trace, replay
from flowguard.testing.explorer.record.history import DeliveryRecord, History
from flowguard.testing.explorer.record.schedule import Schedule
from flowguard.testing.explorer.report.lanes import Called, Came, LaneDelivery, LaneEnding, Lanes, Origin, Said, lanes
from tests.testing.explorer import seeded

SECRET = "card 4111"


def traced(stage: Any, schedule: str, *orders: str) -> Trace:
    messages: list[Any] = [sqs_event("orders", {"order_id": order}) for order in orders or ("o1",)]
    flow = stage if stage is seeded.TwoStages else seeded.flow_of(stage)
    return replay(flow, messages, schedule, tables=seeded.TABLES)


def deliveries(one: Trace) -> list[LaneDelivery]:
    return [moment for moment in one.lanes.moments if isinstance(moment, LaneDelivery)]


def calls(one: Trace) -> list[Called]:
    return [moment for moment in one.lanes.moments if isinstance(moment, Called)]


def test_a_redelivery_comes_from_the_worker_that_died() -> None:
    one = traced(seeded.PlainAdd, "a2")
    assert [(made.worker, made.receive, made.origin) for made in deliveries(one)] == [
        (1, 1, None),
        (2, 2, Origin(Came.AGAIN, 1)),
    ]
    assert [lane.ending for lane in one.lanes.lanes] == [LaneEnding.DIED, LaneEnding.ACKED]
    assert [moment.at for moment in deliveries(one)] == [0, 30_000]


def test_a_fault_stands_at_the_call_that_it_struck() -> None:
    struck = {made.number: made.strikes for made in calls(traced(seeded.PlainAdd, "a2")) if made.strikes}
    assert struck == {2: ("dies after it (applied)",)}
    (held,) = [made for made in calls(traced(seeded.PlainAdd, "z2")) if made.strikes]
    assert (held.worker, held.strikes) == (1, ("held up, before it",))


def test_the_next_hop_comes_from_the_call_that_sent_it() -> None:
    one = traced(seeded.TwoStages, "none")
    first, second = deliveries(one)
    assert second.origin is not None
    sending = calls(one)[(second.origin.call or 0) - 1]
    assert (second.origin.came, second.origin.worker) == (Came.SENT, first.worker)
    assert (sending.sent, sending.records) == (("sqs:second",), (second.record,))
    assert {made.records for made in calls(one) if made is not sending} == {()}


def test_a_copy_comes_from_whoever_got_the_first() -> None:
    one = traced(seeded.Recorded, "x1")
    assert [made.origin for made in deliveries(one)] == [None, Origin(Came.COPIED, 1)]
    assert Said(0, None, "delivery 1 happens twice") in one.lanes.moments


def test_what_a_call_did_to_the_run_is_said() -> None:
    assert [made.effects for made in calls(traced(seeded.PlainAdd, "none"))] == [
        ("claimed: epoch 1, hop 1",),
        (),
        ("committed: hop 1, COMPLETED",),
    ]


def test_several_objects_are_told_apart() -> None:
    said = [text for made in calls(traced(seeded.PlainPut, "none", "o1", "o2")) for text in made.effects]
    assert {text.partition(":")[0] for text in said} == {"flow-plain-put#o1", "flow-plain-put#o2"}


def by_hand(*deliveries: DeliveryRecord) -> Lanes:
    history = History(Schedule(), start=1000)
    history.deliveries.extend(deliveries)
    return lanes(history)


def test_a_worker_without_a_call_is_there_too() -> None:
    one = by_hand(
        DeliveryRecord(1, 1000, "orders", 1, 1, 0, from_dlq=False),
        DeliveryRecord(2, 1020, "orders", 2, 1, 0, from_dlq=False),
    )
    assert [(moment.worker, moment.at) for moment in one.moments] == [(1, 0), (2, 20)]


def test_of_an_error_only_the_name_is_told() -> None:
    entry = DeliveryRecord(1, 1000, "orders", 1, 1, 0, from_dlq=False, why=f"RuntimeError: {SECRET}: refused")
    (lane,) = by_hand(entry).lanes
    assert (lane.ending, lane.why) == (LaneEnding.LEFT, "RuntimeError")


def test_a_dead_letter_that_is_sent_back_says_so() -> None:
    one = traced(seeded.PlainPut, "r1", "")
    assert [made.letter for made in deliveries(one)] == [None, 1]


@pytest.mark.parametrize("schedule", ["none", "e1", "a2", "z2"])
def test_the_payload_is_not_in_it(schedule: str) -> None:
    messages: list[Any] = [sqs_event("orders", {"order_id": "o1", "amount": 5, "note": SECRET})]
    one = replay(seeded.flow_of(seeded.Recorded), messages, schedule, tables=seeded.TABLES)
    assert SECRET not in repr(one.lanes)
