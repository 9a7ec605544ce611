"""Orders come straight from queues, each message two or three times."""

from __future__ import annotations

from tests.proofs.e2e.cloud import Cloud
from tests.proofs.e2e.play import Check, Scene, Until

MODULE = "flows.orders.handlers"


def scene(cloud: Cloud) -> Scene:
    for number, pieces in enumerate((10, 5)):
        delivery = {"delivery_id": f"delivery-{number}", "sku": "tea", "pieces": pieces}
        cloud.send("goods-received", delivery, copies=3)
    yield Until("both deliveries are counted", lambda: _stock(cloud, "received") == 15)
    for number, pieces in enumerate((6, 4, 100)):
        order = {"order_id": f"order-{number}", "customer": "ada", "lines": {"tea": pieces}}
        cloud.send("orders-placed", order, copies=2)
    addition = {"addition_id": "addition-0", "order_id": "order-0", "sku": "tea", "pieces": 2}
    cloud.send("items-added", addition, copies=2)
    yield Until("three orders and an addition are settled", lambda: len(cloud.distinct("orders-settled")) >= 4)
    yield Until("the queues are empty", lambda: cloud.settled("goods-received", "orders-placed", "items-added"))
    yield Check("each delivery is counted once", 15, _stock(cloud, "received"))
    yield Check("what was sold has left the stock once", (12, 3), (_stock(cloud, "sold"), _stock(cloud, "pieces")))
    orders = {one["order_id"]: (one["status"], one["pieces"]) for one in cloud.items("orders")}
    wanted = {"order-0": ("PLACED", 8), "order-1": ("PLACED", 4), "order-2": ("REFUSED", 0)}
    yield Check("two orders are placed, and the one that is too large is refused", wanted, orders)
    yield Check("each end is told once, copies apart", 4, len(cloud.distinct("orders-settled")))


def _stock(cloud: Cloud, what: str) -> int:
    found = cloud.item("stock", sku="tea")
    return 0 if found is None else int(found.get(what, 0))
