"""The history costs no write unit: each write of a run costs what it costs without one, at every size.

The commit of a run that fails for good may cost one more.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from math import ceil
from string import printable
from typing import Any

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.items import run_key
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.destinations import Queue
from flowguard.ids import ObjectId, Owner, RequestId
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.outbox import Kind, Outbox, Send
from flowguard.protocol.run import Claim, ClaimRequest, Commit, Status
from flowguard.protocol.run_history import read_history
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.wire.message import ErrorNote, Message
from tests.aws.engines import on_dynamodb_local, on_memory
from tests.proofs.bench.wrus import item_size

NOISE = "".join(random.Random(7).choices(printable[:94], k=4_000))
"""Hardly smaller when it is compressed."""

AT = 1_800_000_123_457
KB = 1_024


class Run:
    """A run of an object of its own, driven call by call. A second run of the object takes over from it."""

    def __init__(self, store: DynamoDBStore, object_id: str) -> None:
        self.store = store
        self.object_id = ObjectId(object_id)
        self.now = AT

    def claim(self, stage: str, hop: int, run: int = 1, **changes: Any) -> Claim:
        self.now += 1_237
        message = Message(
            "orders", stage, 1, self.object_id, RequestId(f"web-{run}"), AT - 7 + run, "{}", hop=hop, **changes
        )
        until = self.now + 30_000
        asked = ClaimRequest(
            message, Owner(f"owner-{self.now}"), self.now, until, OnConflict.SUPERSEDE, 0, AT + 2_000_000_000
        )
        found = self.store.claim(asked)
        assert isinstance(found, Claim)
        return found

    def commit(self, claim: Claim, status: Status, state: str, body: str = "", **changes: Any) -> None:
        self.now += 61
        send = Send(Kind.NEXT, Queue("next"), body, f"{claim.message.request_id}-0123456789abcdef.{claim.message.hop}")
        outbox = Outbox(claim.message.request_id, self.now, (send,)) if body else None
        self.store.commit(claim, Commit(status, self.now, AT + 2_000_000_000, outbox, state, **changes))


def play(store: DynamoDBStore, object_id: str, state: int, body: int) -> None:
    """Three hops, one of which is tried again in place, and a newer run that fails."""
    run, text = Run(store, object_id), NOISE[:state]
    run.commit(run.claim("price-order", 1), Status.RUNNING, text, NOISE[:body])
    second = run.claim("reserve-goods", 2)
    run.store.release(second, run.now + 11, failed=True)
    run.now += 20_000
    run.commit(run.claim("reserve-goods", 2, retry=1), Status.RUNNING, text, NOISE[:body])
    run.commit(run.claim("close-order", 3), Status.COMPLETED, text, result="r" * 20)
    late = run.claim("price-order", 1, run=2)
    error = ErrorNote("Reject", "the card is declined", run.now)
    run.commit(late, Status.FAILED, text, NOISE[:body], error=error)


class Sizes:
    """The units of each write, by the bytes of the item before and after it, as DynamoDB's documents count them."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self.units: list[int] = []

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "UpdateItem":
            return proceed()
        before = self._size(call)
        answer = proceed()
        self.units.append(ceil(max(before, self._size(call)) / KB))
        return answer

    def _size(self, call: ApiCall) -> int:
        key: Any = call.params["Key"]
        return item_size(self._clients.dynamodb.get_item(TableName="flowguard", Key=key).get("Item", {}))


class Asked:
    """The units of each write, as the engine says."""

    def __init__(self, _: Clients) -> None:
        self.units: list[float] = []

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        params: Any = call.params
        params["ReturnConsumedCapacity"] = "TOTAL"
        answer: Any = proceed()
        self.units.append(answer["ConsumedCapacity"]["CapacityUnits"])
        return dict(answer)


def units(
    clients: Clients, counting: Callable[[Clients], Sizes | Asked], object_id: str, state: int, body: int
) -> list[float]:
    store, counter = aws_store(Settings(), clients), counting(clients)
    with intercept(counter):
        play(store, object_id, state, body)
    return list(counter.units)


def history(clients: Clients, object_id: str) -> str:
    key: Any = run_key("orders", ObjectId(object_id))
    found: Any = clients.dynamodb.get_item(TableName="flowguard", Key=key)["Item"]
    return str(found.get("history", {}).get("S", ""))


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Takes the history away from the writes that follow."""

    def take_away() -> None:
        for name in ("room_after_commit", "room_in_claimed"):
            monkeypatch.setattr(f"flowguard.aws.commit_call.{name}", lambda *_: 0)

    return take_away


def around_a_kb(step: int) -> Iterator[tuple[int, int]]:
    """Sizes of the state and of the next message at which the item passes one KB and two."""
    yield from ((state, 150) for state in range(0, 2_400, step))
    yield from ((300, body) for body in range(0, 1_900, step))


def compared(
    clients: Clients, counting: Callable[[Clients], Sizes | Asked], no_room: Callable[[], None], step: int
) -> tuple[list[int], list[int]]:
    """Play each size with the history and without it, and compare each write. Return how many lines are kept of each.

    The second list has the units of the dearest write of each.
    """
    sizes = list(enumerate(around_a_kb(step)))
    found = [units(clients, counting, f"with-{n}", *one) for n, one in sizes]
    kept = [len(read_history(history(clients, f"with-{n}"))) for n, _ in sizes]
    no_room()
    bare = [units(clients, counting, f"bare-{n}", *one) for n, one in sizes]
    assert [one for (_, one), a, b in zip(sizes, found, bare, strict=True) if a[:-1] != b[:-1]] == []
    assert {a[-1] - b[-1] for a, b in zip(found, bare, strict=True)} == {0, 1}, "the failed run's commit"
    return kept, [int(max(one)) for one in bare]


def test_no_write_of_a_run_costs_more_with_its_history_at_any_size(no_room: Callable[[], None]) -> None:
    with on_memory() as clients:
        kept, dearest = compared(clients, Sizes, no_room, 79)
    assert set(dearest) == {1, 2, 3}
    assert set(kept) >= {1, 2, 3, 5}, "where there is little room, the newest lines are kept"
    assert sum(one == 5 for one in kept) > len(kept) / 2


@pytest.mark.proof("the same on a real engine, which counts units itself")
def test_a_real_engine_counts_no_unit_for_a_history(no_room: Callable[[], None], dynamodb_local_url: str) -> None:
    kept, dearest = compared(on_dynamodb_local(dynamodb_local_url), Asked, no_room, 211)
    assert set(dearest) == {1, 2, 3}
    assert len(set(kept)) > 1, "some have little room"
