"""The verdicts on claims and the fence of commits, state by state: values, without a store."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.protocol.callers import Caller, Callers, asker_key, caller_key
from flowguard.protocol.claims import (
    answered_askers,
    attempt_key,
    begins_list,
    can_be_reset,
    committed_before,
    decide,
    fenced_by,
    finds_old_memory,
    goes_on_as,
    is_claimed_by,
    kills_before,
    noted_asker,
    refused_commit,
    taken,
    takes_object,
)
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.memo import Memo
from flowguard.protocol.run import (
    LONGEST_LEASE,
    BackOff,
    Cancellation,
    Claim,
    ClaimRequest,
    Commit,
    Committed,
    FencedBy,
    RunItem,
    Status,
)
from flowguard.protocol.waiting import Wait
from flowguard.verdicts import Verdict
from flowguard.wire.message import ErrorNote, Message
from tests.protocol.run_items import run_item

NOW, ABANDONED = 1_000, 800
BELIEVED = LONGEST_LEASE // timedelta(milliseconds=1)
FAST = NOW + BELIEVED + 1
RUNNING, WAITING, COMPLETED, FAILED = Status
SUPERSEDE, IGNORE, ATTACH = OnConflict.SUPERSEDE, OnConflict.IGNORE, OnConflict.ATTACH


def item(status: Status = RUNNING, **changes: Any) -> RunItem:
    """The run of the request m, of 500, at its hop 2: the second attempt after a redrive."""
    found = run_item(
        request_id=RequestId("m"),
        requested_at=500,
        status=status,
        stage="stage-2",
        retry=1,
        redrive=1,
        epoch=7,
        owner=Owner("other"),
        lease_until=NOW + 1,
        done=status is not RUNNING,
        committed_at=500,
    )
    return found._replace(**changes)


def asked(policy: OnConflict = SUPERSEDE, **changes: Any) -> ClaimRequest:
    """The claim of that very attempt, by another worker."""
    message = Message("flow", "stage", 1, ObjectId("o"), RequestId("m"), 500, "{}", hop=2, retry=1, redrive=1)
    fresh = changes.pop("fresh_since", 500)
    return ClaimRequest(message._replace(**changes), Owner("mine"), NOW, NOW + 9, policy, ABANDONED, 9_000, fresh)


def first(policy: OnConflict, at: int = 501, name: str = "n", **changes: Any) -> ClaimRequest:
    """The first hop of another request."""
    return asked(policy, requested_at=at, request_id=RequestId(name), hop=1, retry=0, redrive=0, **changes)


def failed(hop: int, **changes: Any) -> FailedHop:
    return FailedHop(RequestId("m"), 500, hop, 1, ErrorNote("Reject", "no", 1))._replace(**changes)


def wait(**changes: Any) -> Wait:
    return Wait(frozenset("a"), 0, ABANDONED)._replace(**changes)


OWN: dict[str, tuple[RunItem | None, ClaimRequest, Verdict]] = {
    "no item, hop 1": (None, asked(hop=1), Verdict.CLAIMED),
    "no item, hop 2": (None, asked(), Verdict.GONE),
    "its lease is alive": (item(), asked(), Verdict.BUSY),
    "its lease is the longest": (item(lease_until=NOW + BELIEVED), asked(), Verdict.BUSY),
    "its lease is of a fast clock": (item(lease_until=FAST), asked(), Verdict.CLAIMED),
    "its lease is over": (item(lease_until=NOW), asked(), Verdict.CLAIMED),
    "its own claim": (item(owner=Owner("mine")), asked(), Verdict.CLAIMED),
    "a later attempt": (item(), asked(retry=2), Verdict.CLAIMED),
    "a later redrive": (item(), asked(redrive=2, retry=0), Verdict.CLAIMED),
    "an earlier attempt": (item(lease_until=NOW), asked(retry=0), Verdict.DUPLICATE),
    "hop 1, an earlier copy": (item(hop=1, lease_until=0), asked(hop=1, requested_at=499), Verdict.DUPLICATE),
    "hop 1, an earlier copy, its lease alive": (item(hop=1), asked(hop=1, requested_at=499), Verdict.BUSY),
    "hop 1, a later copy": (item(hop=1, lease_until=0), asked(hop=1, requested_at=501), Verdict.CLAIMED),
    "hop 1 at the same time": (item(hop=1, lease_until=0), asked(hop=1), Verdict.CLAIMED),
    "committed": (item(done=True), asked(retry=2), Verdict.DONE),
    "committed, redriven": (item(done=True), asked(redrive=2), Verdict.DONE),
    "failed": (item(FAILED), asked(), Verdict.DONE),
    "failed, redriven": (item(FAILED), asked(redrive=2), Verdict.CLAIMED),
    "failed at hop 1, redriven, an earlier copy": (
        item(FAILED, hop=1),
        asked(hop=1, redrive=2, requested_at=499),
        Verdict.DONE,
    ),
    "failed and undone, redriven": (item(FAILED, failed=failed(1, undone=True)), asked(redrive=2), Verdict.DONE),
    "failed while it was undone, redriven": (item(FAILED, failed=failed(1)), asked(redrive=2), Verdict.CLAIMED),
    "a hop behind": (item(), asked(hop=1), Verdict.DUPLICATE),
    "a hop behind, ended": (item(COMPLETED), asked(hop=1), Verdict.DONE),
    "a hop behind, failed": (item(FAILED), asked(hop=1), Verdict.DONE),
    "a hop that was given up": (item(failed=failed(1)), asked(hop=1), Verdict.DUPLICATE),
    "a hop that was given up, redriven": (item(failed=failed(1)), asked(hop=1, redrive=2), Verdict.GIVEN_UP),
    "another hop was given up, redriven": (
        item(hop=3, failed=failed(2)),
        asked(hop=1, redrive=2),
        Verdict.DUPLICATE,
    ),
    "the next hop": (item(done=True), asked(hop=3), Verdict.CLAIMED),
    "the next hop before the commit": (item(), asked(hop=3), Verdict.EARLY),
    "the hop after the next": (item(done=True), asked(hop=4), Verdict.EARLY),
    "the next hop of an ended run": (item(COMPLETED), asked(hop=3), Verdict.DONE),
    "the next hop, the wait goes on": (item(WAITING, wait=wait()), asked(hop=3), Verdict.EARLY),
    "the next hop, the wait is over": (item(WAITING, wait=wait(timed_out=True)), asked(hop=3), Verdict.CLAIMED),
    "the next hop, a wait stands there": (item(done=True, wait=wait()), asked(hop=3), Verdict.CLAIMED),
    "the hop at another time": (item(done=True), asked(requested_at=501), Verdict.SUPERSEDED),
    "the next hop at another time": (item(done=True), asked(hop=3, requested_at=499), Verdict.SUPERSEDED),
    "reset, at work": (item(reset_at=600), asked(ATTACH), Verdict.RESET),
    "reset, ended": (item(COMPLETED, reset_at=600), asked(ATTACH), Verdict.DONE),
    "reset, failed and redriven": (item(FAILED, reset_at=600), asked(ATTACH, redrive=2), Verdict.DONE),
    "reset, the first hop": (item(hop=1, reset_at=600, lease_until=0), asked(ATTACH, hop=1), Verdict.CLAIMED),
    "not reset": (item(), asked(ATTACH), Verdict.BUSY),
    "reset, the flow takes no callers": (item(reset_at=600), asked(), Verdict.BUSY),
}
"""What its own request meets."""


OTHERS: dict[str, tuple[RunItem, ClaimRequest, Verdict]] = {
    "a later hop": (item(), asked(request_id=RequestId("n")), Verdict.SUPERSEDED),
    "an older one": (item(), first(SUPERSEDE, 499, "z"), Verdict.STALE),
    "of its time, a lesser id": (item(), first(SUPERSEDE, 500, "a"), Verdict.STALE),
    "of its time, a greater id": (item(), first(SUPERSEDE, 500, "z"), Verdict.STALE),
    "a newer one": (item(), first(SUPERSEDE, 501, "a"), Verdict.CLAIMED),
    "a newer one, ignored": (item(), first(IGNORE), Verdict.IGNORED),
    "a newer one, ignored, abandoned": (item(lease_until=ABANDONED - 1), first(IGNORE), Verdict.CLAIMED),
    "a newer one, ignored, nearly abandoned": (item(lease_until=ABANDONED), first(IGNORE), Verdict.IGNORED),
    "a newer one, ignored, ended before": (item(COMPLETED), first(IGNORE), Verdict.CLAIMED),
    "a newer one, ignored, ended then": (item(COMPLETED, committed_at=501), first(IGNORE), Verdict.IGNORED),
    "a newer one, ignored, ended then, lease long over": (
        item(COMPLETED, committed_at=501, lease_until=0),
        first(IGNORE),
        Verdict.IGNORED,
    ),
    "a newer one, ignored, the latest end that is believed": (
        item(COMPLETED, committed_at=NOW + BELIEVED),
        first(IGNORE),
        Verdict.IGNORED,
    ),
    "a newer one, ignored, ended by a fast clock": (
        item(COMPLETED, committed_at=FAST),
        first(IGNORE),
        Verdict.CLAIMED,
    ),
    "a newer one, ignored, the longest lease": (item(lease_until=NOW + BELIEVED), first(IGNORE), Verdict.IGNORED),
    "a newer one, ignored, the lease of a fast clock": (item(lease_until=FAST), first(IGNORE), Verdict.CLAIMED),
    "a newer one, ignored, the lease of a fast clock, asked for since": (
        item(lease_until=FAST, requested_at=ABANDONED),
        first(IGNORE, ABANDONED + 1),
        Verdict.IGNORED,
    ),
    "a newer one, ignored, the lease of a fast clock, committed since": (
        item(lease_until=FAST, committed_at=ABANDONED),
        first(IGNORE),
        Verdict.IGNORED,
    ),
    "a newer one, ignored, the run waits": (item(WAITING, lease_until=0, wait=wait()), first(IGNORE), Verdict.IGNORED),
    "a newer one, ignored, the wait is long over": (
        item(WAITING, wait=wait(deadline=ABANDONED - 1)),
        first(IGNORE),
        Verdict.CLAIMED,
    ),
    "a newer one, ignored, a wait long over before the hop": (
        item(wait=wait(deadline=0)),
        first(IGNORE),
        Verdict.IGNORED,
    ),
}
"""What another request meets, of a flow that takes no callers."""


LIST = Callers("term", {caller_key(RequestId("n"), 501): "", caller_key(RequestId("a"), 499): ""})
LONG_OVER = ABANDONED - 1
KEY = caller_key(RequestId("n"), 501)

CALLS: dict[str, tuple[RunItem, ClaimRequest, Verdict]] = {
    "at work": (item(), first(ATTACH), Verdict.ATTACHED),
    "at work, an older request": (item(), first(ATTACH, 499, "a"), Verdict.ATTACHED),
    "abandoned": (item(lease_until=LONG_OVER), first(ATTACH), Verdict.CLAIMED),
    "abandoned, an older request": (item(lease_until=LONG_OVER), first(ATTACH, 499, "z"), Verdict.ATTACHED),
    "abandoned, a lesser id": (item(lease_until=LONG_OVER), first(ATTACH, 500, "a"), Verdict.ATTACHED),
    "abandoned, a greater id": (item(lease_until=LONG_OVER), first(ATTACH, 500, "z"), Verdict.ATTACHED),
    "abandoned, a newer one": (item(lease_until=LONG_OVER), first(ATTACH, 501, "a"), Verdict.CLAIMED),
    "a result of its moment": (item(COMPLETED), first(ATTACH, fresh_since=500), Verdict.KEPT),
    "a result that is too old": (item(COMPLETED), first(ATTACH, fresh_since=501), Verdict.CLAIMED),
    "a result that is fresh, older than the request": (item(COMPLETED), first(ATTACH, fresh_since=0), Verdict.KEPT),
    "a failure of its moment": (item(FAILED, committed_at=501), first(ATTACH, fresh_since=999), Verdict.KEPT),
    "an older failure": (item(FAILED), first(ATTACH, fresh_since=0), Verdict.CLAIMED),
    "a wait, committed long ago": (item(WAITING, wait=wait()), first(ATTACH, fresh_since=999), Verdict.ATTACHED),
    "reset": (item(reset_at=600), first(ATTACH), Verdict.CLAIMED),
    "reset, a fresh result": (item(COMPLETED, reset_at=600), first(ATTACH, fresh_since=0), Verdict.CLAIMED),
    "reset, an older request": (item(COMPLETED, reset_at=600), first(ATTACH, 499, "a"), Verdict.KEPT),
    "it was answered, ended": (
        item(COMPLETED, answered=LIST),
        first(ATTACH, fresh_since=999),
        Verdict.KEPT,
    ),
    "it was answered before the run at work": (
        item(answered=LIST, lease_until=LONG_OVER),
        first(ATTACH),
        Verdict.DUPLICATE,
    ),
    "others were answered": (
        item(answered=LIST, lease_until=LONG_OVER),
        first(ATTACH, 502),
        Verdict.CLAIMED,
    ),
    "it was carried out, ended": (
        item(COMPLETED, answered_key=KEY),
        first(ATTACH, fresh_since=999),
        Verdict.KEPT,
    ),
    "it was carried out before the run at work": (
        item(answered_key=KEY, lease_until=LONG_OVER),
        first(ATTACH),
        Verdict.DUPLICATE,
    ),
    "another was carried out": (
        item(answered_key="another", lease_until=LONG_OVER),
        first(ATTACH),
        Verdict.CLAIMED,
    ),
}
"""What another request meets, of a flow that takes callers."""


@pytest.mark.parametrize("case", OWN)
def test_a_message_of_the_run_gets_its_verdict(case: str) -> None:
    found, request, verdict = OWN[case]
    assert decide(found, request) is verdict


@pytest.mark.parametrize("case", OTHERS)
def test_a_message_of_another_request_gets_its_verdict(case: str) -> None:
    found, request, verdict = OTHERS[case]
    assert decide(found, request) is verdict


@pytest.mark.parametrize("case", CALLS)
def test_a_request_that_may_attach_gets_its_verdict(case: str) -> None:
    found, request, verdict = CALLS[case]
    assert decide(found, request) is verdict


# -- callers and resets


@pytest.mark.parametrize(
    ("found", "at", "can"),
    [
        (None, 500, False),
        (item(), 499, False),
        (item(), 500, True),
        (item(), 501, True),
        (item(WAITING, wait=wait()), 501, True),
        (item(COMPLETED), 501, True),
        (item(FAILED), 501, False),
        (item(reset_by="reset"), 501, False),
        (item(reset_by="another"), 501, True),
        (item(cancellation=Cancellation(RequestId("m"), 500, "a mistake")), 501, False),
        (item(cancellation=Cancellation(RequestId("m"), 499, "of a run before")), 501, True),
        (item(cancellation=Cancellation(RequestId("before"), 500, "of a run before")), 501, True),
        (item(reset_at=500), 501, True),
        (item(cancellation=Cancellation(RequestId("restart"), 500, "a mistake"), reset_at=500), 501, False),
        (item(cancellation=Cancellation(RequestId("before"), 499, "of a run before"), reset_at=500), 501, True),
    ],
)
def test_a_reset_changes_what_was_requested_before_it_and_has_not_failed(
    found: RunItem | None, at: int, can: bool
) -> None:
    assert can_be_reset(found, "reset", at) is can


@pytest.mark.parametrize(
    ("request_", "begins"),
    [
        (asked(ATTACH, hop=1, redrive=0), True),
        (asked(ATTACH, hop=2, redrive=0), False),
        (asked(ATTACH, hop=2, redrive=1), True),
        (asked(SUPERSEDE, hop=1, redrive=1), False),
    ],
)
def test_a_first_hop_and_a_redrive_begin_a_list_of_callers(request_: ClaimRequest, begins: bool) -> None:
    assert begins_list(request_) is begins
    assert taken(item(), request_).callers == (Callers("mine") if begins else None)
    there = Callers("there")
    assert taken(item(callers=there), request_).callers == there
    assert taken(None, request_).callers == (Callers("mine") if begins else None)


@pytest.mark.parametrize(("hop", "redrive", "is_noted"), [(1, 0, True), (2, 0, False), (2, 1, True), (1, 1, True)])
def test_a_first_hop_and_a_redrive_note_who_wants_the_answer(hop: int, redrive: int, is_noted: bool) -> None:
    request = asked(hop=hop, redrive=redrive, reply_to="sqs:replies")
    caller = Caller(RequestId("m"), 500, "sqs:replies", redrive=redrive)
    noted = {asker_key(caller.request_id): caller.to_text()} if is_noted else {}
    assert noted_asker(request.message) == (caller if is_noted else None)
    assert taken(None, request).askers == noted
    assert taken(item(askers={"before": "b"}), request).askers == {"before": "b", **noted}


def test_who_wants_no_answer_is_not_noted() -> None:
    assert taken(item(askers={"before": "b"}), asked(hop=1)).askers == {"before": "b"}


OWN_KEY = asker_key(RequestId("m"))


@pytest.mark.parametrize(
    ("status", "answered"),
    [(RUNNING, ["b"]), (WAITING, ["b"]), (COMPLETED, ["b", OWN_KEY]), (FAILED, ["b", OWN_KEY])],
)
def test_a_run_owes_its_own_answer_until_it_ends(status: Status, answered: list[str]) -> None:
    claim = Claim(asked().message, item(askers={"b": "", OWN_KEY: ""}), None)
    assert answered_askers(claim, Commit(status, 1, 2, None, None)) == answered


# -- the fence


@pytest.mark.parametrize(
    ("found", "by"),
    [
        (None, FencedBy.EXPIRED),
        (item(request_id=RequestId("a"), requested_at=501), FencedBy.NEWER_RUN),
        (item(request_id=RequestId("z"), requested_at=500), FencedBy.EXPIRED),
        (item(request_id=RequestId("z"), requested_at=499), FencedBy.EXPIRED),
        (item(request_id=RequestId("a"), requested_at=500), FencedBy.EXPIRED),
        (item(), FencedBy.OTHER_ATTEMPT),
        (item(done=True), FencedBy.FINISHED),
        (item(hop=3), FencedBy.FINISHED),
        (item(requested_at=499), FencedBy.OTHER_ATTEMPT),
    ],
)
def test_a_fenced_worker_learns_who_has_the_run(found: RunItem | None, by: FencedBy) -> None:
    claim = Claim(asked().message, item(), None)
    assert fenced_by(claim, found) == (by, found)


@pytest.mark.parametrize(
    ("changes", "is_own"),
    [({}, True), ({"owner": "another"}, False), ({"epoch": 8}, False), ({"request_id": "n"}, False)],
)
def test_a_refused_commit_was_written_before_by_its_own_claim_alone(changes: dict[str, Any], is_own: bool) -> None:
    claim = Claim(asked().message, item(), None)
    found = item(done=True)._replace(**changes)
    assert is_claimed_by(claim, found) is is_own
    assert (refused_commit(claim, Commit(RUNNING, 1, 2, None, None), found) == Committed()) is is_own


def test_a_refused_commit_without_an_item_is_fenced() -> None:
    claim = Claim(asked().message, item(), None)
    assert refused_commit(claim, Commit(RUNNING, 1, 2, None, None), None) == (FencedBy.EXPIRED, None)


OLD, BETWEEN = Memo(RequestId("m"), 2, {}, 0), RequestId("between")


@pytest.mark.parametrize(
    ("before", "only_read", "expected"),
    [
        (item(memo=OLD, request_id=BETWEEN), False, True),
        (item(memo=OLD, request_id=BETWEEN), True, False),
        (item(memo=OLD._replace(hop=1), request_id=BETWEEN), False, False),
        (item(memo=OLD._replace(request_id=BETWEEN), request_id=BETWEEN), False, False),
        (item(request_id=BETWEEN), False, False),
        (item(memo=OLD), False, False),
        (None, False, False),
    ],
)
def test_a_claim_finds_what_an_earlier_run_under_its_id_has_done(
    before: RunItem | None, only_read: bool, expected: bool
) -> None:
    unwritten = asked() if only_read else None
    assert finds_old_memory(Claim(asked().message, item(memo=OLD), before, unwritten)) is expected


@pytest.mark.parametrize(
    ("before", "expected"), [(None, True), (item(request_id=RequestId("n")), True), (item(retry=0), False)]
)
def test_a_claim_takes_an_object_that_no_run_or_another_one_has(before: RunItem | None, expected: bool) -> None:
    assert takes_object(Claim(asked().message, item(), before)) is expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({"hop": 1, "redrive": 0}, 500), ({"hop": 2, "redrive": 0}, None), ({"hop": 1, "redrive": 1}, None)],
)
def test_a_first_hop_tells_runs_of_one_id_apart_by_the_commit_before(
    changes: dict[str, Any], expected: int | None
) -> None:
    assert committed_before(Claim(asked().message, item(**changes), None)) == expected


@pytest.mark.parametrize(
    ("changes", "kills"),
    [
        ({}, 3),
        ({"owner": Owner("mine")}, 0),
        ({"done": True}, 0),
        ({"back_off": BackOff(ErrorNote("Retry", "later", 1), NOW)}, 0),
        ({"request_id": RequestId("n")}, 0),
        ({"hop": 1}, 0),
        ({"redrive": 0}, 0),
        ({"retry": 0}, 0),
    ],
)
def test_whoever_left_the_attempt_as_it_was_claimed_was_killed(changes: dict[str, Any], kills: int) -> None:
    assert kills_before(item(kills=2, **changes), asked().message, Owner("mine")) == kills
    assert kills_before(None, asked().message) == 0


HERE: dict[str, Any] = {"retry": 3, "requested_at": 500, "redrive": 1, "done": False}


@pytest.mark.parametrize(
    ("noted", "changes", "is_in_place", "retry", "at"),
    [
        (3, {}, False, 3, 500),
        (2, {}, False, None, None),
        (None, {}, False, None, None),
        (None, {}, True, 3, 500),
        (3, {"done": True}, True, None, None),
        (1, {"retry": 1}, True, None, None),
        (3, {"hop": 3}, True, None, None),
        (3, {"redrive": 2}, True, None, None),
        (3, {"request_id": RequestId("n")}, True, None, None),
        (3, {"requested_at": 600}, False, 3, 500),
        (3, {"requested_at": 600, "hop": 1}, False, 3, 600),
        (1, {"requested_at": 600, "hop": 1, "retry": 1}, False, 1, 600),
        (None, {"requested_at": 600, "hop": 1, "retry": 1}, False, None, None),
        (1, {"hop": 1, "retry": 1}, False, None, None),
        (None, {"requested_at": 600, "hop": 1}, True, 3, 500),
        (3, {"requested_at": 400, "hop": 1}, False, 3, 500),
        (0, {"requested_at": 600, "hop": 1, "retry": 0}, False, None, None),
    ],
)
def test_a_message_goes_on_as_the_attempt_of_the_item_where_none_counts_it(
    noted: int | None, changes: dict[str, Any], *, is_in_place: bool, retry: int | None, at: int | None
) -> None:
    stands = item(**{**HERE, **changes})
    if noted is not None:
        stands = stands._replace(called_attempt=attempt_key(stands, noted))
    message = Message(
        "f",
        "s",
        1,
        ObjectId("o"),
        RequestId("m"),
        500,
        "{}",
        hop=1 if changes.get("hop") == 1 else 2,
        retry=1,
        redrive=1,
    )
    onward = goes_on_as(stands, message, is_in_place=is_in_place)
    assert onward == (None if retry is None or at is None else message._replace(retry=retry, requested_at=at))
    assert goes_on_as(None, message, is_in_place=is_in_place) is None


def test_what_is_noted_is_good_for_one_attempt_of_one_hop_of_one_request() -> None:
    stands = item(**HERE)
    others = [
        stands._replace(request_id=RequestId("n")),
        stands._replace(hop=3),
        stands._replace(redrive=2),
    ]
    assert len({attempt_key(each, 3) for each in (stands, *others)} | {attempt_key(stands, 4)}) == 5
    assert len(attempt_key(stands, 3)) <= 18
