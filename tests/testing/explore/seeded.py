"""Flows with one bug each, of the kinds that people write. The guilty line ends in ``# here``."""

from __future__ import annotations

import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
from pydantic import BaseModel, model_validator

from flowguard import Done, Flow, Outcome, Stage, Step

TABLES = {"totals": "day", "orders": "order_id", "log": "entry"}


class Order(BaseModel):
    order_id: str
    amount: int = 5


def aws(service: str) -> Any:
    client: Any = boto3.client
    return client(service, region_name="us-east-1")


class PlainPut(Stage[Order], name="plain-put", inbox="orders"):
    """Harmless: the same item is put again."""

    def handle(self, order: Order, step: Step) -> Outcome:
        aws("dynamodb").put_item(TableName="orders", Item={"order_id": {"S": order.order_id}, "amount": {"N": "5"}})
        return Done()


class PlainAdd(Stage[Order], name="plain-add", inbox="orders"):
    def handle(self, order: Order, step: Step) -> Outcome:
        table = boto3.resource("dynamodb", region_name="us-east-1").Table("totals")
        table.update_item(  # here
            Key={"day": "monday"},
            UpdateExpression="ADD amount :n",
            ExpressionAttributeValues={":n": Decimal(order.amount)},
        )
        return Done()


class PlainSend(Stage[Order], name="plain-send", inbox="orders"):
    def handle(self, order: Order, step: Step) -> Outcome:
        sqs = aws("sqs")
        url = sqs.get_queue_url(QueueName="emails")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"ordered": order.order_id}))  # here
        return Done()


class CheckThenAct(Stage[Order], name="check-then-act", inbox="orders"):
    def handle(self, order: Order, step: Step) -> Outcome:
        dynamodb = aws("dynamodb")
        key = {"order_id": {"S": order.order_id}}
        if "Item" not in dynamodb.get_item(TableName="orders", Key=key, ConsistentRead=True):
            dynamodb.update_item(  # here
                TableName="orders", Key=key, UpdateExpression="ADD n :n", ExpressionAttributeValues={":n": {"N": "1"}}
            )
        return Done()


class RandomKey(Stage[Order], name="random-key", inbox="orders"):
    def handle(self, order: Order, step: Step) -> Outcome:
        entry = {"entry": {"S": str(uuid.uuid4())}, "order_id": {"S": order.order_id}}
        aws("dynamodb").put_item(TableName="log", Item=entry)  # here
        return Done()


class RecordedRandom(Stage[Order], name="recorded-random", inbox="orders"):
    """Harmless: it is applied once, whichever attempt it came from."""

    def handle(self, order: Order, step: Step) -> Outcome:
        step.put("orders", {"order_id": order.order_id, "token": str(uuid.uuid4())})
        return Done()


class Counted(Order):
    @model_validator(mode="after")
    def count(self) -> Counted:
        """Runs when the message is read: before any claim, and so for each copy."""
        aws("dynamodb").update_item(  # here
            TableName="totals",
            Key={"day": {"S": "monday"}},
            UpdateExpression="ADD amount :n",
            ExpressionAttributeValues={":n": {"N": "1"}},
        )
        return self


class BeforeClaim(Stage[Counted], name="before-claim", inbox="orders"):
    def handle(self, order: Counted, step: Step) -> Outcome:
        return Done()


class Told(Stage[Order], name="told", inbox="orders"):
    """What is recorded depends on how often it was tried."""

    def handle(self, order: Order, step: Step) -> Outcome:
        step.put("orders", {"order_id": order.order_id, "at": step.now().isoformat()})
        return Done()


class Swallowed(Stage[Order], name="swallowed", inbox="orders"):
    """A write that fails, and nobody minds: the error answer loses it."""

    def handle(self, order: Order, step: Step) -> Outcome:
        try:
            aws("dynamodb").put_item(TableName="orders", Item={"order_id": {"S": order.order_id}})  # here
        except Exception:
            step.log.warning("the order was not noted")
        return Done()


class Recorded(Stage[Order], name="recorded", inbox="orders"):
    """As it should be."""

    def handle(self, order: Order, step: Step) -> Outcome:
        step.update("totals", {"day": "monday"}, "ADD amount :n", values={":n": order.amount})
        step.send("emails", {"ordered": order.order_id})
        return Done()


class First(Stage[Order], name="first", then="second", inbox="first"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.put("orders", {"order_id": order.order_id})
        step.send("emails", {"ordered": order.order_id})
        return Second.message(order)


class Second(Stage[Order], name="second", inbox="second"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.update("totals", {"day": "monday"}, "ADD amount :n", values={":n": order.amount})
        return Done()


class TwoStages(Flow, name="two-stages", object_id="order_id"):
    stages = (First, Second)


def flow_of(stage: Any) -> type[Flow]:
    """A flow of this one stage."""

    class One(Flow, name=f"flow-{stage.name}", object_id="order_id"):
        stages = (stage,)

    return One


def guilty_line(stage: str) -> int:
    """Of the class with this name."""
    lines = Path(__file__).read_text().splitlines()
    first = next(number for number, line in enumerate(lines, 1) if line.startswith(f"class {stage}("))
    return next(number for number in range(first, len(lines)) if lines[number - 1].endswith("# here"))
