"""Changes of a table come through the stream and the mapping that the template makes.

MiniStack goes on behind what a function names as failed, and brings a batch again whose function has died.
"""

from __future__ import annotations

from tests.proofs.e2e.cloud import Cloud
from tests.proofs.e2e.play import Check, Scene, Until

MODULE = "shelves"


def scene(cloud: Cloud) -> Scene:
    cloud.kill("fill", "completed", "coffee")
    for sku, left in (("tea", 50), ("tea", 4), ("coffee", 3), ("sugar", 40)):
        cloud.put("shelves", {"sku": sku, "left": left})
    yield Until("both are asked for", lambda: len(cloud.distinct("shelves-to-fill")) >= 2)
    yield Check("a function was killed after its commit", 1, cloud.deaths("fill", "completed", "coffee"))
    asked = {one.body["sku"]: one.body["left"] for one in cloud.distinct("shelves-to-fill")}
    yield Check("what is low is asked for, as it was left", {"tea": 4, "coffee": 3}, asked)
    once = {one["sku"]: one["asked"] for one in cloud.items("restocks")}
    yield Check("each is asked for once", {"tea": 1, "coffee": 1}, once)
    yield Until("nothing is on its way", lambda: cloud.settled("shelves"))
    letters = cloud.depth("shelves-dead-letters")
    yield Check("nothing was given up", 0, letters)
