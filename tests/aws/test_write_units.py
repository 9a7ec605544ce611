"""What each way to write costs, as DynamoDB Local counts it: the table "Which guard when" of the documentation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowguard import modify as change_item
from flowguard import once
from flowguard.aws.clients import Clients
from flowguard.aws.ledger import ledger_of
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.aws.tables import read_consistently
from flowguard.aws.writes import to_item
from flowguard.items.modified import modified
from flowguard.items.newest import item_fence, newest_put
from flowguard.items.writes import Check, Condition, Delete, Put, Update, Write
from flowguard.names.ids import RequestId
from flowguard.once_function import OnceServices
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.worker.hop_memory import HopMemory
from tests.aws.engines import on_dynamodb_local
from tests.aws.store.run import claimed, commit

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "writing-your-own-tables.md"
THERE = {"id": "there"}


TWICE = 2
"""DynamoDB Local counts twice what AWS documents for a transaction, which is two units for each KB of each item."""


class Units:
    """Write units and calls of reads, by asking each call for them."""

    def __init__(self) -> None:
        self.written = 0.0
        self.reads = 0

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        params: Any = call.params
        params["ReturnConsumedCapacity"] = "TOTAL"
        answer: Any = proceed()
        if call.operation == "GetItem":
            self.reads += 1
            return dict(answer)
        found = answer["ConsumedCapacity"]
        if isinstance(found, list):
            self.written += sum(one["CapacityUnits"] for one in found) / TWICE
        else:
            self.written += found["CapacityUnits"]
        return dict(answer)


@pytest.fixture
def clients(dynamodb_local_url: str) -> Clients:
    found = on_dynamodb_local(dynamodb_local_url)
    found.dynamodb.put_item(TableName="carts", Item={"id": {"S": "there"}, "n": {"N": "1"}})
    return found


def add(key: str) -> Update:
    return Update("carts", {"id": key}, Condition("ADD n :one", {}, {":one": 1}))


def modify(clients: Clients) -> Write:
    found = read_consistently(clients.dynamodb, "carts", THERE)
    return modified("carts", THERE, found, {"n": 7})


RECORDED: dict[str, tuple[Callable[[Clients], Write], int]] = {
    "`step.put`": (lambda clients: Put("carts", {"id": "c1"}), 0),
    "`step.delete`": (lambda clients: Delete("carts", THERE), 0),
    "`step.update(": (lambda clients: add("c1"), 0),
    "`step.check`": (lambda clients: Check("carts", THERE, Condition("attribute_exists(id)")), 0),
    "`step.modify`": (modify, 1),
    "`step.newest_wins`": (
        lambda clients: newest_put("carts", {"id": "c1"}, ["id"], 1, RequestId("r"), deleted=False),
        0,
    ),
}


def test_the_engine_counts_a_transaction_twice(clients: Clients) -> None:
    with intercept(Units()) as units:
        clients.dynamodb.transact_write_items(
            TransactItems=[{"Put": {"TableName": "carts", "Item": {"id": {"S": "c1"}}}}]
        )
    assert units.written == 2, "as AWS documents it"


def row_of(name: str) -> str:
    [found] = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and name in line.split("|")[2]]
    return found


@pytest.mark.parametrize("name", RECORDED)
def test_a_commit_with_one_recorded_write_costs_two_units_for_the_run_item_and_two_for_the_item(
    clients: Clients, name: str
) -> None:
    store, (write, reads) = aws_store(Settings(), clients), RECORDED[name]
    claim = claimed(store)
    with intercept(Units()) as units:
        store.commit(claim, commit(write(clients)))
    assert (units.written, units.reads) == (4, reads)
    assert row_of(name).endswith(f"| {'1 read' if reads else '0'} | 2 + 2 per item |")


def test_a_commit_alone_costs_one_unit(clients: Clients) -> None:
    store = aws_store(Settings(), clients)
    claim = claimed(store)
    with intercept(Units()) as units:
        store.commit(claim, commit())
    assert units.written == 1
    assert "A commit alone costs one write unit" in PAGE.read_text()


@pytest.mark.parametrize(
    ("name", "writes", "units", "shown"),
    [
        ("`with step.apply(", [add("c1")], 4, "| 1 transaction | 2 + 2 per item, and the commit |"),
        ("`step.once(", [], 1, "| 1 write | 1, and the commit |"),
    ],
)
def test_what_is_done_before_the_commit_costs_a_write_of_its_own(
    clients: Clients, name: str, writes: list[Write], units: int, shown: str
) -> None:
    store: DynamoDBStore = aws_store(Settings(), clients)
    memory = HopMemory(store, claimed(store))
    with intercept(Units()) as before:
        memory.remember("a", "null", writes)
    with intercept(Units()) as at_commit:
        store.commit(memory.claim, commit())
    assert (before.written, at_commit.written) == (units, 1)
    assert row_of(name).endswith(shown)


def test_a_put_under_an_items_own_fence_costs_one_unit(clients: Clients) -> None:
    fence = item_fence(RequestId("r-1"), 1, 1)
    with intercept(Units()) as units:
        clients.dynamodb.put_item(
            TableName="carts",
            Item=to_item({**THERE, **fence.attributes}),
            ConditionExpression=fence.condition,
            ExpressionAttributeNames=dict(fence.names),
            ExpressionAttributeValues=to_item(fence.values),
        )
    assert units.written == 1
    assert row_of("`step.fence()`").endswith("| yours | 1 per item, and the commit |")


def test_a_change_without_a_flow_costs_a_read_and_two_units(clients: Clients) -> None:
    with intercept(Units()) as units:
        change_item(clients.dynamodb, "carts", THERE, lambda item: {"n": 7})
    assert (units.written, units.reads) == (2, 1)
    assert row_of("`flowguard.modify`").endswith("| 1 read | 2 per item |")


def test_a_guarded_function_costs_two_units_and_its_repeat_one(clients: Clients) -> None:
    @once("count", key="id")
    def count(order: dict[str, str]) -> None:
        """Do nothing."""

    guarded = count.using(OnceServices(ledger_of(Settings(), clients)))
    found = []
    for _ in range(2):
        with intercept(Units()) as units:
            guarded({"id": "o-1"})
        found.append(units.written)
    assert found == [2, 1]
    assert row_of("`@once`").endswith("| 2 writes; 1 for a repeat | 2; 1 for a repeat |")
