"""Retries later than SQS can delay: one-time schedules of EventBridge Scheduler, as MiniStack has it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import pytest

from flowguard import Done, Flow, Outcome, Retry, Settings, Stage, Step, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.clock import Clock, ManualClock, SystemClock
from flowguard.events import Tally
from flowguard.protocol.run import Status
from flowguard.wire.envelope import Envelope, normalize
from tests.engines.polling import comes_true
from tests.proofs.soak.mapping import Mapping, Record
from tests.proofs.soak.sandbox import Sandbox

pytestmark = pytest.mark.proof("starts MiniStack and waits for its scheduler")

WAIT = timedelta(minutes=20)
ROLE = "arn:aws:iam::123456789012:role/scheduler"
SENT: dict[str, Any] = {
    "uniquerequestid": {"DataType": "String", "StringValue": "request-late"},
    "tenant": {"DataType": "String", "StringValue": "grün"},
}


class Patient(Stage[dict[str, Any]], name="patient"):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        if step.attempt == 1:
            raise Retry("the other side is closed", after=WAIT)
        return Done({"tenant": step.attributes["tenant"].value})


class Late(Flow, name="late", object_id="id", long_delays=True, carry=("tenant",)):
    stages = (Patient,)


@dataclass(frozen=True)
class Desk(Sandbox):
    """A ground whose queues are MiniStack's, beside its scheduler."""

    @cached_property
    def clients(self) -> Clients:
        urls = {"dynamodb": self.dynamodb_url, "sqs": self.sqs_url, "scheduler": self.sqs_url}
        return Clients(self.session(), urls)

    def mapping(self, clock: Clock) -> Mapping:
        services = aws_services(Settings(scheduler_role=ROLE), self.clients, clock=clock, observer=Tally())
        return Mapping(self.clients.sqs, self.url("late"), lambda_handler(Late).using(services))

    def schedules(self) -> list[str]:
        return [found["Name"] for found in self.clients.scheduler.list_schedules()["Schedules"]]


@pytest.fixture
def desk(dynamodb_local_url: str, ministack_url: str) -> Desk:
    found = Desk(dynamodb_local_url, ministack_url)
    found.create_tables()
    found.create_queue("late", visibility=30)
    found.clients.sqs.send_message(
        QueueUrl=found.url("late"),
        MessageBody='{"id": "late-1"}',
        MessageAttributes={
            **SENT,
            # SQS's own time is ahead of the clock of a function that is to wait: the sender says when it asked
            "requestedat": {"DataType": "Number", "StringValue": str(SystemClock().now())},
        },
    )
    return found


def test_a_retry_in_twenty_minutes_is_one_schedule_however_often_it_is_asked_for(desk: Desk) -> None:
    clock = ManualClock(SystemClock().now())
    mapping = desk.mapping(clock)
    records = mapping.receive()
    assert mapping.invoke(records) == records
    [name] = desk.schedules()
    clock.advance(seconds=60)  # its worker died before the ack: the lease is over, and it is all done again
    mapping.delete(mapping.invoke(records))
    assert desk.schedules() == [name]

    found = desk.clients.scheduler.get_schedule(Name=name)
    due = datetime.fromtimestamp(-((60_000 - clock.now()) // 1000), UTC) + WAIT  # a schedule has no milliseconds
    assert found["ScheduleExpression"] == f"at({due:%Y-%m-%dT%H:%M:%S})"
    assert (found["ActionAfterCompletion"], found["FlexibleTimeWindow"]) == ("DELETE", {"Mode": "OFF"})
    assert (found["Target"]["Arn"], found["Target"]["RoleArn"]) == (desk.arn("late"), ROLE)
    assert desk.waiting("late") == 0
    desk.clients.scheduler.delete_schedule(Name=name)


def test_a_schedule_that_comes_due_brings_the_same_request_back_and_is_gone(desk: Desk) -> None:
    early = ManualClock(SystemClock().now() - WAIT // timedelta(milliseconds=1))
    mapping = desk.mapping(early)
    records = mapping.receive()
    mapping.delete(mapping.invoke(records))
    assert len(desk.schedules()) == 1

    again = arrives(mapping)
    [envelope] = normalize({"Records": again})
    assert isinstance(envelope, Envelope)
    assert (envelope.message, again[0]["messageAttributes"]) == ('{"id": "late-1"}', {}), "all is inside the body"
    assert envelope.attributes["uniquerequestid"].value == "request-late"
    assert envelope.attributes["tenant"].value == "grün"
    place = json.loads(envelope.attributes["flowguard"].value)
    assert (place["hop"], place["retry"], place["error"][0]) == (1, 1, "Retry")

    mapping = desk.mapping(SystemClock())
    mapping.delete(mapping.invoke(again))
    found = desk.store().read("late", "late-1")
    assert found is not None
    assert (found.status, found.request_id, found.result) == (Status.COMPLETED, "request-late", '{"tenant":"grün"}')
    assert (desk.schedules(), desk.waiting("late")) == ([], 0)


def arrives(mapping: Mapping) -> list[Record]:
    """MiniStack looks every ten seconds for schedules that are due."""
    found: list[Record] = []

    def received() -> bool:
        found.extend(mapping.receive(wait=4))
        return bool(found)

    assert comes_true(received, seconds=30)
    return found
