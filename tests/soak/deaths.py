"""Kills the process that it lives in, at some AWS call on some message's way: no exception, no clean-up."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from flowguard.local.calls import ApiCall, Proceed, Response
from tests.soak.journal import Journal
from tests.soak.mapping import Record


class Point(StrEnum):
    BEFORE_CLAIM = "before-claim"
    AFTER_CLAIM = "after-claim"
    BEFORE_COMMIT = "before-commit"
    AFTER_COMMIT = "after-commit"
    BEFORE_DISPATCH = "before-dispatch"
    AFTER_DISPATCH = "after-dispatch"
    BEFORE_ACK = "before-ack"


@dataclass(frozen=True)
class Doom:
    """Which message of the batch brings death, and where."""

    object_id: str
    point: Point


class Deaths:
    """Interceptor. A doomed message that does not get to its point (a refused claim has no commit) kills at the ack."""

    def __init__(self, odds: float, points: Sequence[Point], seed: int, journal: Journal) -> None:
        self._odds, self._points, self._seed, self._journal = odds, points, seed, journal
        self._doom: Doom | None = None

    def begin(self, records: Sequence[Record]) -> None:
        """Draws for each delivery, so that the same delivery of the same message meets the same fate in each soak."""
        dooms = [doom for record in records if (doom := self._drawn(record)) is not None]
        self._doom = dooms[0] if dooms else None

    def end(self) -> None:
        if self._doom is not None:
            self._die(Point.BEFORE_ACK)

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if self._doom is None:
            return proceed()
        step = _step(call, self._doom.object_id)
        if step is not None and self._doom.point == f"before-{step}":
            self._die(self._doom.point)
        answer = proceed()
        if step is not None and self._doom.point == f"after-{step}":
            self._die(self._doom.point)
        return answer

    def _drawn(self, record: Record) -> Doom | None:
        request_id, place = (
            record["messageAttributes"][name]["stringValue"] for name in ("uniquerequestid", "flowguard")
        )
        draw = random.Random(f"{self._seed} {request_id} {place} {record['attributes']['ApproximateReceiveCount']}")
        if draw.random() >= self._odds:
            return None
        return Doom(json.loads(place)["object"], draw.choice(self._points))

    def _die(self, point: Point) -> None:
        self._journal.write("killed", point=point.value)
        os.kill(os.getpid(), signal.SIGKILL)


def _step(call: ApiCall, object_id: str) -> str | None:
    """Which step of the message's way the call is. A dispatch is the whole batch's."""
    if call.operation == "SendMessageBatch":
        return "dispatch"
    update: Any = call.params
    if call.operation == "TransactWriteItems":
        update = call.params["TransactItems"][0]["Update"]
    if not update.get("Key", {}).get("pk", {}).get("S", "").endswith(f"#{object_id}"):
        return None
    return "claim" if ":lease_until" in update["ExpressionAttributeValues"] else "commit"
