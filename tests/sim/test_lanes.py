"""How long an urgent request waits behind 100,000 others: in one queue, and in a lane of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest

from flowguard.client import FlowClient
from flowguard.lanes import Lane, shares
from tests.deploy import laned
from tests.sim.fair_queue import Consumers, Run, delays
from tests.worker.test_tenant import Kept

AT_ONCE = 20
WORK = 200
"""Of a message, ms."""

MANY = 100_000
BURST = 40
"""Urgent requests at one moment."""


def queue_of(lane: str) -> str:
    """The queue of a request for a lane, as flowguard sends it."""
    sender = Kept()
    FlowClient(sender).start(laned.Orders, laned.Order(order_id="o1"), lane=lane)
    return str(sender.sent[0].to).removeprefix("sqs:")


def waits_in(lanes: Mapping[str, int], requests: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Return how long the requests of each lane wait. Each queue has as many at once as its mapping takes."""
    queues: dict[str, list[tuple[int, str]]] = {}
    for lane, times in requests.items():
        queue = queue_of(lane) if len(lanes) > 1 else next(iter(lanes))
        queues.setdefault(queue, []).extend((at, lane) for at in times)
    waited: dict[str, list[int]] = {lane: [] for lane in requests}
    for queue, given in queues.items():
        given.sort(key=lambda pair: pair[0])
        for (_, lane), wait in zip(
            given, delays([Run(at, (None,)) for at, _ in given], Consumers(lanes[queue], WORK, 5_000)), strict=True
        ):
            waited[lane].append(wait)
    return waited


REQUESTS = {
    "normal": [0] * MANY,
    "urgent": [second * 1_000 + 500 for second in range(300) for _ in range(1 if second % 60 else BURST)],
}


@pytest.mark.slow("a hundred thousand messages")
def test_in_one_queue_an_urgent_request_waits_for_all_that_came_before() -> None:
    waited = waits_in({"orders": AT_ONCE}, REQUESTS)
    assert max(waited["urgent"]) > 990_000


@pytest.mark.slow("a hundred thousand messages")
def test_in_its_lane_an_urgent_request_waits_for_urgent_ones_alone() -> None:
    """Nobody waits where there is room, and of a burst the last one until those before it are done."""
    share = shares(laned.Orders.inbox_lanes, AT_ONCE)
    assert share == {"orders": 5, "orders-urgent": 15}
    waited = waits_in(share, REQUESTS)
    assert max(waited["urgent"]) <= (math.ceil(BURST / share["orders-urgent"]) - 1) * WORK
    assert sorted(waited["urgent"])[len(waited["urgent"]) // 2] == 0
    alone = waits_in(share, {"urgent": REQUESTS["urgent"]})
    assert waited["urgent"] == alone["urgent"], "what is normal changes nothing for it"


def test_what_is_normal_has_its_share_under_a_flood_of_urgent_ones() -> None:
    share = shares((Lane("normal", "orders"), Lane("urgent", "orders-urgent", weight=3)), AT_ONCE)
    waited = waits_in(share, {"normal": [second * 1_000 for second in range(20)], "urgent": [0] * 2_000})
    assert max(waited["normal"]) == 0
