"""Kills the process that it lives in, at some AWS call on some message's way: no exception, no clean-up.

Or stops it there until another worker has its message: what it writes when it wakes up comes too late.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from flowguard.aws.expressions import NOTE_KILLS
from flowguard.sim.calls import ApiCall, Proceed, Response
from tests.engines.polling import comes_true
from tests.proofs.soak.faults import delivery_of
from tests.proofs.soak.journal import Journal
from tests.proofs.soak.mapping import Record
from tests.proofs.soak.place import place_of


class Point(StrEnum):
    BEFORE_CLAIM = "before-claim"
    AFTER_CLAIM = "after-claim"
    BEFORE_COMMIT = "before-commit"
    AFTER_COMMIT = "after-commit"
    BEFORE_DISPATCH = "before-dispatch"
    AFTER_DISPATCH = "after-dispatch"
    BEFORE_ACK = "before-ack"


NOTHING = "a record that names no object"
"""It dies at its dispatch or its ack."""

LONGEST_STALL = 30
"""Seconds. A message that nobody else has taken by then had not to be done again."""


@dataclass(frozen=True)
class Doom:
    """Which message of the batch brings death, or a stall, and where."""

    object_id: str
    point: Point
    stalls: bool = False


class Deaths:
    """Interceptor. A doomed message that does not get to its point (a refused claim has no commit) kills at the ack."""

    def __init__(self, odds: float, points: Sequence[Point], seed: int, journal: Journal, stall: float = 0) -> None:
        self._odds, self._points, self._seed, self._journal, self._stall = odds, points, seed, journal, stall
        self._doom: Doom | None = None

    def begin(self, records: Sequence[Record]) -> None:
        """Draws for each delivery, so that the same delivery of the same message meets the same fate in each soak."""
        dooms = [doom for record in records if (doom := self._drawn(record)) is not None]
        self._doom = dooms[0] if dooms else None

    def end(self) -> None:
        if self._doom is not None and not self._doom.stalls:
            self._die(Point.BEFORE_ACK)

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if self._doom is None:
            return proceed()
        step = _step(call, self._doom.object_id)
        if step is not None and self._doom.point == f"before-{step}":
            self._meet(self._doom, call)
            return proceed()
        answer = proceed()
        if step is not None and self._doom.point == f"after-{step}":
            self._meet(self._doom, call)
        return answer

    def _drawn(self, record: Record) -> Doom | None:
        draw = random.Random(f"{self._seed} {delivery_of(record)}")
        fate, point = draw.random(), draw.choice(self._points)
        object_id = place_of(record).get("object", NOTHING)
        if fate < self._odds:
            return Doom(object_id, point)
        return Doom(object_id, Point.BEFORE_COMMIT, stalls=True) if fate < self._odds + self._stall else None

    def _meet(self, doom: Doom, call: ApiCall) -> None:
        if not doom.stalls:
            self._die(doom.point)
        self._doom = None
        signal.setitimer(signal.ITIMER_REAL, 0)  # Lambda would kill it: this is the worker whose clock is wrong
        self._journal.write("stalled")
        table, key = _place(call, doom.object_id)
        own = self._owner(call, table, key)
        comes_true(lambda: self._owner(call, table, key) not in (None, own), LONGEST_STALL, every=0.2)

    def _owner(self, call: ApiCall, table: str, key: Any) -> Any:
        """Who has claimed the object last. None where that cannot be read."""
        with suppress(ClientError, BotoCoreError):
            found = call.client.get_item(TableName=table, Key=key, ConsistentRead=True)  # type: ignore[attr-defined]  # of the base class
            return found["Item"]["owner"]
        return None

    def _die(self, point: Point) -> None:
        self._journal.write("killed", point=point.value)
        os.kill(os.getpid(), signal.SIGKILL)


def _step(call: ApiCall, object_id: str) -> str | None:
    """Which step of the message's way the call is. A dispatch is the whole batch's."""
    if call.operation == "SendMessageBatch":
        return "dispatch"
    if call.operation == "BatchExecuteStatement":
        found = _statement(call, object_id)
        return None if found is None else "claim" if "lease_until" in found["Statement"] else "commit"
    update = _update(call)
    if not update.get("Key", {}).get("pk", {}).get("S", "").endswith(f"#{object_id}"):
        return None
    return "claim" if _is_of_claim(update) else "commit"


def _is_of_claim(update: Any) -> bool:
    """A worker that notes who was killed before it is still at its claim: it has not called the handler."""
    notes_kills = update.get("UpdateExpression") == NOTE_KILLS
    return notes_kills or ":lease_until" in update.get("ExpressionAttributeValues", {})


def _statement(call: ApiCall, object_id: str) -> Any:
    """The statement of a batch that is about the object's run item. None where none is."""
    of_it = (one for one in call.params["Statements"] if _run_key(one, object_id) is not None)
    return next(of_it, None)


def _run_key(statement: Any, object_id: str) -> str | None:
    texts = (one["S"] for one in statement["Parameters"] if "S" in one)
    return next((text for text in texts if text.startswith("run#") and text.endswith(f"#{object_id}")), None)


def _place(call: ApiCall, object_id: str) -> tuple[str, Any]:
    """The table and the key of the run item that a claim or a commit is about."""
    if call.operation != "BatchExecuteStatement":
        update = _update(call)
        return update["TableName"], update["Key"]
    statement = _statement(call, object_id)
    table = statement["Statement"].split('"')[1]
    return table, {"pk": {"S": _run_key(statement, object_id)}, "sk": {"S": "run"}}


def _update(call: ApiCall) -> Any:
    """What the call does to a run item; where it is not about one, whatever it says."""
    return call.params["TransactItems"][0]["Update"] if call.operation == "TransactWriteItems" else call.params
