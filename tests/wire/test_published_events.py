"""Events as AWS and its libraries publish them, field for field. Their values are our own.

The files beside this test have the names, the types and the shapes of the fields of ``SOURCES``, as they were compared
in November 2026. What those have and no mapping sends is left out: attributes of a table with each type beside its own
as null, a place in place of an ARN, a change without a time, and the fields of a window in kinesisStreamEvent.json.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from flowguard.names.ids import RequestId
from flowguard.names.series_ids import comes_after
from flowguard.wire.envelope import BadRecord, Envelope, Source, normalize

FOLDER: Final = Path(__file__).parent / "published"

_DATA: Final = "aws-powertools/powertools-lambda-python tests/events/"
_GO: Final = "aws/aws-lambda-go events/testdata/"
_S3: Final = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/"

SOURCES: Final = {
    "kinesis.json": _DATA + "kinesisStreamEvent.json",
    "kinesis-window.json": _DATA + "kinesisStreamTumblingWindowEvent.json",
    "dynamodb.json": f"{_GO}dynamodb-event.json and {_DATA}dynamoStreamEvent.json",
    "kafka-msk.json": f"{_GO}kafka-event.json and {_DATA}kafkaEventMsk.json",
    "kafka-self-managed.json": _DATA + "kafkaEventSelfManaged.json",
    "s3-to-queue.json": f"{_S3}notification-content-structure.html and {_GO}s3-event.json, in a message of SQS",
    "s3-over-eventbridge.json": f"{_S3}ev-events.html, in a message of SQS",
}
"""Where the fields of each file were read."""

STREAM: Final = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
CLUSTER: Final = "arn:aws:kafka:eu-west-1:123456789012:cluster/orders/e9f754c6-d29a-4430-a7db-958a19fd2c54-4"


def event(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def read(name: str) -> list[Envelope]:
    return [envelope for envelope in normalize(event(name)) if isinstance(envelope, Envelope)]


def in_order(envelopes: list[Envelope]) -> bool:
    ids = [RequestId(envelope.own_id) for envelope in envelopes]
    return all(comes_after(later, earlier) for earlier, later in pairwise(ids))


def test_each_file_says_where_its_fields_were_read() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.json")) == sorted(SOURCES)


def test_records_of_kinesis() -> None:
    first, second = read("kinesis.json")
    assert (first.source, first.sent_at, second.sent_at) == (Source.KINESIS, 1_767_225_600_987, 1_767_225_601_500)
    assert [json.loads(each.message) for each in (first, second)] == [
        {"order_id": "o1"},
        {"order_id": "o1", "paid": True},
    ]
    assert first.own_id.startswith(f"{STREAM}:shardId-000000000003;place=056.4959033827149025660855969253836")
    assert in_order([first, second])


def test_a_window_of_kinesis_is_refused_with_what_to_change() -> None:
    [bad] = normalize(event("kinesis-window.json"))
    assert isinstance(bad, BadRecord)
    assert "gathers windows and wants a state back" in str(bad.error)


def test_records_of_a_table() -> None:
    made, changed, expired = read("dynamodb.json")
    assert (made.source, made.sent_at, changed.sent_at) == (Source.DYNAMODB, 1_767_225_600_000, 1_767_225_601_000)
    assert json.loads(made.message) == {
        "change": "INSERT",
        "keys": {"order_id": "o1", "line": 1},
        "new": {
            "order_id": "o1",
            "line": 1,
            "photo": "AAEqQQ==",
            "photos": ["AAEqQQ==", "QSoBAA=="],
            "gift": True,
            "lines": ["tea", 3.14159],
            "buyer": {"name": "Ann", "age": 35},
            "sizes": [1234, 567.8],
            "note": None,
            "tags": ["a", "b"],
        },
    }
    assert {"old", "new"} <= json.loads(changed.message).keys()
    assert json.loads(expired.message) | {"old": {}} == {
        "change": "REMOVE",
        "expired": True,
        "keys": {"order_id": "o1", "line": 1},
        "old": {},
    }
    assert in_order([made, changed, expired])


def test_records_of_msk() -> None:
    first, second, without_key = read("kafka-msk.json")
    assert (first.source, first.sent_at) == (Source.KAFKA, 1_767_225_600_700)
    assert (first.message_id, second.message_id) == ("orders-0-14", "orders-0-15")
    assert first.own_id == f"{CLUSTER}:orders-0;place=002.14:1767225600700"
    assert json.loads(first.message) == {"key": "o1", "value": {"order_id": "o1"}, "headers": {"trace": "a-1"}}
    assert json.loads(second.message) == {"key": "o1", "value": {"order_id": "o1", "paid": True}}
    assert json.loads(without_key.message) == {"key": None, "value": {"order_id": "o1", "paid": True}}
    assert in_order([first, second, without_key])


@pytest.mark.parametrize("source", ["SelfManagedKafka", "aws:SelfManagedKafka"])
def test_a_record_of_a_cluster_outside_msk(source: str) -> None:
    [envelope] = normalize(event("kafka-self-managed.json") | {"eventSource": source})
    assert isinstance(envelope, Envelope)
    assert (envelope.source, envelope.message_id) == (Source.KAFKA, "orders-0-15")
    assert envelope.own_id.endswith(":orders-0;place=002.15:1767225600700")
    assert json.loads(envelope.message) == {"key": "o1", "value": {"order_id": "o1"}, "headers": {"trace": "a-1"}}


def test_a_change_in_a_bucket_has_one_id_whoever_tells_it() -> None:
    [told], [over_bus] = read("s3-to-queue.json"), read("s3-over-eventbridge.json")
    assert told.own_id == over_bus.own_id
    assert told.own_id.startswith("arn:aws:s3:::orders;object=")
    assert ";place=0055AED6DCD90281E5" in told.own_id
    of_object = {name: json.loads(each.message)["object"] for name, each in (("told", told), ("bus", over_bus))}
    assert of_object["told"] == of_object["bus"]
    assert of_object["told"]["key"] == "in/o 1.json", "keys are decoded"
