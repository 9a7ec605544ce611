"""Flows whose stages have a bug, or none. The line to change ends in ``# here``."""

from __future__ import annotations

from typing import Any

import boto3
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Reject, Stage, Step

dynamodb = boto3.client("dynamodb", region_name="us-east-1")


class Paid(BaseModel):
    order_id: str
    amount: int = 5


class CountPaid(Stage[Paid], name="count-paid", inbox="paid"):
    def handle(self, paid: Paid, step: Step) -> Outcome:
        dynamodb.update_item(  # here
            TableName="totals",
            Key={"day": {"S": "monday"}},
            UpdateExpression="ADD amount :n",
            ExpressionAttributeValues={":n": {"N": str(paid.amount)}},
        )
        return Done()


class CountsItself(Flow, name="counts-itself", object_id="order_id"):
    stages = (CountPaid,)


class Price(Stage[Paid], name="price", inbox="paid"):
    def handle(self, paid: Paid, step: Step) -> Outcome:
        step.put("orders", {"order_id": paid.order_id, "priced_at": step.now().isoformat()})  # here
        return Done()


class RecordsTheTime(Flow, name="records-the-time", object_id="order_id"):
    stages = (Price,)


class Refuse(Stage[Paid], name="refuse", inbox="paid"):
    def handle(self, paid: Paid, step: Step) -> Outcome:
        raise Reject("no such shop")  # here


class NeverWorks(Flow, name="never-works", object_id="order_id"):
    stages = (Refuse,)


class AddPaid(Stage[Paid], name="add-paid", inbox="paid"):
    def handle(self, paid: Paid, step: Step) -> Outcome:
        step.update("totals", {"day": "monday"}, "ADD amount :n", values={":n": paid.amount})
        return Done()


class CountsWithTheStep(Flow, name="counts-with-the-step", object_id="order_id"):
    """Sound."""

    stages = (AddPaid,)


class Reserve(Stage[Paid], name="reserve", then="tell", inbox="paid"):
    def handle(self, paid: Paid, step: Step) -> Outcome:
        step.put("orders", {"order_id": paid.order_id, "amount": paid.amount})
        return Tell.message(paid)


class Tell(Stage[Paid], name="tell", inbox="told"):
    def handle(self, paid: Paid, step: Step) -> Outcome:
        step.send("emails", {"order_id": paid.order_id})
        return Done()


class TellsInTheEnd(Flow, name="tells-in-the-end", object_id="order_id"):
    """Sound."""

    stages = (Reserve, Tell)


PAID: Any = Paid(order_id="o1")
