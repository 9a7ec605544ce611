"""The way from an engine's SQS to the functions.

What was sent is taken out of the engine when its delay is over, and waits for its function. The engine keeps the delays
itself, by the virtual time; here it is only remembered when it is worth looking.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flowguard.sim.account import ACCOUNT_ID
from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.sim.engine import Engine
from flowguard.sim.event_source import EventSource
from flowguard.sim.posted_messages import Posted, posted
from flowguard.sim.provision import AutoProvisioner
from flowguard.sim.sends import sending
from flowguard.sim.virtual import VirtualTime
from flowguard.wire.envelope import BadRecord, normalize


class Mail:
    """Takes messages out of the engine for the functions.

    It is an interceptor, too: it notes what is sent, and answers for the records that wait in the event source instead.
    """

    def __init__(self, engine: Engine, provisioner: AutoProvisioner, source: EventSource, clock: VirtualTime) -> None:
        self._engine = engine
        self._provisioner = provisioner
        self._source = source
        self._clock = clock
        self._due: dict[int, set[str | None]] = {}
        self._scheduled: list[Posted] = []
        self._schedules_sent = 0

    @property
    def moments(self) -> Iterable[int]:
        """Return when something that was sent can be received, ms since 1970."""
        return [*self._due, *(schedule.due for schedule in self._scheduled if schedule.due is not None)]

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        now = self._clock.now()
        if self._source.postponed(call, now):
            return {}
        if (sends := sending(call.service, call.operation)) is not None and sends.fills_queues:
            for entry in sends.entries(call.params):
                delay = entry.get("DelaySeconds", 0)  # a message's own delay is for the queue that it is sent to
                queue = sends.receiver(call.params, entry) if delay else None
                self._due.setdefault(now + delay * 1000, set()).add(queue)
        answer = proceed()
        if call.operation == "CreateSchedule":  # refused where a schedule of its name is there
            self._scheduled += posted(call, answer, call=call.number, at=now)
        return answer

    def collect(self, queues: Iterable[str]) -> None:
        """Receive messages from those of the queues in which any may have arrived, and those of schedules."""
        now = self._clock.now()
        for schedule in [schedule for schedule in self._scheduled if schedule.due is not None and schedule.due <= now]:
            self._scheduled.remove(schedule)
            if schedule.name in queues:
                self._put(self._of_schedule(schedule, now), schedule.name)
        due = [self._due.pop(moment) for moment in [*self._due] if moment <= now]
        arrived = set().union(*due)
        for queue in sorted(queue for queue in queues if arrived & {queue, None}):
            for message in self._received(queue):
                self._put(message, queue)

    def _put(self, message: Any, queue: str) -> None:
        (envelope,) = normalize({"Messages": [message]})
        if isinstance(envelope, BadRecord):
            raise envelope.error
        self._source.put(envelope, envelope.received, queue, self._clock.now())

    def _of_schedule(self, schedule: Posted, now: int) -> Any:
        """Return what a schedule sends to its queue, as ``receive_message`` returns it."""
        self._schedules_sent += 1
        message_id = f"schedule-{self._schedules_sent}"
        return {
            "MessageId": message_id,
            "ReceiptHandle": message_id,
            "Body": schedule.body,
            "Attributes": {"SentTimestamp": str(now), "ApproximateReceiveCount": "1"},
            "eventSourceARN": self._arn(schedule.name),
        }

    def _arn(self, queue: str) -> str:
        return f"arn:aws:sqs:{self._engine.client('sqs').meta.region_name}:{ACCOUNT_ID}:{queue}"

    def take(self, queue: str) -> list[Any]:
        """Take all messages out of a queue that no function reads. They are as ``receive_message`` returns them."""
        return list(self._received(queue))

    def _received(self, queue: str) -> Iterator[Any]:
        sqs, url, arn = self._engine.client("sqs"), self._provisioner.queue(queue), self._arn(queue)
        while True:
            answer: Any = sqs.receive_message(
                QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
            )
            if not (messages := answer.get("Messages")):
                return
            for message in messages:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                yield {**message, "eventSourceARN": arn}
