"""Write units a stage, as DynamoDB Local counts them: one for each begun KB of the item, at claim and at commit.

The stage is the middle one of a chain with a payload of about 500 bytes: its claim clears the outbox of the stage
before, its commit stores the next hop's message.
"""

from __future__ import annotations

import uuid
from typing import Any, cast

from flowguard.aws.items import run_key
from flowguard.names.ids import ObjectId
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from tests.aws.engines import on_dynamodb_local
from tests.engines.dynamodb_local import dynamodb_local
from tests.engines.process import EngineMissing
from tests.proofs.bench.figure import Figure
from tests.proofs.bench.flow import PAYLOAD_BYTES, Chain, a_cart, a_request
from tests.proofs.bench.wire import Bench

MARK = 2
NAME = f"WRUs a stage, payload of {PAYLOAD_BYTES} bytes"


def figures() -> list[Figure]:
    try:
        with dynamodb_local() as url:
            units, size = units_of_a_stage(url)
    except EngineMissing as missing:
        return [Figure(NAME, None, MARK, note=str(missing))]
    return [Figure(NAME, units, MARK, note=f"claim and commit; the item has {size} bytes")]


def units_of_a_stage(endpoint_url: str) -> tuple[int, int]:
    """Write units of the middle stage's claim and commit, and the bytes of the item after them."""
    clients = on_dynamodb_local(endpoint_url)
    bench = Bench(Chain, clients)
    cart = a_cart()
    first, _ = a_request(Chain, cart, request_id=str(uuid.UUID(int=2)), requested_at=bench.clock.now())
    bench.run(first)
    with intercept(_Units()) as units:
        if bench.run(bench.wire.next_event()) != "claimed":
            raise AssertionError("the second message was not let in")
    key = run_key(Chain.name, ObjectId(cart.cart_id))
    item: Any = clients.dynamodb.get_item(TableName="flowguard", Key=key, ConsistentRead=True)["Item"]
    return round(units.total), item_size(item)


def item_size(item: dict[str, Any]) -> int:
    """Bytes as DynamoDB counts them: names and values; of a map three more, and one for each of its entries."""
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def _value_size(value: dict[str, Any]) -> int:
    match value:
        case {"S": str(text)}:
            return len(text.encode())
        case {"N": str(digits)}:
            return (len(digits.lstrip("-")) + 1) // 2 + 1
        case {"B": bytes(data)}:
            return len(data)
        case {"M": dict(entries)}:
            return 3 + len(entries) + item_size(entries)
        case _:
            return 1


class _Units:
    """Asks every call what it consumed, and adds it up."""

    def __init__(self) -> None:
        self.total = 0.0

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        cast("dict[str, Any]", call.params)["ReturnConsumedCapacity"] = "TOTAL"
        answer = proceed()
        self.total += answer["ConsumedCapacity"]["CapacityUnits"]
        return answer
