"""Where a run failed for good, in its item: written, kept, marked as undone, and removed."""

from __future__ import annotations

import pytest

from flowguard.aws.store import DynamoDBStore
from flowguard.names.ids import RequestId
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.run import Commit, Committed, Status
from flowguard.wire.message import ErrorNote
from tests.aws.states import STORED
from tests.aws.store.run import claimed, commit, stored

NOTE = ErrorNote("Reject", "sold out", 1)
FAILED = FailedHop(RequestId(STORED[1]), STORED[0], 1, 0, NOTE)
END = commit(status=Status.FAILED, state=None, error=NOTE, outbox=None)


@pytest.fixture
def failed(memory: DynamoDBStore) -> DynamoDBStore:
    """A run that goes on at ``on_failed`` after its first hop."""
    assert memory.commit(claimed(memory), commit(failed=FAILED, state=None)) == Committed()
    assert stored(memory).failed == FAILED
    return memory


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        (commit(), FAILED),
        (END, FAILED),
        (END._replace(undone=True), FAILED._replace(undone=True)),
        (commit(status=Status.COMPLETED), FAILED),
    ],
    ids=["goes on", "fails", "is undone", "completes"],
)
def test_a_run_keeps_where_it_failed(failed: DynamoDBStore, wanted: Commit, left: FailedHop) -> None:
    assert failed.commit(claimed(failed, hop=2), wanted) == Committed()
    assert stored(failed).failed == left


@pytest.mark.parametrize(("wanted", "left"), [(commit(), None), (END, FAILED)], ids=["goes on", "fails"])
def test_the_next_run_removes_where_the_one_before_failed_with_its_state(
    failed: DynamoDBStore, wanted: Commit, left: FailedHop | None
) -> None:
    newer = claimed(failed, (501, "request-n"))
    assert newer.item.failed == FAILED
    failed.commit(newer, wanted)
    assert stored(failed).failed == left
