"""What a run item and a commit say of themselves."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.destinations import Queue
from flowguard.items.writes import Delete
from flowguard.names.ids import RequestId
from flowguard.protocol.outbox import Kind, Outbox, Send
from flowguard.protocol.run import Commit, NewWait, Status
from flowguard.protocol.waiting import Wait, WaitPlan
from tests.protocol.run_items import run_item

SEND = Send(Kind.SIDE, Queue("q"), "{}", "r.1.0")


@pytest.mark.parametrize(
    ("status", "takes_callers", "closes", "leaves_first_message"),
    [
        (Status.COMPLETED, True, True, False),
        (Status.FAILED, True, True, True),
        (Status.RUNNING, True, False, True),
        (Status.WAITING, True, False, True),
        (Status.COMPLETED, False, False, True),
    ],
)
def test_the_end_of_a_run_that_takes_callers_closes_their_list(
    status: Status, takes_callers: bool, closes: bool, leaves_first_message: bool
) -> None:
    commit = Commit(status, 1, 2, None, None, takes_callers=takes_callers)
    assert (commit.closes_list, commit.leaves_first_message) == (closes, leaves_first_message)


@pytest.mark.parametrize(
    ("about", "several"), [({}, False), ({"writes": (Delete("t", {"id": "1"}),)}, True), ({"told_until": 0}, True)]
)
def test_a_commit_that_writes_beside_the_item_is_a_transaction(about: Any, several: bool) -> None:
    assert Commit(Status.RUNNING, 1, 2, None, None, **about).is_transaction is several


def test_a_wait_begins_with_all_that_its_plan_names() -> None:
    plan = WaitPlan("stage-2", {"a": None, "b": None})
    assert NewWait(plan, 1, 9).begun() == Wait(frozenset("ab"), 1, 9, plan=plan)


@pytest.mark.parametrize(("hop", "outbox", "sends"), [(2, True, (SEND,)), (2, False, ()), (3, True, ())])
def test_a_hop_has_unsent_what_its_own_outbox_holds(hop: int, outbox: bool, sends: tuple[Send, ...]) -> None:
    item = run_item(outbox=Outbox(RequestId("r"), 1, (SEND,)) if outbox else None)
    assert item.unsent_at(hop) == sends
