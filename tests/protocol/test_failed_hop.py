"""Where a run has failed for good: of which run it is, and what a commit that was refused means then."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.protocol.claims import begins_anew, can_be_reset, decide, refused_commit
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.run import Claim, ClaimRequest, Commit, Committed, RunItem, Status
from flowguard.verdicts import Verdict
from flowguard.wire.message import ErrorNote, Message
from tests.protocol.run_items import run_item

NOTE = ErrorNote("Reject", "sold out", 1)
FAILED = FailedHop(RequestId("r"), 5, 2, 0, NOTE)
UNDONE = FAILED._replace(undone=True)
MESSAGE = Message("flow", "stage", 1, ObjectId("o"), RequestId("r"), 5, "{}", hop=2)


def run(status: Status = Status.RUNNING, failed: FailedHop | None = None, **changes: Any) -> RunItem:
    item = run_item(status=status, failed=failed)
    return item._replace(**changes)


def wanted(status: Status = Status.RUNNING, **changes: Any) -> Commit:
    return Commit(status, 1, 2, None, None, **changes)


@pytest.mark.parametrize(
    ("item", "own_failure"),
    [
        (run(), None),
        (run(failed=FAILED), FAILED),
        (run(failed=FAILED._replace(request_id=RequestId("before"))), None),
        (run(failed=FAILED._replace(requested_at=4)), None),
    ],
    ids=["none", "its own", "of another request", "of its id at another time"],
)
def test_a_run_has_given_up_what_names_it_by_request_and_time(item: RunItem, own_failure: FailedHop | None) -> None:
    assert item.own_failure == own_failure
    assert can_be_reset(item, "reset", 5) is (own_failure is None), "a reset would take its undo away"


@pytest.mark.parametrize(
    ("item", "hop", "anew"),
    [
        (None, 1, True),
        (None, 2, True),
        (run(), 1, True),
        (run(hop=1), 2, False),
        (run(hop=1, failed=FAILED._replace(hop=1)), 2, True),
        (run(hop=2, failed=FAILED._replace(hop=1)), 2, True),
        (run(hop=2, failed=FAILED._replace(hop=1)), 3, False),
        (run(hop=1, failed=FAILED._replace(hop=1, requested_at=4)), 2, False),
        (run(failed=FAILED), 2, False),
    ],
)
def test_a_run_that_failed_at_its_first_hop_undoes_from_an_empty_state(
    item: RunItem | None, hop: int, anew: bool
) -> None:
    assert begins_anew(item, MESSAGE._replace(hop=hop)) is anew


@pytest.mark.parametrize(
    ("item", "redrive", "verdict"),
    [
        (run(hop=3, failed=FAILED), 1, Verdict.GIVEN_UP),
        (run(hop=3, failed=FAILED), 0, Verdict.DUPLICATE),
        (run(hop=3, failed=FAILED._replace(redrive=1)), 1, Verdict.DUPLICATE),
        (run(hop=3, failed=FAILED._replace(redrive=1)), 2, Verdict.GIVEN_UP),
        (run(Status.FAILED, UNDONE, hop=3), 1, Verdict.GIVEN_UP),
        (run(Status.FAILED, UNDONE, hop=3), 0, Verdict.DONE),
        (run(hop=4, failed=FAILED._replace(hop=3)), 1, Verdict.DUPLICATE),
        (run(failed=FAILED), 1, Verdict.DONE),
        (run(Status.FAILED, UNDONE._replace(hop=1)), 1, Verdict.DONE),
        (run(Status.FAILED, FAILED._replace(hop=1)), 1, Verdict.CLAIMED),
    ],
)
def test_a_hop_that_was_given_up_is_not_opened_again(item: RunItem, redrive: int, verdict: Verdict) -> None:
    message = MESSAGE._replace(redrive=redrive)
    request = ClaimRequest(message, Owner("w2"), 10, 20, OnConflict.SUPERSEDE, 0, 30)
    assert decide(item, request) is verdict


OWN = Claim(MESSAGE, run(done=False), None)


@pytest.mark.parametrize(
    ("commit", "item", "is_own"),
    [
        (wanted(), run(), True),
        (wanted(failed=FAILED), run(failed=FAILED), True),
        (wanted(failed=FAILED), run(), False),
        (wanted(), run(failed=FAILED), False),
        (wanted(), run(failed=FAILED._replace(hop=1)), True),
        (wanted(Status.FAILED, undone=True), run(Status.FAILED, UNDONE._replace(hop=1)), True),
        (wanted(Status.FAILED, undone=True), run(Status.FAILED, FAILED._replace(hop=1)), False),
        (wanted(Status.FAILED), run(Status.FAILED, UNDONE._replace(hop=1)), False),
        (wanted(Status.FAILED), run(Status.COMPLETED), False),
    ],
)
def test_a_worker_knows_its_own_commit_by_how_the_hop_ended(commit: Commit, item: RunItem, is_own: bool) -> None:
    assert (refused_commit(OWN, commit, item) == Committed()) is is_own


@pytest.mark.parametrize(
    ("commit", "can_be_redriven", "leaves_state"),
    [
        (wanted(), False, False),
        (wanted(failed=FAILED), False, True),
        (wanted(Status.FAILED), True, True),
        (wanted(Status.FAILED, undone=True), False, False),
        (wanted(Status.COMPLETED), False, False),
    ],
)
def test_a_hop_that_failed_leaves_the_state_and_only_an_end_can_be_redriven(
    commit: Commit, can_be_redriven: bool, leaves_state: bool
) -> None:
    assert (commit.can_be_redriven, commit.leaves_state) == (can_be_redriven, leaves_state)
