"""A second deployment of the same flow in the same account, under names of its own."""

from __future__ import annotations

from tests.proofs.e2e.cloud import Cloud
from tests.proofs.e2e.play import Check, Scene, Until

MODULE = "flows.orders.handlers"
NAMES = "staging-*"


def scene(cloud: Cloud) -> Scene:
    delivery = {"delivery_id": "delivery-of-staging", "sku": "jam", "pieces": 7}
    cloud.send("staging-goods-received", delivery, copies=2)
    yield Until("the delivery is counted", lambda: cloud.item("staging-stock", sku="jam") is not None)
    order = {"order_id": "order-of-staging", "customer": "ada", "lines": {"jam": 3}}
    cloud.send("staging-orders-placed", order, copies=2)
    yield Until("the order is settled", lambda: len(cloud.distinct("staging-orders-settled")) >= 1)
    yield Until("the queues are empty", lambda: cloud.settled("staging-goods-received", "staging-orders-placed"))
    placed = [(one["order_id"], one["status"]) for one in cloud.items("staging-orders")]
    yield Check("its order is placed, in its own table", [("order-of-staging", "PLACED")], placed)
    found = cloud.item("staging-stock", sku="jam")
    yield Check("its stock counts it once", (3, 4), None if found is None else (found["sold"], found["pieces"]))
    yield Check("the other deployment has nothing of it", None, _elsewhere(cloud, "stock", sku="jam"))


def _elsewhere(cloud: Cloud, table: str, **key: str) -> object:
    """Look into the table of the other deployment, where that is played too."""
    there = cloud.client("dynamodb").list_tables()["TableNames"]
    return cloud.item(table, **key) if table in there else None
