"""A queue is gone with its messages, as after an update that was rolled back: how its runs are found and go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Settings, Stage, Step, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services, aws_store
from flowguard.cli import main
from flowguard.client import FlowClient
from flowguard.names.ids import ObjectId
from flowguard.protocol.run import RunItem, Status
from flowguard.sim.memory.aws import MemoryAWS


class Order(BaseModel):
    order_id: str


class Take(Stage[Order], name="take", then="bill", inbox="taking"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Bill.message(order)


class Bill(Stage[Order], name="bill", then="ship", inbox="billing"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Ship.message(order)


class Ship(Stage[Order], name="ship", inbox="shipping"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done({"shipped": order.order_id})


class Orders(Flow, name="orders", object_id="order_id"):
    stages = (Take, Bill, Ship)


ORDERS = f"{__name__}:Orders"
QUEUES = ("taking", "billing", "shipping", "orders-dead-letters")


class Shop:
    """The queues of the flow, and a function that reads them."""

    def __init__(self, aws: MemoryAWS) -> None:
        self.aws = aws
        aws.create_table("flowguard")
        self.urls = {name: aws.create_queue(name) for name in QUEUES}
        self.services = aws_services(Settings(), Clients())

    def order(self) -> None:
        FlowClient(self.services.sender).start(Orders, Order(order_id="o1"), request_id="r1")

    def deliver(self, queue: str) -> int:
        """Deliver what is in a queue. Returns how many messages there were."""
        sqs: Any = self.aws.client("sqs")
        url = self.urls[queue]
        found = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"], AttributeNames=["All"])
        for message in found.get("Messages", []):
            assert lambda_handler(Orders).using(self.services)({"Messages": [message]}) == {"batchItemFailures": []}
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return len(found.get("Messages", []))

    def lose(self, queue: str) -> None:
        """Delete a queue with its messages, and make it anew."""
        self.aws.client("sqs").purge_queue(QueueUrl=self.urls[queue])

    def run(self) -> RunItem:
        item = aws_store(Settings(), Clients()).read("orders", ObjectId("o1"))
        assert item is not None
        return item


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with MemoryAWS() as aws:
        yield Shop(aws)


def flowguard(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def sent(*arguments: str) -> None:
    result = flowguard("send", ORDERS, "--payload", json.dumps({"order_id": "o1"}), *arguments)
    assert result.exit_code == 0, result.output


def test_a_run_whose_second_stages_message_is_gone_goes_on_with_its_request(shop: Shop) -> None:
    shop.order()
    shop.deliver("taking")
    shop.lose("billing")
    listed = flowguard("list", "--flow", ORDERS, "--status", "running").stdout
    assert "o1      RUNNING  take   1" in listed
    assert "next → sqs:billing" in flowguard("show", ORDERS, "o1").stdout
    assert flowguard("retry", ORDERS, "o1", "--wait", "0").exit_code == 1, "it has no dead letter"
    sent("--request-id", "r1")
    assert [shop.deliver(queue) for queue in ("taking", "billing", "shipping")] == [1, 1, 1]
    assert shop.run().status is Status.COMPLETED


def test_a_run_whose_later_message_is_gone_is_begun_anew_by_another_request(shop: Shop) -> None:
    shop.order()
    shop.deliver("taking")
    shop.deliver("billing")
    shop.lose("shipping")
    sent("--request-id", "r1")
    assert [shop.deliver(queue) for queue in ("taking", "billing", "shipping")] == [1, 0, 0]
    assert shop.run().status is Status.RUNNING
    sent("--request-id", "r2")
    assert [shop.deliver(queue) for queue in ("taking", "billing", "shipping")] == [1, 1, 1]
    assert (shop.run().status, shop.run().request_id) == (Status.COMPLETED, "r2")
