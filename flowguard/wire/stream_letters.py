"""Dead letters of streams that no redrive can send.

These are records that cannot be read, the places of those that no queue holds, and Lambda's notices of records that it
retries no more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from flowguard.errors import EnvelopeError
from flowguard.text.printable import LONGEST_PART, bounded
from flowguard.wire.notification import to_json
from flowguard.wire.stream_records import position_of, read_stream_record

_BATCHES: Final = ("KinesisBatchInfo", "DDBStreamBatchInfo")
_OF_KAFKA: Final = "KafkaBatchInfo"
_NAMES: Final = ("batchSize", "streamArn", "shardId", "startSequenceNumber", "endSequenceNumber")


_LEFT: Final = "leftInStream"


def place_letter(record: str, arn: str, at: int | None, why: str) -> str:
    """Return the letter of a record that fits into none: which one it is, of what stream and time (ms)."""
    return to_json({_LEFT: {"record": record, "stream": arn, "at": at, "why": why}})


MOST_PARTITIONS: Final = 20
"""So many partitions of a notice are named."""


def stream_letter_problem(text: str) -> str | None:
    """Say why a letter is of a stream and no message. None for any other text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return (_given_up(value) or _left(value) or _unread(value)) if isinstance(value, dict) else None


def readable_now(text: str) -> dict[str, Any] | None:
    """Return the record of a stream that an earlier release has parked as it came, and this one can read.

    None for any other text. Such a letter has no attributes: a message of a stage has some.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_record = isinstance(value, dict) and position_of(value) is not None and _unread(value) is None
    return value if is_record else None


def _given_up(value: Mapping[str, Any]) -> str | None:
    """Name the records of Lambda's OnFailure notice, which has only their numbers. None if it is no such notice."""
    if not isinstance(value.get("requestContext"), dict):
        return None
    if isinstance(batch := value.get(_OF_KAFKA), dict):
        size, parts = bounded(str(batch.get("batchSize")), LONGEST_PART), _partitions(batch.get("recordsInfo"))
        return f"Lambda has given up {size} records of Kafka: {parts}; they are in their topic alone"
    batch = next((value[name] for name in _BATCHES if name in value), None)
    if not isinstance(batch, dict):
        return None
    size, arn, shard, first, last = (bounded(str(batch.get(name)), LONGEST_PART) for name in _NAMES)
    return f"Lambda has given up {size} records of {arn}, {shard}, from {first} to {last}; they are in the stream alone"


def _partitions(parts: object) -> str:
    """Name the first and last offset of each partition, of many those of the first ones."""
    if not isinstance(parts, dict) or not parts:
        return "None"
    named = [_partition(name, parts[name]) for name in list(parts)[:MOST_PARTITIONS]]
    more = len(parts) - len(named)
    return ", ".join(named) + (f" and {more} partitions more" if more else "")


def _partition(name: str, offsets: object) -> str:
    named = bounded(name, LONGEST_PART)
    if not isinstance(offsets, dict):
        return named
    first, last = (bounded(str(offsets.get(end)), LONGEST_PART) for end in ("firstRecordOffset", "lastRecordOffset"))
    return f"{named} from {first} to {last}"


def _left(value: Mapping[str, Any]) -> str | None:
    """Name the record of a :func:`place_letter`. None if the value is none."""
    match value:
        case {"leftInStream": {"record": str(record), "at": at, "why": str(why)}} if value.keys() == {_LEFT}:
            named = bounded(record, LONGEST_PART), bounded(str(at), LONGEST_PART), bounded(why, LONGEST_PART)
            return "the record {} of {} ms is in its stream alone: {}".format(*named)
    return None


def _unread(value: dict[str, Any]) -> str | None:
    """Say what is wrong with a stream's record that was parked as it came. None for one that can be read."""
    position = position_of(value)
    if position is None:
        return None
    try:
        read_stream_record(value, str(value["eventSource"]), position)
    except EnvelopeError as error:
        return f"it is a record of a stream that cannot be read: {error}"
    return None
