"""A next request for each object that a schedule was about. It shows whether anything stands in its way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final, NamedTuple

from flowguard.flow import AnyFlow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.project.queues import queue_of
from flowguard.protocol.run import Status
from flowguard.sim.recording import RecordedRecord, read_recording
from flowguard.testing import lambda_events
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.run.inbox import arn_of
from flowguard.testing.explorer.run.sandbox import Sandbox
from flowguard.wire.message import Message
from flowguard.wire.sealed_message import opened_message, sealed_message

_A_WHILE: Final = timedelta(hours=1)


class NextRequest(NamedTuple):
    """A next request for an object. ``key`` is the run item's."""

    key: str
    request_id: str
    recorded: RecordedRecord


def moment_of_next(history: History, sandbox: Sandbox) -> int:
    """Return a moment when no run holds an object any more, whatever its flow does on conflict.

    A run that waits holds its object until its deadline, and then as long as one that no worker works on.
    """
    longest = max((flow.abandoned_after for flow in sandbox.flows), default=timedelta(0))
    deadlines = (
        item.wait.deadline
        for item in history.latest().values()
        if item.status is Status.WAITING and item.wait is not None and item.wait.end is None
    )
    return max([sandbox.now(), *deadlines]) + (longest + _A_WHILE) // timedelta(milliseconds=1)


def next_requests(history: History, sandbox: Sandbox) -> Iterator[NextRequest]:
    """Yield a second request for each object: a copy of its first under a new id and time."""
    flows = {flow.name: flow for flow in sandbox.flows}
    seen: set[tuple[str, str]] = set()
    for delivery in history.deliveries:
        before = next((event.message for event in delivery.events if event.message is not None), None)
        if before is None or delivery.settles or before.hop != 1 or not before.object_id or before.flow not in flows:
            continue
        flow, place = flows[before.flow], (before.flow, before.object_id)
        if place in seen or delivery.envelope is None:
            continue
        seen.add(place)
        message = _again(flow, before, f"next-{len(seen)}", sandbox.now())
        queue = arn_of(delivery.queue or queue_of(flow, flow.entry()))
        yield _request(message, queue, delivery.envelope.group_id)


def _again(flow: AnyFlow, before: Message, request_id: str, now: int) -> Message:
    """Return the message under a new request id. In a flow whose objects are its requests the object is new, too.

    It is asked by nobody. The address for its end was signed for the first request alone.
    """
    object_id = before.object_id if isinstance(flow.object_id, str) else ObjectId(request_id)
    before = opened_message(flow.codec, before)
    fresh = before._replace(request_id=RequestId(request_id), object_id=object_id, requested_at=now, retry=0, redrive=0)
    fresh = fresh._replace(first_error=None, last_error=None, attempts=None, reply_to=None, answer_to=None)
    return fresh if before.sealed is None else sealed_message(flow.codec, fresh)


def _request(message: Message, queue: str, group: str | None) -> NextRequest:
    event = lambda_events.sqs_event(
        queue,
        message.text,
        attributes=message.attributes(),
        message_id=message.request_id,
        sent_at=message.requested_at,
        group=group,
    )
    (recorded,) = read_recording(event)
    assert isinstance(recorded, RecordedRecord)  # noqa: S101 - it was made here
    return NextRequest(f"run#{message.flow}#{message.object_id}", message.request_id, recorded)
