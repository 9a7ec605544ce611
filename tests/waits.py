"""A flow that waits, on the AWS in memory, driven record by record: what the tests of waiting stand on."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel

from flowguard.aws.items import awaiting_key
from flowguard.aws.services import aws_services, aws_store
from flowguard.aws.waits import awaiting_row
from flowguard.clock import ManualClock
from flowguard.errors import Reject
from flowguard.events import EventType, Tally
from flowguard.failed import Failed
from flowguard.flow import Flow
from flowguard.handler import lambda_handler
from flowguard.names.ids import ObjectId, RequestId, SeededIds
from flowguard.outcome import Done, Outcome
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import AwaitingRow, RunItem
from flowguard.protocol.waiting import Wait
from flowguard.retry import Fixed, RetryPolicy
from flowguard.settings import Settings
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.calls import Recorder, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.message import PLACE, Message
from flowguard.worker.ports import Services, Waits
from tests.aws.engines import kept, same_clients

START: Final = 1_800_000_000_000
WITHIN: Final = timedelta(minutes=10)
DEADLINE: Final = START + WITHIN // timedelta(milliseconds=1)
NAMES: Final = ("a", "b", "c")


class Cart(BaseModel):
    cart_id: str


class Whole(BaseModel):
    """Every answer is needed."""

    a: int
    b: int
    c: int


class Some(BaseModel):
    """Any answer may be missing."""

    a: int | None = None
    b: int | None = None
    c: int | None = None


class Admitting(BaseModel):
    """A failure is an answer."""

    a: int | Failed
    b: int | Failed
    c: int | Failed


class Progress(BaseModel):
    seen: int = 0


@dataclass
class Script:
    """What the first stage returns, what goes wrong in those after it, and what they got."""

    waits: Callable[[Step[Progress]], Outcome] = lambda step: All.when_all(**asks(step), within=WITHIN)
    resumed: Callable[[Step[Progress]], None] = lambda step: None
    got: list[tuple[str, Any]] = field(default_factory=list)
    mails: bool = True


SCRIPT: Final = Script()
TWICE: Final = RetryPolicy(attempts=2, backoff=Fixed(20), jitter=0)


def asks(step: Step[Progress], names: str = "abc") -> dict[str, Any]:
    """Ask an outside party for each of these names."""
    return {name: step.ask("asked", {"id": step.answer_id(name)}) for name in names}


class Begin(
    Stage[Cart, Progress], name="begin", then=("all", "some", "admits", "late", "sorry"), inbox="carts", retry=TWICE
):
    def handle(self, cart: Cart, step: Step[Progress]) -> Outcome:
        step.state.seen += 1
        if SCRIPT.mails:
            step.send("mails", {"begun": cart.cart_id})
        return SCRIPT.waits(step)


def _got(step: Step[Progress], name: str, payload: Any) -> Outcome:
    SCRIPT.resumed(step)
    SCRIPT.got.append((name, payload))
    return Done({"seen": step.state.seen})


class All(Stage[Whole, Progress], name="all", inbox="carts", retry=TWICE):
    def handle(self, answers: Whole, step: Step[Progress]) -> Outcome:
        return _got(step, "all", answers)


class AnyOf(Stage[Some, Progress], name="some", inbox="carts", retry=TWICE):
    def handle(self, answers: Some, step: Step[Progress]) -> Outcome:
        return _got(step, "some", answers)


class Admits(Stage[Admitting, Progress], name="admits", inbox="carts", retry=TWICE):
    def handle(self, answers: Admitting, step: Step[Progress]) -> Outcome:
        return _got(step, "admits", answers)


class Late(Stage[dict[str, Any], Progress], name="late", inbox="carts", retry=TWICE):
    def handle(self, answers: dict[str, Any], step: Step[Progress]) -> Outcome:
        return _got(step, "late", answers)


class Sorry(Stage[dict[str, Any], Progress], name="sorry", inbox="carts", retry=TWICE):
    def handle(self, answers: dict[str, Any], step: Step[Progress]) -> Outcome:
        return _got(step, "sorry", answers)


STAGES: Final = (Begin, All, AnyOf, Admits, Late, Sorry)


class Carts(
    Flow,
    name="carts",
    object_id="cart_id",
    answers="answers",
    complete_to="completed",
    carry=("tenant",),
    trust_senders=True,
):
    stages = STAGES


class SignedCarts(Flow, name="carts", object_id="cart_id", answers="answers", complete_to="completed"):
    """The same flow, as it is by default."""

    stages = STAGES


class FirstWins(
    Flow,
    name="first-wins",
    object_id="cart_id",
    answers="answers",
    on_conflict=OnConflict.IGNORE,
    abandoned_after=timedelta(minutes=5),
    trust_senders=True,
):
    stages = STAGES


class Searched(Stage[Cart], name="searched", inbox="searches"):
    def handle(self, cart: Cart, step: Step) -> Outcome:
        if cart.cart_id.startswith("bad"):
            raise Reject("no such shop")
        return Done(len(cart.cart_id))


class Search(Flow, name="search", object_id="cart_id"):
    stages = (Searched,)


QUEUES: Final = (
    "carts",
    "answers",
    "asked",
    "mails",
    "completed",
    "searches",
    "carts-dead-letters",
    "first-wins-dead-letters",
    "search-dead-letters",
)


@dataclass
class WaitScene:
    """The engine, its clock and the function's, which stand still, one function, and everything that was told."""

    aws: MemoryAWS
    aws_clock: ManualClock
    clock: ManualClock
    tally: Tally
    services: Services
    function: Any
    flow: type[Flow]
    calls: list[str] = field(default_factory=list)

    @property
    def waits(self) -> Waits:
        return self.services.store.waits

    def first(self, **changes: Any) -> Message:
        """The message that begins a run."""
        message = Message(
            flow=self.flow.name,
            stage="begin",
            version=1,
            object_id=ObjectId("c1"),
            request_id=RequestId("run-1"),
            requested_at=START,
            body='{"cart_id":"c1"}',
        )
        return message._replace(**changes)

    def begin(self, waits: Callable[[Step[Progress]], Outcome] | None = None, **changes: Any) -> bool:
        """Run the first stage. Whether its record was acked."""
        if waits is not None:
            SCRIPT.waits = waits
        return self.deliver(record(self.first(**changes).attributes(), self.first(**changes).body, "carts"))

    def begin_and_look(self, waits: Callable[[Step[Progress]], Outcome] | None = None, **changes: Any) -> bool:
        """Run the first stage, and deliver its deadline's first message. Whether both were acked."""
        acked = self.begin(waits, **changes)
        looked = self.deliver(*self.waiting("answers"))
        self.waiting("answers")
        return acked and looked

    def deliver(self, *records: dict[str, Any]) -> bool:
        """Whether every record was acked. Notes the calls of DynamoDB that it took."""
        told = [{**one, "messageId": f"m-{place}"} for place, one in enumerate(records)]
        with intercept(Recorder()) as calls:
            answer = self.function({"Records": told})
        self.calls = [call.operation for call in calls.calls if call.service == "dynamodb"]
        return not answer["batchItemFailures"]

    def waiting(self, queue: str) -> list[dict[str, Any]]:
        """Take what lies in a queue, delayed messages too, as Lambda's records."""
        self.aws_clock.advance(seconds=1_000)
        sqs = self.aws.client("sqs")
        url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
        found: list[dict[str, Any]] = []
        while more := sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]
        ).get("Messages"):
            for one in more:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
                read = {name: _attribute(value) for name, value in one.get("MessageAttributes", {}).items()}
                found.append(record(read, one["Body"], queue))
        return found

    def resume(self) -> int:
        """Deliver what lies in the inbox, until nothing does. How many records that were."""
        count = 0
        while records := self.waiting("carts"):
            count += len(records)
            for one in records:
                self.deliver(one)
        return count

    def address(
        self, name: str, *, request: str = "run-1", at: int = START, hop: int = 1, admits: bool = False
    ) -> AnswerAddress:
        return AnswerAddress(self.flow.name, ObjectId("c1"), RequestId(request), at, hop, name, admits)

    def answer(self, name: str, result: Any = 1, **about: Any) -> bool:
        """Deliver an answer as another flow's Complete message brings it. Whether it was acked."""
        return self.deliver(answered(self.address(name, **about), {"status": "COMPLETED", "result": result}))

    def fail(self, name: str, error: str = "OutOfStock: none left", **about: Any) -> bool:
        return self.deliver(answered(self.address(name, **about), {"status": "FAILED", "error": error}))

    def time_out(self, at: int = DEADLINE) -> bool:
        """Let the clock go on, and deliver a deadline."""
        self.move_to(at)
        return self.deliver(deadline(self.address("deadline")))

    def move_to(self, at: int) -> None:
        """Let the function's clock say this."""
        self.clock.advance(ms=at - self.clock.now())

    def verdicts(self) -> list[str]:
        return [str(event.facts["verdict"]) for event in self.tally.events if event.type is EventType.ANSWERED]

    def told(self, event: EventType) -> int:
        return self.tally.count(event)

    def rewrite(self, row: AwaitingRow, **changes: Any) -> None:
        """Let the row have been written by an attempt of other code, and by no other."""
        dynamodb: Any = self.aws.client("dynamodb")
        for stored in dynamodb.scan(TableName="flowguard")["Items"]:
            key = {"pk": stored["pk"], "sk": stored["sk"]}
            if key["pk"] == awaiting_key(self.flow.name, row.id)["pk"] and awaiting_row(row.id, stored) == row:
                dynamodb.delete_item(TableName="flowguard", Key=key)
        self.waits.save([row._replace(**changes)])

    def item(self, object_id: str = "c1") -> RunItem:
        found = aws_store(Settings(), same_clients()).read(self.flow.name, ObjectId(object_id))
        assert found is not None
        return found

    @property
    def key(self) -> dict[str, Any]:
        return {"pk": {"S": f"run#{self.flow.name}#c1"}, "sk": {"S": "run"}}

    def raw(self) -> dict[str, Any]:
        """The run item as DynamoDB holds it."""
        found: Any = self.aws.client("dynamodb").get_item(TableName="flowguard", Key=self.key)
        return dict(found["Item"])

    @property
    def wait(self) -> Wait:
        found = self.item().wait
        assert found is not None
        return found

    def letters(self) -> list[Any]:
        """Why messages are among the dead letters."""
        found = [json.loads(_text(one, PLACE)) for one in self.waiting(f"{self.flow.name}-dead-letters")]
        return [place.get("last_error", place["error"]) for place in found]


def record(attributes: Mapping[str, Attribute], body: str, queue: str) -> dict[str, Any]:
    """The SQS record in which Lambda gets a message."""
    return {
        "messageId": "m-0",
        "receiptHandle": "receipt",
        "body": body,
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": str(START)},
        "messageAttributes": attributes_to(Attribute.to_sqs_record, attributes),
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{queue}",
        "awsRegion": REGION,
    }


def placed(place: Mapping[str, Any], body: str) -> dict[str, Any]:
    """A record of the queue of answers whose ``flowguard`` attribute says this."""
    attributes = {
        "uniquerequestid": Attribute.string("somebody-1"),
        "requestedat": Attribute.number(START),
        PLACE: Attribute.string(json.dumps(place)),
    }
    return record(attributes, body, "answers")


def answered(address: AnswerAddress, end: Mapping[str, Any]) -> dict[str, Any]:
    return placed({"answer": address.as_json()}, json.dumps(end))


def deadline(address: AnswerAddress) -> dict[str, Any]:
    return placed({"deadline": address.as_json()}, json.dumps({"deadline": DEADLINE}))


def _attribute(value: Mapping[str, Any]) -> Attribute:
    return Attribute(value["DataType"], value["StringValue"])


def _text(one: Mapping[str, Any], name: str) -> str:
    return str(one["messageAttributes"][name]["stringValue"])


@contextmanager
def wait_scene(flow: type[Flow] = Carts, settings: Settings | None = None) -> Iterator[WaitScene]:
    """An empty AWS with the flows' queues and table, and one function that serves the flow and the one it asks."""
    aws_clock = ManualClock(START)
    with MemoryAWS(aws_clock) as aws, kept():
        aws.create_table("flowguard")
        for queue in QUEUES:
            aws.create_queue(queue)
        if settings is not None and settings.bucket:
            aws.client("s3").create_bucket(Bucket=settings.bucket)
        clock, tally = ManualClock(START), Tally()
        services = aws_services(
            settings or Settings(), same_clients(), clock=clock, ids=SeededIds(), observer=tally, draw=random.Random(0)
        )
        fresh = Script()
        SCRIPT.waits, SCRIPT.resumed, SCRIPT.got, SCRIPT.mails = fresh.waits, fresh.resumed, fresh.got, True
        function = lambda_handler(flow, Search).using(services)
        yield WaitScene(aws, aws_clock, clock, tally, services, function, flow)
