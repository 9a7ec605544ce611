"""What a commit leaves in the item."""

from __future__ import annotations

from flowguard.aws.store import DynamoDBStore
from flowguard.protocol.run import Committed, Status
from flowguard.sim.calls import Recorder, intercept
from flowguard.wire.message import ErrorNote
from tests.aws.states import NOW
from tests.aws.store.run import RID, claimed, commit, stored


def test_a_commit_stores_state_outcome_and_outbox_at_once(store: DynamoDBStore) -> None:
    claim = claimed(store)
    with intercept(Recorder()) as calls:
        assert store.commit(claim, commit()) == Committed()
    item = stored(store)
    assert calls.count("dynamodb") == 1
    assert (item.done, item.status, item.state) == (True, Status.RUNNING, '{"total":3}')
    assert item.outbox == commit().outbox
    assert item.stages == {"stage-1": RID}


def test_completion_releases_the_stages_and_keeps_a_tombstone(store: DynamoDBStore) -> None:
    claim = claimed(store)
    store.commit(claim, commit(status=Status.COMPLETED, result='{"ok":true}', outbox=None))
    item = stored(store)
    assert (item.status, item.result, item.stages, item.outbox) == (Status.COMPLETED, '{"ok":true}', {}, None)
    assert (item.request_id, item.epoch, item.ttl) == (RID, 1, (NOW + 2_000) // 1000)


def test_a_failed_run_says_why(store: DynamoDBStore) -> None:
    store.commit(claimed(store), commit(status=Status.FAILED, error=ErrorNote("Reject", "empty cart", NOW)))
    assert stored(store).error == "Reject: empty cart"


def test_a_commit_removes_what_it_no_longer_brings(store: DynamoDBStore) -> None:
    failed = commit(status=Status.FAILED, error=ErrorNote("Reject", "no", NOW), result="1")
    store.commit(claimed(store), failed)
    done = commit(state=None, outbox=None)
    assert store.commit(claimed(store, (501, "request-n")), done) == Committed()
    item = stored(store)
    assert (item.outbox, item.state, item.result, item.error) == (None, None, None, None)


def test_a_hop_is_committed_once(store: DynamoDBStore) -> None:
    claim = claimed(store)
    store.commit(claim, commit())
    store.commit(claim, commit(state='{"total":4}'))
    assert stored(store).state == '{"total":3}'
