"""Flows with one bug each, of the kinds that people write. The guilty line ends in ``# here``."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
from pydantic import BaseModel, model_validator

from flowguard import Done, Flow, Outcome, Reject, Retry, RetryPolicy, Stage, Step

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


class MarkThenAdd(Stage[Order], name="mark-then-add", inbox="orders"):
    def handle(self, order: Order, step: Step) -> Outcome:
        dynamodb, item = aws("dynamodb"), {"order_id": {"S": order.order_id}}
        if "Item" not in dynamodb.get_item(TableName="orders", Key=item, ConsistentRead=True):
            dynamodb.put_item(TableName="orders", Item=item)
            dynamodb.update_item(  # here
                TableName="totals",
                Key={"day": {"S": "monday"}},
                UpdateExpression="ADD n :n",
                ExpressionAttributeValues={":n": {"N": "1"}},
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


class InPart(Stage[Order], name="in-part", inbox="orders"):
    """A batch of which some entries may be refused, and nobody looks."""

    def handle(self, order: Order, step: Step) -> Outcome:
        sqs = aws("sqs")
        url = sqs.get_queue_url(QueueName="emails")["QueueUrl"]
        sqs.send_message_batch(  # here
            QueueUrl=url,
            Entries=[
                {
                    "Id": to,
                    "MessageBody": json.dumps({"to": to}),
                    "MessageAttributes": {
                        "uniquerequestid": {"DataType": "String", "StringValue": f"{step.request_id}-{to}"}
                    },
                }
                for to in ("buyer", "seller", "shop")
            ],
        )
        return Done()


class Unanswered(Stage[Order], name="unanswered", inbox="orders"):
    """Tried again in the same attempt: wrong where the first time was applied and only its answer lost for good."""

    def handle(self, order: Order, step: Step) -> Outcome:
        for _ in range(2):
            try:
                aws("dynamodb").update_item(  # here
                    TableName="totals",
                    Key={"day": {"S": "monday"}},
                    UpdateExpression="SET amount = if_not_exists(amount, :zero) + :n",
                    ExpressionAttributeValues={":n": {"N": "1"}, ":zero": {"N": "0"}},
                )
                break
            except Exception:
                step.log.warning("once more")
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


class ToldTwoStages(Flow, name="told-two-stages", object_id="order_id", complete_to="told"):
    """Somebody waits for its end."""

    stages = (First, Second)


class Picky(Stage[Order], name="picky", inbox="orders"):
    """Some orders can never work."""

    def handle(self, order: Order, step: Step) -> Outcome:
        if not order.amount:
            raise Reject("an order of nothing")
        step.update("totals", {"day": "monday"}, "ADD amount :n", values={":n": order.amount})
        return Done()


class PickyOne(Flow, name="picky", object_id="order_id", complete_to="told"):
    stages = (Picky,)


class OneTry(Stage[Order], name="one-try", inbox="orders", retry=RetryPolicy(attempts=1)):
    def handle(self, order: Order, step: Step) -> Outcome:
        aws("dynamodb").put_item(TableName="orders", Item={"order_id": {"S": order.order_id}})
        return Done()


class OneTryOnly(Flow, name="one-try-only", object_id="order_id", complete_to="told"):
    """Fails at the first error."""

    stages = (OneTry,)


class Broken(Stage[Order], name="broken", inbox="orders"):
    """Fails whatever it is given, at once and later."""

    retry = RetryPolicy(attempts=2)

    def handle(self, order: Order, step: Step) -> Outcome:
        step.update("totals", {"day": "monday"}, "ADD amount :n", values={":n": order.amount})
        raise KeyError("Item")


class BrokenOne(Flow, name="broken-one", object_id="order_id", complete_to="told"):
    stages = (Broken,)


class BrokenInOrder(Stage[Order], name="broken-in-order", inbox="orders.fifo", retry=RetryPolicy(attempts=2)):
    def handle(self, order: Order, step: Step) -> Outcome:
        raise KeyError("Item")


class BrokenTwin(Flow, name="broken-twin", object_id="order_id", complete_to="told-too"):
    """Another queue, and the same request."""

    stages = (BrokenInOrder,)


class BeforeBroken(Stage[Order], name="before-broken", then="broken", inbox="first"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.put("orders", {"order_id": order.order_id})
        step.send("emails", {"ordered": order.order_id})
        return Broken.message(order)


class BrokenSecond(Flow, name="broken-second", object_id="order_id", complete_to="told"):
    stages = (BeforeBroken, Broken)


class AddThenFail(Stage[Order], name="add-then-fail", inbox="orders", retry=RetryPolicy(attempts=1)):
    """What it does before it fails is done again when it is sent back."""

    def handle(self, order: Order, step: Step) -> Outcome:
        aws("dynamodb").update_item(  # here
            TableName="totals",
            Key={"day": {"S": "monday"}},
            UpdateExpression="ADD amount :n",
            ExpressionAttributeValues={":n": {"N": "1"}},
        )
        raise KeyError("Item")


class Sell(Stage[Order], name="sell", inbox="orders"):
    """What it reads is there before it begins."""

    def handle(self, order: Order, step: Step) -> Outcome:
        price = aws("dynamodb").get_item(TableName="prices", Key={"sku": {"S": "tea"}})["Item"]["price"]["N"]
        step.update(
            "stock", {"sku": "tea"}, "SET #left = #left - :n", names={"#left": "left"}, values={":n": order.amount}
        )
        step.put("bills", {"order_id": order.order_id, "total": Decimal(price) * order.amount})
        return Done()


class SellByHand(Stage[Order], name="sell-by-hand", inbox="orders"):
    def handle(self, order: Order, step: Step) -> Outcome:
        aws("dynamodb").get_item(TableName="prices", Key={"sku": {"S": "tea"}})["Item"]
        aws("dynamodb").update_item(  # here
            TableName="stock",
            Key={"sku": {"S": "tea"}},
            UpdateExpression="ADD #left :n",
            ExpressionAttributeNames={"#left": "left"},
            ExpressionAttributeValues={":n": {"N": str(-order.amount)}},
        )
        return Done()


class Pass(Stage[Order], name="pass-on", inbox="orders"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.send("counted", order)
        return Done()


class PassOn(Flow, name="pass-on", object_id="order_id"):
    stages = (Pass,)


class Count(Stage[Order], name="count", inbox="counted"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.update("totals", {"day": "monday"}, "ADD amount :n", values={":n": order.amount})
        return Done()


class CountThem(Flow, name="count-them", object_id="order_id"):
    """Asked for by the flow before."""

    stages = (Count,)


class Closed(Stage[Order], name="closed", inbox="arn:aws:sqs:us-east-1:123456789012:closed"):
    """Comes back in an hour, once."""

    def handle(self, order: Order, step: Step) -> Outcome:
        if step.attempt == 1:
            raise Retry("the shop is closed", after=timedelta(hours=1))
        step.update("totals", {"day": "monday"}, "ADD amount :n", values={":n": order.amount})
        return Done()


class OpensLater(Flow, name="opens-later", object_id="order_id", long_delays=True):
    stages = (Closed,)


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
