"""Records of stages without a lease share a read and a commit, and end as they would have ended one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.events import EventType
from flowguard.flow import AnyFlow
from flowguard.names.ids import RequestId
from flowguard.protocol.run import Status
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.sim.moto import EmbeddedAWS
from flowguard.step import Step
from flowguard.testing.context import FakeContext
from flowguard.wire.message import Message
from tests.scene import OrderState, Scene, Script, scene
from tests.worker.test_together import (
    BATCH,
    UPDATE,
    fails_for,
    items,
    next_hops,
    order,
    orders,
    plain,
    taking,
    together,
)

READ, GET = "BatchGetItem", "GetItem"


def unleased(script: Script) -> AnyFlow:
    flow = plain(script)
    for stage in flow.stages:
        stage.lease = False
    return flow


def half_leased(script: Script) -> AnyFlow:
    """The first stage goes without a lease, the second one has it."""
    flow = plain(script)
    flow.stages[0].lease = False
    return flow


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene(unleased) as found:
        yield together(found)


def asked(at: Scene, number: int, name: str, later: int) -> Message:
    """Another request for the object, so many ms later."""
    return order(at, number, requested_at=order(at, number).requested_at + later)._replace(request_id=RequestId(name))


def statements(calls: Recorder) -> list[int]:
    return [len(call.params["Statements"]) for call in calls.calls if call.operation == BATCH]


def once_for(object_id: str, at: Scene, do: Callable[[], object]) -> None:
    """Something happens while this object's handler is at work for the first time."""

    def strike(step: Step[OrderState]) -> None:
        if step.object_id == object_id:
            at.script.pricing = lambda step: None
            do()

    at.script.pricing = strike


# -- how many calls ---------------------------------------------------------------------------------------------------


def test_ten_objects_take_a_read_and_a_write_whether_they_are_new_or_go_on(at: Scene) -> None:
    assert at.deliver(*orders(at, 10)) == [True] * 10
    assert at.calls == [READ, BATCH]
    assert len(at.sent("close-order")) == 10
    assert at.deliver(*next_hops(at, 5), *[order(at, number) for number in range(5, 15)]) == [True] * 15
    assert at.calls == [READ, BATCH], "some insert their item and others update it"
    statuses = [item.status for item in items(at, 15) if item is not None]
    assert statuses == [Status.COMPLETED] * 5 + [Status.RUNNING] * 10
    assert len(at.script.handled) == 20, "of repeats nothing is handled"


def test_repeats_are_a_read_alone(at: Scene) -> None:
    at.deliver(*orders(at, 3))
    assert at.deliver(*orders(at, 3)) == [True] * 3
    assert at.calls == [READ]
    assert at.told(EventType.DONE) == 3


def test_one_record_goes_as_it_goes_alone(at: Scene) -> None:
    assert at.deliver(order(at, 0)) == [True]
    assert at.calls == [GET, UPDATE]


def test_a_batch_ends_as_its_records_end_one_by_one() -> None:
    ends = []
    for shared in (False, True):
        with scene(unleased) as at:
            at.handler.together = shared
            at.script.pricing = fails_for("o2")
            acked = [at.deliver(*orders(at, 4)), at.deliver(*next_hops(at, 4)), at.deliver(*orders(at, 4))]
            sent = {queue: [one["Body"] for one in at.sent(queue)] for queue in ("emails", "close-order", "dead")}
            events = sorted(event.type.value for event in at.tally.events)
            ends.append((acked, items(at, 4), sent, events))
    assert ends[0] == ends[1]


def test_those_with_a_lease_and_those_without_share_their_commits() -> None:
    with scene(half_leased) as at:
        together(at)
        at.deliver(*orders(at, 2))
        with intercept(Recorder()) as calls:
            assert at.deliver(*next_hops(at, 2), order(at, 2), order(at, 3)) == [True] * 4
        assert at.calls == [READ, BATCH, BATCH]
        assert statements(calls) == [2, 4]


def test_one_of_its_kind_is_asked_for_alone_and_committed_with_the_others() -> None:
    with scene(half_leased) as at:
        together(at)
        at.deliver(*orders(at, 2))
        with intercept(Recorder()) as calls:
            assert at.deliver(*next_hops(at, 2), order(at, 2)) == [True] * 3
        assert sorted(at.calls) == [BATCH, BATCH, GET]
        assert statements(calls) == [2, 3]
        assert at.deliver(next_hops(at, 3)[2], order(at, 3), order(at, 4)) == [True] * 3
        assert sorted(at.calls) == sorted([READ, BATCH, UPDATE])


def test_records_of_one_object_are_read_in_turn(at: Scene) -> None:
    assert at.deliver(order(at, 0), order(at, 1), asked(at, 0, "run-0b", 1), order(at, 0)) == [True] * 4
    assert [name for name, _, _ in at.script.handled] == ["o0", "o1", "o0"]
    item = at.item("o0")
    assert item is not None
    assert item.request_id == "run-0b"
    assert at.told(EventType.STALE) == 1


# -- who comes meanwhile ----------------------------------------------------------------------------------------------


def test_who_has_done_the_same_work_is_found_and_harms_no_other(at: Scene) -> None:
    once_for("o1", at, lambda: at.deliver(order(at, 1)))
    assert at.deliver(*orders(at, 3)) == [True] * 3
    assert [name for name, _, _ in at.script.handled] == ["o0", "o1", "o1", "o2"]
    assert (at.told(EventType.FENCED), at.told(EventType.DONE)) == (1, 1)
    assert [item.epoch for item in map(at.item, ("o0", "o1", "o2")) if item is not None] == [1, 1, 1]


def test_who_was_overtaken_by_a_newer_request_is_done_with(at: Scene) -> None:
    once_for("o1", at, lambda: at.deliver(asked(at, 1, "newer", 1)))
    assert at.deliver(*orders(at, 3)) == [True] * 3
    item = at.item("o1")
    assert item is not None
    assert (item.request_id, at.told(EventType.STALE), len(at.sent("close-order"))) == ("newer", 1, 3)


@pytest.mark.parametrize("there", [False, True])
def test_whose_hop_is_still_open_is_claimed_and_handled_again(at: Scene, there: bool) -> None:
    """The item was inserted or changed by an older request, which takes nothing from a newer one."""
    if there:
        oldest = asked(at, 1, "oldest", -2)
        at.deliver(oldest)
        at.deliver(oldest._replace(stage="close-order", hop=2, body='{"total":7}'))
        at.script.handled.clear()
    once_for("o1", at, lambda: at.deliver(asked(at, 1, "older", -1)))
    with intercept(Recorder()) as calls:
        assert at.deliver(*orders(at, 3)) == [True] * 3
    assert [request for name, request, _ in at.script.handled if name == "o1"] == ["run-1", "older", "run-1"]
    made = [call.operation for call in calls.calls if call.service == "dynamodb"]
    mine = [READ, GET, UPDATE, BATCH]  # the older one goes alone in the middle
    assert made == ([*mine, UPDATE, UPDATE] if there else [*mine, UPDATE, UPDATE, UPDATE])
    item = at.item("o1")
    assert item is not None
    assert (item.request_id, item.done, at.told(EventType.FENCED)) == ("run-1", True, 0)


def test_whose_hop_is_open_and_has_no_time_left_is_returned(at: Scene) -> None:
    once_for("o1", at, lambda: at.deliver(asked(at, 1, "older", -1)))
    context = FakeContext(timeout=timedelta(seconds=10), clock=at.clock)

    def slow(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == BATCH:
            at.clock.advance(ms=9_500)
        return proceed()

    with intercept(slow):
        assert at.deliver(*orders(at, 3), context=context) == [True, False, True]
    assert at.told(EventType.RETURNED) == 1
    assert at.deliver(order(at, 1)) == [True]
    item = at.item("o1")
    assert item is not None
    assert item.request_id == "run-1"


def test_a_run_at_work_is_claimed_before_it_loses_its_object(at: Scene) -> None:
    at.deliver(*orders(at, 3))
    assert at.deliver(next_hops(at, 1)[0], asked(at, 1, "newer", 1), next_hops(at, 3)[2]) == [True] * 3
    assert at.calls == [READ, UPDATE, BATCH]
    assert at.told(EventType.TOOK_OVER) == 1


# -- what is read does not hold for ever -------------------------------------------------------------------------------


@pytest.mark.parametrize(("ms", "calls"), [(-1, [READ, BATCH]), (0, [READ, BATCH, *[UPDATE] * 2])])
def test_who_has_read_no_item_claims_it_when_one_may_have_been_there_since(
    at: Scene, ms: int, calls: list[str]
) -> None:
    at.deliver(order(at, 3), order(at, 4))
    retention = at.flow.retention // timedelta(milliseconds=1)

    def stall(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        if call.operation == READ:
            at.clock.advance(ms=retention + ms)
        return answer

    context = FakeContext(timeout=timedelta(days=100), clock=at.clock)  # else they would be read again
    with intercept(stall):
        assert at.deliver(*orders(at, 2), *next_hops(at, 5)[3:], context=context) == [True] * 4
    assert sorted(at.calls) == sorted(calls)
    assert len(at.script.handled) == 2 + 4 + (0 if ms else 2)
    assert [item.done for item in items(at, 5) if item is not None] == [True] * 4


def test_a_read_that_is_old_is_made_again(at: Scene) -> None:
    at.script.pricing = taking(at, 1, 15_001, 1)
    assert at.deliver(*orders(at, 3)) == [True] * 3
    assert at.calls == [READ, BATCH, GET, UPDATE]


def test_what_was_read_and_not_begun_has_nothing_to_give_back(at: Scene) -> None:
    context = FakeContext(timeout=timedelta(seconds=10), clock=at.clock)
    at.script.pricing = taking(at, 9_100)
    assert at.deliver(*orders(at, 3), context=context) == [True, False, False]
    assert at.calls == [READ, UPDATE]
    assert at.told(EventType.RETURNED) == 2


# -- what fails -------------------------------------------------------------------------------------------------------


def test_where_the_engine_has_no_statements_only_the_commits_are_made_alone() -> None:
    with scene(unleased, engine=EmbeddedAWS) as at:
        together(at)
        assert at.deliver(*orders(at, 2)) == [True] * 2
        assert at.calls == [READ, BATCH, UPDATE, UPDATE]
        assert at.deliver(*next_hops(at, 2)) == [True] * 2
        assert at.calls == [READ, UPDATE, UPDATE]


def test_where_the_role_may_not_read_in_batches_only_the_reads_are_made_alone(at: Scene) -> None:
    def deny(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == READ:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, READ)
        return proceed()

    with intercept(deny):
        assert at.deliver(*orders(at, 2)) == [True] * 2
        assert at.calls == [GET, GET, BATCH], "what is denied here is not counted"
        assert at.deliver(*next_hops(at, 2)) == [True] * 2
        assert at.calls == [GET, GET, BATCH]


def test_what_a_read_leaves_unprocessed_is_read_again_and_harms_no_other(at: Scene) -> None:
    met: list[None] = []

    def partly(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != READ:
            return proceed()
        met.append(None)
        asked: Any = call.params["RequestItems"]["flowguard"]
        if len(met) > 1:
            assert len(asked["Keys"]) == 1
            return proceed()
        left = asked["Keys"].pop(1)
        return {**proceed(), "UnprocessedKeys": {"flowguard": {**asked, "Keys": [left]}}}

    with intercept(partly):
        assert at.deliver(*orders(at, 3)) == [True] * 3
    assert at.calls == [READ, READ, BATCH]
    assert len(at.sent("close-order")) == 3


def test_recorded_writes_are_transactions_of_their_own() -> None:
    with scene() as at:
        together(at)
        for stage in at.flow.stages:
            stage.lease = False
        assert at.deliver(*orders(at, 3)) == [True] * 3
        assert at.calls == [READ, *["TransactWriteItems"] * 3]
        assert at.priced() == 1
