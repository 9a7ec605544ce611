"""What a hop costs with a lease and without one, as DynamoDB Local counts it: the table of the documentation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.protocol.run import Claim, ClaimRequest, Committed, Refused
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from tests.aws.engines import on_dynamodb_local
from tests.aws.states import request
from tests.aws.store.run import commit

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "without-a-lease.md"
Ask = Callable[[DynamoDBStore, ClaimRequest], Claim | Refused]


class Units:
    """The units of each call, by asking for them."""

    def __init__(self) -> None:
        self.read = 0.0
        self.written = 0.0
        self.calls: list[str] = []

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        params: Any = call.params
        params["ReturnConsumedCapacity"] = "TOTAL"
        answer: Any = proceed()
        self.calls.append(call.operation)
        units = answer["ConsumedCapacity"]["CapacityUnits"]
        if call.operation == "GetItem":
            self.read += units
        else:
            self.written += units
        return dict(answer)


@pytest.mark.parametrize("hop", [1, 2])
@pytest.mark.parametrize(
    ("ask", "calls", "read", "written", "row"),
    [
        (DynamoDBStore.claim, ["UpdateItem", "UpdateItem"], 0, 2, "| with a lease | 2 writes | 2 | 0 |"),
        (DynamoDBStore.judge, ["GetItem", "UpdateItem"], 1, 1, "| `lease=False` | 1 read, 1 write | 1 | 1 |"),
    ],
)
def test_a_hop_costs_what_the_page_says(
    ask: Ask, calls: list[str], read: float, written: float, row: str, hop: int, dynamodb_local_url: str
) -> None:
    store = aws_store(Settings(), on_dynamodb_local(dynamodb_local_url))
    if hop == 2:
        before = store.judge(request((500, "request-m")))
        assert isinstance(before, Claim)
        assert store.commit(before, commit()) == Committed()
    units = Units()
    with intercept(units):
        claim = ask(store, request((500, "request-m"), hop=hop))
        assert isinstance(claim, Claim)
        assert store.commit(claim, commit()) == Committed()
    assert (units.calls, units.read, units.written) == (calls, read, written)
    assert row in PAGE.read_text(encoding="utf-8")
