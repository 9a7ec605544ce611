"""What may go wrong while the samples of a flow are worked off. A mishap needs more permissions than a quiet run.

A stage's handler fails once, or rejects its payload. Workers die, once or each time. A newer request comes.
Requests name where their end is told.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from flowguard import Reject
from flowguard.flow import AnyFlow
from flowguard.sim.crash import Died
from flowguard.sim.event_source import MOST_RECEIVES
from flowguard.sim.points import Point
from flowguard.sim.recording import RecordedRecord, read_recording
from flowguard.sim.waiting_records import Delivery
from flowguard.wire.message import Message

REPLIES = "shop-replies"
"""The queue that requests name as their ``reply_to``, of the flows that list none."""

_PLACE = "flowguard"
_LATER = 1_000
"""Milliseconds until a newer request comes."""


@dataclass(frozen=True)
class Mishap:
    """``dies_at`` is the point at which each record's worker dies: once, or ``always``, so that SQS gives it up.

    Then the function of dead letters gets the record, and lives. Where a ``stage`` is named, only its workers die.
    ``broken`` is what happens to a handler. ``replies``: requests name a place for their end. ``renewed``: a newer
    request for the same object comes before SQS delivers the record of a dead worker again.
    """

    name: str
    dies_at: Point | None = None
    stage: str | None = None
    always: bool = False
    broken: Callable[[], AbstractContextManager[None]] = nullcontext
    replies: bool = False
    renewed: bool = False
    _deaths: Counter[str | int] = field(default_factory=Counter, compare=False)

    def __call__(self, point: Point, delivery: Delivery, message: Message | None, /) -> None:
        if delivery.from_dlq or point is not self.dies_at:
            return
        if self.stage is not None and (message is None or message.stage != self.stage):
            return
        one, most = (delivery.number, MOST_RECEIVES) if self.always else (delivery.message_id, 1)
        if self._deaths[one] < most:
            self._deaths[one] += 1
            raise Died(point)

    def of(self, recorded: RecordedRecord) -> Iterator[RecordedRecord]:
        """Yield what comes instead of the record."""
        recorded = _replying(recorded) if self.replies else recorded
        yield recorded
        if self.renewed and _is_request(recorded):
            yield _renewed(recorded)


def mishaps(flows: Sequence[AnyFlow]) -> Iterator[Mishap]:
    """Yield what is tried for some flows."""
    yield Mishap("nothing")
    yield Mishap("replies", replies=True)
    yield Mishap("dies after the claim", Point.AFTER_CLAIM)
    yield Mishap("dies after the commit, and a newer request comes", Point.AFTER_COMMIT, replies=True, renewed=True)
    yield Mishap("dies after each claim", Point.AFTER_CLAIM, always=True, replies=True)
    yield Mishap("dies before each dispatch", Point.BEFORE_DISPATCH, always=True, replies=True)
    for stage in (stage for flow in flows for stage in flow.stages):
        yield Mishap(f"{stage.name} fails once", broken=partial(_fails_once, stage))
        yield Mishap(f"{stage.name} dies", Point.AFTER_COMMIT, stage.name, replies=True, renewed=True)
        yield Mishap(f"{stage.name} rejects", broken=partial(_rejects, stage), replies=True)


@contextmanager
def _fails_once(stage: Any) -> Iterator[None]:
    failed: set[str] = set()
    real = stage.handle

    def handle(self: Any, payload: Any, step: Any) -> Any:
        if step.object_id not in failed:
            failed.add(step.object_id)
            raise ConnectionError("not now")
        return real(self, payload, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "handle", handle)
        yield


@contextmanager
def _rejects(stage: Any) -> Iterator[None]:
    def handle(self: Any, payload: Any, step: Any) -> Any:
        raise Reject("never")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "handle", handle)
        yield


def _place(recorded: RecordedRecord) -> dict[str, Any]:
    """Return what flowguard's own attribute says of the record. A request without it is at its first hop."""
    found = recorded.envelope.attributes.get(_PLACE)
    return json.loads(found.value) if found is not None else {"version": 1, "hop": 1}


def _is_request(recorded: RecordedRecord) -> bool:
    return recorded.envelope.source.is_queue and _place(recorded).get("hop") == 1


def _replying(recorded: RecordedRecord) -> RecordedRecord:
    place = _place(recorded)
    if not _is_request(recorded) or "reply_to" in place:
        return recorded
    return _with(recorded, **{_PLACE: json.dumps({**place, "reply_to": f"sqs:{REPLIES}"})})


def _renewed(recorded: RecordedRecord) -> RecordedRecord:
    later = str((recorded.sent_at or 0) + _LATER)
    sent = {**recorded.raw["attributes"], "SentTimestamp": later}
    sent_later = replace(
        recorded, raw={**recorded.raw, "attributes": sent, "messageId": f"newer-{recorded.envelope.message_id}"}
    )
    return _with(sent_later, uniquerequestid=f"newer-{recorded.envelope.message_id}", requestedat=later)


def _with(recorded: RecordedRecord, **attributes: str) -> RecordedRecord:
    """Return the record with other attributes."""
    given = {
        name: {"dataType": "Number" if name == "requestedat" else "String", "stringValue": text}
        for name, text in attributes.items()
    }
    record = {**recorded.raw, "messageAttributes": {**recorded.raw.get("messageAttributes", {}), **given}}
    [read] = read_recording({"Records": [record]})
    assert isinstance(read, RecordedRecord), read
    return read
