"""Pallets come through the template's own topic, and are cleared by events of its own rule.

One pallet kills its function each time. SQS gives it up, the function of such records parks it, and it is redriven.
"""

from __future__ import annotations

import json

from tests.proofs.e2e.cloud import Cloud
from tests.proofs.e2e.command import flowguard
from tests.proofs.e2e.play import Check, Scene, Until

MODULE = "depot"
LETTERS = "depot-dead-letters"
RECEIVES = 3
"""The ``maxReceiveCount`` that the options of the deployment name."""


def scene(cloud: Cloud) -> Scene:
    cloud.kill("unload", "claimed", "deadly", times=RECEIVES)
    for pallet in ("late", "early", "deadly"):
        if pallet == "early":
            _clear(cloud, pallet)
        for _ in "12" if pallet != "deadly" else "1":
            cloud.publish("pallets-arrived", {"pallet_id": pallet, "pieces": 5})
    yield Until("a pallet is unloaded", lambda: cloud.item("pallets", pallet_id="late") is not None)
    _clear(cloud, "late")
    yield Until("two pallets are stored", lambda: len(cloud.distinct("pallets-stored")) >= 2)
    yield Until("the one that kills its function is a dead letter", lambda: cloud.depth(LETTERS) >= 1)
    yield Check("its function was killed at each delivery", RECEIVES, cloud.deaths("unload", "claimed", "deadly"))
    given = ["--flow-class", "depot:Depot", "--to", "depot-unload", "--all", "--yes", "--json"]
    said = flowguard("dlq", "redrive", LETTERS, *given, env=cloud.environment)
    yield Check("its letter is redriven", ["REDRIVEN"], [json.loads(line)["verdict"] for line in said.splitlines()])
    _clear(cloud, "deadly")
    yield Until("it is stored too", lambda: _told(cloud).count("COMPLETED") >= 3)
    yield Until("the queues are empty", lambda: cloud.settled("depot-unload", "depot-events", "depot-killed"))
    pallets = {one["pallet_id"]: (one["unloaded"], one.get("officer")) for one in cloud.items("pallets")}
    wanted = dict.fromkeys(("late", "early", "deadly"), (1, "olga"))
    yield Check("each pallet is unloaded once and cleared, whichever came first", wanted, pallets)
    ends = sorted(_told(cloud))
    yield Check("each end is told once, copies apart", ["COMPLETED"] * 3 + ["FAILED"], ends)


def _clear(cloud: Cloud, pallet: str) -> None:
    for _ in "12":
        cloud.put_event("customs", "Pallet cleared", {"pallet_id": pallet, "officer": "olga"})


def _told(cloud: Cloud) -> list[str]:
    return [one.body["status"] for one in cloud.distinct("pallets-stored")]
