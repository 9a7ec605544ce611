"""Read events of Kafka. A mapping brings the records of several partitions at once, listed under their partitions.

::

    {"eventSource": "aws:kafka", "eventSourceArn": …, "bootstrapServers": "b-1…:9092,b-2…:9092",
     "records": {"orders-0": [{"topic": "orders", "partition": 0, "offset": 15, "timestamp": …, "key": …, "value": …}]}}

    id    <cluster's ARN>:orders-0;place=002.15:<time>   text  JSON: key, value, headers
    name  orders-0-15, by which the answer names it: {"partition": "orders-0", "offset": 15}
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final, NoReturn

from flowguard.errors import EnvelopeError
from flowguard.startup.late_pattern import late_pattern
from flowguard.wire.attributes import json_kind
from flowguard.wire.notification import LAST_MOMENT, arn_service, to_json

KAFKA: Final = "aws:kafka"
FIELD: Final = "kafka"
SELF_MANAGED: Final = ("SelfManagedKafka", "aws:SelfManagedKafka")
"""What events of a cluster outside MSK call their source. AWS's page and published events say one or the other."""

_ARN: Final = "eventSourceARN"
_TOPIC: Final = late_pattern("[A-Za-z0-9._-]{1,249}")
_NO_TEXT: Final = "base64:"


def is_kafka_event(event: Mapping[str, Any]) -> bool:
    """Answer whether the event is of a mapping of Kafka. One of its records alone is none."""
    return event.get("eventSource") in (KAFKA, *SELF_MANAGED) and "records" in event


def is_kafka_record(record: object) -> bool:
    """Answer whether it is a record that :func:`kafka_records` has listed."""
    return isinstance(record, dict) and record.get("eventSource") == KAFKA


def kafka_records(event: Mapping[str, Any]) -> list[tuple[str, object]]:
    """List each record with its place in the event, in the form in which other streams bring theirs.

    The event itself is listed where it has no lists of records: nothing of it can be acked alone.
    """
    partitions, arn = event["records"], _cluster(event)
    if not isinstance(partitions, dict) or not all(isinstance(records, list) for records in partitions.values()):
        return [("event", {"eventSource": KAFKA})]
    return [
        (
            f"records[{name}][{place}]",
            {"eventSource": KAFKA, _ARN: arn, FIELD: {**record, "name": name} if isinstance(record, dict) else record},
        )
        for name, records in partitions.items()
        for place, record in enumerate(records)
    ]


def _cluster(event: Mapping[str, Any]) -> object:
    """Return the ARN of the cluster. One outside AWS has none: its servers name it, in whatever order."""
    if event["eventSource"] == KAFKA:
        return event.get("eventSourceArn")
    servers = ",".join(sorted(str(event.get("bootstrapServers")).split(",")))
    return f"arn:aws:kafka:unknown:000000000000:self-managed/{sha256(servers.encode()).hexdigest()[:16]}"


def name_of(part: Mapping[str, Any]) -> str | None:
    """Return the name of a record, which has its partition's name and its offset. None where it has none."""
    name, offset = part.get("name"), part.get("offset")
    return f"{name}-{offset}" if isinstance(name, str) and type(offset) is int and offset >= 0 else None


def named_for_lambda(names: Iterable[str]) -> list[dict[str, Any]]:
    """Return how the answer names records. It has each of them: AWS says that Lambda retries those that it names."""
    parts = (name.rpartition("-") for name in names)
    return [{"partition": partition, "offset": int(offset)} for partition, _, offset in parts]


class KafkaRecord:
    """Reads one record. Each method raises :class:`EnvelopeError` for what is not as Lambda writes it."""

    def __init__(self, part: Mapping[str, Any], name: str) -> None:
        self._part = part
        self._name = name

    def series(self) -> str:
        """Return what its offsets are comparable in: its partition."""
        topic, partition = self._part.get("topic"), self._part.get("partition")
        if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
            self._wrong("topic", "is no name of a topic")
        if self._part["name"] != f"{topic}-{partition}":
            self._wrong("partition", f"stands under {self._part['name'][:80]!r}, which is another partition")
        return f":{self._part['name']}"

    def moment(self) -> int:
        """Return its time in ms. 0 where its producer gave none."""
        at = self._part.get("timestamp")
        if type(at) is not int or at > LAST_MOMENT:  # one of microseconds is in the year 57,000
            self._wrong("timestamp", "is no time in milliseconds since 1970")
        return max(at, 0)

    def key(self) -> str | None:
        """Return its key as text."""
        return None if self._part.get("key") is None else _text_of(self._bytes("key"))

    def text(self) -> str:
        """Return its payload: JSON with its key, value and headers. The value of a tombstone is null."""
        members = [f'"key":{to_json(self.key())}', f'"value":{self._value()}']
        if self._part.get("headers"):
            members.append(f'"headers":{to_json(self._headers())}')
        return "{" + ",".join(members) + "}"

    def _value(self) -> str:
        """Return the value as JSON, to the letter where it is JSON; other text is a JSON string."""
        if self._part.get("value") is None:
            return "null"
        try:
            text = self._bytes("value").decode()
        except UnicodeDecodeError:
            problem = "is no text in UTF-8; what a schema registry has encoded has to be JSON before a flow gets it"
            self._wrong("value", problem)
        try:
            json.loads(text, parse_constant=_refused)
        except (ValueError, RecursionError):
            return to_json(text)
        return text

    def _headers(self) -> dict[str, str]:
        """Return the headers with a value, as text. Of one name twice the last counts. Java has bytes from -128."""
        given, read = self._part["headers"], {}
        try:
            for header in given:
                for name, numbers in ((name, numbers) for name, numbers in header.items() if numbers is not None):
                    read[name] = _text_of(b"".join(number.to_bytes(signed=number < 0) for number in numbers))
        except (AttributeError, TypeError, OverflowError):
            self._wrong("headers", f"expected lists of bytes by their names, got {json_kind(given)}")
        return read

    def _bytes(self, field: str) -> bytes:
        given = self._part[field]
        if not isinstance(given, str):
            self._wrong(field, f"expected text, got {json_kind(given)}")
        try:
            return base64.b64decode(given, validate=True)
        except ValueError:
            self._wrong(field, "is not base64")

    def _wrong(self, field: str, problem: str) -> NoReturn:
        raise EnvelopeError(self._name, f"{FIELD}.{field}", problem) from None


def _text_of(given: bytes) -> str:
    try:
        return given.decode()
    except UnicodeDecodeError:
        return _NO_TEXT + base64.b64encode(given).decode()


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def is_cluster(arn: object) -> bool:
    """Answer whether the ARN is that of a cluster."""
    return arn_service(arn) == FIELD
