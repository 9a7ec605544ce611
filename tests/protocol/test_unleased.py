"""When a hop that was only read is claimed all the same."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.protocol.claims import needs_lease, outlived, taken, waits_unseen
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import AwaitingRow, Claim, ClaimRequest, Commit, NewWait, RunItem, Status
from flowguard.protocol.waiting import WaitPlan
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.message import Message
from tests.protocol.run_items import run_item

NOW, RETENTION = 1_000_000, 5_000
ROW = AwaitingRow("paid#1", AnswerAddress("flow", ObjectId("o"), RequestId("m"), 500, 2, "paid"), "later", 9)


def found(request_id: str = "m", status: Status = Status.RUNNING, hop: int = 1) -> RunItem:
    return run_item(request_id=RequestId(request_id), requested_at=500, status=status, hop=hop, done=True)


def read(before: RunItem | None, *, hop: int = 2, unwritten: bool = True) -> Claim:
    message = Message("flow", "stage", 1, ObjectId("o"), RequestId("m"), 500, "{}", hop=hop)
    request = ClaimRequest(message, Owner("mine"), NOW, NOW + 9, OnConflict.SUPERSEDE, 0, 9_000)
    return Claim(message, taken(before, request), before, request if unwritten else None)


@pytest.mark.parametrize(
    ("before", "hop", "needed"),
    [
        (None, 1, False),
        (found(), 2, False),
        (found("older"), 1, True),
        (found("older", Status.WAITING), 1, True),
        (found("older", Status.COMPLETED), 1, False),
        (found("older", Status.FAILED), 1, False),
    ],
)
def test_a_run_at_work_is_stopped_by_a_claim(before: RunItem | None, hop: int, needed: bool) -> None:
    assert needs_lease(read(before, hop=hop)) is needed
    assert not needs_lease(read(before, hop=hop, unwritten=False)), "it was claimed"


@pytest.mark.parametrize(
    ("before", "unwritten", "later", "is_late"),
    [
        (None, True, RETENTION, True),
        (None, True, RETENTION - 1, False),
        (None, False, RETENTION, False),
        (found(), True, RETENTION, False),
    ],
)
def test_that_there_is_no_item_is_good_for_one_retention(
    before: RunItem | None, unwritten: bool, later: int, is_late: bool
) -> None:
    assert outlived(read(before, unwritten=unwritten), NOW + later, RETENTION) is is_late


def waiting(*rows: AwaitingRow) -> Commit:
    wait = NewWait(WaitPlan("later", {"paid": None}), 0, NOW, rows)
    return Commit(Status.WAITING, NOW, NOW, None, None, wait=wait)


@pytest.mark.parametrize(
    ("before", "hop", "claim", "commit", "unseen"),
    [
        (None, 1, {}, waiting(ROW), True),
        (found("older", Status.COMPLETED, 4), 1, {}, waiting(ROW), True),
        (found("m", Status.FAILED, 2), 2, {}, waiting(ROW), True),
        (found("m", Status.RUNNING, 1), 2, {}, waiting(ROW), False),
        (None, 1, {"unwritten": False}, waiting(ROW), False),
        (None, 1, {}, waiting(), False),
        (None, 1, {}, Commit(Status.RUNNING, NOW, NOW, None, None), False),
    ],
)
def test_an_answer_is_early_only_where_the_table_says_that_its_hop_is_to_come(
    before: RunItem | None, hop: int, claim: Any, commit: Commit, unseen: bool
) -> None:
    assert waits_unseen(read(before, hop=hop, **claim), commit) is unseen
