"""Redrive with a queue's real moves: SQS's own dead-lettering, and the console's StartMessageMoveTask.

The run items are in DynamoDB Local. ElasticMQ keeps a message's id when it moves it, where AWS gives it a new one; the
tests on moto have that side.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services, aws_store
from flowguard.cli import main
from flowguard.client import FlowClient
from flowguard.clock import SystemClock
from flowguard.errors import Reject
from flowguard.events import Tally
from flowguard.flow import Flow
from flowguard.handler import LambdaHandler, lambda_handler
from flowguard.names.ids import RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.run import RunItem, Status
from flowguard.settings import Settings
from flowguard.stage import Stage
from flowguard.step import Step

pytestmark = pytest.mark.proof("starts ElasticMQ")

INBOX, GIVEN_UP, PARKED = "redrive-charge", "redrive-given-up", "redrive-dead"
BROKEN: set[str] = set()
"""Objects whose charge is refused."""


class Payment(BaseModel):
    payment_id: str


class Charge(Stage[Payment], name="charge", inbox=INBOX):
    def handle(self, payment: Payment, step: Step) -> Outcome:
        if payment.payment_id in BROKEN:
            raise Reject("card refused")
        return Done()


class Payments(Flow, name="payments", object_id="payment_id", dead_letters=PARKED):
    stages = (Charge,)


@dataclass
class Place:
    """The two engines, with empty queues, and the one function of the flow."""

    clients: Clients
    session: boto3.session.Session
    urls: dict[str, str]
    function: LambdaHandler
    sender: FlowClient

    def queue(self, name: str) -> str:
        return self.clients.sqs.get_queue_url(QueueName=name)["QueueUrl"]

    def start(self, payment: str, request: str, at: int = 0) -> None:
        now = SystemClock().now() + at
        self.sender.start(Payments, Payment(payment_id=payment), request_id=RequestId(request), requested_at=now)

    def receive(self, name: str, *, wait: int = 1, visibility: int = 30) -> list[Any]:
        return list(
            self.clients.sqs.receive_message(
                QueueUrl=self.queue(name),
                MaxNumberOfMessages=10,
                WaitTimeSeconds=wait,
                VisibilityTimeout=visibility,
                MessageAttributeNames=["All"],
                MessageSystemAttributeNames=["All"],
            ).get("Messages", [])
        )

    def work(self) -> int:
        """How many messages the function took, as Lambda's trigger would hand them over."""
        done = 0
        while found := self.receive(INBOX):
            answer = self.function([{**one, "EventSourceARN": arn(INBOX)} for one in found])
            assert answer == {"batchItemFailures": []}
            for one in found:
                self.clients.sqs.delete_message(QueueUrl=self.queue(INBOX), ReceiptHandle=one["ReceiptHandle"])
            done += len(found)
        return done

    def item(self, payment: str) -> RunItem:
        found = aws_store(Settings(), self.clients).read("payments", payment)
        assert found is not None
        return found

    def dlq(self, *arguments: str) -> list[dict[str, Any]]:
        urls = ("--endpoint-url", self.urls["sqs"], "--dynamodb-endpoint-url", self.urls["dynamodb"], "--json")
        result = CliRunner().invoke(main, ["dlq", *arguments, *urls])
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    def move_all(self) -> None:
        """What the console's button does: all that is parked goes to the stage's queue."""
        self.clients.sqs.start_message_move_task(SourceArn=arn(PARKED), DestinationArn=arn(INBOX))


def arn(queue: str) -> str:
    return f"arn:aws:sqs:us-east-1:123456789012:{queue}"


@pytest.fixture
def place(elasticmq_url: str, dynamodb_local_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    key = uuid.uuid4().hex[:20]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "local")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    session = boto3.session.Session(key, "local", region_name="us-east-1")
    urls = {"sqs": elasticmq_url, "dynamodb": dynamodb_local_url}
    clients = Clients(session, urls)
    _create_table(clients)
    services = aws_services(Settings(), clients, observer=Tally())
    function = lambda_handler(Payments).using(services)
    BROKEN.clear()
    for queue in (GIVEN_UP, PARKED, INBOX):
        clients.sqs.create_queue(QueueName=queue)
    policy = json.dumps({"deadLetterTargetArn": arn(GIVEN_UP), "maxReceiveCount": "1"})
    found = Place(clients, session, urls, function, FlowClient(services.sender))
    clients.sqs.set_queue_attributes(QueueUrl=found.queue(INBOX), Attributes={"RedrivePolicy": policy})
    yield found
    for queue in (INBOX, GIVEN_UP, PARKED):
        clients.sqs.delete_queue(QueueUrl=found.queue(queue))


def _create_table(clients: Clients) -> None:
    clients.dynamodb.create_table(
        TableName="flowguard",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
    )


def test_what_sqs_moved_after_too_many_receives_goes_back_as_the_same_request(place: Place) -> None:
    place.start("p1", "run-1")
    place.receive(INBOX, visibility=0)  # a function that is killed each time
    assert place.receive(INBOX, wait=0) == []
    [letter] = place.dlq("list", GIVEN_UP)
    assert (letter["kind"], letter["request_id"], letter["error"]) == ("raw", "run-1", None)
    [row] = place.dlq("redrive", GIVEN_UP, "--all", "--yes")
    assert (row["verdict"], row["to"], row["deleted"]) == ("REDRIVEN", arn(INBOX), True)
    assert place.work() == 1
    item = place.item("p1")
    assert (item.request_id, item.redrive, item.status) == ("run-1", 0, Status.COMPLETED), "it was a plain request"


def test_the_consoles_move_of_a_parked_letter_is_a_right_redrive(place: Place) -> None:
    BROKEN.add("p1")
    place.start("p1", "run-1")
    assert place.work() == 1
    assert place.item("p1").status is Status.FAILED
    [letter] = place.dlq("list", PARKED)
    assert (letter["kind"], letter["error"]["text"]) == ("parked", "card refused")
    BROKEN.clear()
    place.move_all()
    assert place.work() == 1
    item = place.item("p1")
    assert (item.request_id, item.redrive, item.status) == ("run-1", 1, Status.COMPLETED)


def test_the_consoles_move_after_a_newer_run_changes_nothing(place: Place) -> None:
    BROKEN.add("p1")
    place.start("p1", "run-1", at=-1_000)
    place.work()
    BROKEN.clear()
    place.start("p1", "run-2")
    place.work()
    before = place.item("p1")
    place.move_all()
    assert place.work() >= 1
    assert place.item("p1") == before
    assert (before.request_id, before.status) == ("run-2", Status.COMPLETED)


def test_more_letters_than_a_page_are_listed_without_harm_and_all_go_back(place: Place) -> None:
    names = [f"p{number}" for number in range(25)]
    BROKEN.update(names)
    for name in names:
        place.start(name, f"run-{name}")
    assert place.work() == 25
    for _ in range(2):
        assert sorted(row["object_id"] for row in place.dlq("list", PARKED)) == sorted(names)
    BROKEN.clear()
    place.start("p0", "newer")
    place.work()
    rows = place.dlq("redrive", PARKED, "--all", "--yes")
    verdicts = {row["object_id"]: row["verdict"] for row in rows}
    assert verdicts == {name: "SUPERSEDED" if name == "p0" else "REDRIVEN" for name in names}
    assert place.work() == 24
    assert {place.item(name).status for name in names} == {Status.COMPLETED}
    assert {row["object_id"] for row in place.dlq("drop", PARKED, "--all", "--yes")} == {"p0"}
    assert place.dlq("list", PARKED) == []


def test_a_message_that_was_not_sent_goes_where_it_was_to_go(place: Place) -> None:
    unsent = {"kind": "side", "to": f"sqs:{INBOX}", "id": "run-1.1.0", "attributes": {"a": ["Binary", "AP8="]}}
    error = ["ClientError", "AccessDenied", 1]
    said = json.dumps({"version": 1, "hop": 1, "object": "p1", "error": error, "unsent": unsent})
    attributes: Any = {
        "uniquerequestid": {"DataType": "String", "StringValue": "run-1"},
        "requestedat": {"DataType": "Number", "StringValue": "1"},
        "flowstage": {"DataType": "String", "StringValue": "payments/charge"},
        "flowguard": {"DataType": "String", "StringValue": said},
    }
    place.clients.sqs.send_message(QueueUrl=place.queue(PARKED), MessageBody="paid", MessageAttributes=attributes)
    [letter] = place.dlq("list", PARKED)
    assert (letter["kind"], letter["to"], letter["error"]["text"]) == ("unsent", f"sqs:{INBOX}", "AccessDenied")
    [row] = place.dlq("redrive", PARKED, "--all", "--yes")
    assert (row["verdict"], row["why"], row["deleted"]) == ("REDRIVEN", "sent to where it was to go", True)
    [found] = place.receive(INBOX)
    assert (found["Body"], found["MessageAttributes"]["a"]["BinaryValue"]) == ("paid", b"\x00\xff")


def test_a_message_that_sqs_moved_is_sent_nowhere_whatever_it_says(place: Place) -> None:
    unsent = json.dumps({"hop": 1, "unsent": {"kind": "side", "to": f"sqs:{PARKED}", "id": "i", "attributes": {}}})
    attributes: Any = {"flowguard": {"DataType": "String", "StringValue": unsent}}
    place.clients.sqs.send_message(QueueUrl=place.queue(INBOX), MessageBody="x", MessageAttributes=attributes)
    place.receive(INBOX, visibility=0)
    assert place.receive(INBOX, wait=0) == []
    urls = ("--endpoint-url", place.urls["sqs"], "--dynamodb-endpoint-url", place.urls["dynamodb"])
    result = CliRunner().invoke(main, ["dlq", "redrive", GIVEN_UP, "--all", "--yes", *urls])
    assert result.exit_code == 1
    assert f"SQS moved it here from {arn(INBOX)}, so anybody may have written it" in result.stderr
    assert place.receive(PARKED) == []


def test_a_forged_body_does_not_choose_where_a_moved_record_goes(place: Place) -> None:
    told = {"Type": "Notification", "MessageId": "m", "TopicArn": arn(PARKED), "Message": '{"payment_id":"p1"}'}
    body = json.dumps({**told, "Timestamp": "2026-01-02T03:04:05.678Z"})
    place.clients.sqs.send_message(QueueUrl=place.queue(INBOX), MessageBody=body)
    place.receive(INBOX, visibility=0)
    assert place.receive(INBOX, wait=0) == []
    [row] = place.dlq("redrive", GIVEN_UP, "--all", "--yes")
    assert (row["verdict"], row["to"], row["deleted"]) == ("REDRIVEN", arn(INBOX), True)
    assert place.work() == 1
