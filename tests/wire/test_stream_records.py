"""Records of streams, as AWS documents them."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from hashlib import sha256
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard.payload.encoding import decode
from flowguard.testing import dynamodb_event, kinesis_event
from flowguard.wire.envelope import BadRecord, Envelope, Source, normalize
from flowguard.wire.stream_records import position_of

SEQUENCE = "49590338271490256608559692538361571095921575989136588898"
STREAM = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
TABLE = "arn:aws:dynamodb:eu-west-1:123456789012:table/orders/stream/2026-01-01T00:00:00.000"
LAST = 253_402_300_799  # of the year 9999
KEYS = {"order_id": {"S": "o1"}}
KEYS_PLAIN = {"order_id": "o1"}


def read(event: Any) -> Envelope:
    [envelope] = normalize(event)
    assert isinstance(envelope, Envelope), envelope
    return envelope


def of_kinesis(data: bytes = b'{"order_id":"o1"}', **more: Any) -> dict[str, Any]:
    record: dict[str, Any] = kinesis_event("orders", data, **more)["Records"][0]
    return record


def of_dynamodb(**images: Any) -> dict[str, Any]:
    record: dict[str, Any] = dynamodb_event("orders", KEYS, **images)["Records"][0]
    return record


def changed(**values: Any) -> Any:
    """The new image of a table's record, as its message has it."""
    return json.loads(read({"Records": [of_dynamodb(new=values)]}).message, parse_float=Decimal)["new"]


def test_a_record_of_kinesis_is_its_data_under_the_place_in_its_stream() -> None:
    envelope = read({"Records": [of_kinesis(arrived_at=1_545_084_650_987, partition_key="o1")]})
    assert (envelope.source, envelope.message, envelope.attributes) == (Source.KINESIS, '{"order_id":"o1"}', {})
    assert envelope.message_id == SEQUENCE, "Lambda goes on from it"
    assert envelope.own_id == f"{STREAM}:shardId-000000000000;place=056.{SEQUENCE}"
    assert (envelope.sent_at, envelope.of_sqs["partitionKey"]) == (1_545_084_650_987, "o1")
    assert (envelope.source_arn, envelope.queue_arn, envelope.came_through) == (STREAM, None, None)
    assert "kinesis" not in envelope.record, "its data is the body"
    assert (envelope.record["awsRegion"], envelope.record["eventName"]) == ("eu-west-1", "aws:kinesis:record")


def test_a_change_of_a_table_is_plain_json_under_its_place_among_those_of_its_item() -> None:
    record = of_dynamodb(new={**KEYS, "total": {"N": "7"}}, old=KEYS, changed_at=1_479_499_740_000)
    envelope = read({"Records": [record]})
    assert envelope.source is Source.DYNAMODB
    assert json.loads(envelope.message) == {
        "change": "MODIFY",
        "keys": {"order_id": "o1"},
        "new": {"order_id": "o1", "total": 7},
        "old": {"order_id": "o1"},
    }
    assert envelope.message_id == "4421584500000000017450439091"
    item = sha256(b'{"order_id":{"S":"o1"}}').hexdigest()[:16]
    place = "028.4421584500000000017450439091:c4ca4238a0b923820dcc509a6f75849b"
    assert envelope.own_id == f"{TABLE};item={item};place={place}"
    assert envelope.sent_at == 1_479_499_740_000


def test_an_image_that_the_stream_leaves_out_is_left_out() -> None:
    assert json.loads(read({"Records": [of_dynamodb()]}).message) == {"change": "REMOVE", "keys": {"order_id": "o1"}}


def test_each_type_of_dynamodb_becomes_plain_json() -> None:
    typed = {
        "text": {"S": "tea \u2615"},
        "digits": {"N": "12345678901234567890123456789012345.678"},
        "tiny": {"N": "1E-130"},
        "bytes": {"B": "AAH+/w=="},
        "flag": {"BOOL": True},
        "off": {"BOOL": False},
        "nothing": {"NULL": True},
        "map": {"M": {"a": {"L": [{"N": "1"}, {"S": ""}]}}},
        "texts": {"SS": ["a", "b"]},
        "numbers": {"NS": ["1", "-2.5"]},
        "blobs": {"BS": ["AA=="]},
    }
    assert changed(**typed) == {
        "text": "tea \u2615",
        "digits": "12345678901234567890123456789012345.678",
        "tiny": Decimal("1E-130"),
        "bytes": "AAH+/w==",
        "flag": True,
        "off": False,
        "nothing": None,
        "map": {"a": [1, ""]},
        "texts": ["a", "b"],
        "numbers": [1, Decimal("-2.5")],
        "blobs": ["AA=="],
    }


class Numbers(BaseModel):
    digits: Decimal
    as_float: float | None = None


@pytest.mark.parametrize(
    "digits",
    [
        *("0", "-7", "42.50", "0.1", "1E-130", "9.9999999999999999999999999999999999999E+125", "1e999"),
        *("123456789012345678901234567890", "-12345678901234567890.5", "0.30000000000000004441"),
    ],
)
def test_a_number_keeps_all_its_digits_until_a_model_has_it(digits: str) -> None:
    message = read({"Records": [of_dynamodb(new={"digits": {"N": digits}})]}).message
    image = message[message.index('"new":') + 6 : -1]
    assert decode(Numbers, image, what="the change").digits == Decimal(digits)


def test_a_number_is_a_number_wherever_a_float_holds_it() -> None:
    assert changed(n={"N": "42.50"}, m={"N": "-3"}) == {"n": Decimal("42.50"), "m": -3}
    assert changed(n={"N": "123456789012345678901234567890"}) == {"n": 123456789012345678901234567890}
    assert changed(n={"N": "0.30000000000000004441"}) == {"n": "0.30000000000000004441"}
    assert decode(Numbers, '{"digits":1,"as_float":"0.25"}', what="x").as_float == 0.25


def test_a_deletion_says_whether_the_items_time_was_over() -> None:
    def deleted(**more: Any) -> Any:
        return json.loads(read(dynamodb_event("orders", KEYS, old=KEYS, **more)).message)

    assert deleted(expired=True) == {"change": "REMOVE", "expired": True, "keys": KEYS_PLAIN, "old": KEYS_PLAIN}
    assert deleted() == {"change": "REMOVE", "keys": KEYS_PLAIN, "old": KEYS_PLAIN}
    by_others = {"type": "Service", "principalId": "replication.dynamodb.amazonaws.com"}
    record = of_dynamodb(old=KEYS)
    assert "expired" not in json.loads(read([record | {"userIdentity": by_others}]).message)
    assert "expired" not in json.loads(read([record | {"userIdentity": "dynamodb.amazonaws.com"}]).message)
    as_of_api = {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}
    assert json.loads(read([record | {"userIdentity": as_of_api}]).message)["expired"] is True


@pytest.mark.parametrize("records", [[], [of_kinesis()], [of_dynamodb()]])
def test_an_event_of_a_window_is_refused_as_a_whole_for_it_wants_a_state_back(records: list[Any]) -> None:
    event = {"Records": records, "window": {"start": "2026-01-01T00:00:00Z"}, "isFinalInvokeForWindow": not records}
    [bad] = normalize(event, invocation_id="call-1")
    assert isinstance(bad, BadRecord)
    assert (bad.error.record, bad.error.field, bad.record_id, bad.envelope) == ("event", "window", None, None)
    assert "its mapping gathers windows" in bad.error.problem


@pytest.mark.parametrize("missing", ["Records", "window", "isFinalInvokeForWindow"])
def test_a_payload_with_a_window_of_its_own_is_a_payload(missing: str) -> None:
    event = {"Records": [], "window": {}, "isFinalInvokeForWindow": True}
    del event[missing]
    [envelope] = normalize(event, invocation_id="call-1")
    assert isinstance(envelope, Envelope)
    assert json.loads(envelope.message) == event


def test_the_same_record_has_the_same_id_through_each_consumer() -> None:
    through = of_kinesis() | {"eventSourceARN": f"{STREAM}/consumer/prices:1545084650"}
    assert read([through]).own_id == read([of_kinesis()]).own_id


@pytest.mark.parametrize(
    "other",
    [
        of_kinesis(shard="shardId-000000000001"),
        of_kinesis(sequence="5"),
        of_kinesis() | {"eventSourceARN": f"{STREAM}-2"},
        of_kinesis() | {"eventSourceARN": STREAM.replace("eu-west-1", "eu-west-2")},
    ],
)
def test_records_of_different_places_have_different_ids(other: dict[str, Any]) -> None:
    assert read([other]).own_id != read([of_kinesis()]).own_id


def test_the_order_of_a_key_of_two_parts_makes_no_other_item_and_another_item_does() -> None:
    first, second = {"pk": {"S": "a"}}, {"sk": {"S": "b"}}
    ids = [
        read(dynamodb_event("orders", keys)).own_id
        for keys in ({**first, **second}, {**second, **first}, {**first, "sk": {"S": "c"}})
    ]
    assert ids[0] == ids[1] != ids[2]


def test_two_changes_are_two_requests_even_if_they_had_one_number() -> None:
    assert len({read(dynamodb_event("orders", KEYS, event_id=each)).own_id for each in ("e-1", "e-2")}) == 2


FORGED = {
    "Type": "Notification",
    "MessageId": "n",
    "TopicArn": "arn:aws:sns:eu-west-1:123456789012:told",
    "Message": "{}",
    "Timestamp": "2026-01-01T00:00:00.000Z",
    "MessageAttributes": {"uniquerequestid": {"Type": "String", "Value": "theirs"}},
}
EVENT = {
    "version": "0",
    "id": "00000000-0000-4000-8000-000000000000",
    "detail-type": "Made",
    "source": "shop",
    "account": "123456789012",
    "time": "2026-01-01T00:00:00Z",
    "region": "eu-west-1",
    "resources": [],
    "detail": {"flowguard": {"uniquerequestid": "theirs"}},
}


@pytest.mark.parametrize("value", [FORGED, EVENT, FORGED | {"TopicArn": STREAM}])
def test_what_the_data_looks_like_is_the_payload_and_says_nothing_else(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    envelope = read([of_kinesis(text.encode())])
    again = read([envelope.record])
    for each in (envelope, again):
        assert (each.message, each.attributes, each.event) == (text, {}, None)
        assert each.own_id.startswith(STREAM)
    assert again.record == envelope.record


def without(record: dict[str, Any], *path: str) -> dict[str, Any]:
    return with_value(record, None, *path)


def with_value(record: dict[str, Any], value: Any, *path: str) -> dict[str, Any]:
    *parts, last = path
    copy = json.loads(json.dumps(record))
    inner = copy
    for part in parts:
        inner = inner[part]
    inner[last] = value
    made: dict[str, Any] = copy
    return made


@pytest.mark.parametrize(
    ("record", "field", "problem"),
    [
        (without(of_kinesis(), "kinesis"), "kinesis", "missing"),
        (with_value(of_kinesis(), [], "kinesis"), "kinesis", "expected an object"),
        (without(of_kinesis(), "kinesis", "sequenceNumber"), "kinesis.sequenceNumber", "missing"),
        (with_value(of_kinesis(), "", "kinesis", "sequenceNumber"), "kinesis.sequenceNumber", "missing"),
        (with_value(of_kinesis(), 5, "kinesis", "sequenceNumber"), "kinesis.sequenceNumber", "expected text"),
        (without(of_kinesis(), "kinesis", "data"), "kinesis.data", "missing"),
        (with_value(of_kinesis(), "?", "kinesis", "data"), "kinesis.data", "is not base64"),
        (of_kinesis(b"\xff"), "kinesis.data", "is no text in UTF-8"),
        (of_kinesis(b"\xf3\x89\x9a\xc2\n\x01"), "kinesis.data", "as the Kinesis Producer Library aggregates them"),
        (without(of_kinesis(), "eventID"), "eventID", "missing"),
        (of_kinesis() | {"eventID": SEQUENCE}, "eventID", "is not the shard and the sequence number"),
        (of_kinesis() | {"eventID": f":{SEQUENCE}"}, "eventID", "is not the shard and the sequence number"),
        (of_kinesis() | {"eventID": f"shardId-000000000000:1{SEQUENCE}"}, "eventID", "is not the shard and the"),
        (of_kinesis(sequence="1-2"), "kinesis.sequenceNumber", "is no number, as those of streams are"),
        (of_kinesis(sequence="1" * 257), "kinesis.sequenceNumber", "is no number"),
        (without(of_kinesis(), "eventSourceARN"), "eventSourceARN", "missing"),
        (of_kinesis() | {"eventSourceARN": TABLE}, "eventSourceARN", "is not the ARN of a stream of kinesis"),
        (without(of_kinesis(), "kinesis", "approximateArrivalTimestamp"), "kinesis.approximateArrivalTimestamp", "is"),
        (with_value(of_kinesis(), True, "kinesis", "approximateArrivalTimestamp"), "approximateArrival", "is no time"),
        (with_value(of_kinesis(), -1, "kinesis", "approximateArrivalTimestamp"), "approximateArrival", "is no time"),
        (with_value(of_kinesis(), LAST + 1, "kinesis", "approximateArrivalTimestamp"), "approximateArr", "is no time"),
        (with_value(of_kinesis(), 1e15, "kinesis", "approximateArrivalTimestamp"), "approximateArrival", "is no time"),
        (without(of_dynamodb(), "dynamodb"), "dynamodb", "missing"),
        (with_value(of_dynamodb(), "UPSERT", "eventName"), "eventName", "'UPSERT' is not one of INSERT, MODIFY"),
        (with_value(of_dynamodb(), [], "dynamodb", "Keys"), "dynamodb.Keys", "where attributes are expected"),
        (with_value(of_dynamodb(), {"n": {"N": "NaN"}}, "dynamodb", "Keys"), "dynamodb.Keys", "is no number"),
        (with_value(of_dynamodb(), {"n": {"N": "1,2"}}, "dynamodb", "Keys"), "dynamodb.Keys", "is no number"),
        (with_value(of_dynamodb(), {"n": {"NS": [1]}}, "dynamodb", "Keys"), "dynamodb.Keys", "is no number"),
        (with_value(of_dynamodb(), {"n": {"X": "1"}}, "dynamodb", "Keys"), "dynamodb.Keys", "has no type"),
        (with_value(of_dynamodb(), {"n": "1"}, "dynamodb", "Keys"), "dynamodb.Keys", "has no type"),
        (with_value(of_kinesis(), "é", "kinesis", "data"), "kinesis.data", "is not base64"),
    ],
)
def test_what_is_wrong_with_a_record_is_named(record: dict[str, Any], field: str, problem: str) -> None:
    [bad] = normalize({"Records": [record]})
    assert isinstance(bad, BadRecord)
    assert field in bad.error.field
    assert problem in bad.error.problem


@pytest.mark.parametrize("second", [0, LAST])
def test_every_second_until_the_year_9999_is_a_time(second: int) -> None:
    assert read([of_kinesis(arrived_at=second * 1_000)]).sent_at == second * 1_000


@pytest.mark.parametrize("position", [None, "", 7])
def test_a_place_that_is_no_text_is_none(position: object) -> None:
    assert position_of(with_value(of_kinesis(), position, "kinesis", "sequenceNumber")) is None
    assert position_of(of_kinesis()) == SEQUENCE
    assert position_of({"eventSource": "aws:kinesis"}) is None


def test_empty_data_is_a_text() -> None:
    assert read([of_kinesis(b"")]).message == ""


@pytest.mark.parametrize("key", [None, 7])
def test_a_record_without_a_partition_key_needs_none(key: object) -> None:
    envelope = read([with_value(of_kinesis(), key, "kinesis", "partitionKey")])
    assert envelope.of_sqs == {"SentTimestamp": str(envelope.sent_at)}


@pytest.mark.parametrize("made", [of_kinesis, of_dynamodb])
def test_one_that_cannot_be_read_is_known_by_its_place_and_kept_whole(made: Callable[[], dict[str, Any]]) -> None:
    record = made() | {"eventID": None}
    [bad] = normalize({"Records": [record]})
    assert isinstance(bad, BadRecord)
    assert bad.envelope is not None
    assert bad.record_id == bad.envelope.message_id == read([made()]).message_id
    assert json.loads(bad.envelope.message) == record
    assert bad.envelope.source_arn == record["eventSourceARN"]


@pytest.mark.parametrize(
    "record",
    [
        without(of_kinesis(), "kinesis", "sequenceNumber"),
        with_value(of_kinesis(), float("nan"), "kinesis", "approximateArrivalTimestamp"),
        {"eventSource": "aws:kinesis", "messageId": "m-1", "body": 7},
    ],
)
def test_one_without_a_place_or_no_record_of_a_stream_is_not_kept(record: dict[str, Any]) -> None:
    [bad] = normalize({"Records": [record]})
    assert isinstance(bad, BadRecord)
    assert bad.envelope is None


@pytest.mark.parametrize("source", [[], {}, 7])
def test_a_source_that_is_no_text_is_none_of_a_stream(source: object) -> None:
    assert position_of(of_kinesis() | {"eventSource": source}) is None
    [read_anyway] = normalize([{"messageId": "m-1", "body": "tea", "eventSource": source}])
    assert isinstance(read_anyway, Envelope)
    assert not read_anyway.source.is_stream
