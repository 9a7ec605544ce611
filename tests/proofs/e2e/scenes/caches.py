"""A cache that is rebuilt when it is reset: of two resets the newer one wins."""

from __future__ import annotations

from tests.proofs.e2e.cloud import Cloud
from tests.proofs.e2e.play import Check, Scene, Until

MODULE = "flows.triggered_cache.handlers"
QUEUES = ("cache-resets", "cache-to-build", "cache-to-publish")


def scene(cloud: Cloud) -> Scene:
    for revision in (2, 1):
        at = {"requestedat": str(1767323520000 + revision)}
        reset = {"cache_key": "home", "revision": revision, "parts": ["title", "offers"]}
        cloud.send("cache-resets", reset, at, copies=2)
    yield Until("the newer revision is published", lambda: 2 in _published(cloud))
    yield Until("the queues are empty", lambda: cloud.settled(*QUEUES))
    entry = cloud.item("cache-entries", cache_key="home") or {}
    yield Check(
        "the newer reset wins, though it came first", (2, "READY"), (entry.get("revision"), entry.get("status"))
    )
    yield Check("its subscribers hear of it once, copies apart", 1, _published(cloud).count(2))


def _published(cloud: Cloud) -> list[int]:
    return [one.body["revision"] for one in cloud.distinct("cache-subscribers")]
