"""Workers that want the same hop at the same moment, on AWS's own implementation of its conditional writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import pytest

from flowguard.aws.store import DynamoDBStore
from flowguard.items.writes import Condition, Update
from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import Claim, ClaimRequest, Commit, Committed, Refused, Status
from flowguard.verdicts import Verdict
from flowguard.wire.message import Message
from tests.proofs.soak.sandbox import Sandbox

WORKERS, ROUNDS = 8, 25
LEASE = 1_000
many_rounds = pytest.mark.proof(f"eight workers race {ROUNDS} times")
Answer = TypeVar("Answer")


@pytest.fixture(params=[False, True], ids=["boto3", "lean"])
def table(dynamodb_local_url: str, request: pytest.FixtureRequest) -> Sandbox:
    sandbox = Sandbox(dynamodb_local_url, "no queues here", lean=request.param)
    sandbox.create_tables("race-effects")
    return sandbox


@pytest.fixture
def stores(table: Sandbox) -> list[DynamoDBStore]:
    """One for each worker, with connections of its own, all on one table."""
    return [replace(table).store() for _ in range(WORKERS)]


def at_once(work: Callable[[int], Answer]) -> list[Answer]:
    """All workers begin at the same moment."""
    start = threading.Barrier(WORKERS)

    def begin(number: int) -> Answer:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(WORKERS) as workers:
        return list(workers.map(begin, range(WORKERS)))


def all_claim(stores: Sequence[DynamoDBStore], requests: Sequence[ClaimRequest]) -> list[Claim | Refused]:
    return at_once(lambda worker: stores[worker].claim(requests[worker]))


def wanted(worker: int, now: int, run: str = "r1", requested_at: int = 1_700_000_000_000) -> ClaimRequest:
    message = Message(
        flow="race",
        stage="only",
        version=1,
        object_id=ObjectId("o1"),
        request_id=RequestId(run),
        requested_at=requested_at,
        body="{}",
    )
    return ClaimRequest(
        message=message,
        owner=Owner(f"{worker}-{now}"),
        now=now,
        lease_until=now + LEASE,
        on_conflict=OnConflict.SUPERSEDE,
        abandoned_before=0,
        expires_at=2_000_000_000_000,
    )


@many_rounds
def test_whenever_a_lease_is_over_exactly_one_of_eight_workers_gets_the_hop(stores: list[DynamoDBStore]) -> None:
    for round_number in range(ROUNDS):
        answers = all_claim(stores, [wanted(worker, round_number * LEASE) for worker in range(WORKERS)])
        [claim] = [answer for answer in answers if isinstance(answer, Claim)]
        assert claim.item.epoch == round_number + 1
        busy = [answer.verdict for answer in answers if isinstance(answer, Refused)]
        assert busy == [Verdict.BUSY] * (WORKERS - 1)


@many_rounds
def test_of_eight_requests_for_one_object_the_latest_ends_up_with_it(stores: list[DynamoDBStore]) -> None:
    for round_number in range(ROUNDS):
        names = [f"{round_number:03}-{WORKERS - worker}" for worker in range(WORKERS)]
        first = round_number * WORKERS
        all_claim(stores, [wanted(worker, round_number, name, first + worker) for worker, name in enumerate(names)])
        item = stores[0].read("race", "o1")
        assert item is not None
        assert item.request_id == names[-1]


@many_rounds
def test_of_eight_requests_of_one_time_the_first_gets_the_object_and_keeps_it(stores: list[DynamoDBStore]) -> None:
    for round_number in range(ROUNDS):
        names = [f"{round_number:03}-{worker}" for worker in range(WORKERS)]
        requests = [wanted(worker, round_number, name, round_number) for worker, name in enumerate(names)]
        answers = all_claim(stores, requests)
        [first] = [answer for answer in answers if isinstance(answer, Claim)]
        stale = [answer.verdict for answer in answers if isinstance(answer, Refused)]
        assert stale == [Verdict.STALE] * (WORKERS - 1)
        item = stores[0].read("race", "o1")
        assert item is not None
        assert item.request_id == first.item.request_id


def test_of_eight_workers_that_all_once_owned_the_hop_only_the_last_commits_its_effect(
    table: Sandbox, stores: list[DynamoDBStore]
) -> None:
    claims = [stores[worker].claim(wanted(worker, worker * LEASE)) for worker in range(WORKERS)]
    change = Condition("ADD applied :one", {}, {":one": 1})
    commit = Commit(
        status=Status.COMPLETED,
        committed_at=1,
        expires_at=2_000_000_000_000,
        outbox=None,
        state=None,
        writes=(Update("race-effects", {"id": "o1"}, change),),
    )

    def commits(worker: int) -> bool:
        claim = claims[worker]
        assert isinstance(claim, Claim)
        return isinstance(stores[worker].commit(claim, commit), Committed)

    assert at_once(commits) == [False] * (WORKERS - 1) + [True]
    assert table.rows("race-effects")["o1"]["applied"] == 1
