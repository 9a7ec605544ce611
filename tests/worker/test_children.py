"""The requests that are cancelled with a run: which they are, and what each says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard.clock import ManualClock
from flowguard.destinations import Queue
from flowguard.flow import Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.group_cancel import GroupCancelOrder
from flowguard.protocol.groups import GroupPlan, Member
from flowguard.protocol.outbox import Kind
from flowguard.protocol.run import Cancellation, RunItem, Status
from flowguard.protocol.run_orders import read_order
from flowguard.protocol.waiting import Child, Wait, WaitPlan
from flowguard.recorded.side_messages import Needless
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import PLACE, REQUEST_ID, REQUESTED_AT, ErrorNote, Message
from flowguard.wire.signing import UNSIGNED, Keyring, Keys, KeySigner, statement
from flowguard.worker.children import cancelled_requests, children_cancelled
from tests.protocol.run_items import run_item
from tests.waits import STAGES, record

SIGNER = KeySigner(Keyring(lambda: Keys.parse("k1:" + "x" * 32), ManualClock()))
A = Child("sqs:searches.fifo", "search", "searched", 3, "s1", "run-1.4", 700)
B = Child("sqs:others", "other", "first", 1, "s2", "run-1.5", 700)
PLAN = WaitPlan("end", {"b": None, "a": None, "c": None}, asked=frozenset("abc"), children={"b": B, "a": A})


class Carts(Flow, name="carts", object_id="cart_id", answers="answers", carry=("tenant",)):
    stages = STAGES


MESSAGE = Message(
    flow="carts",
    stage="end",
    version=1,
    object_id=ObjectId("c1"),
    request_id=RequestId("run-1"),
    requested_at=500,
    body="{}",
    hop=2,
    resumed=True,
    carried={"tenant": Attribute.string("north")},
)
CANCELLED = Cancellation(RequestId("run-1"), 900, "a mistake")


def run(**changes: Any) -> RunItem:
    """The item of a cancelled run, claimed for the hop after its wait."""
    wait = Wait(frozenset("abc"), 0, 1_000, timed_out=True, plan=PLAN)
    item = run_item(request_id=RequestId("run-1"), requested_at=500, done=False, wait=wait, cancellation=CANCELLED)
    return item._replace(**changes)


def cancelled(**changes: Any) -> list[str]:
    return [str(send.to) for send in cancelled_requests(Carts, MESSAGE, run(**changes), UNSIGNED)]


def test_each_request_is_sent_once_more_as_cancelled_and_carries_what_its_first_one_did() -> None:
    one, other = cancelled_requests(Carts, MESSAGE, run(), UNSIGNED)
    assert (one.kind, one.to, one.body, one.group) == (Kind.SIDE, Queue("searches.fifo"), "cancelled", "s1")
    assert (one.id, other.id) == (f"{MESSAGE.hop_id}.cancel0", f"{MESSAGE.hop_id}.cancel1")
    assert one.attributes["tenant"] == Attribute.string("north")
    assert (one.attributes[REQUEST_ID].value, one.attributes[REQUESTED_AT].value) == ("run-1.4", "700")
    place = json.loads(one.attributes[PLACE].value)
    assert place == {"version": 3, "hop": 1, "object": "s1", "cancelled": "a mistake", "depth": 1}


def test_it_is_signed_where_messages_are() -> None:
    one, _ = cancelled_requests(Carts, MESSAGE, run(), SIGNER)
    own = ObjectId("s1"), RequestId("run-1.4")
    m = Message("search", "searched", 3, *own, 700, "cancelled", cancelled="a mistake", depth=1)
    assert (
        SIGNER.problem(statement(m, version=3, object_id="s1"), json.loads(one.attributes[PLACE].value)["sig"]) is None
    )


def test_what_has_answered_is_not_among_them() -> None:
    answered = Wait(frozenset("ac"), 0, 1_000, timed_out=True, plan=PLAN)
    assert cancelled() == ["sqs:searches.fifo", "sqs:others"]
    assert cancelled(wait=answered) == ["sqs:searches.fifo"]


FAILED = FailedHop(RequestId("run-1"), 500, 1, 0, ErrorNote("Reject", "no", 1))


@pytest.mark.parametrize(
    "changes",
    [
        {"cancellation": None},
        {"cancellation": CANCELLED._replace(request_id=RequestId("run-0"))},
        {"wait": None},
        {"wait": Wait(frozenset("abc"), 0, 1_000)},
        {"failed": FAILED, "status": Status.RUNNING},
    ],
    ids=["not cancelled", "another run is", "it waits for nothing", "a wait whose plan is not read", "it is undone"],
)
def test_other_runs_cancel_nobody(changes: dict[str, Any]) -> None:
    assert cancelled(**changes) == []


def test_a_stage_may_cancel_those_of_a_run_that_goes_on() -> None:
    going_on = run(cancellation=None)
    sends, _ = children_cancelled(Carts, MESSAGE, going_on, "too late", UNSIGNED)
    assert [str(send.to) for send in sends] == ["sqs:searches.fifo", "sqs:others"]
    assert json.loads(sends[0].attributes[PLACE].value)["cancelled"] == "too late"
    assert [send.id for send in sends] == [send.id for send in cancelled_requests(Carts, MESSAGE, run(), UNSIGNED)]
    assert children_cancelled(Carts, MESSAGE, run(wait=None), "too late", UNSIGNED) == Needless((), 0)
    assert children_cancelled(
        Carts, MESSAGE, run(wait=Wait(frozenset("abc"), 0, 1_000)), "too late", UNSIGNED
    ) == Needless((), 0)


GROUP = GroupPlan("g-1<3 g-2", 2_000, "sqs:searches", 700, "search", "searched", 3)


def of_group(asked: int = 0, asking: int = 10, **changes: Any) -> Wait:
    """A wait for a group of 2,000 requests, of which so many shards were asked, and may have been."""
    plan = WaitPlan("end", {}, group=GROUP, cancels_group=True)._replace(**changes)
    return Wait(frozenset("01"), 0, 1_000, timed_out=True, plan=plan, asked=asked, asking=asking)


def test_the_runs_of_a_group_are_cancelled_by_an_order_to_the_flow_itself() -> None:
    [send] = cancelled_requests(Carts, MESSAGE, run(wait=of_group()), SIGNER)
    assert (send.kind, send.to) == (Kind.SIDE, Queue("answers"))
    assert send.id == MESSAGE._replace(hop=1).hop_id + ".group.0.0.stop"
    assert send.attributes["tenant"] == Attribute.string("north")
    [envelope] = normalize({"Records": [record(send.attributes, send.body, "answers")]})
    assert isinstance(envelope, Envelope)
    order = read_order(envelope)
    assert isinstance(order, GroupCancelOrder)
    address = AnswerAddress("carts", ObjectId("c1"), RequestId("run-1"), 500, 1, "group.0.0")
    assert order._replace(address=order.address._replace(signature=None)) == GroupCancelOrder(
        address, Member(0, 0), GROUP, 10, "a mistake", 0, None, MESSAGE.carried
    )
    assert SIGNER.problem(order.statement, order.address.signature) is None
    assert json.loads(order.statement)[0] == "cancel_group", "it cannot be taken for the signature of anything else"
    assert SIGNER.problem(order._replace(why="another").statement, order.address.signature) is not None


@pytest.mark.parametrize(
    ("asked", "asking", "end", "runs"),
    [(0, 10, 10, 990), (10, 10, 10, 990), (10, 20, 20, 1_980), (20, 21, 21, 2_000), (20, 10, 20, 1_980)],
)
def test_only_those_that_may_have_been_asked_are_cancelled(asked: int, asking: int, end: int, runs: int) -> None:
    """The message of one turn may be asking just now. A release that notes no turn's begin asked the last ones."""
    sends, number = children_cancelled(Carts, MESSAGE, run(wait=of_group(asked, asking)), "too late", UNSIGNED)
    [place] = [json.loads(send.attributes[PLACE].value)["cancel_group"]["rest"] for send in sends]
    assert (place[1], number) == (end, runs)


def test_where_nothing_was_asked_nothing_is_cancelled() -> None:
    assert children_cancelled(Carts, MESSAGE, run(wait=of_group(0, 0)), "too late", UNSIGNED) == Needless((), 0)


@pytest.mark.parametrize("changes", [{"cancels_group": False}, {"group": None}])
def test_a_group_that_was_asked_without_cancel_too_goes_on(changes: dict[str, Any]) -> None:
    assert cancelled(wait=of_group(**changes)) == []


def test_a_release_that_knows_no_groups_to_cancel_reads_the_plan_as_it_was() -> None:
    """What is new stands at the end of the row, and only where it is said."""
    plan = of_group().plan
    assert plan is not None
    assert WaitPlan.from_text(plan.to_text()) == plan
    plain = plan._replace(cancels_group=False)
    assert WaitPlan.from_text(plain.to_text()) == plain
    assert len(json.loads(plain.to_text())) < len(json.loads(plan.to_text()))
