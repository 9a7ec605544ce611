"""One line of a replay. It shows a record that was delivered, and everything that followed from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from flowguard.events import EventType
from flowguard.protocol.waiting import DEADLINE
from flowguard.sim.delivery_trace import DeliveryTrace, Sent, Written
from flowguard.sim.points import Point
from flowguard.sim.waiting_records import Delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """One delivery of a record.

    ``at`` is ms since 1970, ``receive`` counts from 1. ``expired`` are the keys of what expired in the run table before
    it. ``calls`` are those to DynamoDB, ``status`` that of the response to an HTTP request. ``verdict`` is that of
    the claim, ``outcome`` the result of the work. ``to_dlq`` says that this delivery was the last: SQS moves the
    record on to its dead-letter queue. ``from_dlq`` says that the function of that queue (``dlq_handler``) had it.
    """

    at: int
    record: str
    queue: str | None
    receive: int
    flow: str | None
    stage: str | None
    object_id: str | None
    request_id: str | None
    hop: int | None
    attempt: int | None
    verdict: str | None
    outcome: str | None
    writes: tuple[Written, ...]
    refused: tuple[Written, ...]
    sends: tuple[Sent, ...]
    calls: int
    status: int | None
    crash: Point | None
    acked: bool
    to_dlq: bool
    from_dlq: bool
    why: str | None
    events: Mapping[EventType, int]
    expired: tuple[str, ...] = ()

    @property
    def is_not_due(self) -> bool:
        """Answer whether it is a deadline that is not due yet: it was only sent again."""
        has_come_of_it = self.verdict, self.outcome, self.why, self.crash
        only_sent = len(self.sends) == 1 and not self.expired and all(part is None for part in has_come_of_it)
        return only_sent and (self.sends[0].id or "").endswith(f".{DEADLINE}")

    def as_json(self) -> dict[str, Any]:
        """Return the line as JSON. It has ids, names and counts, and no payload."""
        facts = asdict(self)
        del facts["events"]
        return facts


def delivered(
    delivery: Delivery,
    trace: DeliveryTrace,
    at: int,
    *,
    receive: int,
    crash: Point | None,
    acked: bool,
    to_dlq: bool,
    from_dlq: bool,
) -> Delivered:
    """Build the line of a delivery that has ended."""
    m = trace.message
    events = [event.type for event in trace.events]
    return Delivered(
        at=at,
        record=delivery.message_id,
        queue=delivery.queue,
        receive=receive,
        flow=m.flow if m else None,
        stage=m.stage if m else None,
        object_id=m.object_id or None if m else None,
        request_id=m.request_id if m else None,
        hop=m.hop if m else None,
        attempt=m.retry + 1 if m else None,
        verdict=trace.verdict,
        outcome=trace.outcome,
        writes=tuple(trace.writes),
        refused=tuple(trace.refused),
        sends=tuple(trace.sends),
        calls=trace.calls,
        status=trace.status,
        crash=crash,
        acked=acked,
        to_dlq=to_dlq,
        from_dlq=from_dlq,
        why=trace.why,
        events={event: events.count(event) for event in dict.fromkeys(events)},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The totals of a replay. ``messages`` are those handed in; what was sent between stages is not among them."""

    messages: int
    deliveries: int
    executions: int
    effects: int
    duplicates: int
    overtaken: int
    fenced: int
    refused_writes: int
    retried: int
    sent: int
    crashes: int

    @classmethod
    def of(cls, messages: int, rows: Iterable[Delivered]) -> Counts:
        rows = list(rows)

        def count_of(*events: EventType) -> int:
            return sum(row.events.get(event, 0) for row in rows for event in events)

        return cls(
            messages=messages,
            deliveries=len(rows),
            executions=count_of(EventType.CLAIMED),
            effects=sum(len(row.writes) for row in rows),
            duplicates=count_of(EventType.DONE, EventType.DUPLICATE),
            overtaken=count_of(EventType.STALE, EventType.SUPERSEDED, EventType.IGNORED),
            fenced=count_of(EventType.FENCED),
            refused_writes=sum(len(row.refused) for row in rows),
            retried=count_of(EventType.RETRIED),
            sent=sum(len(row.sends) for row in rows),
            crashes=sum(row.crash is not None for row in rows),
        )
