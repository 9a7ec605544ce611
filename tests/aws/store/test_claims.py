"""What a claim is granted or refused for, and what it leaves in the item."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.items import number
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.protocol.claims import decide
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import Claim, Refused, Status
from flowguard.protocol.verdicts import Verdict
from flowguard.settings import Settings
from flowguard.wire.message import ErrorNote
from tests.aws.engines import on_memory
from tests.aws.states import KINDS, NOW, STORED, item, late, request, wait
from tests.aws.store.run import RID, claimed, commit, meet, stored


@pytest.mark.parametrize("policy", OnConflict)
@pytest.mark.parametrize("kind", KINDS)
def test_a_claim_is_granted_where_the_decision_grants_it_under_either_policy(kind: str, policy: OnConflict) -> None:
    """A refused claim is told what the decision says: only the grant itself shows what the condition says."""
    with on_memory() as clients:
        store = aws_store(Settings(), clients)
        for meeting in KINDS[kind]():
            meet(clients, meeting.item)
            asked = meeting.request._replace(on_conflict=policy)
            granted = decide(store.read("flow", "object"), asked) is Verdict.CLAIMED
            assert isinstance(store.claim(asked), Claim) is granted, meeting.says


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
        {"run": (500, "request-z"), "policy": IGNORE},
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
