"""Two further environments of two flows in the same account, each under names of its own, at the same time.

The same objects come to both, and to the flows without a prefix where those are played too: nothing of one reaches
another.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tests.proofs.e2e.cloud import ACCOUNT, Cloud
from tests.proofs.e2e.play import Check, Scene, Until

MODULES: Final = ("flows.orders.handlers", "flows.triggered_cache.handlers")
DEPLOYED: Final[Mapping[str, Sequence[str]]] = {"staging-*": MODULES, "*-next": MODULES}
"""The modules that are deployed once more, by the rule of their names."""

REVISIONS: Final = {"staging-*": 20, "*-next": 30}
PIECES: Final = {"staging-*": 7, "*-next": 9}
READ: Final = ("goods-received", "orders-placed", "cache-resets", "cache-to-build", "cache-to-publish")


def scene(cloud: Cloud) -> Scene:
    for names in DEPLOYED:
        delivery = {"delivery_id": "delivery-of-both", "sku": "jam", "pieces": PIECES[names]}
        cloud.send(at_aws(names, "goods-received"), delivery, copies=2)
        reset = {"cache_key": "page-of-both", "revision": REVISIONS[names], "parts": ["title"]}
        cloud.send(at_aws(names, "cache-resets"), reset, copies=2)
    yield Until("the deliveries are counted", lambda: all(_stock(cloud, names) for names in DEPLOYED))
    order = {"order_id": "order-of-both", "customer": "ada", "lines": {"jam": 3}}
    for names in DEPLOYED:
        cloud.send(at_aws(names, "orders-placed"), order, {"uniquerequestid": f"order of {names}"}, copies=2)
    yield Until("the orders are settled", lambda: all(_told(cloud, names, "orders-settled") for names in DEPLOYED))
    yield Until("the pages are published", lambda: all(_told(cloud, names, "cache-subscribers") for names in DEPLOYED))
    read = [at_aws(names, queue) for names in DEPLOYED for queue in READ]
    yield Until("the queues are empty", lambda: cloud.settled(*read))
    for names in DEPLOYED:
        yield from _own(cloud, names)
    yield Check("the deployments without a prefix have nothing of it", [], [*_elsewhere(cloud)])


def _own(cloud: Cloud, names: str) -> Iterator[Check]:
    """Yield what an environment has, which is what was sent to it alone, and what its roles may touch."""
    placed = [(one["order_id"], one["status"]) for one in cloud.items(at_aws(names, "orders"))]
    yield Check(f"{names}: its order is placed, in its own table", [("order-of-both", "PLACED")], placed)
    stock = _stock(cloud, names) or {}
    left = (3, PIECES[names] - 3)
    yield Check(f"{names}: its stock counts it once", left, (stock.get("sold"), stock.get("pieces")))
    entries = [(one["cache_key"], one["revision"]) for one in cloud.items(at_aws(names, "cache-entries"))]
    yield Check(f"{names}: its page is its own revision", [("page-of-both", REVISIONS[names])], entries)
    told = [one["revision"] for one in _told(cloud, names, "cache-subscribers")]
    yield Check(f"{names}: its subscribers hear of that alone", [REVISIONS[names]], told)
    runs = {one["request_id"] for one in cloud.items(at_aws(names, "flowguard")) if "request_id" in one}
    others = {f"order of {other}" for other in DEPLOYED if other != names}
    yield Check(f"{names}: its runs are its own", (True, set()), (f"order of {names}" in runs, runs & others))
    yield Check(f"{names}: its roles touch nothing of another deployment", set(), _touched(cloud, names))


def at_aws(names: str, name: str) -> str:
    return names.replace("*", name)


def _stock(cloud: Cloud, names: str) -> Any:
    return cloud.item(at_aws(names, "stock"), sku="jam")


def _told(cloud: Cloud, names: str, queue: str) -> list[Any]:
    return [one.body for one in cloud.distinct(at_aws(names, queue))]


def _elsewhere(cloud: Cloud) -> Iterator[object]:
    """Look for the objects in the tables of the deployments without a prefix, where those are played too."""
    there = cloud.client("dynamodb").list_tables()["TableNames"]
    for table, key in {"stock": {"sku": "jam"}, "cache-entries": {"cache_key": "page-of-both"}}.items():
        if table in there and (found := cloud.item(table, **key)) is not None:
            yield found


def _touched(cloud: Cloud, names: str) -> set[str]:
    """Return the tables, queues and functions that roles of an environment may use, and that do not have its names."""
    iam = cloud.client("iam")
    functions = cloud.client("lambda").get_paginator("list_functions").paginate()
    roles = {
        one["Role"].rpartition("/")[2]
        for page in functions
        for one in page["Functions"]
        if one["Environment"]["Variables"].get("FLOWGUARD_NAMES", "*") == names
    }
    documents = [
        iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
        for role in roles
        for policy in iam.list_role_policies(RoleName=role)["PolicyNames"]
    ]
    before, _, after = names.partition("*")
    used = {place for document in documents for place in _places(document)}
    assert used, "it may use nothing at all"
    return {name for name in used if not (name.startswith(before) and name.endswith(after))}


def _places(document: Any) -> Iterator[str]:
    """Yield the names of the tables, queues and functions of a policy."""
    whole = json.loads(document) if isinstance(document, str) else document
    for statement in whole["Statement"]:
        for arn in [statement["Resource"]] if isinstance(statement["Resource"], str) else statement["Resource"]:
            _, _, service, _, account, resource = arn.split(":", 5)
            if service in ("dynamodb", "sqs") and account in (ACCOUNT, ""):
                yield resource.removeprefix("table/")
            if service == "lambda":
                yield resource.removeprefix("function:")
