"""The messages that an SNS topic accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flowguard.sim.limits.attributes import attributes_size, problem_of
from flowguard.sim.limits.fault import Fault
from flowguard.sim.limits.texts import check_batch_ids, is_token

LARGEST: Final = 262_144
"""Bytes of a message with its attributes, and of a whole batch."""

MOST_ENTRIES: Final = 10
LONGEST_SUBJECT: Final = 100

Entry = Mapping[str, Any]


def no_topic() -> Fault:
    return Fault("NotFound", "Topic does not exist", status=404)


def topic_name(params: Mapping[str, Any]) -> str:
    """Return the name of the topic that a call uses."""
    return str(params.get("TopicArn") or params.get("TargetArn", "")).rpartition(":")[2]


def message_size(entry: Entry) -> int:
    """Return the bytes of the message and of the attributes' names, types and values.

    A lone surrogate is a UnicodeEncodeError, as it is in botocore, which writes the request as UTF-8.
    """
    return len(entry["Message"].encode()) + attributes_size(entry.get("MessageAttributes", {}))


def check_message(entry: Entry, *, fifo: bool, content_based: bool) -> None:
    if message_size(entry) > LARGEST:
        raise _wrong("Message too long")
    _check_entry(entry, fifo=fifo, content_based=content_based)


def check_batch(entries: list[Entry], *, fifo: bool, content_based: bool) -> None:
    """Check a batch. SNS refuses it as a whole, whichever entry is wrong."""
    check_batch_ids([entry["Id"] for entry in entries], MOST_ENTRIES)
    if sum(map(message_size, entries)) > LARGEST:
        raise Fault("BatchRequestTooLong", "The length of all the messages put together is more than the limit.")
    for entry in entries:
        _check_entry(entry, fifo=fifo, content_based=content_based)


def _check_entry(entry: Entry, *, fifo: bool, content_based: bool) -> None:
    if not entry["Message"]:
        raise _wrong("Empty message")
    if "Subject" in entry and not _is_subject(entry["Subject"]):
        raise _wrong("Subject")
    if problem := problem_of(entry.get("MessageAttributes", {})):
        raise Fault("ParameterValueInvalid", problem.what)
    for name in ("MessageGroupId", "MessageDeduplicationId"):
        if name in entry and not is_token(entry[name]):
            raise _wrong(f"{name} Reason: can only include alphanumeric and punctuation characters, 1 to 128 of them")
    if fifo and "MessageGroupId" not in entry:
        raise _wrong("The MessageGroupId parameter is required for FIFO topics")
    if fifo and not content_based and "MessageDeduplicationId" not in entry:
        raise _wrong(
            "The topic should either have ContentBasedDeduplication enabled "
            "or MessageDeduplicationId provided explicitly"
        )


def _is_subject(text: str) -> bool:
    """Answer whether the text may be a subject.

    It has to have less than 100 characters, none of which is a control or breaks the line.
    """
    return 0 < len(text) < LONGEST_SUBJECT and not any(
        ord(character) < 32 or ord(character) == 127 for character in text
    )


def _wrong(problem: str) -> Fault:
    return Fault("InvalidParameter", f"Invalid parameter: {problem}")
