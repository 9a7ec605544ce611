"""What a claim is granted or refused for, and what it leaves in the item."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.items import number, record_item
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.claims import decide
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.run import BackOff, Claim, NewWait, Refused, Status
from flowguard.protocol.waiting import WaitPlan
from flowguard.settings import Settings
from flowguard.verdicts import Verdict
from flowguard.wire.message import ErrorNote
from tests.aws.engines import on_memory
from tests.aws.states import ENDED_AT, KINDS, NOW, STORED, item, late, request, under, wait
from tests.aws.store.run import RID, claimed, commit, meet, stored


@pytest.mark.slow("asks an engine about every small state")
@pytest.mark.parametrize("policy", OnConflict)
@pytest.mark.parametrize("kind", KINDS)
def test_a_claim_is_granted_where_the_decision_grants_it_under_either_policy(kind: str, policy: OnConflict) -> None:
    """A refused claim is told what the decision says: only the grant itself shows what the condition says."""
    with on_memory() as clients:
        store = aws_store(Settings(), clients)
        for meeting in under(policy, kind):
            meet(clients, meeting.item)
            granted = decide(store.read("flow", "object"), meeting.request) is Verdict.CLAIMED
            assert isinstance(store.claim(meeting.request), Claim) is granted, meeting.says


ZERO, IGNORE = (0, 0), OnConflict.IGNORE
ABANDONED_BEFORE = NOW - 100_000

MET: dict[str, tuple[dict[str, Any] | None, dict[str, Any], Verdict]] = {
    "the next hop of a run that has expired": (None, {"hop": 2}, Verdict.GONE),
    "the next hop of a run that has ended": (item(1, "completed", ZERO, "over", "other"), {"hop": 2}, Verdict.DONE),
    "a hop that lies behind": (item(2, "running", ZERO, "over", "other"), {"hop": 1}, Verdict.DUPLICATE),
    "a hop too far": (item(1, "done", ZERO, "over", "other"), {"hop": 3}, Verdict.EARLY),
    "the next hop before its time": (item(1, "running", ZERO, "over", "other"), {"hop": 2}, Verdict.EARLY),
    "a redrive of a completed run": (item(1, "completed", ZERO, "over", "other"), {"attempt": (1, 0)}, Verdict.DONE),
    "the same hop of another request": (
        item(2, "running", ZERO, "over", "other"),
        {"run": (501, "request-n"), "hop": 2},
        Verdict.SUPERSEDED,
    ),
    "a request of the moment in which the run ended": (
        item(1, "completed", ZERO, "abandoned", "other"),
        {"run": (ENDED_AT, "request-z"), "policy": IGNORE},
        Verdict.IGNORED,
    ),
    "a lease that ended exactly when runs count as abandoned": (
        {**item(1, "running", ZERO, "over", "other"), "lease_until": number(ABANDONED_BEFORE)},
        {"run": (501, "request-n"), "policy": IGNORE},
        Verdict.IGNORED,
    ),
    "the same lease, in a flow that takes callers": (
        {**item(1, "running", ZERO, "over", "other"), "lease_until": number(ABANDONED_BEFORE)},
        {"run": (501, "request-n"), "policy": OnConflict.ATTACH},
        Verdict.ATTACHED,
    ),
}


@pytest.mark.parametrize("case", MET)
def test_a_claim_is_refused_with_the_word_for_it(case: str, clients: Clients, store: DynamoDBStore) -> None:
    found, asked, verdict = MET[case]
    meet(clients, found)
    answer = store.claim(request(**{"run": STORED, **asked}))
    assert isinstance(answer, Refused)
    assert answer.verdict is verdict


def test_a_copy_of_a_hop_that_is_done_is_told_its_outbox_and_its_result(store: DynamoDBStore) -> None:
    store.commit(claimed(store), commit(status=Status.COMPLETED, result='{"ok":true}'))
    answer = store.claim(request(STORED))
    assert isinstance(answer, Refused)
    assert answer.item is not None
    assert (answer.verdict, answer.item.result) == (Verdict.DONE, '{"ok":true}')
    assert answer.item.outbox == commit().outbox


def test_the_claim_of_a_new_run_forgets_state_result_and_error_but_keeps_the_outbox(store: DynamoDBStore) -> None:
    store.commit(claimed(store), commit(status=Status.FAILED, error=ErrorNote("Reject", "no", NOW), result="1"))
    claim = claimed(store, (501, "request-n"))
    item = stored(store)
    assert (item.state, item.result, item.error) == (None, None, None)
    assert item.outbox == commit().outbox
    assert claim.item == item


@pytest.mark.parametrize("policy", OnConflict)
def test_the_claim_of_a_new_run_leaves_nothing_of_a_wait(
    policy: OnConflict, clients: Clients, store: DynamoDBStore
) -> None:
    waits = wait(waiting=("a",), deadline=ABANDONED_BEFORE - 1)
    meet(clients, {**item(1, "waiting", ZERO, "over", "other", waits), **late(1, "b")})
    claimed(store, (501, "request-n"), policy=policy)
    found: Any = clients.dynamodb.scan(TableName="flowguard")["Items"]
    assert {"waiting", "wait", "late"} & found[0].keys() == set()


def test_the_claim_of_the_next_hop_clears_the_outbox_and_hands_on_the_state(store: DynamoDBStore) -> None:
    store.commit(claimed(store), commit())
    claim = claimed(store, hop=2)
    assert stored(store).outbox is None
    assert (claim.item.state, claim.item.epoch) == ('{"total":3}', 2)
    assert claim.item.stages == {"stage-1": RID, "stage-2": RID}


def test_the_claim_of_the_next_hop_of_a_run_that_keeps_no_state_finds_none(store: DynamoDBStore) -> None:
    store.commit(claimed(store), commit(state=None))
    assert claimed(store, hop=2).item.state is None


def test_a_later_hop_goes_on_though_its_run_was_reset_where_the_flow_takes_no_callers(memory: DynamoDBStore) -> None:
    memory.commit(claimed(memory), commit())
    memory.callers.reset("flow", ObjectId("object"), "reset", NOW, NOW)
    assert claimed(memory, hop=2).item.reset_at == NOW
    assert isinstance(memory.claim(request(STORED, hop=2, policy=OnConflict.ATTACH)), Refused)


def test_a_resumed_hop_leaves_the_outbox_of_the_hop_that_waited(memory: DynamoDBStore) -> None:
    wait = NewWait(WaitPlan("stage-2", {"a": None}), 1, NOW)
    memory.commit(claimed(memory), commit(status=Status.WAITING, wait=wait))
    asked = request(STORED, hop=2)
    claim = memory.claim(asked._replace(message=asked.message._replace(resumed=True)))
    assert isinstance(claim, Claim)
    assert claim.item.outbox == stored(memory).outbox == commit().outbox


def test_a_resumed_hop_begins_without_the_kills_and_the_rest_of_the_hop_that_waited() -> None:
    """A rest stays where the attempt after it went without a lease: its commit does not clear it."""
    with on_memory() as clients:
        store = aws_store(Settings(), clients)
        left = item(1, "waiting", ZERO, "over", "other", wait(waiting=(), answered=("a",)))
        rest = record_item(BackOff(ErrorNote("Retry", "later", 1), NOW))
        meet(clients, {**left, "kills": number(4), "back_off": rest})
        asked = request(STORED, hop=2)
        assert isinstance(store.claim(asked._replace(message=asked.message._replace(resumed=True))), Claim)
        item_now = stored(store)
        assert (item_now.kills, item_now.back_off) == (0, None)


def test_the_hop_after_a_first_one_that_failed_finds_what_the_run_before_has_left(memory: DynamoDBStore) -> None:
    memory.commit(claimed(memory), commit())
    run = (501, "request-n")
    failed = FailedHop(RequestId(run[1]), run[0], 1, 0, ErrorNote("Reject", "no", NOW))
    memory.commit(claimed(memory, run), commit(state=None, failed=failed))
    found = claimed(memory, run, hop=2).item
    assert found.left is not None
    assert (found.state, found.left.read()) == (None, '{"total":3}')


@pytest.mark.parametrize("policy", OnConflict)
def test_the_item_of_a_claim_is_the_stored_one(policy: OnConflict, memory: DynamoDBStore) -> None:
    assert claimed(memory, policy=policy).item == stored(memory)


@pytest.mark.parametrize("policy", [OnConflict.SUPERSEDE, OnConflict.ATTACH])
def test_a_new_run_has_no_kills_and_no_rest_of_the_run_before(
    policy: OnConflict, clients: Clients, store: DynamoDBStore
) -> None:
    back_off = record_item(BackOff(ErrorNote("Boom", "no", 1), 60))
    meet(clients, {**item(1, "completed", ZERO, "over", "other"), "kills": number(3), "back_off": back_off})
    claimed(store, (ENDED_AT + 1, "request-n"), policy=policy)
    key: Any = {"pk": {"S": "run#flow#object"}, "sk": {"S": "run"}}
    after = clients.dynamodb.get_item(TableName="flowguard", Key=key)["Item"]
    assert after["request_id"] == {"S": "request-n"}
    assert {"kills", "back_off"} & set(after) == set()
