"""What holds for each call of the store: its names and values are used, and errors stay what they are."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.errors import RunFailed, SettingsError
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.run import Claim, Commit, NewWait, Status
from flowguard.protocol.waiting import WaitPlan
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.wire.message import ErrorNote
from tests.aws.states import NOW, REST, STORED, request
from tests.aws.store.run import RID, claimed, commit

WAIT = NewWait(WaitPlan("stage-2", {"a": None}), 1, NOW)
NOTE = ErrorNote("Reject", "no", NOW)

COMMITS = {
    "goes on": commit(),
    "goes on without an outbox": commit(outbox=None),
    "waits": commit(status=Status.WAITING, outbox=None, wait=WAIT),
    "completes": commit(status=Status.COMPLETED, outbox=None),
    "closes its list": commit(status=Status.COMPLETED, takes_callers=True),
    "fails": commit(status=Status.FAILED, state=None, error=NOTE),
    "goes on at on_failed": commit(state=None, failed=FailedHop(RID, STORED[0], 1, 0, NOTE)),
}


def uses_all(calls: Recorder) -> None:
    """DynamoDB refuses a name or value that no expression uses."""
    [call] = [call.params for call in calls.calls]
    used = re.findall(r"[:#]\w+", f"{call['ConditionExpression']} {call['UpdateExpression']}")
    assert {*call["ExpressionAttributeNames"], *call["ExpressionAttributeValues"]} == set(used)


@pytest.mark.parametrize("policy", OnConflict)
@pytest.mark.parametrize("hop", [1, 2])
def test_each_claim_uses_all_its_names_and_values(hop: int, policy: OnConflict, memory: DynamoDBStore) -> None:
    with intercept(Recorder()) as calls:
        memory.claim(request(STORED, hop=hop, policy=policy))
    uses_all(calls)


@pytest.mark.parametrize("wanted", COMMITS.values(), ids=COMMITS)
def test_each_commit_uses_all_its_names_and_values(wanted: Commit, memory: DynamoDBStore) -> None:
    claim = claimed(memory)
    with intercept(Recorder()) as calls:
        memory.commit(claim, wanted)
    uses_all(calls)


def test_a_release_uses_all_its_names_and_values(memory: DynamoDBStore) -> None:
    claim = claimed(memory)
    with intercept(Recorder()) as calls:
        memory.release(claim, NOW, rest=REST)
    uses_all(calls)


CALLS: dict[str, Callable[[DynamoDBStore, Claim], object]] = {
    "claim": lambda store, claim: store.claim(request(STORED)),
    "release": lambda store, claim: store.release(claim, NOW, rest=REST),
    "commit": lambda store, claim: store.commit(claim, commit()),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", ["refused", "cut off"])
def test_an_error_of_dynamodb_and_one_of_the_network_are_raised_as_they_are(
    call: str, kind: str, memory: DynamoDBStore
) -> None:
    denied: Any = {"Error": {"Code": "AccessDeniedException", "Message": "no"}}
    error = ClientError(denied, "UpdateItem") if kind == "refused" else OSError("cut off")
    claim = claimed(memory)

    def fail(_: ApiCall, __: Proceed) -> Response:
        raise error

    with intercept(fail), pytest.raises(type(error)) as raised:
        CALLS[call](memory, claim)
    assert raised.value is error


def test_a_message_that_no_item_can_hold_is_refused_before_any_call(memory: DynamoDBStore) -> None:
    with intercept(Recorder()) as calls, pytest.raises(RunFailed, match="the message can have no run: its request id"):
        memory.claim(request((500, "")))
    assert calls.calls == []


def test_a_missing_table_is_named_with_its_setting(clients: Clients) -> None:
    with pytest.raises(SettingsError, match=r"FLOWGUARD_TABLE: there is no table 'missing' in .*; create it with"):
        aws_store(Settings(table="missing"), clients).claim(request(STORED))


def test_an_error_that_is_no_refusal_is_raised_as_it_is(clients: Clients) -> None:
    claim = claimed(aws_store(Settings(), clients))
    store = aws_store(Settings(table="missing"), clients)
    with pytest.raises(ClientError, match="ResourceNotFound"):
        store.release(claim, NOW, rest=REST)
    with pytest.raises(ClientError, match="ResourceNotFound"):
        store.commit(claim, commit())
