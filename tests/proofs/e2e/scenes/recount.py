"""A night asks every shop by a group; one of them is closed. The night comes twice."""

from __future__ import annotations

from tests.proofs.e2e.cloud import Cloud
from tests.proofs.e2e.play import Check, Scene, Until

MODULE = "flows.nightly_recount.handlers"
NIGHT = "2026-01-05"
SHOPS = 15
"""The thirteenth is closed. Shop n has n pieces."""


def scene(cloud: Cloud) -> Scene:
    cloud.send("nights", {"night": NIGHT, "shops": SHOPS}, {"uniquerequestid": "night-1"}, copies=2)
    yield Until("the night has its total", lambda: cloud.item("night-totals", night=NIGHT) is not None)
    yield Until("the queues are empty", lambda: cloud.settled("nights", "shops-to-count", "nights-counted"))
    counted = sorted(int(one["pieces"]) for one in cloud.items("shop-counts"))
    open_shops = [number for number in range(1, SHOPS + 1) if number != 13]
    yield Check("each open shop has counted once", open_shops, counted)
    total = cloud.item("night-totals", night=NIGHT) or {}
    found = tuple(int(total[name]) for name in ("pieces", "counted", "missing"))
    yield Check("the night adds up what they answered", (sum(open_shops), len(open_shops), 1), found)
