"""Flows that need one of everything: topics, FIFO queues, a bus, links, long delays, what is there already."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel

from flowguard import (
    Bus,
    Callback,
    Done,
    Exponential,
    Flow,
    Function,
    Outcome,
    RetryPolicy,
    Stage,
    Step,
    Topic,
    callback_handler,
    dlq_handler,
    lambda_handler,
)

PLACED: Final = Topic("arn:aws:sns:eu-west-1:123456789012:orders-placed")
NEWS: Final = Topic("arn:aws:sns:eu-west-1:123456789012:news.fifo")
PAID: Final = Bus("default", source="bank", detail_type='Paid "in" ${full}')

TABLES: Final = {"lines": {"order_id": "S", "line": "N"}, "orders.a": "order_id", "orders-a": "order_id"}
QUEUES: Final = ("mails",)


class Order(BaseModel):
    order_id: str
    decided: Any = None


class Ship(Stage[Order], name="ship", inbox="to-ship.fifo"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.put("orders.a", order)
        step.put("orders-a", order)
        step.send(NEWS, order)
        step.send(Function("print-label"), order)
        return Done()


class Pack(
    Stage[Order],
    name="pack",
    timeout=timedelta(seconds=3),
    inbox=PLACED,
    then="ship",
    retry=RetryPolicy(max_delay=timedelta(hours=4), backoff=Exponential(60)),
):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.modify("lines", {"order_id": order.order_id, "line": 1}, lambda item: item)
        step.send(PAID, order)
        return Ship.when_all(
            decided=step.token("decided"),
            paid=step.event("paid", keep_early=True),
            parcel=step.ask("parcels", order),
            within=timedelta(days=2),
        )


class Everything(
    Flow,
    name="everything",
    object_id="order_id",
    long_delays=True,
    complete_to="arn:aws:sqs:eu-west-1:210987654321:theirs",
    reply_to=("replies", "https://sqs.eu-west-1.amazonaws.com/123456789012/answers-here"),
    callbacks=(Callback(PAID, id="order_id", keep_early=timedelta(days=1)), Callback(NEWS, id="order_id")),
):
    stages = (Pack, Ship)


pack = lambda_handler(Everything, Pack)
ship = lambda_handler(Everything, Ship)
answers = callback_handler(Everything)
killed = dlq_handler(Everything)

OPTIONS: Final[dict[str, Any]] = {
    "settings": {
        "bucket": "long-texts",
        "signing_keys": "secretsmanager:flowguard/keys",
        "token_keys": "ssm:/flowguard/token-keys",
        "prefix": "here/",
    },
    "defaults": {"max_concurrency": 20, "memory": 512},
    "functions": {
        "ship": {"role": "arn:aws:iam::123456789012:role/shipping", "batch_size": 5},
        "pack": {
            "policies": ["arn:aws:iam::aws:policy/AWSXRayDaemonWriteAccess"],
            "window": 3,
            "environment": {"SHOP": "${not} a %{template}"},
        },
    },
    "tables": {"orders-a": {"existing": True}, "flowguard": {"run_index": True}},
    "queues": {"parcels": {"existing": True}},
    "topics": {"orders-placed": {"existing": True}},
}
