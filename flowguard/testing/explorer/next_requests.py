"""A next request for each object that a schedule was about, to see whether anything stands in its way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final, NamedTuple

from flowguard.ids import RequestId
from flowguard.local.functions import queue_of
from flowguard.local.recording import Recorded, read_recording
from flowguard.message import Message
from flowguard.testing import lambda_events
from flowguard.testing.explorer.ground import Ground
from flowguard.testing.explorer.history import History
from flowguard.testing.explorer.inbox import arn_of

_A_WHILE: Final = timedelta(hours=1)


class NextRequest(NamedTuple):
    """``key`` is the run item's."""

    key: str
    request_id: str
    recorded: Recorded


def moment_of_next(ground: Ground) -> int:
    """When nobody holds an object any more, whatever its flow does on conflict."""
    longest = max((flow.abandoned_after for flow in ground.flows), default=timedelta(0))
    return ground.now() + (longest + _A_WHILE) // timedelta(milliseconds=1)


def next_requests(history: History, ground: Ground) -> Iterator[NextRequest]:
    """Each says what the first request for its object said, under an id and a time of its own."""
    seen: set[str] = set()
    for one in history.deliveries:
        message = next((told.message for told in one.told if told.message is not None), None)
        if message is None or message.hop != 1 or not message.object_id or one.envelope is None:
            continue
        key = f"run#{message.flow}#{message.object_id}"
        if key not in seen:
            seen.add(key)
            queue = one.queue or _queue(ground, message)
            if queue is not None:
                yield _request(key, message, f"next-{len(seen)}", queue, ground.now(), one.envelope.group_id)


def _request(key: str, before: Message, own: str, queue: str, now: int, group: str | None) -> NextRequest:
    message = before._replace(
        request_id=RequestId(own),
        requested_at=now,
        retry=0,
        redrive=0,
        first_error=None,
        last_error=None,
        attempts=None,
    )
    event = lambda_events.sqs_event(
        arn_of(queue), message.body, attributes=message.attributes(), message_id=own, sent_at=now, group=group
    )
    (recorded,) = read_recording(event)
    assert isinstance(recorded, Recorded)  # noqa: S101 - it was made here
    return NextRequest(key, own, recorded)


def _queue(ground: Ground, message: Message) -> str | None:
    for flow in ground.flows:
        if flow.name == message.flow:
            return queue_of(flow, flow.entry())
    return None
