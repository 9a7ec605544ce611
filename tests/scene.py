"""A two-stage flow on an engine of the process, driven message by message: what the runtime's tests stand on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard.aws.services import aws_services, aws_store
from flowguard.clock import ManualClock, no_pause
from flowguard.events import EventType, Tally
from flowguard.flow import AnyFlow, Flow
from flowguard.handler import LambdaHandler, lambda_handler
from flowguard.names.ids import ObjectId, RequestId, SeededIds
from flowguard.outcome import Done, Outcome
from flowguard.payload.codec import Codec
from flowguard.protocol.run import RunItem
from flowguard.retry import Fixed, RetryPolicy
from flowguard.settings import Settings
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.calls import Recorder, intercept
from flowguard.sim.in_process import AWSInProcess
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.moto import EmbeddedAWS
from flowguard.stage import AnyStage, Stage
from flowguard.step import Step
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.message import Message
from tests.aws.engines import kept, same_clients

START = 1_800_000_000_000


class Order(BaseModel):
    order_id: str
    note: str = ""


class Priced(BaseModel):
    total: int


class OrderState(BaseModel):
    total: int = 0


@dataclass
class Script:
    """What happens inside the handlers of a scene: called with the step before the stage does its own work."""

    pricing: Callable[[Step[OrderState]], object] = lambda step: None
    closing: Callable[[Step[OrderState]], object] = lambda step: None
    handled: list[tuple[str, RequestId, int]] = field(default_factory=list)


def two_stages(script: Script) -> tuple[AnyStage, AnyStage]:
    """The stages of a flow that follow this script."""

    class PriceOrder(
        Stage[Order, OrderState],
        name="price-order",
        then="close-order",
        inbox="price-order",
        retry=RetryPolicy(attempts=3, backoff=Fixed(20), jitter=0),
    ):
        def handle(self, order: Order, step: Step[OrderState]) -> Outcome:
            script.handled.append(("price-order", step.request_id, step.attempt))
            script.pricing(step)
            step.state.total = 7
            step.update("orders", {"id": order.order_id}, "ADD priced :one", values={":one": 1})
            step.send("emails", {"priced": order.order_id})
            return CloseOrder.message(Priced(total=7))

    class CloseOrder(Stage[Priced, OrderState], name="close-order", inbox="close-order"):
        def handle(self, priced: Priced, step: Step[OrderState]) -> Outcome:
            script.handled.append(("close-order", step.request_id, step.attempt))
            script.closing(step)
            return Done({"total": step.state.total})

    return PriceOrder, CloseOrder


def orders(script: Script) -> AnyFlow:
    """The flow of most tests."""

    class Orders(Flow, name="orders", object_id="order_id", complete_to="completed", dead_letters="dead"):
        stages = two_stages(script)

    return Orders


def told_orders(script: Script) -> AnyFlow:
    """The same flow with a full history."""

    class Orders(
        Flow, name="orders", object_id="order_id", complete_to="completed", dead_letters="dead", full_history=True
    ):
        stages = two_stages(script)

    return Orders


Orders = orders(Script())
"""For those who ask a flow for its names, queues and types alone."""

ENGINES = (MemoryAWS, pytest.param(EmbeddedAWS, marks=pytest.mark.long("once more on moto, which is slow")))
"""For fixtures that are a scene: the memory for each change, and before a release an engine that others have made."""

QUEUES = ("price-order", "close-order", "emails", "completed", "dead")


@dataclass
class Scene:
    """The engine, a clock that stands still, and everything that was told."""

    aws: AWSInProcess
    clock: ManualClock
    tally: Tally
    flow: AnyFlow
    handler: LambdaHandler
    script: Script
    calls: list[str] = field(default_factory=list)
    receives: int = 1
    """How often SQS says that it has delivered each record."""

    def message(self, **changes: Any) -> Message:
        """The first message of the run that most tests are about."""
        first = Message(
            flow="orders",
            stage="price-order",
            version=1,
            object_id=ObjectId("o1"),
            request_id=RequestId("run-1"),
            requested_at=START - 1_000,
            body='{"order_id":"o1"}',
        )
        return first._replace(**changes)

    def order(self, object_id: str, **changes: Any) -> Message:
        """The first message of a run for another order."""
        return self.message(object_id=ObjectId(object_id), body=f'{{"order_id":"{object_id}"}}', **changes)

    def newer(self, **changes: Any) -> Message:
        """A newer request for the same object."""
        return self.message(**{"request_id": RequestId("run-2"), "requested_at": START - 500, **changes})

    def second(self, **changes: Any) -> Message:
        """The second hop's message of the first run."""
        return self.message(**{"stage": "close-order", "hop": 2, "body": '{"total":7}', **changes})

    def deliver(self, *messages: Message, context: Any = None) -> list[bool]:
        """Whether each message was acked, by what the handler answered to Lambda. Notes the DynamoDB calls it took."""
        with intercept(Recorder()) as calls:
            records = [record(m, place, self.receives) for place, m in enumerate(messages)]
            answer = self.handler({"Records": records}, context)
        self.calls = [call.operation for call in calls.calls if call.service == "dynamodb"]
        failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        return [message_id(place) not in failed for place in range(len(messages))]

    def sent(self, queue: str) -> list[Any]:
        """The messages waiting in a queue, taken out of it, delayed ones too."""
        sqs = self.aws.client("sqs")
        url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
        found: list[Any] = []
        while more := sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]
        ).get("Messages"):
            found += more
            for one in more:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
        return found

    def told(self, event: EventType) -> int:
        return self.tally.count(event)

    def item(self, object_id: str = "o1") -> RunItem | None:
        return aws_store(Settings(), same_clients()).read("orders", object_id)

    def item_of(self, codec: Codec, object_id: str = "o1") -> RunItem:
        """The item of a flow with a codec, opened."""
        store = aws_store(Settings(), same_clients())
        store.codecs.learn([self.flow])
        assert self.flow.codec is codec
        found = store.read("orders", object_id)
        assert found is not None
        return found

    def priced(self) -> int:
        """How often the business effect of the first stage was applied."""
        found: Any = self.aws.client("dynamodb").get_item(TableName="orders", Key={"id": {"S": "o1"}})
        return int(found["Item"]["priced"]["N"]) if "Item" in found else 0


def message_id(place: int) -> str:
    return f"00000000-0000-4000-8000-{place:012d}"


def record(message: Message, place: int = 0, receives: int = 1) -> dict[str, Any]:
    """The SQS record in which Lambda gets the message."""
    return {
        "messageId": message_id(place),
        "receiptHandle": f"receipt-{place}",
        "body": message.text,
        "attributes": {"ApproximateReceiveCount": str(receives), "SentTimestamp": str(START)},
        "messageAttributes": attributes_to(Attribute.to_sqs_record, message.attributes()),
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{message.stage}",
        "awsRegion": REGION,
    }


@contextmanager
def scene(
    made: Callable[[Script], AnyFlow] = orders,
    *only: str,
    settings: Settings | None = None,
    engine: type[AWSInProcess] = MemoryAWS,
) -> Iterator[Scene]:
    """An empty AWS with the flow's queues and tables, and a function that serves the flow, or ``only`` some stages."""
    with engine() as aws, kept():
        aws.create_table("flowguard")
        aws.client("dynamodb").create_table(
            TableName="orders",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        )
        for queue in QUEUES:
            aws.create_queue(queue)
        clock, tally = ManualClock(START), Tally()
        services = aws_services(
            settings or Settings(),
            same_clients(),
            clock=clock,
            ids=SeededIds(),
            observer=tally,
            draw=random.Random(0),
            pause=no_pause,
        )
        script = Script()
        flow = made(script)
        handler = lambda_handler(flow, *(stage for stage in flow.stages if stage.name in only)).using(services)
        yield Scene(aws, clock, tally, flow, handler, script)
