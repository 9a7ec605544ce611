"""Carts are published to a topic that feeds the flow's queue. One has wishes, and waits for search and filter."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import Final

from tests.proofs.e2e.cloud import Cloud
from tests.proofs.e2e.play import Check, Scene, Until

MODULE = "flows.validate_cart.handlers"
ASKED: Final[dict[str, tuple[str, dict[str, list[str]]]]] = {
    "search-requests": ("search_id", {"skus": ["tin", "pot"]}),
    "filter-requests": ("filter_id", {"refused": []}),
}
"""Who is asked by each queue: what names the question, and the rest of the answer."""

QUEUES = ("carts", "carts-to-complete", "carts-to-check", "carts-to-confirm", "search-results", "filter-results")


def scene(cloud: Cloud) -> Scene:
    topic = cloud.client("sns").create_topic(Name="shop-carts")["TopicArn"]
    queue = cloud.let_send("carts", "sns.amazonaws.com", topic)
    cloud.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue)
    line = {"sku": "cup", "quantity": 2}
    for cart, wishes in (("plain", []), ("wishing", ["a lid"])):
        request = {"uniquerequestid": f"request-{cart}", "requestedat": "1767323520000"}
        for _ in "12":
            cloud.publish("shop-carts", {"cart_id": cart, "lines": [line], "wishes": wishes}, request)
    for requests, (name, answer) in ASKED.items():
        yield Until(f"{requests} has a question", partial(_has, cloud, requests))
        [question, *_] = cloud.collect(requests)
        cloud.send(requests.replace("requests", "results"), {name: question.body[name], **answer}, copies=2)
    yield Until("both carts are confirmed", lambda: len(cloud.distinct("emails")) >= 2)
    yield Until("the queues are empty", lambda: cloud.settled(*QUEUES))
    carts = {one["cart_id"]: (one["status"], one["total"]) for one in cloud.items("carts")}
    wanted = {"plain": ("CONFIRMED", Decimal("15.9")), "wishing": ("CONFIRMED", 43)}
    yield Check("published twice, each cart is confirmed, with what was found for it", wanted, carts)
    days = [(one["confirmed"], one["revenue"]) for one in cloud.items("cart-totals")]
    yield Check("each cart counts once for its day", [(2, Decimal("58.9"))], days)
    yield Check("one mail for each cart, copies apart", 2, len(cloud.distinct("emails")))
    questions = [len(cloud.distinct(requests)) for requests in ASKED]
    yield Check("search and filter are asked once, copies apart", [1, 1], questions)


def _has(cloud: Cloud, queue: str) -> bool:
    return bool(cloud.collect(queue))
