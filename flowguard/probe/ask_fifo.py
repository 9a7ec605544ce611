"""What FIFO queues do with groups and copies."""

from __future__ import annotations

from typing import Any

from flowguard.probe.lab import Lab
from flowguard.probe.made import queue, received
from flowguard.probe.saw import Saw, asks


def _put(lab: Lab, url: str, body: str, group: str = "g", copy: str | None = None) -> str:
    message_id: str = lab.ask(
        "sqs",
        "send_message",
        QueueUrl=url,
        MessageBody=body,
        MessageGroupId=group,
        MessageDeduplicationId=copy if copy is not None else f"{group}-{body}",
    )["MessageId"]
    return message_id


def _bodies(messages: list[Any]) -> list[str]:
    return [message["Body"] for message in messages]


def _delete(lab: Lab, url: str, message: Any) -> None:
    lab.ask("sqs", "delete_message", QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


@asks("sqs-fifo-deduplication", "sqs", seconds=330)
def deduplication(lab: Lab) -> Saw:
    """Send a copy of a message that was received and deleted. It is sent at once and after five minutes."""
    url = queue(lab, fifo=True)
    first = _put(lab, url, "a", copy="same")
    for message in received(lab, url):
        _delete(lab, url, message)
    again = _put(lab, url, "a", copy="same")
    dropped = received(lab, url, seconds=2)
    lab.pause(305)
    _put(lab, url, "a", copy="same")
    taken = received(lab, url)
    shown = f"within 5 minutes: {len(dropped)} arrived, the same id: {again == first}; after: {len(taken)} arrived"
    return Saw(not dropped and again == first and len(taken) == 1, shown)


@asks("sqs-fifo-group-lock", "sqs", seconds=10)
def group_lock(lab: Lab) -> Saw:
    """Receive one message of a group of two and ask for more. Then it is deleted."""
    url = queue(lab, fifo=True)
    for body in ("1", "2"):
        _put(lab, url, body)
    _put(lab, url, "other", group="h")
    (first,) = received(lab, url, most=1)
    others = _bodies(received(lab, url, seconds=0))
    _delete(lab, url, first)
    then = _bodies(received(lab, url, seconds=3))
    shown = f"first {first['Body']}, then {others}, after the deletion {then}"
    return Saw(first["Body"] == "1" and others == ["other"] and then == ["2"], shown)


@asks("sqs-fifo-lock-after-partial-failure", "sqs", seconds=10)
def lock_after_partial_failure(lab: Lab) -> Saw:
    """Receive two messages of a group and make the first visible. The second is in flight all the while."""
    url = queue(lab, fifo=True)
    for body in ("1", "2"):
        _put(lab, url, body)
    both = received(lab, url, most=2)
    if len(both) < 2:
        return Saw(False, f"one call brought {_bodies(both)} only")
    receipt = both[0]["ReceiptHandle"]
    lab.ask("sqs", "change_message_visibility", QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=0)
    locked = _bodies(received(lab, url, seconds=2))
    receipt = both[1]["ReceiptHandle"]
    lab.ask("sqs", "change_message_visibility", QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=0)
    free = _bodies(received(lab, url, seconds=3))
    return Saw(not locked and free[:1] == ["1"], f"while the second is in flight: {locked}; after: {free}")


@asks("sqs-fifo-needs-ids", "sqs")
def needs_ids(lab: Lab) -> Saw:
    """Send messages without a group or a deduplication id. One more has an id that is too long."""
    url = queue(lab, fifo=True)

    def sent(**params: Any) -> str:
        return lab.code_of("sqs", "send_message", QueueUrl=url, MessageBody="x", **params)

    good = sent(MessageGroupId="g" * 128, MessageDeduplicationId="d" * 128)
    bad = (
        sent(MessageDeduplicationId="d"),
        sent(MessageGroupId="g"),
        sent(MessageGroupId="g" * 129, MessageDeduplicationId="e"),
    )
    shown = f"128 characters: {good or 'taken'}; no group, no id, 129: {', '.join(code or 'taken' for code in bad)}"
    return Saw(not good and all(bad), shown)
