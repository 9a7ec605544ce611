"""A retry through a real queue: it comes when it was asked for, and brings along all that the sender sent."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard import Done, Fixed, Flow, Outcome, RetryPolicy, Stage, Step, lambda_handler
from flowguard.events import Tally
from flowguard.protocol.run import Status
from flowguard.wire.envelope import Envelope, normalize
from tests.proofs.soak.mapping import Mapping, Record
from tests.proofs.soak.sandbox import Sandbox

pytestmark = pytest.mark.proof("waits for a delayed message")

SENT: dict[str, Any] = {
    "uniquerequestid": {"DataType": "String", "StringValue": "request-again"},
    "requestedat": {"DataType": "Number", "StringValue": "1700000000000"},
    "tenant": {"DataType": "String", "StringValue": "grün & <co>"},
    "weight": {"DataType": "Number", "StringValue": "1.50"},
    "scale": {"DataType": "Number.kg", "StringValue": "7"},
    "picture": {"DataType": "Binary", "BinaryValue": bytes(range(256))},
}
BODY = '{"id": "a1", "text": "line\\none\\u2028"}'


class TryTwice(Stage[dict[str, Any]], name="try-twice", retry=RetryPolicy(backoff=Fixed(2), jitter=0)):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        if step.attempt == 1:
            raise ConnectionError("the first of all errors")
        return Done({"tenant": step.attributes["tenant"].value})


class Again(Flow, name="again", object_id="id", carry=("tenant",)):
    stages = (TryTwice,)


def test_a_retry_brings_request_id_attributes_and_bytes_along_and_comes_in_time(sandbox: Sandbox) -> None:
    sandbox.create_tables()
    url = sandbox.create_queue("again")
    mapping = Mapping(sandbox.clients.sqs, url, lambda_handler(Again).using(sandbox.services(Tally())))
    sandbox.clients.sqs.send_message(QueueUrl=url, MessageBody=BODY, MessageAttributes=SENT)

    [first] = records = mapping.receive()
    mapping.delete(mapping.invoke(records))
    assert mapping.receive(wait=1) == [], "not before its time"
    [second] = records = mapping.receive(wait=5)
    assert 2_000 <= waited(second) < 5_000

    before, after = envelope(first), envelope(second)
    assert after.message == before.message == BODY
    assert {name: after.attributes[name] for name in SENT} == {name: before.attributes[name] for name in SENT}
    assert second["messageId"] != first["messageId"]
    assert '"retry":1' in after.attributes["flowguard"].value
    assert "the first of all errors" in after.attributes["flowguard"].value

    mapping.delete(mapping.invoke(records))
    found = sandbox.store().read("again", "a1")
    assert found is not None
    assert (found.status, found.request_id, found.requested_at) == (
        Status.COMPLETED,
        "request-again",
        1_700_000_000_000,
    )
    assert found.result == '{"tenant":"grün & <co>"}'
    assert sandbox.waiting("again") == 0


def waited(record: Record) -> int:
    system = record["attributes"]
    return int(system["ApproximateFirstReceiveTimestamp"]) - int(system["SentTimestamp"])


def envelope(record: Record) -> Envelope:
    [found] = normalize({"Records": [record]})
    assert isinstance(found, Envelope)
    return found
