"""Small worlds of several messages, whose orders can all be run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.exceptions import ClientError
from pydantic import BaseModel

from flowguard import Done, Fixed, Flow, Outcome, Retry, RetryPolicy, Stage, Step
from flowguard.testing.explorer import in_memory
from flowguard.testing.explorer.run.sandbox import Needs, Sandbox
from flowguard.testing.explorer.search.runs import Runs


class Order(BaseModel):
    order_id: str
    shelf: str = "a"


KEPT: list[str] = []


class Book(Stage[Order], name="book", inbox="orders", then="close"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.update("shelves", {"shelf": order.shelf}, "ADD n :one", values={":one": 1})
        return Close.message(order)


class Close(Stage[Order], name="close"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.put("closed", {"order_id": order.order_id, "shelf": order.shelf})
        return Done()


class Booked(Flow, name="booked", object_id="order_id"):
    """Its runs add to shelves, and meet nowhere else."""

    stages = (Book, Close)


class Last(Stage[Order], name="last", inbox="lasts", then="again"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.put("shelves", {"shelf": order.shelf, "last": order.order_id})
        return Again.message(order)


class Again(Stage[Order], name="again"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.put("shelves", {"shelf": order.shelf, "again": order.order_id})
        return Done()


class Replaced(Flow, name="replaced", object_id="order_id"):
    """Its runs write the item of their shelf, so that the last one decides."""

    stages = (Last, Again)


class Hesitate(Stage[Order], name="hesitate", inbox="hesitations", retry=RetryPolicy(backoff=Fixed(20), jitter=0)):
    def handle(self, order: Order, step: Step) -> Outcome:
        if step.attempt == 1:
            raise Retry("not yet")
        step.put("shelves", {"shelf": order.shelf, "last": order.order_id})
        return Done()


class Hesitating(Flow, name="hesitating", object_id="order_id"):
    """Each of its runs is tried twice. Meanwhile a copy of its message is put off."""

    stages = (Hesitate,)


class Keep(Stage[Order], name="keep", inbox="keeps"):
    def handle(self, order: Order, step: Step) -> Outcome:
        KEPT.append(order.order_id)
        return Done()


class Kept(Flow, name="kept-in-module", object_id="order_id"):
    stages = (Keep,)


MODE = "normal"


class Price(Stage[Order], name="price", inbox="prices"):
    def handle(self, order: Order, step: Step) -> Outcome:
        global MODE  # noqa: PLW0603 - what the flow is about
        mode = MODE
        try:
            client: Any = boto3.client("dynamodb", region_name="us-east-1")
            client.get_item(TableName="shelves", Key={"shelf": {"S": "a"}})
        except ClientError:
            MODE = "degraded"
        step.put("closed", {"order_id": order.order_id, "mode": mode})
        return Done()


class Degrading(Flow, name="degrading", object_id="order_id"):
    """Once a call has failed, the module is in another mode."""

    stages = (Price,)


class Report(Stage[Order], name="report", inbox="reports"):
    def handle(self, order: Order, step: Step) -> Outcome:
        client: Any = boto3.client("dynamodb", region_name="us-east-1")
        try:
            client.get_item(TableName="closed", Key={"order_id": {"S": order.order_id}})
        except ClientError:
            step.put("shelves", {"shelf": "failed", "last": order.order_id})
        return Done()


class Reporting(Flow, name="reporting", object_id="order_id"):
    """Its runs meet in one item where a call has failed, and nowhere else."""

    stages = (Report,)


TABLES = {"shelves": "shelf", "closed": "order_id"}


@contextmanager
def runs_of(flow: Any, *orders: Any, stubs: Any = None) -> Iterator[Runs]:
    with Sandbox([flow], orders, TABLES, in_memory, 0, needs=Needs(stubs=stubs)) as sandbox:
        yield Runs(sandbox)
