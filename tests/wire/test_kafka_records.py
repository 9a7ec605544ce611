"""Events of Kafka, of MSK and of clusters outside AWS. The fields are those that AWS documents."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import pytest

from flowguard.names.ids import RequestId
from flowguard.names.series_ids import comes_after
from flowguard.testing import kafka_event
from flowguard.wire.envelope import BadRecord, Envelope, Source, normalize
from flowguard.wire.kafka_records import is_kafka_record, named_for_lambda
from flowguard.wire.notification import LAST_MOMENT
from flowguard.wire.stream_letters import stream_letter_problem

CLUSTER: Final = "arn:aws:kafka:eu-west-1:123456789012:cluster/orders/751d2973-a626-431c-9d4e-d7975eb44dd7-2"
SERVERS: Final = "b-1.example:9092,b-2.example:9092"


def read(event: Any) -> Envelope:
    [envelope] = normalize(event)
    assert isinstance(envelope, Envelope), envelope
    return envelope


def refused(event: Any) -> BadRecord:
    [bad] = normalize(event)
    assert isinstance(bad, BadRecord), bad
    return bad


def changed(**fields: Any) -> dict[str, Any]:
    event = kafka_event("orders", {"a": 1})
    event["records"]["orders-0"][0].update(fields)
    return event


def payload(value: Any, **more: Any) -> Any:
    return json.loads(read(kafka_event("orders", value, **more)).message)


def test_a_record_is_named_by_its_cluster_partition_and_offset() -> None:
    found = read(kafka_event("orders", {"a": 1}, partition=3, offset=120, at=1_767_225_600_123))
    assert (found.source, found.message_id) == (Source.KAFKA, "orders-3-120")
    assert found.own_id == f"{CLUSTER}:orders-3;place=003.120:1767225600123"
    assert (found.sent_at, found.source_arn) == (1_767_225_600_123, CLUSTER)
    assert found.of_sqs["partitionKey"] == "key"


def test_offsets_of_a_partition_are_ordered_and_those_of_two_are_not() -> None:
    def id_of(**more: Any) -> RequestId:
        return RequestId(read(kafka_event("orders", {"a": 1}, **more)).own_id)

    assert comes_after(id_of(offset=10), id_of(offset=9))
    assert not comes_after(id_of(offset=10, partition=1), id_of(offset=9))
    assert not comes_after(id_of(offset=10, cluster=SERVERS), id_of(offset=9))


def test_a_record_of_a_topic_that_was_made_anew_is_another_and_later_one() -> None:
    before, after = (read(kafka_event("orders", {"a": 1}, offset=0, at=at)).own_id for at in (1_000, 2_000))
    assert before != after
    assert comes_after(RequestId(after), RequestId(before))


def test_a_cluster_outside_aws_is_known_by_its_servers_in_whatever_order() -> None:
    ids = {
        read(kafka_event("orders", {"a": 1}, cluster=servers)).own_id
        for servers in (SERVERS, "b-2.example:9092,b-1.example:9092")
    }
    assert len(ids) == 1
    assert ids != {read(kafka_event("orders", {"a": 1}, cluster="b-1.example:9092")).own_id}
    assert ids.pop().startswith("arn:aws:kafka:unknown:000000000000:self-managed/")


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ({"a": 1}, {"a": 1}),
        (b'{"a": 1.10}', {"a": 1.10}),
        (b"two packs of tea", "two packs of tea"),
        (b"NaN", "NaN"),
        (b"", ""),
        (b"[" * 3_000, "[" * 3_000),
        (b"12", 12),
        (None, None),
    ],
)
def test_the_value_is_json_where_it_is_json_and_text_else_and_null_for_a_tombstone(value: Any, seen: Any) -> None:
    assert payload(value) == {"key": "key", "value": seen}


def test_a_value_that_is_json_stays_to_the_letter() -> None:
    assert read(kafka_event("orders", b'{"a":  1.10}')).message == '{"key":"key","value":{"a":  1.10}}'


def test_keys_and_headers_are_text() -> None:
    assert payload({}, key=None) == {"key": None, "value": {}}
    assert payload({}, key="é\n", headers={"trace": "t-1", "né": "✓"}) == {
        "key": "é\n",
        "value": {},
        "headers": {"trace": "t-1", "né": "✓"},
    }
    assert json.loads(read(changed(headers=[{"a": None}, {"b": []}])).message)["headers"] == {"b": ""}
    of_java = changed(key=base64.b64encode(b"\xff").decode(), headers=[{"a": [-1]}, {"b": [-61, -87]}, {"b": [98]}])
    assert json.loads(read(of_java).message) == {
        "key": "base64:/w==",
        "value": {"a": 1},
        "headers": {"a": "base64:/w==", "b": "b"},
    }


def test_a_partition_begins_with_the_offset_0() -> None:
    assert read(kafka_event("orders", {}, offset=0)).message_id == "orders-0-0"
    assert refused({"eventSource": "aws:kafka", "kafka": {"offset": 1}}).record_id is None


def test_what_has_no_time_is_from_the_beginning_of_time() -> None:
    assert read(changed(timestamp=-1)).sent_at == 0
    assert read(changed(timestamp=LAST_MOMENT)).sent_at == LAST_MOMENT


def test_what_was_read_is_read_as_the_same_and_its_retry_too() -> None:
    found = read(kafka_event("orders", {"a": 1}, headers={"flowguard": "forged", "requestid": "forged"}))
    assert found.attributes == {}
    again = read([found.record])
    assert (again.source, again.message, again.own_id) == (Source.KAFKA, found.message, found.own_id)
    assert again.record == found.record


def test_an_event_has_records_of_several_partitions_in_their_order() -> None:
    event = kafka_event("orders", {"a": 1})
    more = kafka_event("orders", {"a": 2}, offset=16)["records"]["orders-0"]
    event["records"]["orders-0"] += more
    event["records"] |= kafka_event("orders", {"a": 3}, partition=1)["records"]
    names = [each.message_id for each in normalize(event) if isinstance(each, Envelope)]
    assert names == ["orders-0-15", "orders-0-16", "orders-1-15"]
    assert normalize({**event, "records": {}}) == []


@pytest.mark.parametrize(
    ("event", "name", "field", "problem"),
    [
        (changed(topic="a b"), "orders-0-15", "kafka.topic", "is no name of a topic"),
        (changed(topic=7), "orders-0-15", "kafka.topic", "is no name of a topic"),
        (changed(partition=1), "orders-0-15", "kafka.partition", "stands under 'orders-0', which is another partition"),
        (changed(timestamp="now"), "orders-0-15", "kafka.timestamp", "is no time in milliseconds since 1970"),
        (changed(timestamp=1_767_323_700_000_000), "orders-0-15", "kafka.timestamp", "is no time in milliseconds"),
        (changed(timestamp=True), "orders-0-15", "kafka.timestamp", "is no time in milliseconds since 1970"),
        (changed(value="%"), "orders-0-15", "kafka.value", "is not base64"),
        (changed(value="é"), "orders-0-15", "kafka.value", "is not base64"),
        (changed(key=7), "orders-0-15", "kafka.key", "expected text, got a number"),
        (
            changed(value="/w=="),
            "orders-0-15",
            "kafka.value",
            "is no text in UTF-8; what a schema registry has encoded",
        ),
        (changed(headers=[7]), "orders-0-15", "kafka.headers", "expected lists of bytes by their names"),
        (changed(headers=[{"a": ["b"]}]), "orders-0-15", "kafka.headers", "expected lists of bytes by their names"),
        (changed(headers=[{"a": [256]}]), "orders-0-15", "kafka.headers", "expected lists of bytes by their names"),
        (changed(headers=7), "orders-0-15", "kafka.headers", "expected lists of bytes by their names"),
        (changed(offset=-1), None, "kafka.offset", "is no whole number from 0"),
        (changed(offset=True), None, "kafka.offset", "is no whole number from 0"),
        (changed() | {"eventSourceArn": "arn:aws:sqs:eu-west-1:123456789012:q"}, "orders-0-15", "eventSourceArn", "is"),
        (changed() | {"eventSourceArn": None}, "orders-0-15", "eventSourceArn", "is not the ARN of a cluster"),
        (changed() | {"records": {"orders-0": ["x"]}}, None, "kafka", "expected an object, got text"),
        (changed() | {"records": {"orders-0": "x"}}, None, "kafka", "missing"),
        (changed() | {"records": [7]}, None, "kafka", "missing"),
    ],
)
def test_what_is_no_record_is_refused_by_name(event: Any, name: str | None, field: str, problem: str) -> None:
    bad = refused(event)
    assert (bad.record_id, bad.error.field) == (name, field)
    assert problem in bad.error.problem


@pytest.mark.parametrize("event", [{"eventSource": "aws:kafka"}, {"eventSource": "Kafka", "records": {}}])
def test_what_is_no_event_of_kafka_is_none(event: Any) -> None:
    [found] = normalize(event)
    assert isinstance(found, BadRecord) is (event["eventSource"] == "aws:kafka")


def test_the_answer_names_each_record_that_failed() -> None:
    """Lambda retries those that are named. One that is left out counts as done."""
    assert named_for_lambda(["orders-0-16", "orders-0-15", "a-b-1-0"]) == [
        {"partition": "orders-0", "offset": 16},
        {"partition": "orders-0", "offset": 15},
        {"partition": "a-b-1", "offset": 0},
    ]
    assert is_kafka_record({"eventSource": "aws:kafka"})
    assert not is_kafka_record("aws:kafka")


def test_a_notice_of_what_lambda_gave_up_is_no_message() -> None:
    info = {"batchSize": 2, "eventSourceArn": CLUSTER, "recordsInfo": {"orders-0": {"firstRecordOffset": "15"}}}
    notice = {"requestContext": {}, "KafkaBatchInfo": info}
    said = stream_letter_problem(json.dumps(notice))
    assert said is not None
    assert said == "Lambda has given up 2 records of Kafka: orders-0 from 15 to None; they are in their topic alone"
    parts = {f"orders-{n}": {"firstRecordOffset": str(n), "lastRecordOffset": str(n + 9)} for n in range(40)}
    of_many = json.dumps({"requestContext": {}, "KafkaBatchInfo": {"batchSize": 400, "recordsInfo": parts}})
    said = stream_letter_problem(of_many)
    assert said is not None
    assert "orders-0 from 0 to 9, orders-1 from 1 to 10, " in said
    assert "orders-19 from 19 to 28 and 20 partitions more; they are in" in said
    odd = json.dumps({"requestContext": {}, "KafkaBatchInfo": {"batchSize": 1, "recordsInfo": {"orders-0": 7}}})
    assert "orders-0;" in str(stream_letter_problem(odd))
    no_partitions: list[Any] = [[], ["orders-0"], {}]
    for none in no_partitions:
        of_none = json.dumps({"requestContext": {}, "KafkaBatchInfo": {"batchSize": 1, "recordsInfo": none}})
        assert "records of Kafka: None; they" in str(stream_letter_problem(of_none))
    assert stream_letter_problem(json.dumps({"KafkaBatchInfo": info})) is None
    assert stream_letter_problem(json.dumps({"requestContext": {}, "KafkaBatchInfo": 7})) is None
