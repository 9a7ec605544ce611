"""The Complete messages that answer requests: what each says, for each end that there is, and what no way takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard.destinations import Queue
from flowguard.errors import Reject
from flowguard.flow import ATTACH, IGNORE, AnyFlow, Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.callers import Caller, StoredEnd
from flowguard.protocol.outbox import Kind, largest
from flowguard.verdicts import Verdict
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import PLACE, REQUEST_ID, REQUESTED_AT
from flowguard.worker.replies import answer_place, end_body, not_carried_out, reply, takes_callers
from tests.scene import Orders, Script, two_stages


class Shared(Flow, name="shared", object_id="order_id", on_conflict=ATTACH):
    stages = two_stages(Script())


class Patient(Flow, name="patient", object_id="order_id", on_conflict=IGNORE):
    stages = two_stages(Script())


OBJECT = ObjectId("o1")
CALLER = Caller(RequestId("caller-1"), 500, "sqs:replies")
END = StoredEnd(RequestId("run-1"), 2_000, "COMPLETED", '{"total":7}')


@pytest.mark.parametrize(("flow", "takes"), [(Shared, True), (Orders, False), (Patient, False)])
def test_only_a_flow_under_attach_answers_callers_with_its_end(flow: AnyFlow, takes: bool) -> None:
    assert takes_callers(flow) is takes


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ({}, {"result": {"total": 7}}),
        ({"result": None}, {"result": None}),
        ({"result": None, "error": "Boom: no"}, {"error": "Boom: no"}),
        ({"error": "Boom: no"}, {"error": "Boom: no", "result": {"total": 7}}),
    ],
    ids=["done", "done without a result", "failed", "failed and undone with a result"],
)
def test_an_answer_says_what_there_is_of_the_end(end: dict[str, Any], says: dict[str, Any]) -> None:
    body = json.loads(end_body(Orders, OBJECT, RequestId("caller-1"), END._replace(**end)))
    about = {"flow": "orders", "object_id": "o1", "request_id": "caller-1", "status": "COMPLETED"}
    assert body == {**about, **says}


def test_an_answer_by_another_ones_run_says_whose() -> None:
    assert json.loads(end_body(Shared, OBJECT, RequestId("caller-1"), END))["run"] == "run-1"


def test_an_answer_is_named_after_its_request_and_dated_by_the_end() -> None:
    send = reply(Shared, OBJECT, CALLER._replace(carried={"tenant": Attribute.string("shop-1")}), END)
    own = CALLER.reply_id("shared", OBJECT)
    assert (send.kind, send.to, send.id, send.group) == (Kind.COMPLETE, Queue("replies"), own, OBJECT)
    assert json.loads(send.body)["result"] == {"total": 7}
    assert send.attributes == {
        REQUEST_ID: Attribute.string(own),
        REQUESTED_AT: Attribute.number(2_000),
        PLACE: Attribute.string('{"depth":1}'),
        "tenant": Attribute.string("shop-1"),
    }


def test_an_answer_to_a_run_that_waits_says_what_for() -> None:
    send = reply(Shared, OBJECT, CALLER._replace(answer_to='{"name":"priced"}'), END)
    assert send.attributes[PLACE] == Attribute.string('{"answer":{"name":"priced"}}')
    assert answer_place(Shared, None, CALLER._replace(depth=3)) == {PLACE: Attribute.string('{"depth":4}')}


def test_a_result_that_is_too_large_for_its_way_is_a_failure_that_says_so() -> None:
    send = reply(Shared, OBJECT, CALLER, END._replace(result=json.dumps("x" * largest(Queue("replies")))))
    body = json.loads(send.body)
    assert (body["status"], "result" in body) == ("FAILED", False)
    assert body["error"].startswith("TooLarge: the result cannot be sent: ")
    assert len(body["error"]) < 300


def test_a_caller_whom_nothing_can_be_sent_is_refused() -> None:
    with pytest.raises(Reject):
        reply(Shared, OBJECT, CALLER._replace(carried={"tenant": Attribute.string("\0")}), END)


@pytest.mark.parametrize(
    ("verdict", "status", "error"),
    [
        (Verdict.IGNORED, "IGNORED", "Ignored: another request has the object, and its run has not ended"),
        (Verdict.STALE, "SUPERSEDED", "Superseded: a newer request has the object"),
    ],
)
def test_a_request_that_is_not_carried_out_ends_at_its_own_time(verdict: Verdict, status: str, error: str) -> None:
    assert not_carried_out(CALLER, verdict) == StoredEnd(RequestId("caller-1"), 500, status, error=error)
