"""Requests that come by the clock: a schedule of EventBridge Scheduler sends each of them to the flow's inbox.

::

    schedule ─ <aws.scheduler.scheduled-time> ─ request   id flow/name/time, time of the tick
                 delivered twice: the same request, one run
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from flowguard.destinations import Destination, Queue
from flowguard.errors import FlowguardError, shown
from flowguard.payload.encoding import encode_json
from flowguard.protocol.outbox import LARGEST_SCHEDULED
from flowguard.startup.late_pattern import late_pattern
from flowguard.startup.value import Value
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import FLOW_STAGE, LANE, REQUEST_ID
from flowguard.wire.notification import UNKNOWN_QUEUE, new_notification, to_json

SCHEDULED_AT: Final = "<aws.scheduler.scheduled-time>"
"""Stands in a payload for the time of the tick, as ``2027-03-01T02:00:00Z``. EventBridge Scheduler writes it there."""

_CONTEXT: Final = "<aws.scheduler."
_EXAMPLE: Final = "2027-03-01T02:00:00Z"
_EXPRESSION: Final = late_pattern(r"cron\(\S+( \S+){5}\)|rate\([1-9][0-9]{0,9} (minute|hour|day)s?\)")
_TIMEZONE: Final = late_pattern(r"[A-Za-z0-9_+-]{1,50}(/[A-Za-z0-9_+-]{1,50}){0,2}")
_NAME: Final = late_pattern("[0-9A-Za-z_-]{1,32}")
_BRACES: Final = r"{\u007b"
"""``{{`` within a text of JSON, where two braces stand nowhere else."""

_EVENT: Final = "00000000-0000-4000-8000-000000000000"
"""The id of the event in a tick's body. A tick is named by its request id, and has this form alone."""


class Every(Value):
    """A schedule that begins a run at each tick. List it in the flow's ``every=(…)``.

    ``expression`` is ``rate(1 hour)`` or ``cron(0 2 * * ? *)``, as EventBridge Scheduler reads it in ``timezone``.
    ``payload`` is that of each request; :data:`SCHEDULED_AT` in one of its texts stands for the tick's time. ``name``
    tells it from others of the flow. ``lane`` is one of those of the first stage's inbox, by default the first.
    """

    expression: str
    payload: Mapping[str, Any]
    timezone: str = "UTC"
    name: str = "tick"
    lane: str | None = None

    def __hash__(self) -> int:
        return hash((self.expression, self.timezone, self.name))  # a payload has no hash

    def problem(self) -> str | None:
        """Return what is wrong with it, and how to write it. None where nothing is."""
        if not _is_like(_EXPRESSION, self.expression):
            return f"{shown(self.expression)} is no schedule; write rate(1 hour), or cron(0 2 * * ? *) with six fields"
        if self.expression.startswith("cron") and [*self.expression.split()[2:5:2]].count("?") != 1:
            return f"{shown(self.expression)} says both days or none; write ? for the day of the month or of the week"
        if not _is_like(_TIMEZONE, self.timezone):
            return f"timezone={shown(self.timezone)} is no time zone; write one such as Europe/Berlin"
        if not _is_like(_NAME, self.name):
            return f"name={shown(self.name)} must be 1 to 32 of: a-z, A-Z, 0-9, '-', '_'"
        payload: Any = self.payload
        if not isinstance(payload, Mapping):
            return f"payload={shown(payload)} is no object; write a dict"
        try:
            text = encode_json(dict(self.payload))
        except TypeError as error:
            return f"its payload cannot be sent: {error}"
        if _CONTEXT in text.replace(SCHEDULED_AT, ""):
            return f"its payload has {_CONTEXT}…, which EventBridge Scheduler replaces; only SCHEDULED_AT has a meaning"
        return None

    def in_lane(self) -> dict[str, Attribute]:
        """Return the attribute that names the lane of its requests. Nothing where it names none."""
        return {} if self.lane is None else {LANE: Attribute.string(self.lane)}

    def example(self) -> str:
        """Return the payload of a tick, as JSON text."""
        return encode_json(dict(self.payload)).replace(SCHEDULED_AT, _EXAMPLE)

    def input(self, flow: str, stage: str) -> str:
        """Return the body of its messages to this stage, in which EventBridge Scheduler writes the tick's time.

        It is an event, so that its ``time`` is that of the request, in a notification with the request's id. No two
        braces that open stand side by side in it: CloudFormation would take ``{{resolve:…}}`` for one of its own.
        """
        tick = f"{flow}/{self.name}/{SCHEDULED_AT}"
        event = {
            "version": "0",
            "id": _EVENT,
            "detail-type": "flowguard schedule",
            "source": "flowguard",
            "account": "000000000000",
            "time": SCHEDULED_AT,
            "region": "unknown",
            "resources": [],
            "detail": dict(self.payload),
        }
        attributes = {REQUEST_ID: Attribute.string(tick), FLOW_STAGE: Attribute.string(f"{flow}/{stage}")}
        attributes |= self.in_lane()
        body = new_notification(
            encode_json(event), message_id=tick, arn=UNKNOWN_QUEUE, sent_at=0, attributes=attributes
        )
        return to_json({**body, "Timestamp": SCHEDULED_AT}).replace("{{", _BRACES)


def _is_like(form: Any, given: object) -> bool:
    return isinstance(given, str) and form.fullmatch(given) is not None


def every_problems(every: object, inbox: Destination, *, sealed_only: bool) -> Iterator[str]:
    """Yield what is wrong with the schedules of a flow whose requests go to ``inbox``."""
    if not (isinstance(every, tuple) and all(isinstance(schedule, Every) for schedule in every)):
        yield f"every is {shown(every)}; write a tuple: every=(Every('rate(1 hour)', {{'shop': 'all'}}),)"
        return
    for schedule in every:
        if problem := schedule.problem():
            yield f"every: {problem}"
    for name, times in Counter(schedule.name for schedule in every).items():
        if times > 1:
            yield f"{times} of its schedules are named {name!r}; give them names of their own"
    if every and (not isinstance(inbox, Queue) or inbox.fifo):
        yield f"every: its first stage reads {inbox}, and a schedule sends to a standard queue; give it such an inbox"
    if every and sealed_only:
        yield "sealed_only refuses what is not sealed, and the requests of its schedules are not; leave it out"


def payload_problem(every: Every, flow: str, stage: str, read: Any) -> str | None:
    """Return why the flow's first stage would refuse the payload of a tick. ``read`` raises what it would raise."""
    if (size := len(every.input(flow, stage).encode())) > LARGEST_SCHEDULED:
        return f"every: its message has {size:,} bytes, and EventBridge Scheduler takes {LARGEST_SCHEDULED:,}"
    try:
        read(every.example())
    except FlowguardError as error:
        return f"every: {error}"
    return None
