"""The run item after a granted claim: values, without a store."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.aws.items import read_item
from flowguard.errors import TextGone
from flowguard.names.ids import Owner, RequestId
from flowguard.protocol.callers import Callers, LeftEnd, StoredEnd
from flowguard.protocol.claims import taken
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.memo import Memo
from flowguard.protocol.outbox import Outbox
from flowguard.protocol.run import Cancellation, ClaimRequest, LeftState, RunItem, Status
from flowguard.protocol.waiting import Late
from flowguard.wire.message import ErrorNote
from tests.aws.states import OTHERS, STORED, item, request, wait

LATE = Late(1, frozenset("b"))
GONE = TextGone("bucket", "key", "NoSuchKey")


def stored() -> RunItem:
    found = read_item(item(1, "waiting", (0, 0), "over", "other", wait(waiting=(), answered=("a",))))
    return found._replace(outbox=Outbox(found.request_id, 1, ()), lost=GONE, late=LATE)


def test_the_hop_after_a_wait_keeps_it_with_the_outbox_of_the_hop_that_waited() -> None:
    asked = request(STORED, hop=2)
    resumed = taken(stored(), asked._replace(message=asked.message._replace(resumed=True)))
    assert (resumed.wait, resumed.outbox, resumed.lost) == (stored().wait, stored().outbox, GONE)
    assert resumed.late == LATE


def test_another_later_hop_leaves_the_outbox_behind() -> None:
    assert taken(stored(), request(STORED, hop=2)).outbox is None


def test_a_takeover_has_no_wait_and_the_outbox_of_the_run_before() -> None:
    found = taken(stored(), request(OTHERS["newer"]))
    assert (found.wait, found.outbox, found.lost, found.late) == (None, stored().outbox, None, None)


def left_end() -> LeftEnd:
    end = StoredEnd(RequestId("before"), 1, "COMPLETED", "7")
    return LeftEnd(end.request_id, end.committed_at, Callers("before"), lambda: end)


KEPT: dict[str, Any] = {
    "committed_at": 400,
    "left": LeftState(lambda: "{}", 2),
    "memo": Memo(RequestId("r"), 1, {}, 7),
    "failed": FailedHop(RequestId("r"), 1, 1, 0, ErrorNote("Reject", "no", 1)),
    "cancellation": Cancellation(RequestId("r"), 1, "a mistake"),
    "callers": Callers("open"),
    "answered": Callers("before"),
    "answered_by": RequestId("before"),
    "answered_key": "key",
    "askers": {"key": "text"},
    "reset_by": "reset",
    "first_message": "text",
    "history": "what happened",
    "full_history": True,
}
"""What every claim leaves as it finds it."""

OF_THE_FIRST, OF_LATER = request(OTHERS["newer"]), request(STORED, hop=2, attempt=(1, 2))


@pytest.mark.parametrize("asked", [OF_THE_FIRST, OF_LATER], ids=["first hop", "later hop"])
@pytest.mark.parametrize("name", KEPT)
def test_a_claim_leaves_what_is_not_of_its_message(name: str, asked: ClaimRequest) -> None:
    assert getattr(taken(stored()._replace(**KEPT), asked), name) == KEPT[name]
    nothing = RunItem._field_defaults.get(name, 0)
    assert getattr(taken(None, asked), name) == nothing


@pytest.mark.parametrize("asked", [OF_THE_FIRST, OF_LATER], ids=["first hop", "later hop"])
def test_a_claim_writes_what_its_message_says(asked: ClaimRequest) -> None:
    asked = asked._replace(message=asked.message._replace(version=2))
    m, found = asked.message, taken(stored(), asked)
    assert (found.request_id, found.requested_at, found.version) == (m.request_id, m.requested_at, m.version)
    assert (found.stage, found.hop, found.retry, found.redrive) == (m.stage, m.hop, m.retry, m.redrive)
    assert (found.status, found.done, found.ttl) == (Status.RUNNING, False, asked.expires_at // 1000)
    assert (found.owner, found.lease_until) == (Owner("mine"), asked.lease_until)
    assert (found.epoch, taken(None, asked).epoch) == (stored().epoch + 1, 1)


def test_the_text_of_a_first_hop_is_kept_until_its_commit() -> None:
    before = stored()._replace(first_text="of the run before")
    assert taken(before, OF_THE_FIRST).first_text == OF_THE_FIRST.message.text_digest
    assert taken(before, OF_LATER).first_text is None


def test_a_first_hop_names_its_own_stage_alone() -> None:
    assert taken(stored(), OF_THE_FIRST).stages == {"stage-1": "request-a"}
    assert taken(None, OF_THE_FIRST).stages == {"stage-1": "request-a"}
    assert taken(stored(), OF_LATER).stages == {"stage-1": STORED[1], "stage-2": STORED[1]}


def test_the_state_goes_on_within_its_run() -> None:
    assert taken(stored()._replace(state="{}"), OF_LATER).state == "{}"
    assert taken(stored()._replace(state="{}"), OF_THE_FIRST).state is None
    assert taken(None, OF_THE_FIRST).state is None


def test_the_end_of_the_run_before_is_there_for_a_first_hop() -> None:
    found = stored()._replace(left_end=left_end())
    assert (taken(found, OF_THE_FIRST).left_end, taken(found, OF_LATER).left_end) == (left_end(), None)
    assert taken(None, OF_THE_FIRST).left_end is None


@pytest.mark.parametrize(
    ("asked", "reset_at"),
    [
        (request(OTHERS["newer"], policy=OnConflict.ATTACH), None),
        (request(OTHERS["newer"], policy=OnConflict.IGNORE), 600),
        (request(STORED, hop=2, policy=OnConflict.ATTACH), 600),
    ],
)
def test_a_reset_is_over_with_the_first_hop_of_a_flow_that_takes_callers(
    asked: ClaimRequest, reset_at: int | None
) -> None:
    assert taken(stored()._replace(reset_at=600), asked).reset_at == reset_at
    assert taken(None, asked).reset_at is None


def test_a_claim_without_an_item_finds_neither_wait_nor_outbox() -> None:
    asked = request(STORED, hop=2)
    found = taken(None, asked._replace(message=asked.message._replace(resumed=True)))
    assert (found.outbox, found.wait, found.late, found.lost) == (None, None, None, None)
