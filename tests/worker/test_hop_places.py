"""The places of one attempt, asked by themselves: when it looks again, who looks, and what it leaves as it was."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest

from flowguard.aws import place_items
from flowguard.events import EventType
from flowguard.limit import PerKey
from flowguard.sim.calls import ApiCall
from flowguard.worker import limits
from tests.worker.crowd import START
from tests.worker.limited import Order, all_end, crowd_of, flow_of, occupy, places_of

MINUTE: Final = 60_000


def looks_at(crowd: Any) -> int:
    until: int = crowd.item("o0").back_off.until - crowd.now_ms
    return until


def test_an_error_after_the_place_was_taken_gives_it_back_at_once() -> None:
    """The commit meets an outage. The place is free before the lease is over."""
    from botocore.exceptions import EndpointConnectionError

    def fails(call: ApiCall) -> None:
        if call.operation == "UpdateItem" and "committed_at" in str(call.params["UpdateExpression"]) and not seen:
            seen.append(1)
            raise EndpointConnectionError(endpoint_url="https://dynamodb")

    seen: list[int] = []
    with crowd_of(flow_of(), before=fails) as crowd:
        crowd.start(Order(order_id="o0"))
        crowd.run(1_500)
        assert seen
        assert places_of(crowd).is_empty
        crowd.run()
        all_end(crowd, 1)


@pytest.mark.parametrize(("limit", "made"), [(None, False), (PerKey("customer", at_once=1), True)])
def test_only_a_stage_with_limits_has_places(limit: PerKey | None, made: bool) -> None:
    arrival: Any = type("Arrival", (), {"stage": flow_of(limit).stages[0], "message": None})
    nowhere: Any = type("Arrival", (), {"stage": None, "message": None})
    worker: Any = None
    assert limits.places_of(worker, worker, nowhere, worker) is None
    if not made:
        assert limits.places_of(worker, worker, arrival, worker) is None


def test_a_hop_behind_the_first_three_does_not_look_when_a_place_lapses() -> None:
    with crowd_of(flow_of(), slots=8) as crowd:
        occupy(crowd, lease=1_000)
        for number in range(1, 5):
            crowd.start(Order(order_id=f"o{number}"))
        crowd.start(Order(order_id="o0"), 200)
        crowd.run(600)
        assert looks_at(crowd) >= 9_000


@pytest.mark.parametrize("seed", range(3))
def test_looks_are_spread(seed: int) -> None:
    with crowd_of(flow_of(), seed=seed) as crowd:
        occupy(crowd, lease=20 * MINUTE)
        crowd.start(Order(order_id="o0"))
        crowd.run(300)
        assert 9_000 <= looks_at(crowd) <= 16_000


def test_who_has_waited_long_looks_after_half_of_that_and_after_ten_minutes_at_most() -> None:
    with crowd_of(flow_of()) as crowd:
        for number in range(12):
            crowd.at(number * 20 * MINUTE, lambda: occupy(crowd, lease=25 * MINUTE))
        crowd.start(Order(order_id="o0"), 100)
        crowd.run(20 * MINUTE)
        assert 3 * MINUTE < looks_at(crowd) <= 15 * MINUTE
        crowd.run(220 * MINUTE)
        assert looks_at(crowd) <= 15 * MINUTE
        assert crowd.told(EventType.IN_LINE) < 60


def test_a_flow_that_supersedes_waits_whatever_it_takes_for_abandoned() -> None:
    with crowd_of(flow_of(abandoned_after=timedelta(seconds=1))) as crowd:
        occupy(crowd, lease=20 * MINUTE)
        crowd.start(Order(order_id="o0"))
        crowd.run(300)
        assert looks_at(crowd) >= 9_000


def test_who_cannot_be_called_looks_before_its_turn_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place_items, "LONGEST_TEXT", 1)
    with crowd_of(flow_of()) as crowd:
        occupy(crowd, lease=20 * MINUTE)
        crowd.start(Order(order_id="o0"))
        crowd.run(5 * MINUTE)
        assert looks_at(crowd) <= 15_000
        assert crowd.now_ms > START
