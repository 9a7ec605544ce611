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


class Seen(BaseModel):
    order_id: str
    amount: int


class SeeSum(Stage[Paid], name="see-sum", then="write-sum", inbox="paid"):
    def handle(self, paid: Paid, step: Step) -> Outcome:
        found = dynamodb.get_item(TableName="totals", Key={"day": {"S": "monday"}}, ConsistentRead=True)
        before = int(found["Item"]["amount"]["N"]) if "Item" in found else 0
        return WriteSum.message(Seen(order_id=paid.order_id, amount=before + paid.amount))


class WriteSum(Stage[Seen], name="write-sum"):
    def handle(self, seen: Seen, step: Step) -> Outcome:
        step.put("totals", {"day": "monday", "amount": seen.amount})  # here
        return Done()


class WritesWhatItSaw(Flow, name="writes-what-it-saw", object_id="order_id"):
    stages = (SeeSum, WriteSum)


class Accept(Stage[Paid], name="accept", then="add-up", inbox="paid"):
    def handle(self, paid: Paid, step: Step) -> Outcome:
        return AddUp.message(paid)


class AddUp(Stage[Paid], name="add-up"):
    def handle(self, paid: Paid, step: Step) -> Outcome:
        step.update("totals", {"day": "monday"}, "ADD amount :n", values={":n": paid.amount})
        return Done()


class AddsUp(Flow, name="adds-up", object_id="order_id"):
    """Sound."""

    stages = (Accept, AddUp)


PAID: Any = Paid(order_id="o1")
OTHER_PAID: Any = Paid(order_id="o2", amount=7)
