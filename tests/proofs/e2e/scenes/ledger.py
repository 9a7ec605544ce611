"""Bookings come through a FIFO queue, each account's in order. A receipt is too long for an item, so the bucket has it.

The function dies after it has committed the long one: what it had to send is read from the bucket. A message of a later
hop that nobody has signed is let lie. All other scenes are played with signed messages too.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator
from typing import Any, Final

from tests.proofs.e2e.cloud import TEXTS, Cloud
from tests.proofs.e2e.play import Check, Scene, Until

MODULE = "ledger"
RECEIPT: Final = "".join(random.Random(1).choices(string.ascii_letters, k=80_000))
"""It is kept compressed, and what is longer than 32 KB then goes to the bucket."""


def scene(cloud: Cloud) -> Scene:
    cloud.kill("book", "committed", "long")
    for account, number, more in _bookings():
        booking = {"booking_id": more.pop("booking_id", f"{account}-{number}"), "account": account, "number": number}
        cloud.send("bookings.fifo", {**booking, **more}, group=account, copies=2)
    cloud.send("bookings-to-report", {"receipt": "forged"}, _second_hop("forged"))
    yield Until("each booking is reported", lambda: len(_reported(cloud)) >= 7)
    yield Until("the queue is empty", lambda: cloud.settled("bookings.fifo"))
    numbers = {one["account"]: one["numbers"] for one in cloud.items("accounts")}
    wanted = {"steady": [1, 2, 3], "failing": [1, 2, 3], "long": [1]}
    yield Check("each account has its bookings once and in order, also behind one that failed", wanted, numbers)
    yield Check("its function was killed after it had committed", 1, cloud.deaths("book", "committed", "long"))
    lengths = {one["booking_id"]: one["receipt"] for one in _reported(cloud) if one["receipt"]}
    yield Check("a text that no item holds arrives whole", {"long": len(RECEIPT)}, lengths)
    keys = [one["Key"] for one in cloud.client("s3").list_objects_v2(Bucket=TEXTS).get("Contents", ())]
    yield Check(
        "the bucket has it under the flow's name", True, any(key.startswith("flowguard/ledger/") for key in keys)
    )
    yield Until("what nobody has signed is left in its queue", lambda: cloud.depths("bookings-to-report") == (0, 1, 0))
    yield Check("and nobody took it for a message of a run that is gone", 0, cloud.depth("ledger-dead-letters"))


def _bookings() -> Iterator[tuple[str, int, dict[str, Any]]]:
    for number in (1, 2, 3):
        yield "steady", number, {}
        yield "failing", number, {"fails": 1} if number == 1 else {}
    yield "long", 1, {"booking_id": "long", "receipt": RECEIPT}


def _second_hop(booking: str) -> dict[str, str]:
    place = {"version": 1, "hop": 2, "object": booking}
    return {
        "flowstage": "ledger/report",
        "uniquerequestid": booking,
        "requestedat": "1767323520000",
        "flowguard": json.dumps(place),
    }


def _reported(cloud: Cloud) -> list[Any]:
    return [one.body["result"] for one in cloud.distinct("bookings-reported")]
