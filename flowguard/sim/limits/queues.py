"""The messages, batches and times that an SQS queue accepts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from flowguard.sim.limits.attributes import attributes_size, problem_of
from flowguard.sim.limits.fault import Fault
from flowguard.sim.limits.texts import byte_size, check_batch_ids, forbidden, is_token

LARGEST: Final = 1_048_576
"""Bytes of a message with its attributes, and of a whole batch."""

MOST_ENTRIES: Final = 10
MOST_ATTRIBUTES: Final = 10
LONGEST_DELAY: Final = 900
LONGEST_VISIBILITY: Final = 43_200
LONGEST_POLL: Final = 20

PREFIX: Final = "AWS.SimpleQueueService."

_NO_DEDUPLICATION: Final = (
    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
)
_NO_GROUP: Final = "The request must contain the parameter MessageGroupId."

Entry = Mapping[str, Any]


class Takes(NamedTuple):
    """The messages that a queue accepts, by its attributes."""

    fifo: bool
    largest: int = LARGEST
    content_based: bool = False


def wrong(message: str) -> Fault:
    return Fault("InvalidParameterValue", message, shape="InvalidParameterValueException")


def missing(message: str) -> Fault:
    return Fault("MissingParameter", message, shape="MissingRequiredParameterException")


def no_queue() -> Fault:
    return Fault(f"{PREFIX}NonExistentQueue", "The specified queue does not exist.", shape="QueueDoesNotExist")


def queue_name(params: Mapping[str, Any]) -> str:
    """Return the name of the queue that a call uses."""
    return str(params.get("QueueName") or params["QueueUrl"].rpartition("/")[2])


def message_size(entry: Entry) -> int:
    """Return the bytes of the body and of the attributes' names, types and values."""
    return byte_size(entry["MessageBody"]) + attributes_size(entry.get("MessageAttributes", {}))


def check_message(entry: Entry, takes: Takes) -> None:
    """Check a message that is sent alone. In a batch, what a FIFO queue needs is checked for all entries at once."""
    check_entry(entry, takes)
    if takes.fifo and not entry.get("MessageGroupId"):
        raise missing(_NO_GROUP)
    if takes.fifo and not takes.content_based and not entry.get("MessageDeduplicationId"):
        raise wrong(_NO_DEDUPLICATION)


def check_entry(entry: Entry, takes: Takes) -> None:
    """Check a message that is sent alone or in a batch."""
    if not entry["MessageBody"]:
        raise missing("The request must contain the parameter MessageBody.")
    if message_size(entry) > takes.largest:
        raise wrong(f"One or more parameters are invalid. Reason: Message must be shorter than {takes.largest} bytes.")
    if character := forbidden(entry["MessageBody"]):
        raise _contents(f"Invalid binary character '{character}' was found in the message body.")
    if attributes := entry.get("MessageAttributes"):
        _check_attributes(attributes)
    _check_delay(entry.get("DelaySeconds"), takes)
    for name in ("MessageGroupId", "MessageDeduplicationId"):
        if name in entry and not is_token(entry[name]):
            raise wrong(
                f"Value for parameter {name} is invalid. "
                f"Reason: {name} can only include alphanumeric and punctuation characters. 1 to 128 in length."
            )


def _check_attributes(attributes: Mapping[str, Any]) -> None:
    if len(attributes) > MOST_ATTRIBUTES:
        raise wrong(f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum [10].")
    if problem := problem_of(attributes):
        raise _contents(problem.what) if problem.character else wrong(problem.what)


def _contents(message: str) -> Fault:
    return Fault("InvalidMessageContents", message, shape="InvalidMessageContents")


def _check_delay(delay: int | None, takes: Takes) -> None:
    if delay is not None and not 0 <= delay <= LONGEST_DELAY:
        raise wrong(f"Value {delay} for parameter DelaySeconds is invalid. Reason: must be >= 0 and <= 900.")
    if delay and takes.fifo:
        raise wrong(f"Value {delay} for parameter DelaySeconds is invalid. Reason: not valid for this queue type.")


def check_batch(entries: Iterable[Entry]) -> None:
    """Check the number and ids of the entries in any batch. They may be sends, deletes or changes of visibility."""
    check_batch_ids([entry["Id"] for entry in entries], MOST_ENTRIES, PREFIX)


def check_send_batch(entries: list[Entry], takes: Takes) -> None:
    """Raise a Fault for a batch of messages that is refused as a whole."""
    check_batch(entries)
    size = sum(map(message_size, entries))
    if size > LARGEST:
        raise Fault(
            f"{PREFIX}BatchRequestTooLong",
            f"Batch requests cannot be longer than {LARGEST} bytes. You have sent {size} bytes.",
            shape="BatchRequestTooLong",
        )
    if not takes.fifo:
        return
    if not all(entry.get("MessageGroupId") for entry in entries):
        raise wrong(_NO_GROUP)
    if not takes.content_based and not all(entry.get("MessageDeduplicationId") for entry in entries):
        raise wrong(_NO_DEDUPLICATION)


def check_visibility(seconds: int) -> None:
    if not 0 <= seconds <= LONGEST_VISIBILITY:
        raise wrong(f"Value {seconds} for parameter VisibilityTimeout is invalid. Reason: must be >= 0 and <= 43200.")


def check_whole_visibility(seconds: int, since: int) -> None:
    """Check a change of visibility ``since`` ms after the message was received. SQS counts from there."""
    if seconds * 1000 + since > LONGEST_VISIBILITY * 1000:
        raise wrong(
            f"Value {seconds} for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the "
            f"message is beyond the limit [{LONGEST_VISIBILITY} seconds]."
        )


def check_receive(params: Mapping[str, Any]) -> None:
    """Check how many messages a call asks for, and for how long it waits."""
    most, wait = params.get("MaxNumberOfMessages", 1), params.get("WaitTimeSeconds", 0)
    if not 1 <= most <= MOST_ENTRIES:
        raise wrong(f"Value {most} for parameter MaxNumberOfMessages is invalid. Reason: must be between 1 and 10")
    if not 0 <= wait <= LONGEST_POLL:
        raise wrong(f"Value {wait} for parameter WaitTimeSeconds is invalid. Reason: must be >= 0 and <= 20")
