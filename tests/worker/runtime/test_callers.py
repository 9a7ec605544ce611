"""Requests that meet a run of another request and are answered with its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from flowguard.aws.items import number, run_key
from flowguard.errors import Reject
from flowguard.events import EventType
from flowguard.flow import ATTACH, AnyFlow, Flow
from flowguard.handler import LambdaHandler
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.callers import MOST_HELD, Caller
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.step import Step
from flowguard.wire.message import Message
from tests.scene import START, OrderState, Scene, Script, record, scene, two_stages
from tests.worker.runtime.mishaps import Died, dies_at


def shared(script: Script) -> AnyFlow:
    class Shared(
        Flow, name="orders", object_id="order_id", on_conflict=ATTACH, dead_letters="dead", trust_senders=True
    ):
        stages = two_stages(script)

    return Shared


def caller(at: Scene, number: int = 0, **changes: Any) -> Message:
    """A request of its own for the same object, which wants an answer."""
    said = {
        "request_id": RequestId(f"caller-{number}"),
        "requested_at": START - 500 + number,
        "reply_to": "sqs:completed",
    }
    return at.message(**{**said, **changes})


def answers(at: Scene) -> list[tuple[str, str, str]]:
    """The answers that were sent: to which request, of which run, how it ended. Copies have one id and one text."""
    sent = {(one["MessageAttributes"]["uniquerequestid"]["StringValue"], one["Body"]) for one in at.sent("completed")}
    bodies = [json.loads(body) for _, body in sent]
    assert len({body["request_id"] for body in bodies}) == len(bodies), "each caller gets one answer"
    return sorted((body["request_id"], body["run"], body["status"]) for body in bodies)


def test_a_request_that_meets_a_run_at_work_is_answered_with_its_end_by_one_write_more() -> None:
    with scene(shared) as at:
        at.deliver(at.message(reply_to="sqs:completed"))
        assert at.deliver(caller(at)) == [True]
        assert at.calls == ["UpdateItem", "UpdateItem"]
        assert answers(at) == [], "nobody is answered before the run has ended"
        at.deliver(at.second(reply_to="sqs:completed"))
        assert answers(at) == [("caller-0", "run-1", "COMPLETED"), ("run-1", "run-1", "COMPLETED")]
        assert (at.priced(), at.told(EventType.ATTACHED)) == (1, 1)


def test_a_direct_caller_who_is_given_an_end_that_is_kept_is_told_why_the_run_has_failed() -> None:
    def refuse(step: Step[OrderState]) -> None:
        raise Reject("no such order")

    with scene(shared) as at:
        at.script.pricing = refuse
        at.deliver(at.message())
        received = {**record(caller(at)), "eventSource": "aws:lambda", "eventSourceARN": None}
        answer = at.handler({"Records": [received]}, None)
    assert (answer["verdict"], answer["problem"]) == ("KEPT", "Reject: no such order")


def test_an_older_request_that_comes_late_is_answered_too() -> None:
    with scene(shared) as at:
        at.deliver(at.message())
        at.deliver(caller(at, requested_at=START - 5_000))
        at.deliver(at.second())
        assert answers(at) == [("caller-0", "run-1", "COMPLETED")]


def test_a_request_from_before_the_end_is_answered_from_the_claim_alone() -> None:
    with scene(shared) as at:
        at.deliver(at.message())
        at.deliver(at.second())
        assert at.deliver(caller(at)) == [True]
        assert at.calls == ["UpdateItem"]
        assert answers(at) == [("caller-0", "run-1", "COMPLETED")]
        assert at.told(EventType.KEPT) == 1


def test_a_request_from_after_the_end_is_carried_out() -> None:
    with scene(shared) as at:
        at.deliver(at.message())
        at.deliver(at.second())
        at.deliver(caller(at, requested_at=START + 1_000))
        assert at.priced() == 2


def test_a_failed_run_says_so_to_its_callers_and_is_not_kept() -> None:
    def reject(step: Step[OrderState]) -> None:
        raise Reject("no such order")

    with scene(shared) as at:
        at.deliver(at.message())
        at.deliver(caller(at))
        at.script.closing = reject
        at.deliver(at.second())
        at.deliver(caller(at, 1))
        assert answers(at) == [("caller-0", "run-1", "FAILED"), ("caller-1", "run-1", "FAILED")]
        at.deliver(caller(at, 2, requested_at=START + 1_000))
        assert at.priced() == 2


def test_a_copy_that_comes_when_a_later_run_has_ended_is_answered_again_with_that_end() -> None:
    """Its item knows the callers of its last run alone. The id is the one before, by which a receiver drops it."""

    def reject_first(step: Step[OrderState]) -> None:
        if step.request_id == "run-1":
            raise Reject("no such order")

    with scene(shared) as at:
        at.script.closing = reject_first
        at.deliver(at.message())
        at.deliver(caller(at))
        at.deliver(at.second())
        at.clock.advance(seconds=2)
        later: Any = {"request_id": RequestId("run-2"), "requested_at": START + 1_000}
        at.deliver(at.message(**later))
        at.deliver(at.second(**later))
        handled = len(at.script.handled)
        assert at.deliver(caller(at)) == [True]
        assert len(at.script.handled) == handled
        (first, before), (again, after) = dict.fromkeys(told(at, "completed"))
        assert (first == again, before, after) == (True, "FAILED", "COMPLETED")


def told(at: Scene, queue: str) -> list[tuple[str, str]]:
    """The ids of the answers in a queue, and what they say."""
    return [
        (one["MessageAttributes"]["uniquerequestid"]["StringValue"], json.loads(one["Body"])["status"])
        for one in at.sent(queue)
    ]


def answer_id(request: Message) -> str:
    found = Caller.of(request)
    assert found is not None
    return found.reply_id(request.flow, request.object_id)


REPEATED: dict[str, dict[str, Any]] = {
    "to an address of its own": {"reply_to": "sqs:emails"},
    "as the last of a chain": {"depth": 90},
    "as one sent back": {"redrive": 1},
}


@pytest.mark.parametrize("how", REPEATED)
@pytest.mark.parametrize("comes_first", [False, True])
@pytest.mark.parametrize("before", [0, MOST_HELD])
def test_who_repeats_a_callers_request_takes_nothing_from_that_caller(how: str, comes_first: bool, before: int) -> None:
    with scene(shared) as at:
        at.deliver(at.message())
        for number in range(1, before + 1):
            at.deliver(caller(at, number))
        hers = caller(at)
        for one in (hers._replace(**REPEATED[how]), hers)[:: 1 if comes_first else -1]:
            assert at.deliver(one) == [True]
        at.deliver(at.second())
        assert (answer_id(hers), "COMPLETED") in told(at, "completed")


def test_nor_from_one_whose_answers_go_through_a_fifo_queue() -> None:
    """SQS takes the second message under a deduplication id for a copy, and both answers have one id."""
    with scene(shared) as at:
        at.aws.create_queue("completed.fifo", FifoQueue="true")
        at.deliver(at.message())
        hers = caller(at, reply_to="sqs:completed.fifo")
        for depth in (0, 0, 7, 8):
            at.deliver(hers._replace(depth=depth))
        at.deliver(at.second())
        places = [one["MessageAttributes"]["flowguard"]["StringValue"] for one in at.sent("completed.fifo")]
        assert sorted(places) == ['{"depth":1}', '{"depth":8}', '{"depth":9}']


def test_who_was_answered_first_under_an_id_keeps_no_one_else_from_the_answer() -> None:
    """His request has been answered with the last end. Hers, under the same id, is another, and gets the next."""
    with scene(shared) as at:
        at.deliver(at.message())
        at.deliver(caller(at, reply_to="sqs:dead"))
        at.deliver(at.second())
        at.deliver(at.message(request_id=RequestId("run-9"), requested_at=START + 1_000))
        assert at.deliver(caller(at, reply_to="sqs:dead")) == [True]
        assert at.told(EventType.DUPLICATE) == 1
        assert at.deliver(caller(at)) == [True]
        at.deliver(at.second(request_id=RequestId("run-9"), requested_at=START + 1_000))
        assert told(at, "completed") == [(answer_id(caller(at)), "COMPLETED")]
        assert set(told(at, "dead")) == {(answer_id(caller(at)), "COMPLETED")}


def test_a_caller_whose_message_comes_twice_is_attached_once_and_without_a_write() -> None:
    with scene(shared) as at:
        at.deliver(at.message())
        at.deliver(caller(at))
        assert at.deliver(caller(at)) == [True]
        assert at.calls == ["UpdateItem"]
        item = at.item()
        assert item is not None
        assert item.callers is not None
        assert len(item.callers.held) == 1


def test_a_caller_that_was_answered_is_not_answered_by_the_next_run() -> None:
    with scene(shared) as at:
        at.deliver(at.message(), caller(at))
        at.deliver(at.second())
        at.deliver(at.message(request_id=RequestId("run-2"), requested_at=START + 1_000))
        for late in (caller(at), at.message(reply_to="sqs:completed")):
            assert at.deliver(late) == [True]
        item = at.item()
        assert item is not None
        assert item.callers is not None
        assert item.callers.held == {}
        assert answers(at) == [("caller-0", "run-1", "COMPLETED")]
        assert at.priced() == 2


@pytest.mark.slow("strikes at each call of a run")
@pytest.mark.parametrize(
    "number", [MOST_HELD, MOST_HELD + 1, 150, pytest.param(1_000, marks=pytest.mark.long("a thousand callers"))]
)
def test_however_many_callers_one_run_has_all_are_answered(number: int) -> None:
    with scene(shared) as at:
        at.deliver(at.message())
        for one in range(number):
            at.deliver(caller(at, one, requested_at=START - 500))
        at.deliver(at.second())
        assert answers(at) == sorted((f"caller-{one}", "run-1", "COMPLETED") for one in range(number))
        assert rows(at) == 0, "rows of callers that were answered are removed"


def just_before_the_second(operation: str, happens: Callable[[], object]) -> Any:
    """Something else happens between the first call of this operation and the second."""
    seen: list[str] = []

    def interceptor(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == operation:
            seen.append(operation)
            if len(seen) == 2:  # those that happen meanwhile count as well
                happens()
        return proceed()

    return interceptor


def rows(at: Scene) -> int:
    found = at.aws.client("dynamodb").scan(TableName="flowguard")["Items"]
    return sum(one["sk"]["S"].startswith("caller#") for one in found)


def test_a_caller_that_attaches_just_before_the_commit_is_not_missed() -> None:
    with scene(shared) as at:
        at.deliver(at.message())
        with intercept(just_before_the_second("UpdateItem", lambda: at.deliver(caller(at)))):
            at.deliver(at.second())
        assert answers(at) == [("caller-0", "run-1", "COMPLETED")]


def test_a_run_that_ends_just_before_a_caller_attaches_answers_it_at_once() -> None:
    with scene(shared) as at:
        at.deliver(at.message())
        with intercept(just_before_the_second("UpdateItem", lambda: at.deliver(at.second()))):
            assert at.deliver(caller(at)) == [True]
        assert answers(at) == [("caller-0", "run-1", "COMPLETED")]


@pytest.mark.parametrize("callers", [1, MOST_HELD + 2])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("operation", ["UpdateItem", "PutItem", "Query", "BatchWriteItem", "SendMessageBatch"])
def test_whoever_dies_at_whatever_call_all_callers_are_answered(operation: str, after: bool, callers: int) -> None:
    with scene(shared) as at:
        at.deliver(at.message())
        for one in range(callers):
            at.deliver(caller(at, one))
        messages = [caller(at, 90), at.second()]
        for message in messages:
            try:
                with intercept(dies_at(operation, after=after)):
                    at.deliver(message)
            except Died:
                at.clock.advance(seconds=31)
            assert at.deliver(message) == [True]
        expected = [*(f"caller-{one}" for one in range(callers)), "caller-90"]
        assert answers(at) == sorted((one, "run-1", "COMPLETED") for one in expected)


@pytest.mark.parametrize("callers", [1, MOST_HELD + 2])
def test_a_newer_run_answers_the_callers_of_one_whose_worker_died(callers: int) -> None:
    """It died before it had answered anybody, and so did the first worker of the newer run."""
    with scene(shared) as at:
        at.deliver(at.message())
        for one in range(callers):
            at.deliver(caller(at, one))
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            at.deliver(at.second())
        newer = at.message(request_id=RequestId("run-2"), requested_at=at.clock.now() + 1_000)
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            at.deliver(newer)
        at.clock.advance(seconds=31)
        assert at.deliver(newer) == [True]
        assert answers(at) == sorted((f"caller-{one}", "run-1", "COMPLETED") for one in range(callers))


def test_the_callers_of_a_run_that_was_taken_over_get_the_end_of_the_newer_one() -> None:
    """So does the request that began the run which nobody works on any more."""
    with scene(shared) as at:
        at.deliver(at.message(reply_to="sqs:completed"))
        at.deliver(caller(at))
        at.clock.advance(seconds=86_400 + 31)
        newer = caller(at, 7, request_id=RequestId("run-2"), requested_at=at.clock.now())
        assert at.deliver(newer) == [True]
        at.deliver(at.second(request_id=RequestId("run-2"), requested_at=newer.requested_at, reply_to="sqs:completed"))
        assert answers(at) == [(one, "run-2", "COMPLETED") for one in ("caller-0", "run-1", "run-2")]


@pytest.mark.usefixtures("denied_for_minutes")
def test_an_answer_that_is_refused_for_good_is_parked_and_the_others_go_out() -> None:
    with scene(shared) as at:
        at.deliver(at.message())
        at.deliver(caller(at, 0, reply_to="sqs:nowhere"), caller(at, 1))
        at.receives = 12
        assert at.deliver(at.second()) == [True]
        assert answers(at) == [("caller-1", "run-1", "COMPLETED")]
        assert len(at.sent("dead")) == 1


def test_answers_that_cannot_be_sent_now_keep_the_record() -> None:
    def throttled(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch":
            raise ConnectionError("no way")
        return proceed()

    with scene(shared) as at:
        at.deliver(at.message())
        for one in range(MOST_HELD + 2):
            at.deliver(caller(at, one))
        with intercept(throttled):
            assert at.deliver(at.second()) == [False]
        assert at.deliver(at.second()) == [True]
        assert len(answers(at)) == MOST_HELD + 2


def test_a_run_whose_callers_cannot_be_read_now_sends_its_own_messages_at_once() -> None:
    def throttled(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "Query":
            raise ConnectionError("no way")
        return proceed()

    with scene(shared) as at:
        at.deliver(at.message())
        for one in range(MOST_HELD + 1):
            at.deliver(caller(at, one))
        at.sent("emails")
        at.script.closing = lambda step: step.send("emails", {"closed": "o1"})
        with intercept(throttled):
            assert at.deliver(at.second()) == [False]
        assert [one["Body"] for one in at.sent("emails")] == ['{"closed":"o1"}']


def test_a_copy_of_an_earlier_hop_answers_nobody_again_and_one_of_the_last_says_the_same_again() -> None:
    with scene(shared) as at:
        at.deliver(at.message(), caller(at))
        at.deliver(at.second())
        [told] = at.sent("completed")
        assert json.loads(told["Body"])["result"] == {"total": 7}
        assert at.deliver(at.message()) == [True]
        assert at.sent("completed") == []
        assert at.deliver(at.second()) == [True], "the worker may have died before it told anybody"
        assert [one["Body"] for one in at.sent("completed")] == [told["Body"]]


def test_a_request_that_its_queue_gave_up_is_answered_all_the_same() -> None:
    with scene(shared) as at:
        at.deliver(at.message())
        gave_up = LambdaHandler(at.handler.routes, at.handler._services, from_dlq=True)
        assert gave_up({"Records": [record(caller(at))]}, None) == {"batchItemFailures": []}
        at.deliver(at.second())
        gave_up({"Records": [record(caller(at, 1))]}, None)
        assert answers(at) == [("caller-0", "run-1", "COMPLETED"), ("caller-1", "run-1", "COMPLETED")]
        assert at.sent("dead") == []


def test_a_request_that_wants_no_answer_costs_one_write() -> None:
    with scene(shared) as at:
        at.deliver(at.message())
        assert at.deliver(at.newer()) == [True]
        assert (at.calls, at.told(EventType.ATTACHED), at.priced()) == (["UpdateItem"], 1, 1)


def test_an_attached_request_keeps_the_item_as_long_as_it_may_be_answered() -> None:
    with scene(shared) as at:
        at.deliver(at.message())
        before = at.item()
        at.clock.advance(seconds=3_600)
        at.deliver(caller(at))
        after = at.item()
        assert before is not None
        assert after is not None
        assert after.ttl == before.ttl + 3_600 - 30 * 60, "a commit leaves half an hour for those who attach to it"


@pytest.mark.parametrize("failed_at", [1, 2])
def test_the_end_of_a_run_that_was_redriven_is_no_copy_of_the_end_that_failed(failed_at: int) -> None:
    """The request that is redriven gets both. A caller of the run that failed has its one answer."""
    with scene(shared) as at:

        def refuse(step: Step[OrderState]) -> None:
            raise Reject("declined")

        if failed_at == 1:
            at.script.pricing = refuse
            at.deliver(at.message(reply_to="sqs:completed"))
            at.script.pricing = lambda step: None
            at.deliver(at.message(reply_to="sqs:completed", redrive=1))
            at.deliver(at.second(reply_to="sqs:completed"))
        else:
            at.script.closing = refuse
            at.deliver(at.message(reply_to="sqs:completed"), caller(at))
            at.deliver(at.second(reply_to="sqs:completed"))
            at.script.closing = lambda step: None
            at.deliver(at.second(reply_to="sqs:completed", redrive=1))
        sent = at.sent("completed")
        bodies = {one["MessageAttributes"]["uniquerequestid"]["StringValue"]: json.loads(one["Body"]) for one in sent}
        own = sorted((name.rpartition("-")[2].partition(".")[2], body["status"]) for name, body in bodies.items())
        others = [("1.end", "FAILED")] * (failed_at - 1)  # of the caller
        assert own == sorted([("1.end", "FAILED"), ("1r1.end", "COMPLETED"), *others])
        assert len(sent) == len(bodies)


def test_who_attaches_while_the_run_begins_to_wait_for_long_shortens_nothing() -> None:
    """The item was read before the run's commit, and is written after it."""
    long = timedelta(days=60) // timedelta(milliseconds=1)

    def waits(at: Scene) -> None:
        table: Any = {"TableName": "flowguard", "Key": run_key("orders", ObjectId("o1"))}
        names, lives = {"#ttl": "ttl"}, number((START + long) // 1000)
        at.aws.client("dynamodb").update_item(
            **table,
            UpdateExpression="SET #ttl = :ttl",
            ExpressionAttributeNames=names,
            ExpressionAttributeValues={":ttl": lives},
        )

    with scene(shared) as at:
        at.deliver(at.message())
        with intercept(just_before_the_second("UpdateItem", lambda: waits(at))):
            assert at.deliver(caller(at)) == [True]
        item = at.item()
        assert item is not None
        assert item.ttl == (START + long) // 1000
        at.deliver(at.second())
        ended = at.item()
        assert ended is not None
        assert ended.ttl == (START + long) // 1000, "nor does the commit"
        assert answers(at) == [("caller-0", "run-1", "COMPLETED")]
