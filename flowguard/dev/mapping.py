"""An event source mapping.

It polls a queue, invokes a function with each record, and deletes what is acknowledged.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError

from flowguard.aws.clients import Clients
from flowguard.dev.delivery import Listener, traceback_of
from flowguard.errors import NotProcessed
from flowguard.sim.event_source import failures_of
from flowguard.sim.weather.layer import Invoked
from flowguard.sim.weather.weather import CLEAR, Weather
from flowguard.wire.attributes import Attribute, attributes_to, read_attributes

POLL: Final = 1
"""Seconds of a long poll. As long it takes at most until a mapping has stopped."""

Say = Callable[[dict[str, Any]], None]
"""Tells the live view something that has happened."""


class LocalContext:
    """What Lambda hands to a function beside the event. ``timeout`` is in seconds; nothing is stopped after it."""

    function_version = "$LATEST"

    def __init__(self, function_name: str, memory: int, timeout: int, arn: str) -> None:
        self.function_name = function_name
        self.memory_limit_in_mb = str(memory)
        self.invoked_function_arn = arn
        self.aws_request_id = str(uuid4())
        self.log_group_name = f"/aws/lambda/{function_name}"
        self.log_stream_name = self.function_version
        self._ends = time.monotonic() + timeout

    def get_remaining_time_in_millis(self) -> int:
        """Return the time that is left, ms."""
        return max(0, int((self._ends - time.monotonic()) * 1000))


@dataclass(frozen=True)
class QueueMapping:
    """The mapping of one queue to one function. ``handler`` is called with a record at a time."""

    function: str
    queue: str
    region: str
    account: str
    handler: Callable[[Any, Any], Any]
    listener: Listener
    clients: Clients
    timeout: int
    memory: int
    say: Say
    weather: Weather = CLEAR
    late: list[tuple[int, Any]] = field(default_factory=list)
    """Messages that were deleted and come once more, with their moments (ms since 1970)."""

    def run(self, stop: threading.Event) -> None:
        """Poll until ``stop`` is set. What was received by then is worked on."""
        while not stop.is_set():
            if self.weather.is_unpolled():
                stop.wait(POLL)
                continue
            try:
                self.poll()
            except (BotoCoreError, ClientError) as error:
                if stop.is_set():
                    return
                self.say({"event": "problem", "queue": self.queue, "why": f"{type(error).__name__}: {error}"})
                stop.wait(POLL)

    def poll(self) -> None:
        """Deliver the late copies that are due. Then receive a message, if there is one, and deliver it."""
        for message in self._due():
            self._deliver(message)
        sqs, url = self.clients.sqs, self._url
        answer: Any = sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=1,
            WaitTimeSeconds=POLL,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        )
        for message in answer.get("Messages", ()):
            if self._deliver(message):
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                moments = self.weather.copies_of(self._record(message), self.queue)
                self.late.extend((moment, message) for moment in moments)

    def _due(self) -> list[Any]:
        """Take the late copies that are due. A mapping has one thread."""
        now = self.weather.now()
        due = [message for moment, message in self.late if moment <= now]
        self.late[:] = [copy for copy in self.late if copy[0] > now]
        return due

    @cached_property
    def _url(self) -> str:
        return self.clients.sqs.get_queue_url(QueueName=self.queue)["QueueUrl"]

    def _deliver(self, message: Any) -> bool:
        """Invoke the function and answer whether the record is acknowledged."""
        begun, problem, raised = time.monotonic(), None, None
        self.listener.begin()
        acked, record = False, self._record(message)
        try:
            with self.weather.received(record, self.function, self.queue) as how:
                if how is Invoked.YES:
                    acked = not failures_of(self.handler({"Records": [record]}, self._context()))
                else:
                    problem = f"by the weather {how.value}"
        except NotProcessed as error:
            problem = str(error)
        except Exception as error:  # of code around the runtime: Lambda reports it, and the record comes back
            problem = f"{type(error).__name__}: {error}"
            raised = traceback_of(error)
        facts = self.listener.facts()
        self.say(
            {
                "event": "delivery",
                "at": time.time_ns() // 1_000_000,
                "function": self.function,
                "queue": self.queue,
                "record": message["MessageId"],
                "receive": int(message.get("Attributes", {}).get("ApproximateReceiveCount", 1)),
                **facts,
                "why": facts["why"] or problem,
                "raised": facts["raised"] or raised,
                "acked": acked,
                "ms": int((time.monotonic() - begun) * 1000),
            }
        )
        return acked

    def _context(self) -> LocalContext:
        arn = f"arn:aws:lambda:{self.region}:{self.account}:function:{self.function}"
        return LocalContext(self.function, self.memory, self.timeout, arn)

    def _record(self, message: Any) -> dict[str, Any]:
        """Return the record as Lambda hands it to a function."""
        read = read_attributes(
            message.get("MessageAttributes"), Attribute.of_receive_message, message["MessageId"], "MessageAttributes"
        )
        return {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message.get("Attributes", {}),
            "messageAttributes": attributes_to(Attribute.to_sqs_record, read),
            "md5OfBody": message.get("MD5OfBody", ""),
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:{self.region}:{self.account}:{self.queue}",
            "awsRegion": self.region,
        }


def as_line(event: dict[str, Any]) -> str:
    """Return what was said as one line of JSON, whatever is in it."""
    return json.dumps(event, default=str)
