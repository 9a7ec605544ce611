"""Read records of Kinesis, of DynamoDB streams and of Kafka. Their data is a payload: it can set no message attribute.

::

    Kinesis    id  <stream's ARN>:<shard>;place=<sequence number>                text  the data
    DynamoDB   id  <stream's ARN>;item=…;place=<sequence number>:<event id>      text  JSON: change, keys, new, old, …
    Kafka      id  <cluster's ARN>:<topic>-<partition>;place=<offset>:<time>     text  JSON: key, value, headers
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from decimal import Decimal
from hashlib import sha256
from typing import Any, Final

from flowguard.errors import EnvelopeError
from flowguard.names.series_ids import id_in_series, place_of_number
from flowguard.startup.late_pattern import late_pattern
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.attributes import json_kind
from flowguard.wire.kafka_records import FIELD, KAFKA, KafkaRecord, is_cluster, name_of
from flowguard.wire.notification import arn_service, to_json

KINESIS: Final = "aws:kinesis"
DYNAMODB: Final = "aws:dynamodb"

_PARTS: Final = {KINESIS: "kinesis", DYNAMODB: "dynamodb", KAFKA: FIELD}
_POSITIONS: Final = {KINESIS: "sequenceNumber", DYNAMODB: "SequenceNumber"}
_TIMES: Final = {KINESIS: "approximateArrivalTimestamp", DYNAMODB: "ApproximateCreationDateTime"}
_CONSUMER: Final = "/consumer/"
_POSITION: Final = late_pattern("[0-9]{1,256}")
_MILLISECONDS: Final = 1_000
_WINDOWED: Final = frozenset({"Records", "window", "isFinalInvokeForWindow"})


class StreamRecord(NamedTuple):
    """A record of a stream.

    ``position`` is its sequence number, by which the answer says where Lambda goes on. ``id`` is the same whenever and
    through whichever mapping the record comes, ``at`` is when the stream took it, in ms.
    """

    position: str
    id: str
    arn: str
    at: int
    text: str
    partition_key: str | None = None


def is_stream(kind: str | None) -> bool:
    """Answer whether records of this kind come from a stream."""
    return kind in _PARTS


def is_windowed(event: Mapping[str, Any]) -> bool:
    """Answer whether the mapping of a stream gathers records in windows. Their last event has no records at all."""
    return event.keys() >= _WINDOWED


def position_of(record: Mapping[str, Any]) -> str | None:
    """Return the sequence number of a record as the stream wrote it. None where it has none."""
    kind = record.get("eventSource")
    if not isinstance(kind, str) or kind not in _PARTS:
        return None
    part = record.get(_PARTS[kind])
    if not isinstance(part, dict):
        return None
    position = name_of(part) if kind == KAFKA else part.get(_POSITIONS[kind])
    return position if isinstance(position, str) and position else None


def read_stream_record(record: Mapping[str, Any], kind: str, place: str) -> StreamRecord:
    """Read a record as Lambda hands it over. Raises EnvelopeError for one that is not whole, or no text."""
    field = _PARTS[kind]
    part = record.get(field)
    if not isinstance(part, dict):
        problem = "missing" if part is None else f"expected an object, got {json_kind(part)}"
        raise EnvelopeError(place, field, problem)
    if kind == KAFKA:
        return _of_kafka(record, part, place)
    position = _text(part, _POSITIONS[kind], place, field)
    arn = _text(record, "eventSourceARN", position, "")
    if arn_service(arn) != field:
        raise EnvelopeError(position, "eventSourceARN", f"{arn[:80]!r} is not the ARN of a stream of {field}")
    event_id = _text(record, "eventID", position, "")
    if not _POSITION.fullmatch(position):
        raise EnvelopeError(position, f"{field}.{_POSITIONS[kind]}", "is no number, as those of streams are")
    if kind == KINESIS:
        text, series, place = _data(part, position), f":{_shard(event_id, position)}", place_of_number(position)
    else:
        text, series = _change(record, part, position), f";item={_digest(part.get('Keys'))}"
        place = f"{place_of_number(position)}:{event_id}"
    key = part.get("partitionKey")
    return StreamRecord(
        position=position,
        id=id_in_series(f"{arn.partition(_CONSUMER)[0]}{series}", place),
        arn=arn,
        at=_moment(part, _TIMES[kind], position, field),
        text=text,
        partition_key=key if isinstance(key, str) else None,
    )


def _of_kafka(record: Mapping[str, Any], part: Mapping[str, Any], place: str) -> StreamRecord:
    if (name := name_of(part)) is None:
        raise EnvelopeError(place, f"{FIELD}.offset", "is no whole number from 0")
    arn = str(record.get("eventSourceARN"))
    if not is_cluster(arn):
        raise EnvelopeError(name, "eventSourceArn", f"{arn[:80]!r} is not the ARN of a cluster of Kafka")
    read = KafkaRecord(part, name)
    series, at = f"{arn}{read.series()}", read.moment()
    return StreamRecord(
        position=name,
        id=id_in_series(series, f"{place_of_number(str(part['offset']))}:{at}"),  # a topic made anew begins at 0 again
        arn=arn,
        at=at,
        text=read.text(),
        partition_key=read.key(),
    )


# -- Kinesis -----------------------------------------------------------------------------------------------------------


def _shard(event_id: str, position: str) -> str:
    """Return the shard of a record. Its event id is the shard and the sequence number."""
    shard, _, number = event_id.rpartition(":")
    if not shard or number != position:
        raise EnvelopeError(position, "eventID", f"{event_id[:80]!r} is not the shard and the sequence number")
    return shard


def _data(part: Mapping[str, Any], position: str) -> str:
    data = _text(part, "data", position, "kinesis", may_be_empty=True)
    try:
        given = base64.b64decode(data, validate=True)
    except ValueError:
        raise EnvelopeError(position, "kinesis.data", "is not base64") from None
    if given.startswith(_AGGREGATED):
        problem = (
            "is several records in one, as the Kinesis Producer Library aggregates them: under one sequence number "
            "none of them could be acked alone; set its AggregationEnabled to false"
        )
        raise EnvelopeError(position, "kinesis.data", problem)
    try:
        return given.decode()
    except UnicodeDecodeError:
        problem = "is no text in UTF-8; compressed records have to be unpacked before a flow gets them"
        raise EnvelopeError(position, "kinesis.data", problem) from None


_AGGREGATED: Final = b"\xf3\x89\x9a\xc2"
"""What an aggregated record begins with. It is no UTF-8."""


# -- DynamoDB ----------------------------------------------------------------------------------------------------------

_CHANGES: Final = frozenset({"INSERT", "MODIFY", "REMOVE"})
_IMAGES: Final = {"keys": "Keys", "new": "NewImage", "old": "OldImage"}
_ITSELF: Final = "dynamodb.amazonaws.com"
_NUMBER: Final = late_pattern(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def _change(record: Mapping[str, Any], part: Mapping[str, Any], position: str) -> str:
    """Write what happened to an item as JSON, with plain values. An image that the stream leaves out is left out."""
    change = _text(record, "eventName", position, "")
    if change not in _CHANGES:
        raise EnvelopeError(position, "eventName", f"{change[:40]!r} is not one of {', '.join(sorted(_CHANGES))}")
    members = [f'"change":"{change}"', *(['"expired":true'] if _is_expired(record) else [])]
    for name, field in _IMAGES.items():
        if part.get(field) is not None:
            try:
                members.append(f'"{name}":{_plain_map(part[field])}')
            except (ValueError, RecursionError) as wrong:
                raise EnvelopeError(position, f"dynamodb.{field}", f"has a value that {wrong}") from None
    return "{" + ",".join(members) + "}"


def _digest(keys: object) -> str:
    """Name an item by its key. The changes of one item are in order, and no others are."""
    return sha256(json.dumps(keys, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def _is_expired(record: Mapping[str, Any]) -> bool:
    """Answer whether DynamoDB itself deleted the item, since its time to live was over."""
    who = record.get("userIdentity")
    return isinstance(who, dict) and _ITSELF in (who.get("principalId"), who.get("PrincipalId"))


def _plain_map(members: object) -> str:
    if not isinstance(members, dict):
        raise ValueError(f"is {json_kind(members)} where attributes are expected")
    return "{" + ",".join(f"{to_json(name)}:{_plain(value)}" for name, value in members.items()) + "}"


def _plain(value: object) -> str:
    """Write a typed value as plain JSON."""
    match value:
        case {"S": str(text)} | {"B": str(text)}:
            return to_json(text)
        case {"N": str(digits)}:
            return _number(digits)
        case {"BOOL": bool(flag)}:
            return "true" if flag else "false"
        case {"NULL": True}:
            return "null"
        case {"M": members}:
            return _plain_map(members)
        case {"L": list(values)}:
            return f"[{','.join(map(_plain, values))}]"
        case {"NS": list(numbers)}:
            return f"[{','.join(map(_number, numbers))}]"
        case {"SS": list(texts)} | {"BS": list(texts)}:
            return to_json(texts)
        case _:
            raise ValueError("has no type of DynamoDB")


def _number(digits: object) -> str:
    """Write a number with all its digits. One that a float would shorten is a text, which a Decimal reads as it is."""
    if not isinstance(digits, str) or not _NUMBER.fullmatch(digits):
        raise ValueError("is no number of DynamoDB")
    is_whole = digits.removeprefix("-").isdigit()
    return digits if is_whole or Decimal(repr(float(digits))) == Decimal(digits) else f'"{digits}"'


# -- fields ------------------------------------------------------------------------------------------------------------


def _text(fields: Mapping[str, Any], name: str, record: str, where: str, *, may_be_empty: bool = False) -> str:
    value, field = fields.get(name), f"{where}.{name}" if where else name
    if value is None or (value == "" and not may_be_empty):
        raise EnvelopeError(record, field, "missing")
    if not isinstance(value, str):
        raise EnvelopeError(record, field, f"expected text, got {json_kind(value)}")
    return value


def _moment(part: Mapping[str, Any], name: str, record: str, where: str) -> int:
    """Return the time in ms. A stream writes seconds since 1970, with or without their fractions."""
    value = part.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LAST_SECOND:
        raise EnvelopeError(record, f"{where}.{name}", "is no time in seconds since 1970")
    return round(value * _MILLISECONDS)


_LAST_SECOND: Final = 253_402_300_800
"""The end of the year 9999."""
