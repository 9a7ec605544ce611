"""Records that nobody can read or take, whatever their bytes are: they hold a shard up for minutes and no longer."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import PER_REQUEST, Done, Flow, Outcome, Settings, Stage, Step, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services, aws_store
from flowguard.clock import no_pause
from flowguard.flow import AnyFlow
from flowguard.protocol.run import Status
from flowguard.testing import FlowClock, MemoryAWS, dynamodb_event, kafka_event, kinesis_event
from flowguard.testing.lambda_events import Event

BYTES: Mapping[str, bytes] = {
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"x"',
    "a number": b"1e400",
    "half an object": b"{",
    "several objects": b'{"key": "a"}{"key": "b"}',
    "no UTF-8": b"\xff\xfe",
    "a surrogate": b"\xed\xa0\x80",
    "a surrogate in JSON": b'{"key": "\\ud800"}',
    "a mark of the byte order": b'\xef\xbb\xbf{"key": "a"}',
    "zero": b"\x00",
    "no number of JSON": b'{"key": NaN}',
    "a long number": b'{"key": ' + b"9" * 5_000 + b"}",
    "deep brackets": b"[" * 20_000,
    "a deep object": b'{"key": ' * 2_000 + b"1" + b"}" * 2_000,
    "a field twice": b'{"key": "a", "key": "b"}',
    "compressed": b"\x1f\x8b\x08\x00",
    "aggregated": b"\xf3\x89\x9a\xc2x",
    "of a schema registry": b"\x00\x00\x00\x00\x01abc",
    "a notification": b'{"Type": "Notification", "Message": "{}"}',
    "records": b'{"Records": []}',
    "sealed": b'{"flowguard.sealed": "x"}',
    "an event of a bus": b'{"version": "0", "id": "1", "detail-type": "x", "source": "s", "detail": {}}',
    "control signs": b'{"key": "\\u0000\\u202e"}',
}
NUMBERS = (
    "1E+125",
    "9.9999999999999999999999999999999999999E+125",
    "1E-130",
    "-0",
    "007",
    "",
    "1e",
    "NaN",
    "0x1",
    "\u0661",
)
MINUTES = 10
"""Longer than a record may hold its shard up."""


class Record(BaseModel):
    key: Any = None
    keys: Any = None
    value: Any = None


class Take(Stage[Record], name="take", inbox="taken"):
    def handle(self, record: Record, step: Step) -> Outcome:
        return Done()


class ByKey(Flow, name="taken", object_id="key", dead_letters="dead"):
    stages = (Take,)


class ByKeys(Flow, name="taken", object_id="keys.id", dead_letters="dead"):
    stages = (Take,)


class Each(Flow, name="taken", object_id=PER_REQUEST, dead_letters="dead"):
    stages = (Take,)


def left_after(flow: AnyFlow, event: Event) -> list[Any]:
    """What stays in the stream when its mapping has brought the event again and again for some minutes."""
    with FlowClock() as clock, MemoryAWS(clock) as aws:
        aws.create_table("flowguard")
        for queue in ("taken", "dead"):
            aws.create_queue(queue)
        services = aws_services(Settings(), Clients(), clock=clock, pause=no_pause)
        left: list[Any] = []
        for _ in range(2 * MINUTES):
            left = lambda_handler(flow).using(services)(event)["batchItemFailures"]
            if not left:
                break
            clock.advance(seconds=30)
        return left


def of_kafka(part: str) -> Callable[[bytes], Event]:
    def made(data: bytes) -> Event:
        event = kafka_event("accounts", b"{}")
        [records] = event["records"].values()
        records[0][part] = base64.b64encode(data).decode()
        return event

    return made


@pytest.mark.slow("strikes at each call of a run")
@pytest.mark.parametrize("name", BYTES)
def test_bytes_of_whatever_kind_hold_a_shard_up_for_minutes_at_most(name: str) -> None:
    data = BYTES[name]
    assert left_after(ByKey, kinesis_event("views", data)) == []
    assert left_after(Each, kinesis_event("views", data)) == []
    for part in ("key", "value"):
        assert left_after(ByKey, of_kafka(part)(data)) == []


@pytest.mark.parametrize("number", NUMBERS)
def test_and_so_do_numbers_of_a_table(number: str) -> None:
    changed = dynamodb_event("stock", {"id": {"S": "a"}}, {"left": {"N": number}, "all": {"NS": [number]}})
    assert left_after(ByKeys, changed) == []
    assert left_after(ByKeys, dynamodb_event("stock", {"id": {"N": number}})) == []


KEYS = ({"B": "AAEq"}, {"S": ""}, {"S": "x" * 2_048}, {"S": "a#b"}, {"S": "\x00"}, {"S": "\U0001f600" * 300})


@pytest.mark.parametrize("key", KEYS)
def test_and_so_do_keys_that_name_no_object(key: dict[str, str]) -> None:
    assert left_after(ByKeys, dynamodb_event("stock", {"id": key})) == []


class Approve(Stage[Record], name="approve", inbox="taken"):
    def handle(self, record: Record, step: Step) -> Outcome:
        if record.key == "large":
            step.token("approval")
        return Done()


class Approvals(Flow, name="approvals", object_id="key", dead_letters="dead"):
    stages = (Approve,)


def test_a_setting_that_a_stage_misses_holds_no_shard_up() -> None:
    with FlowClock() as clock, MemoryAWS(clock) as aws:
        aws.create_table("flowguard")
        for queue in ("taken", "dead"):
            aws.create_queue(queue)

        def called(event: Event, **settings: Any) -> Any:
            services = aws_services(Settings(**settings), Clients(), clock=clock, pause=no_pause)
            return lambda_handler(Approvals).using(services)(event)

        assert called(kinesis_event("accounts", {"key": "large"})) == {"batchItemFailures": []}
        sqs = aws.client("sqs")
        url = sqs.get_queue_url(QueueName="taken")["QueueUrl"]
        received: Any = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"], AttributeNames=["All"])
        assert called(received)["batchItemFailures"], "it waits there until the setting is made"
        assert called(received, token_keys=f"k1:{'7' * 64}") == {"batchItemFailures": []}
        run = aws_store(Settings(), Clients()).read("approvals", "large")
        assert run is not None
        assert run.status is Status.COMPLETED


def test_where_no_queue_takes_such_a_record_its_shard_waits() -> None:
    with FlowClock() as clock, MemoryAWS(clock) as aws:
        aws.create_table("flowguard")
        services = aws_services(Settings(), Clients(), clock=clock, pause=no_pause)
        answer = lambda_handler(Approvals).using(services)(kinesis_event("accounts", {"key": "large"}))
        assert len(answer["batchItemFailures"]) == 1
