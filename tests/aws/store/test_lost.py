"""Calls that were applied, but whose answers were lost."""

from __future__ import annotations

from flowguard.aws.clients import Clients
from flowguard.aws.store import DynamoDBStore
from flowguard.protocol.run import Committed
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from tests.aws.states import NOW, REST
from tests.aws.store.run import cart, claimed, commit, counted, stored


def answer_lost(call: ApiCall, proceed: Proceed) -> Response:
    """The first answer never arrives, so botocore repeats the request."""
    proceed()
    return proceed()


def test_a_claim_whose_answer_was_lost_is_still_a_claim(store: DynamoDBStore) -> None:
    with intercept(answer_lost):
        claim = claimed(store)
    assert claim.item == stored(store)
    assert claim.item.epoch == 2


def test_the_claim_of_a_next_hop_whose_answer_was_lost_still_has_the_state(store: DynamoDBStore) -> None:
    store.commit(claimed(store), commit())
    with intercept(answer_lost):
        claim = claimed(store, hop=2)
    assert claim.item.state == '{"total":3}'
    assert claim.item == stored(store)


def test_a_takeover_whose_answer_was_lost_still_has_the_old_outbox(store: DynamoDBStore) -> None:
    store.commit(claimed(store), commit())
    with intercept(answer_lost):
        claim = claimed(store, (501, "request-n"))
    assert claim.item.outbox == commit().outbox


def test_a_commit_whose_answer_was_lost_is_a_success(store: DynamoDBStore) -> None:
    claim = claimed(store)
    with intercept(answer_lost):
        assert store.commit(claim, commit()) == Committed()


def test_a_commit_with_writes_whose_answer_was_lost_is_a_success_and_applied_once(
    clients: Clients, store: DynamoDBStore
) -> None:
    claim = claimed(store)
    with intercept(answer_lost):
        assert store.commit(claim, commit(counted())) == Committed()
    assert cart(clients, "c1")["n"] == {"N": "1"}


def test_a_release_whose_answer_was_lost_counts_once(store: DynamoDBStore) -> None:
    claim = claimed(store)
    with intercept(answer_lost):
        store.release(claim, NOW, rest=REST)
    assert stored(store).retry == 1
