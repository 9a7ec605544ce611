"""A request that is not carried out, because another has its object, is answered where it wants an answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from flowguard.events import EventType
from flowguard.flow import IGNORE, AnyFlow, Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.sim.calls import intercept
from tests.scene import START, Scene, Script, orders, scene, two_stages
from tests.worker.runtime.mishaps import Died, boom, dies_at
from tests.worker.runtime.test_callers import shared

ADDRESS = json.dumps({"flow": "carts", "object": "c", "request": "r", "at": 1, "hop": 1, "name": "priced"})
TOLD = {"reply_to": "sqs:completed"}
WAITED_FOR = {**TOLD, "answer_to": ADDRESS}


def patient(script: Script) -> AnyFlow:
    class Patient(Flow, name="patient", object_id="order_id", on_conflict=IGNORE):
        stages = two_stages(script)

    return Patient


def replies(at: Scene) -> set[tuple[str, str, str, str]]:
    """The answers: id, request, status, error."""
    found = set()
    for one in at.sent("completed"):
        body = json.loads(one["Body"])
        own = one["MessageAttributes"]["uniquerequestid"]["StringValue"]
        found.add((own, body["request_id"], body["status"], body.get("error", "")))
    return found


def ends(at: Scene) -> list[tuple[str, str]]:
    return sorted((request, status) for _, request, status, _ in replies(at))


def test_a_request_that_meets_a_run_at_work_is_told_that_it_is_ignored() -> None:
    with scene(patient) as at:
        at.deliver(at.message(flow="patient"))
        for _ in range(2):
            assert at.deliver(at.newer(flow="patient", **TOLD)) == [True]
        [(_, request, status, error)] = replies(at)
        assert (request, status) == ("run-2", "IGNORED")
        assert error == "Ignored: another request has the object, and its run has not ended"


def test_a_run_that_waits_for_an_ignored_request_gets_a_failure() -> None:
    with scene(patient) as at:
        at.deliver(at.message(flow="patient"))
        at.deliver(at.newer(flow="patient", **WAITED_FOR))
        [told] = at.sent("completed")
        place = json.loads(told["MessageAttributes"]["flowguard"]["StringValue"])
        assert place == {"answer": json.loads(ADDRESS)}


def test_a_run_that_waits_for_an_older_request_is_told_that_it_comes_too_late() -> None:
    with scene() as at:
        at.deliver(at.newer())
        assert at.deliver(at.message(**WAITED_FOR)) == [True]
        assert ends(at) == [("run-1", "SUPERSEDED")]


@pytest.mark.parametrize("more", [{}, TOLD])
def test_an_older_request_that_no_run_waits_for_may_be_a_copy_of_one_that_has_ended(more: Any) -> None:
    with scene() as at:
        at.deliver(at.newer())
        assert at.deliver(at.message(**more)) == [True]
        assert ends(at) == []


def test_a_later_hop_of_an_older_run_is_told_nothing() -> None:
    with scene() as at:
        at.deliver(at.message(**WAITED_FOR))
        at.deliver(at.newer())
        at.sent("completed")
        at.deliver(at.second(**WAITED_FOR))
        assert (at.told(EventType.SUPERSEDED), ends(at)) == (1, [])


def test_a_copy_of_a_request_at_work_is_told_nothing() -> None:
    with scene() as at:
        at.script.pricing = boom
        at.deliver(at.message(**WAITED_FOR, retry=1))
        at.deliver(at.message(**WAITED_FOR))
        assert (at.told(EventType.DUPLICATE), ends(at)) == (1, [])


def test_a_dead_worker_leaves_the_answer_to_the_next_delivery() -> None:
    with scene() as at:
        at.deliver(at.newer())
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            at.deliver(at.message(**WAITED_FOR))
        at.deliver(at.message(**WAITED_FOR))
        assert ends(at) == [("run-1", "SUPERSEDED")]


def test_an_end_that_was_not_sent_is_not_contradicted() -> None:
    """The worker of the older run died with its end unsent, and that of the newer one before it sent it."""
    with scene() as at:
        at.deliver(at.message(**WAITED_FOR))
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            at.deliver(at.second(**WAITED_FOR))
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            at.deliver(at.newer())
        at.deliver(at.message(**WAITED_FOR))
        assert ends(at) == []
        at.clock.advance(seconds=31)
        at.deliver(at.newer())
        assert set(ends(at)) == {("run-1", "COMPLETED")}


def test_a_request_that_is_noted_is_answered_by_the_run_that_took_its_object() -> None:
    with scene() as at:
        with intercept(dies_at("TransactWriteItems")), pytest.raises(Died):
            at.deliver(at.message(**WAITED_FOR))
        with intercept(dies_at("UpdateItem", after=True)), pytest.raises(Died):
            at.deliver(at.newer())
        at.deliver(at.message(**WAITED_FOR))
        assert ends(at) == []
        at.clock.advance(seconds=31)
        at.deliver(at.newer())
        assert ends(at) == [("run-1", "SUPERSEDED")]


def test_an_answer_by_the_newer_run_and_one_to_a_late_copy_have_one_id() -> None:
    with scene() as at:
        at.deliver(at.message(**WAITED_FOR))
        at.deliver(at.newer())
        at.deliver(at.message(**WAITED_FOR))
        assert {own for own, *_ in replies(at)} == {f"{at.message().hop_id}.end"}


def expire(at: Scene) -> None:
    key = {"pk": {"S": "run#orders#o1"}, "sk": {"S": "run"}}
    at.aws.client("dynamodb").delete_item(TableName="flowguard", Key=key)


def test_a_request_whose_item_expires_under_its_first_worker_is_carried_out_and_answered() -> None:
    with scene() as at:
        at.script.pricing = lambda step: expire(at)
        assert at.deliver(at.message(**TOLD)) == [False]
        at.script.pricing = lambda step: None
        assert at.deliver(at.message(**TOLD)) == [True]
        assert at.deliver(at.second(**TOLD)) == [True]
        assert set(ends(at)) == {("run-1", "COMPLETED")}


def test_what_can_have_no_run_is_a_dead_letter_and_no_answer() -> None:
    with scene() as at:
        assert at.deliver(at.message(object_id=ObjectId(""), body="{}", **WAITED_FOR)) == [True]
        assert (len(at.sent("dead")), replies(at)) == (1, set())


@pytest.mark.parametrize("flow", [orders, shared])
def test_a_request_that_wants_no_answer_is_told_nothing_when_its_item_has_expired(
    flow: Callable[[Script], AnyFlow],
) -> None:
    with scene(flow) as at:
        assert at.deliver(at.second()) == [True]
        assert (len(at.sent("dead")), replies(at)) == (1, set())


@pytest.mark.parametrize("told", [TOLD, WAITED_FOR])
@pytest.mark.parametrize("flow", [orders, shared])
def test_a_request_whose_item_expires_between_two_hops_is_told_so_where_that_does_no_harm(
    flow: Callable[[Script], AnyFlow], told: Any
) -> None:
    with scene(flow) as at:
        at.deliver(at.message(**told))
        expire(at)
        for _ in range(2):
            assert at.deliver(at.second(**told)) == [True]
        found = replies(at)
        if flow is orders and told is TOLD:
            assert found == set(), "it may have ended long ago, and have been answered so"
        else:
            [(own, request, status, error)] = found
            assert (request, status) == ("run-1", "FAILED")
            assert error == "RunFailed: the run's item has expired, and with it its state"
            assert own.endswith(".end")
        assert len(at.sent("dead")) == 2, "a copy each, under one id"


def test_a_later_request_than_the_ignored_one_is_carried_out() -> None:
    with scene(patient) as at:
        at.deliver(at.message(flow="patient"))
        at.deliver(at.second(flow="patient"))
        later = at.newer(flow="patient", request_id=RequestId("run-3"), requested_at=START + 60_000, **TOLD)
        at.clock.advance(seconds=61)
        at.deliver(later)
        assert ends(at) == []
