"""Hops that are only read: what is judged, what their commits compare, and what a refused one is answered."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws import expressions
from flowguard.aws.clients import Clients
from flowguard.aws.items import number
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.errors import ConditionFailed, RunFailed, SettingsError
from flowguard.items.writes import Condition, Put
from flowguard.protocol.run import Claim, Committed, Refused, Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.verdicts import Verdict
from flowguard.wire.message import ErrorNote
from tests.aws.engines import on_memory
from tests.aws.states import NOW, STORED, item, request
from tests.aws.store.run import cart, claimed, commit, commit_call, counted, meet, stored


def read(store: DynamoDBStore, run: tuple[int, str] = STORED, **more: Any) -> Claim:
    found = store.judge(request(run, **more))
    assert isinstance(found, Claim)
    assert found.unwritten is not None
    return found


def verdict(answer: object) -> Verdict:
    assert isinstance(answer, Refused)
    return answer.verdict


def test_a_read_writes_nothing_and_is_consistent(clients: Clients, store: DynamoDBStore) -> None:
    with intercept(Recorder()) as calls:
        read(store)
    [call] = calls.calls
    assert (call.operation, call.params["ConsistentRead"]) == ("GetItem", True)
    assert store.read("flow", "object") is None


def test_a_first_hop_is_made_by_its_commit(store: DynamoDBStore) -> None:
    assert store.commit(read(store), commit()) == Committed()
    found = stored(store)
    assert (found.epoch, found.done, found.hop, found.state) == (1, True, 1, '{"total":3}')


def test_a_commit_with_recorded_writes_applies_them_with_its_hop(clients: Clients, store: DynamoDBStore) -> None:
    first, second = read(store, owner="first"), read(store, owner="second")
    assert store.commit(first, commit(counted())) == Committed()
    assert verdict(store.commit(second, commit(counted()))) is Verdict.DONE
    assert cart(clients, "c1")["n"] == {"N": "1"}


def test_a_recorded_write_that_does_not_hold_leaves_no_item(store: DynamoDBStore) -> None:
    absent = Put("carts", {"id": "c1"}, Condition("attribute_exists(id)"))
    with pytest.raises(ConditionFailed):
        store.commit(read(store), commit(absent))
    assert store.read("flow", "object") is None


def test_a_repeated_commit_finds_its_own(store: DynamoDBStore) -> None:
    claim = read(store)
    assert store.commit(claim, commit()) == Committed()
    assert store.commit(claim, commit()) == Committed()
    failed = commit(status=Status.FAILED, error=ErrorNote("Reject", "no", NOW))
    assert verdict(store.commit(claim, failed)) is Verdict.DONE, "of another ending it has finished the hop before"


@pytest.mark.parametrize(
    ("run", "hop", "state", "says"),
    [
        ((501, "request-a"), 1, "running", Verdict.STALE),
        (STORED, 1, "done", Verdict.DONE),
        (STORED, 1, "running", Verdict.BUSY),
        (STORED, 2, "running", Verdict.DUPLICATE),
        ((499, "request-z"), 1, "running", Verdict.CLAIMED),
    ],
)
def test_a_commit_that_finds_an_item_where_there_was_none_is_answered_as_a_claim_is_now(
    run: tuple[int, str], hop: int, state: str, says: Verdict, clients: Clients, store: DynamoDBStore
) -> None:
    claim = read(store)
    there = {"requested_at": number(run[0]), "request_id": {"S": run[1]}}
    found = {**item(hop, state, (0, 0), "alive", "other"), **there}
    meet(clients, found)
    answer = store.commit(claim, commit())
    assert verdict(answer) is says
    assert isinstance(answer, Refused)
    assert answer.item is not None
    assert stored(store).owner == "other"


def test_a_later_hop_whose_item_has_expired_is_gone(clients: Clients, store: DynamoDBStore) -> None:
    store.commit(claimed(store), commit())
    claim = read(store, hop=2)
    meet(clients, None)
    assert verdict(store.commit(claim, commit())) is Verdict.GONE
    assert store.read("flow", "object") is None


def test_who_lost_to_a_finished_hop_gets_its_outbox(store: DynamoDBStore) -> None:
    slow = read(store, owner="slow")
    store.commit(read(store, owner="quick"), commit())
    answer = store.commit(slow, commit())
    assert isinstance(answer, Refused)
    assert answer.item is not None
    assert answer.item.outbox == commit().outbox


CHANGES: dict[str, Any] = {
    "request_id": {"S": "another"},
    "epoch": {"N": "9"},
    "owner": {"S": "another"},
    "done": {"BOOL": False},
}


@pytest.mark.parametrize("part", CHANGES)
def test_each_part_of_what_was_read_is_compared(part: str, clients: Clients, store: DynamoDBStore) -> None:
    found = item(1, "done", (0, 0), "over", "other")
    meet(clients, found)
    claim = read(store, hop=2)
    meet(clients, {**found, part: CHANGES[part]})
    assert isinstance(store.commit(claim, commit()), Refused)
    assert stored(store).hop == 1


@pytest.mark.parametrize("part", CHANGES)
def test_without_that_part_a_changed_item_would_be_overwritten(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "#owner" if part == "owner" else part
    broken = " AND ".join(one for one in expressions.UNCHANGED.split(" AND ") if not one.startswith(f"{name} "))
    assert broken != expressions.UNCHANGED
    with on_memory() as clients:
        store = aws_store(Settings(), clients)
        found = item(1, "done", (0, 0), "over", "other")
        meet(clients, found)
        claim = read(store, hop=2)
        meet(clients, {**found, part: CHANGES[part]})
        monkeypatch.setattr(expressions, "UNCHANGED", broken)
        call = commit_call(claim, commit())
        del call["ExpressionAttributeValues"][f":read_{part}"]
        clients.dynamodb.update_item(**call)
        assert stored(store).hop == 2


def test_a_message_that_no_item_can_hold_is_refused_unread(memory: DynamoDBStore) -> None:
    hostile = request((500, "r" * 1_025))
    with intercept(Recorder()) as calls, pytest.raises(RunFailed, match="its request id has 1,025 bytes"):
        memory.judge(hostile)
    assert calls.calls == []


def test_a_table_that_is_not_there_is_named(clients: Clients) -> None:
    store = aws_store(Settings(table="nowhere"), clients)
    with pytest.raises(SettingsError, match="there is no table 'nowhere'"):
        store.judge(request(STORED))


def test_another_error_is_raised_as_it_is(store: DynamoDBStore) -> None:
    def denied(call: ApiCall, proceed: Proceed) -> Response:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, call.operation)

    with intercept(denied), pytest.raises(ClientError):
        store.judge(request(STORED))


def test_what_is_not_open_is_refused_with_its_item(store: DynamoDBStore) -> None:
    store.commit(read(store), commit())
    found = store.judge(request(STORED, owner="other"))
    assert verdict(found) is Verdict.DONE
