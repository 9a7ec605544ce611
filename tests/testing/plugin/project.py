"""A small project of a user's, as the text of its files: two flows, one of which counts an order twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

ORDERS: Final = """\
import boto3
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step

TABLES = {"orders": "order_id", "totals": "day"}


class Order(BaseModel):
    order_id: str
    amount: int = 1


class Take(Stage[Order], name="take", then="pack", inbox="orders"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.put("orders", {"order_id": order.order_id, "amount": order.amount})
        return Pack.message(order)


class Pack(Stage[Order], name="pack", inbox="parcels"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.send("mails", {"order_id": order.order_id})
        return Done({"amount": order.amount})


class Shop(Flow, name="shop", object_id="order_id"):
    stages = (Take, Pack)


class Count(Stage[Order], name="count", inbox="counts"):
    def handle(self, order: Order, step: Step) -> Outcome:
        boto3.client("dynamodb").update_item(
            TableName="totals",
            Key={"day": {"S": "monday"}},
            UpdateExpression="ADD amount :amount",
            ExpressionAttributeValues={":amount": {"N": str(order.amount)}},
        )
        return Done()


class CountOrders(Flow, name="count-orders", object_id="order_id"):
    stages = (Count,)
"""
"""``orders.py``. It needs no region and no credentials of the environment."""

COUNTING_LINE: Final = 1 + ORDERS.splitlines().index('        boto3.client("dynamodb").update_item(')
"""Where the bug is."""

TESTS: Final = '''\
from datetime import UTC, datetime

import pytest

from flowguard.testing import FlowClock, FlowRunner, sqs_event
from flowguard.testing.explorer import View
from orders import CountOrders, Order, Shop

ORDER = Order(order_id="o1", amount=3)


def test_an_order_is_packed(flow_runner: FlowRunner) -> None:
    flow_runner.send(Shop, ORDER)
    result = flow_runner.run()
    assert result.run("o1").result == {"amount": 3}
    assert [one.body for one in result.sent("mails")] == [{"order_id": "o1"}]


def test_a_duplicate_changes_nothing(flow_runner: FlowRunner, flow_clock: FlowClock) -> None:
    event = sqs_event("orders", ORDER)
    assert flow_runner.serve(Shop).deliver(event, event).run().verdicts[:2] == ["CLAIMED", "DONE"]
    flow_clock.advance(hours=1)
    assert datetime.now(UTC).hour == 1


def test_the_engine_answers_every_client(flow_engine) -> None:
    import boto3

    flow_engine.create_queue("mails")
    assert boto3.client("sqs").list_queues()["QueueUrls"]


@pytest.mark.flow_explore(Shop, messages=[ORDER], bound=5, walks=5)
def test_orders_survive() -> None:
    """Every fault, and the end is the same."""


@pytest.mark.flow_explore(Shop, messages=[ORDER], bound=5, walks=5)
def test_nobody_gets_two_mails(flow_view: View) -> None:
    assert len(flow_view.sent("mails")) <= 1


@pytest.mark.flow_explore(CountOrders, messages=[ORDER], bound=5, walks=5)
def test_orders_are_counted_once() -> None:
    """They are not."""


def test_wrong_on_purpose(flow_runner: FlowRunner) -> None:
    flow_runner.send(Shop, ORDER)
    assert flow_runner.run().run("o1").result == {"amount": 4}
'''
"""``test_orders.py``: the last two fail."""

IMPORTS: Final = """
import pytest
from flowguard.testing.explorer import invariant
from orders import CountOrders, Order, Shop, Take
ORDER = Order(order_id="o1")
few = dict(messages=[ORDER], bound=0, walks=0, most=1)
"""
"""What other tests of the project begin with. Their fixture ``session`` runs them."""

Session = Callable[..., pytest.RunResult]
