"""What SQS stores of a message, and what a receive shows of it."""

from __future__ import annotations

import hashlib
from typing import Any

from flowguard.sim.calls import Response
from flowguard.sim.memory.queue import MemoryQueue, StoredMessage
from flowguard.sim.memory.service import Params


def md5(body: str) -> str:
    return hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()


def sequence(message: StoredMessage) -> str:
    return f"{message.number:020d}"


def fifo_ids(queue: MemoryQueue, entry: Params) -> tuple[str | None, str | None]:
    group, deduplication = entry.get("MessageGroupId"), entry.get("MessageDeduplicationId")
    if not queue.fifo:
        return group, None
    if deduplication is None:
        deduplication = hashlib.sha256(entry["MessageBody"].encode()).hexdigest()
    return group, deduplication


def shown(message: StoredMessage, params: Params) -> Response:
    """Return the message as a receive shows it, with the attributes that were requested."""
    shown: Response = {
        "MessageId": message.message_id,
        "ReceiptHandle": message.receipt,
        "MD5OfBody": md5(message.body),
        "Body": message.body,
    }
    wanted = {*params.get("AttributeNames", ()), *params.get("MessageSystemAttributeNames", ())}
    system = {name: value for name, value in _system(message).items() if name in wanted or "All" in wanted}
    names = params.get("MessageAttributeNames", ())
    attributes = {name: dict(value) for name, value in message.attributes.items() if _asked(name, names)}
    return {
        **shown,
        **({"Attributes": system} if system else {}),
        **({"MessageAttributes": attributes} if attributes else {}),
    }


def _system(message: StoredMessage) -> dict[str, str]:
    attributes = {
        "SenderId": "AIDAMEMORY",
        "SentTimestamp": str(message.sent_at),
        "ApproximateReceiveCount": str(message.receives),
        "ApproximateFirstReceiveTimestamp": str(message.first_received_at),
        "MessageGroupId": message.group,
        "MessageDeduplicationId": message.deduplication,
        "SequenceNumber": sequence(message) if message.deduplication is not None else None,
        "AWSTraceHeader": message.trace,
        "DeadLetterQueueSourceArn": message.dead_letter_source,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _asked(name: str, wanted: list[str]) -> bool:
    return any(
        pattern in ("All", ".*", name) or (pattern.endswith(".*") and name.startswith(pattern[:-2]))
        for pattern in wanted
    )


def essence(message: StoredMessage, now: int) -> Any:
    attributes = tuple(sorted((name, repr(sorted(value.items()))) for name, value in message.attributes.items()))
    left = max(0, message.visible_at - now)
    return message.body, attributes, message.group, message.receives, left, message.dead_letter_source
