"""Whose commit is refused, and who is said to be in its way."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.aws import expressions
from flowguard.aws.clients import Clients
from flowguard.aws.items import number
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.names.ids import RequestId
from flowguard.protocol.run import Claim, Committed, Fenced, FencedBy, Status
from flowguard.settings import Settings
from flowguard.wire.message import ErrorNote
from tests.aws.engines import on_moto
from tests.aws.states import NOW, STORED, item
from tests.aws.store.run import claimed, commit, commit_call, fenced, meet, stored


@pytest.mark.parametrize(
    ("run", "hop", "by"),
    [
        ((501, "request-a"), 1, FencedBy.NEWER_RUN),
        ((500, "request-z"), 1, FencedBy.EXPIRED),
        ((499, "request-z"), 1, FencedBy.EXPIRED),
        ((500, "request-a"), 1, FencedBy.EXPIRED),
        (STORED, 2, FencedBy.FINISHED),
    ],
)
def test_a_fenced_commit_says_by_whom(
    run: tuple[int, str], hop: int, by: FencedBy, clients: Clients, store: DynamoDBStore
) -> None:
    claim = claimed(store)
    there = {"requested_at": number(run[0]), "request_id": {"S": run[1]}}
    meet(clients, {**item(hop, "running", (0, 0), "alive", "other"), **there})
    assert fenced(store.commit(claim, commit())) is by


def test_a_newer_run_fences_a_commit(store: DynamoDBStore) -> None:
    old = claimed(store)
    claimed(store, (501, "request-n"))
    assert fenced(store.commit(old, commit())) is FencedBy.NEWER_RUN
    assert stored(store).request_id == "request-n"


def test_another_attempt_of_the_same_hop_fences_a_commit(store: DynamoDBStore) -> None:
    old = claimed(store)
    claimed(store, attempt=(0, 1), owner="other")
    assert fenced(store.commit(old, commit())) is FencedBy.OTHER_ATTEMPT
    assert not stored(store).done


def test_an_attempt_that_finished_the_hop_fences_a_commit_and_shows_its_outbox(store: DynamoDBStore) -> None:
    old = claimed(store)
    store.commit(claimed(store, attempt=(0, 1), owner="other"), commit())
    answer = store.commit(old, commit())
    assert fenced(answer) is FencedBy.FINISHED
    assert isinstance(answer, Fenced)
    assert answer.item is not None
    assert answer.item.outbox == commit().outbox


def test_an_item_that_has_expired_fences_a_commit(clients: Clients, store: DynamoDBStore) -> None:
    old = claimed(store)
    clients.dynamodb.delete_item(TableName="flowguard", Key={"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}})
    assert fenced(store.commit(old, commit())) is FencedBy.EXPIRED
    assert store.read("flow", "object") is None


def test_a_newer_request_is_not_taken_for_done_because_an_older_one_came_after_its_item_had_expired(
    clients: Clients, store: DynamoDBStore
) -> None:
    stalled = claimed(store, (501, "request-n"))
    clients.dynamodb.delete_item(TableName="flowguard", Key={"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}})
    claimed(store)
    assert fenced(store.commit(stalled, commit())) is FencedBy.EXPIRED


def test_an_old_worker_stays_fenced_when_the_item_expired_and_its_epoch_came_round_again(
    clients: Clients, store: DynamoDBStore
) -> None:
    old = claimed(store, owner="old worker")
    clients.dynamodb.delete_item(TableName="flowguard", Key={"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}})
    new = claimed(store, owner="new worker")
    assert (new.item.request_id, new.item.epoch) == (old.item.request_id, old.item.epoch)
    assert fenced(store.commit(old, commit())) is FencedBy.OTHER_ATTEMPT
    assert store.commit(new, commit()) == Committed()


def test_a_worker_that_finds_its_own_commit_of_another_ending_has_finished_before(store: DynamoDBStore) -> None:
    claim = claimed(store)
    store.commit(claim, commit())
    failed = commit(status=Status.FAILED, error=ErrorNote("Reject", "no", NOW))
    assert fenced(store.commit(claim, failed)) is FencedBy.FINISHED
    assert stored(store).status is Status.RUNNING


COMMIT_PARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "request id": ("request_id = :request_id AND ", {"request_id": RequestId("another")}),
    "epoch": ("epoch = :epoch AND ", {"epoch": 99}),
    "owner": ("#owner = :owner AND ", {"owner": "another"}),
}


@pytest.mark.parametrize("part", COMMIT_PARTS)
def test_each_part_of_the_fence_refuses_by_itself(store: DynamoDBStore, part: str) -> None:
    claim = claimed(store)
    _, wrong = COMMIT_PARTS[part]
    stranger = Claim(claim.message, claim.item._replace(**wrong), None)
    assert isinstance(store.commit(stranger, commit()), Fenced)
    assert not stored(store).done


@pytest.mark.parametrize("part", COMMIT_PARTS)
def test_without_that_part_a_stranger_would_write(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, wrong = COMMIT_PARTS[part]
    assert text in expressions.COMMIT
    with on_moto() as clients:
        store = aws_store(Settings(), clients)
        claim = claimed(store)
        monkeypatch.setattr(expressions, "COMMIT", expressions.COMMIT.replace(text, ""))
        call = commit_call(Claim(claim.message, claim.item._replace(**wrong), None), commit())
        used = call["ConditionExpression"] + call["UpdateExpression"]
        for kind in ("ExpressionAttributeValues", "ExpressionAttributeNames"):
            call[kind] = {name: value for name, value in call[kind].items() if name in used}
        clients.dynamodb.update_item(**call)
        assert stored(store).done
