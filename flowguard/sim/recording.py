"""Recorded events, split into records with the moment at which each is delivered."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flowguard.names.ids import id_problem
from flowguard.payload.http_source import http_source
from flowguard.sim.world import START
from flowguard.wire.envelope import BadRecord, Envelope, normalize
from flowguard.wire.notification import LAST_MOMENT
from flowguard.wire.records import find_records


@dataclass(frozen=True, slots=True)
class RecordedRecord:
    """A recorded record. ``raw`` is the record as it was read, or the payload of a direct invocation."""

    envelope: Envelope
    raw: Any

    @property
    def sent_at(self) -> int | None:
        """Return when the record was sent, in ms since 1970. The queue's time goes before the topic's and the bus's."""
        envelope = self.envelope
        by_bus = envelope.event.time if envelope.event is not None else None
        return next((at for at in (envelope.sent_at, envelope.published_at, by_bus) if at is not None), None)


def read_recording(event: Any) -> list[RecordedRecord | BadRecord]:
    """Read the records of an event in order.

    It may have any shape that a function understands, or be what boto3 has received, with or without its receipts.
    """
    event = _with_receipts(event)
    records = find_records(event)
    raws = [event] if records is None else [record for _, record in records]
    return [
        read if isinstance(read, BadRecord) else RecordedRecord(read, raw)
        for read, raw in zip(_normalized(event), raws, strict=True)
    ]


def _with_receipts(event: Any) -> Any:
    """Give a receipt handle to each message that has none.

    A function gets none without its receipt, so there such an object may be anybody's payload. Who notes messages down
    leaves receipts out: they are no use later.
    """
    if isinstance(event, list):
        return [_with_receipt(message) for message in event]
    if isinstance(event, dict) and isinstance(messages := event.get("Messages"), list):
        return event | {"Messages": [_with_receipt(message) for message in messages]}
    return _with_receipt(event)


def _with_receipt(message: Any) -> Any:
    """Return what boto3 has received with a receipt. What has other fields is something else."""
    if not isinstance(message, dict) or not {"MessageId", "Body"} <= message.keys() <= _RECEIVED:
        return message
    return message | {"ReceiptHandle": "left out"}


_RECEIVED: Final = frozenset(
    {"MessageId", "Body", "Attributes", "MessageAttributes", "MD5OfBody", "MD5OfMessageAttributes"}
)
"""The fields of a message in the answer to ReceiveMessage, but for its receipt."""


def _normalized(event: Any) -> list[Envelope | BadRecord]:
    """Read the records. An HTTP request has its gateway's id and time; a load balancer gives it neither."""
    if http_source(event) is None:
        return normalize(event)
    context = event["requestContext"]
    request_id, at = context.get("requestId"), context.get("timeEpoch", context.get("requestTimeEpoch"))
    return normalize(
        event,
        invocation_id=request_id
        if isinstance(request_id, str) and request_id and id_problem(request_id) is None
        else None,
        received_at=at if type(at) is int and 0 <= at <= LAST_MOMENT else None,
    )


@dataclass(frozen=True, slots=True)
class PlannedDelivery:
    """A planned delivery. ``at`` is ms since 1970."""

    at: int
    recorded: RecordedRecord


def plan(recorded: Sequence[RecordedRecord], *, repeat: int = 1, shuffle: int | None = None) -> list[PlannedDelivery]:
    """Plan the deliveries at the times when the records were sent.

    A record that does not say when it was sent comes with the one before it in the files. A shuffle leaves the moments
    as they are and deals the records out to them anew.
    """
    timed = sorted(_timed(recorded), key=lambda delivery: delivery.at)
    copies = [delivery for delivery in timed for _ in range(repeat)]
    if shuffle is None:
        return copies
    dealt = [copy.recorded for copy in copies]
    random.Random(shuffle).shuffle(dealt)  # noqa: S311 - repeatable on purpose
    return [PlannedDelivery(slot.at, record) for slot, record in zip(copies, dealt, strict=True)]


def _timed(recorded: Iterable[RecordedRecord]) -> list[PlannedDelivery]:
    records = list(recorded)
    at = min((record.sent_at for record in records if record.sent_at is not None), default=START)
    planned = []
    for record in records:
        at = record.sent_at if record.sent_at is not None else at
        planned.append(PlannedDelivery(at, record))
    return planned
