"""Messages on their way to functions: the records that SQS would deliver.

They are built from what was sent.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic import BaseModel

from flowguard.destinations import Topic
from flowguard.errors import PayloadInvalid, SettingsError
from flowguard.flow import AnyFlow
from flowguard.names.ids import RequestId
from flowguard.payload.encoding import decode
from flowguard.payload.http_source import http_source
from flowguard.project.queues import queue_of, topics
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.event_source import EventSource
from flowguard.sim.posted_messages import Posted
from flowguard.sim.recording import RecordedRecord, read_recording
from flowguard.sim.waiting_records import Delivery
from flowguard.testing.lambda_events import invocation, sns_event, sns_to_sqs_event, sqs_event
from flowguard.wire.envelope import BadRecord, Envelope, Source, normalize
from flowguard.worker.routing import CLOCKS_DIFFER_BY_MS

Message: TypeAlias = BaseModel | Mapping[str, Any]
"""The payload of a request, or a recorded event in any shape."""


class Later(NamedTuple):
    """A message that arrives so much later than the others, which all wait at the beginning.

    Such are the order that is changed on the next day, or the answer that arrives when the run is over. A payload is
    requested at its arrival; a recorded event was sent at the time that it says.
    """

    message: Message
    by: timedelta


Given: TypeAlias = Message | Later
"""What starts an exploration, or comes while it goes on."""

_DEDUPLICATED: Final = 300_000


_AHEAD: Final = CLOCKS_DIFFER_BY_MS
"""A record that was sent longer than that after now is refused, ms."""

_APART: Final = 3_600_000
"""Recorded messages between which more time lies do not meet: what went wrong about the first is over, ms."""


class Coming(NamedTuple):
    """A record and how many ms after the beginning its queue has it.

    ``function`` is the name of a function that is invoked with it without a queue, ``given`` the number of the message
    that it is of, from 1.
    """

    recorded: RecordedRecord
    after: int
    function: str | None = None
    given: int = 1

    @property
    def queue(self) -> str | None:
        """Return the name by which the record waits for its function."""
        return self.function or self.recorded.envelope.queue


def read_given(
    flows: Sequence[AnyFlow],
    given: Sequence[Given],
    now: int,
    queues: Sequence[str] = (),
    direct: Sequence[str] = (),
) -> list[Coming]:
    """Read the records that start an exploration.

    Payloads become requests ``request-1``, ``request-2`` …, each requested a second after the one before, or at its
    arrival if that is later. ``queues`` are those of plain functions: where there are no flows, the first gets what
    names no queue. Of these, ``direct`` are names of functions that are invoked without a queue.

    Raises :class:`flowguard.errors.EnvelopeError` for what cannot be read, SettingsError for a queue that nobody reads
    and TypeError for a payload that starts none of the flows.
    """
    coming: list[Coming] = []
    for number, entry in enumerate(given, 1):
        message, after = (entry.message, _ms(entry)) if isinstance(entry, Later) else (entry, 0)
        at = now + (after or (number - 1) * 1000)
        if not flows and queues:
            records = _in_queues(message, queues, at, direct)
        else:
            records = _for_flows(flows, message, number, at)
        behind = topics(flows)
        function = queues[0] if not flows and queues and queues[0] in direct else None
        coming += [Coming(part, after, function, number) for record in records for part in _fanned_out(record, behind)]
    return coming


def at_their_times(coming: Sequence[Coming], otherwise: int) -> tuple[int, list[Coming]]:
    """Return the moment at which a schedule starts, and when the records come.

    Those come at once between which no hour lies, so that each can meet each other one: then when none of them is sent
    ahead of its time any more. A record that says no time comes with the first ones, or ``otherwise`` where none does.
    """
    sent = [message.recorded.sent_at for message in coming if not message.after]
    times = sorted(at for at in sent if at is not None) or [otherwise]
    moments: dict[int, int] = {}
    together: list[int] = []
    for at in times:
        together = [*together, at] if together and at - together[-1] <= _APART else [at]
        moments.update(dict.fromkeys(together, max(together[0], at - _AHEAD)))
    start = moments[times[0]]
    return start, [
        message if message.after else message._replace(after=moments.get(message.recorded.sent_at or 0, start) - start)
        for message in coming
    ]


def _fanned_out(record: RecordedRecord, behind: Mapping[str, str]) -> list[RecordedRecord]:
    """Copy what SNS hands to a function into each queue that subscribes to its topic.

    This happens where stages read any such queue. It is the same message under the same id.
    """
    envelope = record.envelope
    notification = envelope.notification if envelope.source is Source.SNS_LAMBDA else None
    queues = [
        queue
        for queue, topic in behind.items()
        if notification is not None and notification["TopicArn"].rpartition(":")[2] == topic
    ]
    if notification is None or not queues:
        return [record]
    fanned_out: list[RecordedRecord] = []
    for queue in queues:
        event = sns_to_sqs_event(
            arn_of(queue), notification["Message"], topic=notification["TopicArn"], attributes=envelope.attributes,
            message_id=envelope.sns_message_id, published_at=record.sent_at or 0,
        )  # fmt: skip
        fanned_out += _records(event)
    return fanned_out


def _for_flows(flows: Sequence[AnyFlow], message: Message, number: int, at: int) -> list[RecordedRecord]:
    """Read the records of a message for flows. A bare payload of a flow behind a topic is published there.

    It has the form of a direct call, which no queue brings: nothing would return it that SQS gives up.
    """
    if isinstance(message, BaseModel):
        return _records(_request(flows, message, number, at))
    records = _records(message)
    if http_source(message) is None and [record.envelope.source for record in records] == [Source.INVOCATION]:
        text = records[0].envelope.message
        inboxes = {flow.inbox_of(flow.entry()) for flow in flows if _takes(flow, text)}
        if len(inboxes) == 1 and isinstance(topic := inboxes.pop(), Topic):
            return _records(sns_event(topic.arn, text, message_id=f"message-{number}", published_at=at))
    return records


def _takes(flow: AnyFlow, text: str) -> bool:
    """Answer whether the flow's first stage can read a payload."""
    try:
        decode(flow.entry().payload, text, what="it")
    except PayloadInvalid:
        return False
    return True


def _ms(later: Later) -> int:
    by: object = later.by
    if not isinstance(by, timedelta) or by <= timedelta(0):
        raise SettingsError("messages", f"one is later by {by!r}; give a time: Later(message, timedelta(hours=1))")
    return by // timedelta(milliseconds=1)


def _records(event: Any) -> list[RecordedRecord]:
    records = []
    for record in read_recording(event):
        if isinstance(record, BadRecord):
            raise record.error
        records.append(record)
    return records


def _in_queues(message: Message, queues: Sequence[str], now: int, direct: Sequence[str]) -> list[RecordedRecord]:
    if queues[0] in direct:
        return _invoked(message, queues[0])
    records = [] if isinstance(message, BaseModel) else _records(message)
    if all(record.envelope.source is Source.INVOCATION for record in records):
        group = "group-1" if queues[0].endswith(".fifo") else None
        payload = message if isinstance(message, BaseModel) else dict(message)
        records = _records(sqs_event(arn_of(queues[0]), payload, sent_at=now, message_id=f"message-{now}", group=group))
    for record in records:
        if record.envelope.queue not in queues:
            problem = f"no function reads the queue {record.envelope.queue}; there are {', '.join(queues)}"
            raise SettingsError("messages", problem)
    return records


def _invoked(message: Message, function: str) -> list[RecordedRecord]:
    """Return the invocations of a function by an event: one, or one for each notification of SNS.

    The records of a source that hands out no messages, such as S3, come as they are.
    """
    if _is_of_others(message):
        (envelope,) = normalize({"event": str(message)})
        assert not isinstance(envelope, BadRecord)  # noqa: S101 - it was made here
        return [RecordedRecord(envelope, message)]
    records = _records(invocation(message) if isinstance(message, BaseModel) else message)
    if not records or any(record.envelope.source.is_queue for record in records):
        raise SettingsError("messages", f"{function} reads no queue, and gets a record of one; leave out direct=True")
    return records


def _is_of_others(message: Message) -> bool:
    """Answer whether an event has records of a source that hands out no messages."""
    records = message.get("Records") if isinstance(message, Mapping) else None
    sources = [record.get("eventSource") for record in records or () if isinstance(record, Mapping)]
    return bool(sources) and all(isinstance(source, str) and source not in _KNOWN for source in sources)


_KNOWN: Final = frozenset({"aws:sqs", "aws:sns", "aws:kinesis", "aws:dynamodb"})


def _request(flows: Sequence[AnyFlow], payload: BaseModel, number: int, at: int) -> Any:
    for flow in flows:
        if isinstance(payload, flow.entry().payload):
            message, _ = flow.request(payload, request_id=lambda: RequestId(f"request-{number}"), requested_at=at)
            queue = arn_of(queue_of(flow, flow.entry()))
            return sqs_event(
                queue, message.text, attributes=message.attributes(), sent_at=at, group=_group(queue, message.object_id)
            )
    starts = ", ".join(f"{flow.name} with {flow.entry().payload.__name__}" for flow in flows)
    raise TypeError(f"{type(payload).__name__} starts none of the flows: {starts}")


def _group(queue: str, object_id: str) -> str | None:
    return object_id if queue.endswith(".fifo") else None


class Inbox:
    """The queues of functions and what was sent to them. ``topics`` maps the name of a queue to that of its topic."""

    def __init__(self, source: EventSource, queues: Sequence[str], topics: Mapping[str, str]) -> None:
        self._source = source
        self._queues = queues
        self._topics = topics
        self._taken: dict[tuple[str, str], int] = {}
        self._published = 0

    def receive(self, message: Posted, now: int) -> list[Delivery]:
        """Enqueue a message once in each queue that it goes to.

        A copy of what a FIFO queue has taken within 5 minutes goes to none.
        """
        service, _, name = message.to.partition(":")
        if service == "sqs":
            return [self._add(name, message, now)] if name in self._queues and self._is_new(name, message, now) else []
        if service != "sns":
            return []
        self._published += 1
        return [self._add(queue, message, now, topic) for queue, topic in self._topics.items() if topic == name]

    def forge(self, known_by: Iterable[str], now: int) -> None:
        """Let every FIFO queue of functions have taken messages under these deduplication ids, of somebody else."""
        queues = [queue for queue in self._queues if queue.endswith(".fifo")]
        self._taken.update(dict.fromkeys(itertools.product(queues, known_by), now))

    def _is_new(self, queue: str, message: Posted, now: int) -> bool:
        if not queue.endswith(".fifo") or message.copy_of is None:
            return True
        known = self._taken.get((queue, message.copy_of))
        if known is not None and now - known < _DEDUPLICATED:
            return False
        self._taken[queue, message.copy_of] = now
        return True

    def _add(self, queue: str, message: Posted, now: int, topic: str | None = None) -> Delivery:
        message_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{queue}/{self._source.put_in}"))
        arn = arn_of(queue)
        if topic is not None:
            event = sns_to_sqs_event(
                arn, message.body, topic=f"arn:aws:sns:{REGION}:{ACCOUNT_ID}:{topic}", attributes=message.attributes,
                message_id=str(uuid.uuid5(uuid.NAMESPACE_URL, f"sns/{topic}/{self._published}")), published_at=now,
            )  # fmt: skip
        else:
            event = sqs_event(
                arn,
                message.body,
                attributes=message.attributes,
                message_id=message_id,
                sent_at=now,
                group=message.group,
            )
        raw = event["Records"][0]
        return self._source.put(envelope_of(event), raw, queue, now + message.delay * 1000)


def arn_of(queue: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{queue}"


def envelope_of(event: Any) -> Envelope:
    """Return the envelope of an event with one record."""
    (envelope,) = normalize(event)
    if isinstance(envelope, BadRecord):
        raise envelope.error
    return envelope
