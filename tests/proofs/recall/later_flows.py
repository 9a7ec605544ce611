"""Flows with a bug of public trackers that the explorer had never met when it was first measured.

The line to change ends in ``# here``.
"""

from __future__ import annotations

from typing import Any

import boto3
from pydantic import BaseModel

from flowguard import Done, Failure, Flow, Outcome, Reject, Stage, Step

tables: Any = boto3.resource("dynamodb", region_name="us-east-1")


class Bought(BaseModel):
    order_id: str
    amount: int = 3


class Paid(BaseModel):
    order_id: str
    amount: int


class TakeMoney(Stage[Bought], name="take-money", then="pack", inbox="bought"):
    def handle(self, bought: Bought, step: Step) -> Outcome:
        step.update("accounts", {"id": bought.order_id}, "ADD paid :n", values={":n": bought.amount})
        return Pack.message(Paid(order_id=bought.order_id, amount=bought.amount))


class Pack(Stage[Paid], name="pack"):
    def handle(self, paid: Paid, step: Step) -> Outcome:
        raise Reject("there is nothing to pack")


class GiveBack(Stage[Failure], name="give-back"):
    def handle(self, failure: Failure, step: Step) -> Outcome:
        tables.Table("accounts").update_item(  # here
            Key={"id": step.object_id},
            UpdateExpression="ADD refunded :n",
            ExpressionAttributeValues={":n": 3},
        )
        return Done()


class BuysAndGivesBack(Flow, name="buys-and-gives-back", object_id="order_id", on_failed=GiveBack):
    stages = (TakeMoney, Pack, GiveBack)


class GiveBackOnce(Stage[Failure], name="give-back-once"):
    def handle(self, failure: Failure, step: Step) -> Outcome:
        step.update("accounts", {"id": step.object_id}, "ADD refunded :n", values={":n": 3})
        return Done()


class PackOnce(Stage[Paid], name="pack-once"):
    def handle(self, paid: Paid, step: Step) -> Outcome:
        raise Reject("there is nothing to pack")


class TakeMoneyOnce(Stage[Bought], name="take-money-once", then="pack-once", inbox="bought"):
    def handle(self, bought: Bought, step: Step) -> Outcome:
        step.update("accounts", {"id": bought.order_id}, "ADD paid :n", values={":n": bought.amount})
        return PackOnce.message(Paid(order_id=bought.order_id, amount=bought.amount))


class GivesBackOnce(Flow, name="gives-back-once", object_id="order_id", on_failed=GiveBackOnce):
    """Sound: what is given back is recorded with the step."""

    stages = (TakeMoneyOnce, PackOnce, GiveBackOnce)
