"""A flow whose runs are started over HTTP: by who may by IAM, and by anybody."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, StartRequest, Step, lambda_handler, start_handler

OPTIONS: Final = """
[functions.ship]
max_concurrency = 5

[functions.start_public]
url_auth = "NONE"
url_concurrency = 0
timeout = 10
"""


class Order(BaseModel):
    order_id: str


class Ship(Stage[Order], name="ship", inbox="ship"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done({"shipped": order.order_id})


class Shipping(Flow, name="shipping", object_id="order_id"):
    stages = (Ship,)


def of_tenant(request: StartRequest) -> tuple[str, Order]:
    order = Order(order_id=f"{request.claims['tenant']}/{request.body['order_id']}")
    return order.order_id, order


ship = lambda_handler(Shipping)
start = start_handler(Shipping, object_field="order_id", wait=timedelta(seconds=5), shows_result=True)
start_public = start_handler(Shipping, read=of_tenant)
