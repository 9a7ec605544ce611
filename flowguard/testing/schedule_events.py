"""Events of a flow's own schedules."""

from __future__ import annotations

from typing import Any

from flowguard.destinations import Queue
from flowguard.errors import shown
from flowguard.every import SCHEDULED_AT
from flowguard.flow import AnyFlow
from flowguard.testing.lambda_events import SENT_AT, sqs_event
from flowguard.wire.notification import to_timestamp


def schedule_event(flow: AnyFlow, name: str = "tick", *, at: int = SENT_AT) -> dict[str, Any]:
    """Make the event that the flow's schedule of that name brings at a tick, ``at`` in ms since 1970.

    Two events for one second are the same tick, delivered twice. Raises ValueError for a flow without that schedule.
    """
    every = next((every for every in flow.every if every.name == name), None)
    _, inbox = flow.entrance({} if every is None else every.in_lane())
    if every is None or not isinstance(inbox, Queue):
        names = ", ".join(every.name for every in flow.every) or "none"
        raise ValueError(f"{flow.name} has no schedule {shown(name)}; it has {names}")
    time = f"{to_timestamp(at)[:19]}Z"
    return sqs_event(inbox.name, every.input(flow.name, flow.entry().name).replace(SCHEDULED_AT, time), sent_at=at)
