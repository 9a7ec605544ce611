"""A hop that is only read and then committed leaves what a claim and its commit leave, in every small state."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, product
from typing import Any

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.items import run_key
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.run import Claim, Commit, Committed, NewWait, Refused, Status
from flowguard.protocol.waiting import WaitPlan
from flowguard.settings import Settings
from flowguard.verdicts import Verdict
from flowguard.wire.message import ErrorNote
from tests.aws.engines import EVERY_STATE, on_memory
from tests.aws.states import NOW, STORED, Meeting, item, late, meetings, request, wait
from tests.aws.store.run import commit, meet
from tests.aws.test_claims_agree import decided

MEETINGS = tuple(one for one in meetings() if one.request.on_conflict is OnConflict.SUPERSEDE)
OPEN = tuple(one for one in MEETINGS if decided(one) is Verdict.CLAIMED)
_ERROR = ErrorNote("Reject", "no", NOW)
_PLAN = WaitPlan("next", {"a": None})
ENDS = ("running", "completed", "failed", "waiting", "given up", "undone", "without a state")


def ending(kind: str, claim: Claim) -> Commit:
    m = claim.message
    match kind:
        case "completed":
            return commit(status=Status.COMPLETED, result='"done"', outbox=None)
        case "failed":
            return commit(status=Status.FAILED, error=_ERROR, state=None)
        case "waiting":
            return commit(status=Status.WAITING, wait=NewWait(_PLAN, 0, NOW + 9))
        case "given up":
            failed = FailedHop(m.request_id, m.requested_at, m.hop, m.redrive, _ERROR)
            return commit(state=None, failed=failed)
        case "undone" if claim.item.own_failure is not None:
            return commit(status=Status.FAILED, error=_ERROR, undone=True)
        case "without a state":
            return commit(state=None)
        case _:
            return commit()


def raw(clients: Clients) -> Any:
    return clients.dynamodb.get_item(TableName="flowguard", Key=run_key("flow", "object")).get("Item")  # type: ignore[arg-type] # ids are texts


def claimed_and_committed(clients: Clients, store: DynamoDBStore, meeting: Meeting, kind: str) -> Any:
    meet(clients, meeting.item)
    claim = store.claim(meeting.request)
    assert isinstance(claim, Claim)
    assert store.commit(claim, ending(kind, claim)) == Committed()
    return raw(clients)


def read_and_committed(clients: Clients, store: DynamoDBStore, meeting: Meeting, kind: str) -> Any:
    meet(clients, meeting.item)
    claim = store.judge(meeting.request)
    assert isinstance(claim, Claim)
    assert raw(clients) == meeting.item, "reading changes nothing"
    assert store.commit(claim, ending(kind, claim)) == Committed()
    return raw(clients)


def said_in_batches(clients: Clients, store: DynamoDBStore, meeting: Meeting, kind: str) -> Any:
    meet(clients, meeting.item)
    [claim] = store.batches.judge([meeting.request])
    assert isinstance(claim, Claim)
    assert store.batches.commit([(claim, ending(kind, claim))]) == [Committed()]
    return raw(clients)


def _agree(clients: Clients, cases: Iterator[tuple[Meeting, str]], *, statements: bool = True) -> None:
    store = aws_store(Settings(), clients)
    for meeting, kind in cases:
        there = claimed_and_committed(clients, store, meeting, kind)
        assert read_and_committed(clients, store, meeting, kind) == there, f"{meeting.says}, {kind}"
        if statements:
            assert said_in_batches(clients, store, meeting, kind) == there, f"{meeting.says}, {kind}"


def _telling() -> Iterator[Meeting]:
    """States in which each part of what a claim writes is seen, for requests that ask for a reply."""
    ended = {**item(3, "completed", (0, 0), "over", "other"), **late(2, "gone"), "result": {"S": '"old"'}}
    waited = {**item(1, "waiting", (0, 0), "over", "other", waits=wait(timed_out=True))}
    for says, there, asked in (
        ("no item", None, request(STORED)),
        ("another run has ended", ended, request((501, "request-a"))),
        ("another run waits", waited, request((501, "request-a"))),
        ("the hop before is committed", item(1, "done", (0, 0), "over", "other"), request(STORED, hop=2)),
        ("its wait is over", waited, request(STORED, hop=2)),
        (
            "a dead letter comes back",
            item(2, "failed", (0, 0), "over", "other"),
            request(STORED, hop=2, attempt=(1, 0)),
        ),
    ):
        yield Meeting(says, there, asked._replace(message=asked.message._replace(reply_to="sqs:replies")))


def test_a_hop_without_a_lease_leaves_the_item_that_it_leaves_with_one() -> None:
    with on_memory() as clients:
        _agree(clients, product(_telling(), ENDS))


@pytest.mark.proof("some thousand calls")
@pytest.mark.parametrize("clients", EVERY_STATE, indirect=True)
def test_on_each_engine_a_hop_leaves_the_same_item(clients: Clients) -> None:
    statements = not clients.dynamodb.meta.endpoint_url.endswith(
        "amazonaws.com"
    )  # moto has none, the memory's are above
    _agree(clients, zip(OPEN[::5], cycle(ENDS), strict=False), statements=statements)


@pytest.mark.parametrize("clients", EVERY_STATE, indirect=True)
@pytest.mark.parametrize("change", ["request_id", "epoch", "owner", "done", None])
def test_a_commit_by_statement_is_refused_where_what_was_read_has_changed(clients: Clients, change: str | None) -> None:
    """``None``: there was no item, and now there is one."""
    store = aws_store(Settings(), clients)
    there = item(1, "done", (0, 0), "over", "other")
    meet(clients, there if change else None)
    asked = request(STORED, hop=2) if change else request(STORED)
    [claim] = store.batches.judge([asked])
    assert isinstance(claim, Claim)
    changes: dict[str, Any] = {"epoch": {"N": "99"}, "done": {"BOOL": False}}
    now = {**there, change: changes.get(change, {"S": "stranger"})} if change else there
    meet(clients, now)
    [answer] = store.batches.commit([(claim, commit())])
    assert not isinstance(answer, Committed)
    assert raw(clients) == now


def test_what_is_read_is_judged_as_a_claim_is() -> None:
    with on_memory() as clients:
        store = aws_store(Settings(), clients)
        for meeting in MEETINGS[::7]:
            meet(clients, meeting.item)
            found = store.judge(meeting.request)
            assert (found.verdict if isinstance(found, Refused) else Verdict.CLAIMED) is decided(meeting), meeting.says
