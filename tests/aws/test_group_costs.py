"""What a group costs, as DynamoDB Local counts it, and the memory that it takes: the table of the documentation."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.items import size_of_value
from flowguard.aws.services import aws_store
from flowguard.protocol.groups import MOST_IN_SHARD, GroupPlan, GroupRequest, Member, NewShard, group_key
from flowguard.protocol.run import Claim, Committed, NewWait, Status
from flowguard.protocol.waiting import GivenAnswer, WaitPlan
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.verdicts import AnswerVerdict
from tests.aws.engines import on_dynamodb_local, on_memory
from tests.aws.states import NOW, STORED, request
from tests.aws.store.run import commit
from tests.aws.test_group_items import address
from tests.worker.test_group_planner import Shop, asked, planner

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "groups.md"
KEY = group_key("costs")
GROUP = 20_000
BODY = json.dumps({"shop_id": "shop-00000", "night": "2026-01-05", "lines": [1, 2, 3]})
ANSWER = GivenAnswer(json.dumps({"total": 123_456, "currency": "EUR", "lines": 17}))


class Units:
    """Write units by what they are for, and calls."""

    def __init__(self) -> None:
        self.written = Counter[str]()
        self.calls = 0

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        params: Any = call.params
        params["ReturnConsumedCapacity"] = "TOTAL"
        answer: Any = proceed()
        self.calls += 1
        if call.operation in ("BatchWriteItem", "UpdateItem") and (used := answer.get("ConsumedCapacity")):
            units = sum(one["CapacityUnits"] for one in used) if isinstance(used, list) else used["CapacityUnits"]
            self.written[_what(call)] += units
        return dict(answer)


def _what(call: ApiCall) -> str:
    if call.operation == "BatchWriteItem":
        return "row"
    key: Any = call.params["Key"]
    name: str = key["sk"]["S"]
    if name == "run":
        return "bookkeeping"
    return "settle" if name == "shard" else "answer"


def whole(clients: Clients, size: int) -> Units:
    """Save, commit, settle and read a group of this size."""
    store, units = aws_store(Settings(), clients), Units()
    groups = store.waits.groups
    claim = store.claim(request(STORED))
    assert isinstance(claim, Claim)
    with intercept(units):
        for shard, start in enumerate(range(0, size, MOST_IN_SHARD)):
            names = range(start, min(start + MOST_IN_SHARD, size))
            rows = [GroupRequest(f"shop-{number:05}", BODY, f"shop-{number:05}") for number in names]
            groups.save(NewShard("flow", KEY, shard, 0, rows, NOW + 10_000_000))
        plan = WaitPlan("add-up", {}, group=GroupPlan(KEY, size, "sqs:shops", NOW, "other", "count"))
        end = commit(status=Status.WAITING, wait=NewWait(plan, 0, NOW + 60_000), expires_at=NOW + 10_000_000)
        assert store.commit(claim, end) == Committed()
        verdicts = [
            store.waits.settle(address(Member(*divmod(number, MOST_IN_SHARD))), ANSWER).verdict
            for number in range(size)
        ]
        shards = -(-size // MOST_IN_SHARD)
        read = sum(len(groups.answers("flow", KEY, shard)) for shard in range(shards))
    assert verdicts.pop() is AnswerVerdict.RESUMED
    assert set(verdicts) == {AnswerVerdict.RECORDED}
    assert read == size
    return units


@pytest.mark.slow("settles a group of 198 on DynamoDB Local")
def test_a_request_costs_what_the_page_says(dynamodb_local_url: str) -> None:
    size = 2 * MOST_IN_SHARD
    units = whole(on_dynamodb_local(dynamodb_local_url), size)
    each = {what: units.written[what] / size for what in ("row", "answer", "settle", "bookkeeping")}
    assert sum(each.values()) <= 4
    assert units.written["bookkeeping"] <= 1 + 2  # the commit, and each shard once
    row = " | ".join(f"{each[what]:.2f}" for what in each)
    assert f"| {row} | {sum(each.values()):.2f} |" in PAGE.read_text(encoding="utf-8")


def test_the_calls_grow_as_the_group_does_and_a_shard_stays_small() -> None:
    calls = []
    for shards in (1, 2, 4):
        with on_memory() as clients:
            calls.append(whole(clients, shards * MOST_IN_SHARD).calls)
            items: Any = clients.dynamodb.scan(TableName="flowguard")["Items"]
            sizes = [
                sum(len(name) + size_of_value(value) for name, value in one.items())
                for one in items
                if one["sk"]["S"] == "shard"
            ]
            assert max(sizes) < 1_024
    one, two, four = calls
    assert four - two == 2 * (two - one)


@pytest.mark.long("plans a group of 20,000")
def test_a_group_takes_memory_for_its_names_alone() -> None:
    shards = 0

    def save(shard: NewShard) -> None:
        nonlocal shards
        shards += 1

    def requests() -> Iterator[tuple[str, Shop]]:
        return ((f"shop-{number:06}", Shop(shop_id=f"shop-{number:06}")) for number in range(GROUP))

    tracemalloc.start()
    try:
        planner().saved(asked(requests()), save, lambda: True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert shards == -(-GROUP // MOST_IN_SHARD)
    assert peak < 240 * GROUP
