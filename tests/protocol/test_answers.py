"""The verdict on an answer, by where its run stands."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.protocol.answers import judge
from flowguard.protocol.run import RunItem, Status
from flowguard.protocol.waiting import Late, Wait
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress

A = AnswerAddress("flow", ObjectId("o"), RequestId("run-1"), 1, 1, "a")
OPEN = Wait(frozenset("ab"), spare=0, deadline=9)
OVER = Wait(frozenset(), spare=0, deadline=9, answered=frozenset("ab"))
LATE = Wait(frozenset("ab"), spare=0, deadline=9, timed_out=True)
LATE_FOR_B = Wait(frozenset("b"), spare=0, deadline=9, timed_out=True, answered=frozenset("a"))
ENOUGH = Wait(frozenset("a"), spare=1, deadline=9, answered=frozenset("b"))


def item(hop: int, status: Status, wait: Wait | None = None, *, done: bool = True, **changes: Any) -> RunItem:
    found = RunItem(
        request_id=RequestId("run-1"),
        requested_at=1,
        version=1,
        status=status,
        stage="stage",
        hop=hop,
        retry=0,
        redrive=0,
        epoch=1,
        owner=Owner("owner"),
        lease_until=0,
        done=done,
        committed_at=1,
        wait=wait,
    )
    return found._replace(**changes)


CASES = {
    "there is no item": (None, "EXPIRED"),
    "another request": (item(1, Status.WAITING, OPEN, request_id=RequestId("run-2")), "SUPERSEDED"),
    "the same id at a later time": (item(1, Status.WAITING, OPEN, requested_at=2), "SUPERSEDED"),
    "the same id at an earlier time": (item(1, Status.WAITING, OPEN, requested_at=0), "SUPERSEDED"),
    "the hop is at work": (item(1, Status.RUNNING, done=False), "EARLY"),
    "the hop is at work again, with the wait of one before": (item(1, Status.RUNNING, OPEN, done=False), "EARLY"),
    "the next hop is committed, and waited for nothing": (item(2, Status.RUNNING), "DUPLICATE"),
    "the hop has committed no wait": (item(1, Status.RUNNING), "UNKNOWN"),
    "the item says that it waits, and holds no wait": (item(1, Status.WAITING), "UNKNOWN"),
    "both are missing": (item(1, Status.WAITING, OPEN), "RECORDED"),
    "one is missing": (item(1, Status.WAITING, OPEN.after("b", counts=True)), "RESUMED"),
    "it is answered": (item(1, Status.WAITING, OPEN.after("a", counts=True)), "DUPLICATE"),
    "the others were enough": (item(1, Status.WAITING, ENOUGH), "DUPLICATE"),
    "the wait has timed out": (item(1, Status.WAITING, LATE), "EXPIRED"),
    "the wait has timed out after it was answered": (item(1, Status.WAITING, LATE_FOR_B), "DUPLICATE"),
    "another name is awaited": (item(1, Status.WAITING, Wait(frozenset("b"), 0, 9)), "UNKNOWN"),
    "the hop is committed, and the item still holds a wait": (item(1, Status.RUNNING, OPEN), "UNKNOWN"),
    "the run ended with this hop": (item(1, Status.COMPLETED), "EXPIRED"),
    "the run failed at this hop": (item(1, Status.FAILED), "EXPIRED"),
    "the run is completed": (item(2, Status.COMPLETED), "DUPLICATE"),
    "the run is completed, and did without it": (item(2, Status.COMPLETED, late=Late(1, frozenset("a"))), "EXPIRED"),
    "the run is completed, and had it": (item(2, Status.COMPLETED, late=Late(1, frozenset("b"))), "DUPLICATE"),
    "the run did without it at another hop": (item(4, Status.COMPLETED, late=Late(2, frozenset("a"))), "DUPLICATE"),
    "the run has failed after the wait": (item(2, Status.FAILED, OVER), "DUPLICATE"),
    "the run has failed after the deadline": (item(2, Status.FAILED, LATE), "EXPIRED"),
    "the next hop is at work": (item(2, Status.RUNNING, OVER, done=False), "DUPLICATE"),
    "the next hop is at work without it": (item(2, Status.RUNNING, ENOUGH, done=False), "DUPLICATE"),
    "the next hop is at work after the deadline": (item(2, Status.RUNNING, LATE, done=False), "EXPIRED"),
    "the next hop is at work after the deadline, with it": (item(2, Status.RUNNING, LATE_FOR_B), "DUPLICATE"),
    "the next hop waits itself, and has timed out": (item(2, Status.WAITING, LATE), "DUPLICATE"),
    "two hops later another wait has timed out": (item(3, Status.RUNNING, LATE, done=False), "DUPLICATE"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_follows_from_where_the_run_stands(case: str) -> None:
    stands, verdict = CASES[case]
    assert judge(stands, A) is AnswerVerdict(verdict)


def test_an_answer_of_a_later_hop_is_early() -> None:
    assert judge(item(1, Status.RUNNING), A._replace(hop=2)) is AnswerVerdict.EARLY


def test_a_failure_that_is_no_answer_ends_the_wait_where_none_may_be_missing() -> None:
    assert judge(item(1, Status.WAITING, OPEN), A, counts=False) is AnswerVerdict.RESUMED
    spared = OPEN._replace(spare=1)
    assert judge(item(1, Status.WAITING, spared), A, counts=False) is AnswerVerdict.RECORDED
