"""One SQS queue. It keeps the rules of visibility, delay, redrive and FIFO order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from flowguard.sim.limits.fault import Fault
from flowguard.sim.limits.queues import LARGEST, Takes, check_visibility, check_whole_visibility

DEDUPLICATION: Final = 5 * 60 * 1000
"""For how long a FIFO queue drops copies, ms."""

DEFAULTS: Final[Mapping[str, str]] = {
    "VisibilityTimeout": "30",
    "DelaySeconds": "0",
    "MaximumMessageSize": str(LARGEST),
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
}


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message in a queue; times are ms. ``number`` is its place in the order of arrival, ``receipt`` the latest."""

    number: int
    message_id: str
    body: str
    attributes: Mapping[str, Any]
    sent_at: int
    visible_at: int
    group: str | None = None
    deduplication: str | None = None
    receives: int = 0
    first_received_at: int = 0
    received_at: int = 0
    receipt: str | None = None
    dead_letter_source: str | None = None
    trace: str | None = None

    def in_flight(self, now: int) -> bool:
        return self.receipt is not None and self.visible_at > now


@dataclass(slots=True)
class MemoryQueue:
    """One queue and its messages.

    ``sent`` has what a FIFO queue received of late: by deduplication id, until when it counts, and the message.
    """

    name: str
    arn: str
    url: str
    created_at: int
    attributes: dict[str, str]
    messages: dict[int, StoredMessage] = field(default_factory=dict)
    sent: dict[str, tuple[int, StoredMessage]] = field(default_factory=dict)
    arrived: int = 0

    def copy(self) -> MemoryQueue:
        return replace(self, attributes=dict(self.attributes), messages=dict(self.messages), sent=dict(self.sent))

    @property
    def fifo(self) -> bool:
        return self.name.endswith(".fifo")

    @property
    def takes(self) -> Takes:
        content_based = self.attributes.get("ContentBasedDeduplication") == "true"
        return Takes(self.fifo, self.setting("MaximumMessageSize"), content_based)

    def setting(self, name: str) -> int:
        return int(self.attributes.get(name, DEFAULTS[name]))

    @property
    def redrive(self) -> tuple[str, int] | None:
        """Return the ARN of the dead-letter queue and after how many receives a message goes there."""
        if not (policy := self.attributes.get("RedrivePolicy")):
            return None
        data = json.loads(policy)
        return data["deadLetterTargetArn"], int(data["maxReceiveCount"])

    # -- in

    def add(self, message: StoredMessage, now: int) -> StoredMessage:
        """Add the message and return it as it is stored. For a FIFO duplicate, return the first message."""
        if self.fifo and message.deduplication is not None:
            until, first = self.sent.get(message.deduplication, (0, message))
            if until > now:
                return first
        self.arrived += 1
        added = replace(message, number=self.arrived)
        self.messages[added.number] = added
        if self.fifo and added.deduplication is not None:
            self.sent[added.deduplication] = now + DEDUPLICATION, added
        return added

    # -- out

    def receivable(self, now: int) -> Iterator[StoredMessage]:
        """Yield the messages that may be received in order of arrival.

        A FIFO group yields nothing while one of its messages is in flight, and nothing behind one that is not yet due.
        """
        self._forget_expired(now)
        blocked = {m.group for m in self.messages.values() if m.in_flight(now)} if self.fifo else set()
        for message in list(self.messages.values()):
            if self.fifo and message.group in blocked:
                continue
            if message.visible_at <= now:
                yield message
            elif self.fifo:
                blocked.add(message.group)

    def received(self, message: StoredMessage, now: int, visibility: int) -> StoredMessage:
        """Put the message in flight with a new receipt."""
        taken = replace(
            message,
            receives=message.receives + 1,
            receipt=f"{self.name}/{message.message_id}/{message.number}/{message.receives + 1}",
            first_received_at=message.first_received_at or now,
            received_at=now,
            visible_at=now + visibility * 1000,
        )
        self.messages[message.number] = taken
        return taken

    def delete(self, receipt: str, now: int) -> None:
        """Delete the message that has this receipt.

        An older receipt deletes nothing and raises nothing, as in SQS. A FIFO queue refuses a receipt that has expired.
        """
        message = self._held(receipt)
        if message is None or message.receipt != receipt:
            return
        if self.fifo and not message.in_flight(now):
            raise Fault("InvalidParameterValue", f"Value {receipt} is invalid. Reason: The receipt handle has expired.")
        del self.messages[message.number]

    def change_visibility(self, receipt: str, seconds: int, now: int) -> None:
        check_visibility(seconds)
        message = self._held(receipt)
        if message is None or message.receipt != receipt or not message.in_flight(now):
            raise Fault(
                "AWS.SimpleQueueService.MessageNotInflight",
                "The specified message isn't in flight.",
                shape="MessageNotInflight",
            )
        check_whole_visibility(seconds, now - message.received_at)
        self.messages[message.number] = replace(message, visible_at=now + seconds * 1000)

    def _held(self, receipt: str) -> StoredMessage | None:
        parts = receipt.split("/")
        if len(parts) == 4 and parts[0] == self.name and parts[2].isdecimal():
            return self.messages.get(int(parts[2]))
        raise Fault(
            "ReceiptHandleIsInvalid",
            f'The input receipt handle "{receipt}" is invalid.',
            shape="ReceiptHandleIsInvalid",
        )

    def _forget_expired(self, now: int) -> None:
        oldest = now - self.setting("MessageRetentionPeriod") * 1000
        for message in [message for message in self.messages.values() if message.sent_at < oldest]:
            del self.messages[message.number]

    # -- what is there

    def described(self, now: int) -> dict[str, str]:
        waiting = [message for message in self.messages.values() if message.visible_at > now]
        flying = sum(message.receipt is not None for message in waiting)
        return {
            **DEFAULTS,
            **self.attributes,
            "QueueArn": self.arn,
            "CreatedTimestamp": str(self.created_at // 1000),
            "ApproximateNumberOfMessages": str(len(self.messages) - len(waiting)),
            "ApproximateNumberOfMessagesNotVisible": str(flying),
            "ApproximateNumberOfMessagesDelayed": str(len(waiting) - flying),
        }
