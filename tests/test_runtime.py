"""The way of a message, end to end on the embedded engine: every verdict, every order, every lost answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from flowguard.errors import Reject, Retry
from flowguard.events import Event
from flowguard.flow import IGNORE, PER_REQUEST, Flow
from flowguard.ids import ObjectId, RequestId
from flowguard.local.calls import ApiCall, Proceed, Response, intercept
from flowguard.message import ErrorNote
from flowguard.run import Status
from flowguard.step import Step
from flowguard.verdicts import Verdict
from tests.scene import START, CloseOrder, OrderState, PriceOrder, Scene, record, scene


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        yield found


def boom(step: Step[OrderState]) -> None:
    raise RuntimeError("gateway down")


# -- the table of the claim: the verdict, whether it is acked, and what it costs


def test_a_new_message_is_handled_in_two_calls(at: Scene) -> None:
    assert at.deliver(at.message()) == [True]
    assert at.calls == ["UpdateItem", "TransactWriteItems"]
    item = at.item()
    assert item is not None
    assert (item.status, item.hop, item.done, item.epoch) == (Status.RUNNING, 1, True, 1)
    assert at.priced() == 1


def test_the_next_hop_is_handled_in_two_calls_and_ends_the_run(at: Scene) -> None:
    at.deliver(at.message())
    assert at.deliver(at.second()) == [True]
    assert at.calls == ["UpdateItem", "UpdateItem"]
    item = at.item()
    assert item is not None
    assert (item.status, item.result, item.stages) == (Status.COMPLETED, '{"total":7}', {})


def test_a_committed_hop_delivered_again_costs_one_call_and_sends_its_outbox_again(at: Scene) -> None:
    at.deliver(at.message())
    first = [(m["Body"], m["MessageAttributes"]) for m in at.sent("close-order")]
    assert at.deliver(at.message()) == [True]
    assert at.calls == ["UpdateItem"]
    assert [(m["Body"], m["MessageAttributes"]) for m in at.sent("close-order")] == first
    assert (at.told(Event.DONE), at.priced(), len(at.script.handled)) == (1, 1, 1)


def test_a_hop_that_the_run_has_left_behind_is_a_duplicate(at: Scene) -> None:
    at.deliver(at.message())
    at.deliver(at.second())
    at.sent("completed")
    assert at.deliver(at.message()) == [True]
    assert at.calls == ["UpdateItem"]
    assert at.told(Event.DONE) == 1
    assert at.sent("completed") == [], "the outbox belongs to the last hop, whose own message looks after it"


def test_a_lower_hop_of_a_running_run_is_a_duplicate(at: Scene) -> None:
    at.deliver(at.message())
    at.script.closing = lambda _: verdicts.extend(at.deliver(at.message()))
    verdicts: list[bool] = []
    at.deliver(at.second())
    assert (verdicts, at.told(Event.DUPLICATE)) == ([True], 1)


def test_a_message_whose_work_is_in_progress_elsewhere_comes_back_when_the_lease_is_over(at: Scene) -> None:
    acked: list[bool] = []
    waits: list[int] = []

    def watch(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "ChangeMessageVisibility":
            waits.append(call.params["VisibilityTimeout"])
            return {}
        return proceed()

    def duplicate(step: Step[OrderState]) -> None:
        acked.extend(at.deliver(at.message()))
        calls.extend(at.calls)

    calls: list[str] = []
    at.script.pricing = duplicate
    with intercept(watch):
        at.deliver(at.message())
    assert (acked, waits, calls, at.told(Event.BUSY)) == ([False], [30], ["UpdateItem"], 1)
    assert len(at.script.handled) == 1


def test_a_worker_that_died_is_taken_over_when_its_lease_is_over(at: Scene) -> None:
    at.script.pricing = die
    with pytest.raises(Died):
        at.deliver(at.message())
    at.script.pricing = lambda step: None
    assert at.deliver(at.message()) == [False]
    at.clock.advance(seconds=30)
    assert at.deliver(at.message()) == [True]
    item = at.item()
    assert item is not None
    assert (item.epoch, at.priced()) == (2, 1)


def test_a_sender_that_repeats_its_id_at_a_later_time_does_not_take_over_from_itself(at: Scene) -> None:
    at.deliver(at.message())
    assert at.deliver(at.message(requested_at=START)) == [True]
    assert (at.told(Event.DONE), at.priced()) == (1, 1)


def test_an_older_request_is_stale(at: Scene) -> None:
    at.deliver(at.newer())
    assert at.deliver(at.message()) == [True]
    assert (at.calls, at.told(Event.STALE)) == (["UpdateItem"], 1)


def test_a_newer_request_takes_over_and_the_old_runs_next_hop_is_superseded(at: Scene) -> None:
    at.deliver(at.message())
    at.deliver(at.newer())
    assert at.told(Event.TOOK_OVER) == 1
    assert at.deliver(at.second()) == [True]
    assert (at.calls, at.told(Event.SUPERSEDED)) == (["UpdateItem"], 1)
    item = at.item()
    assert item is not None
    assert (item.request_id, item.epoch) == ("run-2", 2)


def test_a_later_hop_whose_item_has_expired_goes_to_the_dead_letters(at: Scene) -> None:
    assert at.deliver(at.second()) == [True]
    assert (at.calls, at.told(Event.GONE)) == (["UpdateItem"], 1)
    [letter] = at.sent("dead")
    assert "expired" in json.loads(letter["MessageAttributes"]["flowguard"]["StringValue"])["error"][1]


def test_a_hop_before_its_time_is_not_acked(at: Scene) -> None:
    at.deliver(at.message())
    assert at.deliver(at.second(hop=3)) == [False]
    assert at.told(Event.BROKEN) == 0
    assert (at.calls, at.told(Event.EARLY)) == (["UpdateItem"], 1)


def test_a_retry_of_an_attempt_that_was_overtaken_is_a_duplicate(at: Scene) -> None:
    at.script.pricing = die
    with pytest.raises(Died):
        at.deliver(at.message(retry=1))
    assert at.deliver(at.message()) == [True]
    assert at.told(Event.DUPLICATE) == 1


# -- policies


class Patient(Flow, name="patient", object_id="order_id", on_conflict=IGNORE, complete_to="completed"):
    stages = (PriceOrder, CloseOrder)


class Each(Flow, name="each", object_id=PER_REQUEST):
    stages = (PriceOrder, CloseOrder)


def test_a_flow_may_let_the_first_request_keep_the_object() -> None:
    with scene(Patient) as at:
        at.deliver(at.message(flow="patient"))
        assert at.deliver(at.newer(flow="patient")) == [True]
        assert (at.calls, at.told(Event.IGNORED), at.priced()) == (["UpdateItem"], 1, 1)
        at.deliver(at.second(flow="patient"))
        assert at.deliver(at.newer(flow="patient")) == [True]
        assert at.priced() == 1, "what was asked for meanwhile stays turned away, however late it is delivered again"
        at.deliver(at.newer(flow="patient", requested_at=at.clock.now() + 1_000))
        assert at.priced() == 2, "what is asked for after the first has ended finds the object free"


def test_a_run_that_nobody_works_on_any_more_is_taken_over_with_a_warning() -> None:
    with scene(Patient) as at:
        at.deliver(at.message(flow="patient"))
        at.clock.advance(seconds=86_400 + 31)
        at.deliver(at.newer(flow="patient"))
        assert (at.told(Event.IGNORED), at.told(Event.ABANDONED), at.priced()) == (0, 1, 2)


def test_where_every_request_is_carried_out_none_supersedes_another() -> None:
    with scene(Each) as at:
        for run in ("run-1", "run-2"):
            message = at.message(flow="each", object_id=ObjectId(""), request_id=RequestId(run))
            assert at.deliver(message) == [True]
        assert (at.told(Event.TOOK_OVER), at.priced()) == (0, 2)


# -- the fence


def test_a_stale_worker_changes_nothing_its_business_write_is_refused_with_its_state(at: Scene) -> None:
    at.script.pricing = lambda step: supersede(at)
    assert at.deliver(at.message()) == [True]
    assert (at.told(Event.FENCED), at.priced()) == (1, 1)
    item = at.item()
    assert item is not None
    assert item.request_id == "run-2"
    assert len(at.sent("emails")) == 1, "what the stale worker recorded was never sent"


def supersede(at: Scene) -> None:
    at.script.pricing = lambda step: None
    at.deliver(at.newer())


def test_a_worker_fenced_by_an_unfinished_attempt_does_not_ack(at: Scene) -> None:
    def overtaken(step: Step[OrderState]) -> None:
        at.script.pricing = die
        with pytest.raises(Died):
            at.deliver(at.message(retry=1))

    at.script.pricing = overtaken
    assert at.deliver(at.message()) == [False]
    assert at.told(Event.FENCED) == 1


def test_a_worker_fenced_by_an_attempt_that_finished_sends_the_finishers_outbox(at: Scene) -> None:
    def overtaken(step: Step[OrderState]) -> None:
        at.script.pricing = lambda step: None
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            at.deliver(at.message(retry=1))

    at.script.pricing = overtaken
    assert at.deliver(at.message()) == [True]
    assert (at.told(Event.FENCED), at.priced()) == (1, 1)
    assert len(at.sent("close-order")) == 1


# -- death at any point


class Died(KeyboardInterrupt):
    """The process is gone: nothing of ours catches it."""


def die(step: Step[OrderState]) -> None:
    raise Died


def dies_at(operation: str, *, after: bool = False) -> Any:
    def interceptor(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != operation:
            return proceed()
        if after:
            proceed()
        raise Died

    return interceptor


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("operation", ["UpdateItem", "TransactWriteItems", "SendMessageBatch"])
def test_a_worker_may_die_at_any_call_and_nothing_is_lost_or_done_twice(at: Scene, operation: str, after: bool) -> None:
    with intercept(dies_at(operation, after=after)), pytest.raises(Died):
        at.deliver(at.message())
    at.clock.advance(seconds=31)
    assert at.deliver(at.message()) == [True]
    assert at.priced() == 1
    assert {m["Body"] for m in at.sent("close-order")} == {'{"total":7}'}
    assert {m["Body"] for m in at.sent("emails")} == {'{"priced":"o1"}'}


def test_what_a_dead_worker_had_committed_is_sent_by_the_run_that_takes_over(at: Scene) -> None:
    with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
        at.deliver(at.message())
    at.deliver(at.newer())
    ids = [m["MessageAttributes"]["uniquerequestid"]["StringValue"] for m in at.sent("emails")]
    assert ids == ["run-1.1.0", "run-2.1.0"]
    nexts = [m["MessageAttributes"]["uniquerequestid"]["StringValue"] for m in at.sent("close-order")]
    assert nexts == ["run-2"], "the old run's next hop is dropped"
    assert at.told(Event.FLUSHED) == 1


def test_a_takeover_that_dies_while_flushing_leaves_the_rest_to_the_next_attempt(at: Scene) -> None:
    for message in (at.message(), at.newer()):
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            at.deliver(message)
    assert at.sent("emails") == []
    at.clock.advance(seconds=31)
    at.deliver(at.newer())
    ids = [m["MessageAttributes"]["uniquerequestid"]["StringValue"] for m in at.sent("emails")]
    assert ids == ["run-1.1.0", "run-2.1.0"]


def test_a_takeover_of_a_takeover_still_sends_what_the_first_run_had_committed(at: Scene) -> None:
    for message in (at.message(), at.newer()):
        with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
            at.deliver(message)
    at.deliver(at.newer(requested_at=START, request_id=RequestId("run-3")))
    ids = [m["MessageAttributes"]["uniquerequestid"]["StringValue"] for m in at.sent("emails")]
    assert ids == ["run-1.1.0", "run-3.1.0"]


def test_a_takeover_does_not_repeat_what_was_committed_longer_ago_than_any_message_lives(at: Scene) -> None:
    at.deliver(at.message())
    at.deliver(at.second())
    assert len(at.sent("completed")) == 1
    at.clock.advance(seconds=15 * 86_400)
    later = at.message(request_id=RequestId("run-9"), requested_at=at.clock.now())
    at.deliver(later)
    assert at.sent("completed") == [], "receivers may have forgotten the id by which they would drop the copy"


def test_a_takeover_within_that_time_sends_the_old_complete_message_once_more(at: Scene) -> None:
    at.deliver(at.message())
    with intercept(dies_at("SendMessageBatch")), pytest.raises(Died):
        at.deliver(at.second())
    at.clock.advance(seconds=13 * 86_400)
    at.deliver(at.message(request_id=RequestId("run-9"), requested_at=at.clock.now()))
    assert len(at.sent("completed")) == 1


def test_an_item_outlives_the_last_copy_of_its_messages(at: Scene) -> None:
    at.deliver(at.message())
    item = at.item()
    assert item is not None
    assert item.ttl >= (item.committed_at + 2 * timedelta(days=14) // timedelta(milliseconds=1)) // 1000


# -- lost answers


@pytest.mark.parametrize("lost", ["UpdateItem", "TransactWriteItems", "SendMessageBatch"])
def test_a_lost_answer_never_turns_success_into_failure(at: Scene, lost: str) -> None:
    def answer_lost(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == lost:
            proceed()
        return proceed()

    with intercept(answer_lost):
        assert at.deliver(at.message()) == [True]
    assert (at.priced(), at.told(Event.FENCED), at.told(Event.COMMITTED)) == (1, 0, 1)


@pytest.mark.parametrize("lost", ["TransactWriteItems", "UpdateItem"])
def test_a_commit_that_was_applied_but_never_answered_is_no_failure_of_the_stage(at: Scene, lost: str) -> None:
    """Even on the last attempt, which would otherwise end the run and lose its next hop."""

    def never_answered(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        if call.operation == lost and "if_not_exists" not in call.params.get("UpdateExpression", ""):
            raise EndpointConnectionError(endpoint_url="https://dynamodb")
        return answer

    message = at.message(retry=2) if lost == "TransactWriteItems" else at.second(retry=4)
    if lost == "UpdateItem":
        at.deliver(at.message())
    with intercept(never_answered):
        assert at.deliver(message) == [False]
    assert at.sent("dead") == []
    assert at.deliver(message) == [True]
    assert (at.told(Event.FAILED), at.priced()) == (0, 1)
    assert len(at.sent("close-order" if lost == "TransactWriteItems" else "completed")) == 1


# -- dispatch


def sent_order(at: Scene) -> list[str]:
    return [str(h.facts["kind"]) for h in at.tally.happenings if h.event is Event.SENT]


def test_the_next_hop_is_sent_last(at: Scene) -> None:
    at.deliver(at.message())
    assert sent_order(at) == ["side", "next"]


def test_a_next_hop_is_never_sent_before_its_side_messages_are(at: Scene) -> None:
    def throttled(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch" and call.params["QueueUrl"].endswith("/emails"):
            failed = [{"Id": e["Id"], "SenderFault": False, "Code": "Throttled"} for e in call.params["Entries"]]
            return {"Failed": failed}
        return proceed()

    with intercept(throttled):
        assert at.deliver(at.message()) == [False]
    assert at.sent("close-order") == []
    assert at.told(Event.NOT_SENT) == 1
    assert at.deliver(at.message()) == [True]
    assert (len(at.sent("emails")), len(at.sent("close-order")), at.priced()) == (1, 1, 1)


def test_a_batch_sends_in_common_calls_and_one_refused_entry_holds_back_its_own_record_alone(at: Scene) -> None:
    calls: list[int] = []

    def one_refused(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "SendMessageBatch":
            return proceed()
        calls.append(len(call.params["Entries"]))
        return {"Failed": [{"Id": "1", "SenderFault": False, "Code": "Throttled"}]} if len(calls) == 1 else proceed()

    messages = [
        at.message(object_id=ObjectId(f"o{n}"), request_id=RequestId(f"run-{n}"), body=f'{{"order_id":"o{n}"}}')
        for n in range(3)
    ]
    with intercept(one_refused):
        assert at.deliver(*messages) == [True, False, True]
    assert calls == [3, 2], "three side messages, then the next hops of the two whose side messages were taken"


def test_a_send_that_fails_outright_leaves_the_record_in_its_queue(at: Scene) -> None:
    def unreachable(call: ApiCall, proceed: Proceed) -> Response:
        if call.service == "sqs":
            raise EndpointConnectionError(endpoint_url="https://sqs")
        return proceed()

    with intercept(unreachable):
        assert at.deliver(at.message()) == [False]
    assert at.deliver(at.message()) == [True]
    assert at.priced() == 1


# -- failures


def test_a_failed_attempt_is_sent_again_as_the_same_request_later(at: Scene) -> None:
    at.script.pricing = boom
    delays: list[int] = []

    def watch(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch":
            delays.extend(entry["DelaySeconds"] for entry in call.params["Entries"])
            for entry in call.params["Entries"]:
                entry["DelaySeconds"] = 0
        return proceed()

    with intercept(watch):
        assert at.deliver(at.message()) == [True]
    [again] = at.sent("price-order")
    attributes = {name: value["StringValue"] for name, value in again["MessageAttributes"].items()}
    place = json.loads(attributes["flowguard"])
    assert (delays, attributes["uniquerequestid"], place["retry"], place["hop"]) == ([20], "run-1", 1, 1)
    assert place["error"] == ["RuntimeError", "gateway down", START]
    assert json.loads(again["Body"])["Message"] == '{"order_id":"o1"}'
    assert at.calls == ["UpdateItem"], "no release is written"


def test_a_stage_may_ask_for_its_own_delay(at: Scene) -> None:
    def later(step: Step[OrderState]) -> None:
        raise Retry("not yet", after=timedelta(minutes=2))

    at.script.pricing = later
    at.deliver(at.message())
    [retried] = [h for h in at.tally.happenings if h.event is Event.RETRIED]
    assert retried.facts == {"error": "Retry", "delay": 120}


def test_a_retry_is_claimed_at_once_although_the_failed_attempts_lease_is_alive(at: Scene) -> None:
    at.script.pricing = boom
    at.deliver(at.message())
    at.script.pricing = lambda step: None
    assert at.deliver(at.message(retry=1)) == [True]
    assert at.priced() == 1


@pytest.mark.parametrize("case", ["rejected", "attempts used up", "invalid payload", "unknown stage", "wrong version"])
def test_what_can_never_work_ends_the_run_with_a_dead_letter_in_the_same_commit(at: Scene, case: str) -> None:
    def reject(step: Step[OrderState]) -> None:
        raise Reject("no such product")

    message, script = {
        "rejected": (at.message(), reject),
        "attempts used up": (at.message(retry=2), boom),
        "invalid payload": (at.message(body='{"order":"o1"}'), None),
        "unknown stage": (at.message(stage="pay-order"), None),
        "wrong version": (at.message(version=9), None),
    }[case]
    at.script.pricing = script or at.script.pricing
    assert at.deliver(message) == [True]
    assert at.calls == ["UpdateItem", "UpdateItem"]
    item = at.item()
    assert item is not None
    assert (item.status, at.priced()) == (Status.FAILED, 0)
    [letter] = at.sent("dead")
    place = json.loads(letter["MessageAttributes"]["flowguard"]["StringValue"])
    assert (place["redrive"], place.get("retry", 0)) == (1, 0)
    [complete] = at.sent("completed")
    assert json.loads(complete["Body"])["status"] == "FAILED"


def test_a_dead_letter_says_how_it_began_why_it_ended_and_after_how_many_attempts(at: Scene) -> None:
    def declined(step: Step[OrderState]) -> None:
        raise Reject("card declined")

    at.script.pricing = declined
    at.deliver(at.message(retry=1, first_error=ErrorNote("GatewayDown", "refused", START - 9)))
    place = json.loads(at.sent("dead")[0]["MessageAttributes"]["flowguard"]["StringValue"])
    assert (place["error"], place["attempts"]) == (["GatewayDown", "refused", START - 9], 2)
    assert place["last_error"] == ["Reject", "card declined", START]
    assert json.loads(at.sent("completed")[0]["Body"])["error"] == "Reject: card declined"
    item = at.item()
    assert item is not None
    assert item.error == "Reject: card declined"


def test_what_a_hop_sends_after_a_redrive_is_no_copy_of_what_it_sent_when_it_failed(at: Scene) -> None:
    at.script.pricing = lambda step: reject_once(at)
    at.deliver(at.message())
    failed = at.sent("completed")
    at.deliver(at.message(redrive=1))
    sent = [*at.sent("emails"), *failed]
    ids = {m["MessageAttributes"]["uniquerequestid"]["StringValue"] for m in sent}
    assert ids == {"run-1.1r1.0", "run-1.1.0"}


def test_a_dead_letter_sent_back_as_it_is_opens_the_failed_run_again(at: Scene) -> None:
    at.script.pricing = lambda step: reject_once(at)
    at.deliver(at.message())
    [letter] = at.sent("dead")
    at.sent("completed")
    at.handler({"Messages": [{**letter, "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:price-order"}]})
    item = at.item()
    assert item is not None
    assert (item.status, item.redrive, item.done, at.priced()) == (Status.RUNNING, 1, True, 1)
    assert at.sent("dead") == [], "the letter itself proves that it was sent"


def reject_once(at: Scene) -> None:
    at.script.pricing = lambda step: None
    raise Reject("out of stock")


def test_a_dead_letter_of_a_run_that_was_superseded_since_changes_nothing(at: Scene) -> None:
    at.script.pricing = lambda step: reject_once(at)
    at.deliver(at.message())
    at.deliver(at.newer())
    at.sent("dead")
    assert at.deliver(at.message(redrive=1)) == [True]
    assert (at.told(Event.STALE), at.priced()) == (1, 1)


def test_a_caller_condition_that_fails_is_tried_again_and_nothing_is_applied(at: Scene) -> None:
    at.script.pricing = lambda step: step.put("orders", {"id": "o2"}, condition="attribute_exists(id)")
    assert at.deliver(at.message()) == [True]
    assert (at.told(Event.RETRIED), at.priced()) == (1, 0)


# -- failures inside the failure path


def drop_queue(at: Scene, name: str) -> None:
    sqs = at.aws.client("sqs")
    sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=name)["QueueUrl"])


def test_a_missing_dead_letter_queue_loses_nothing_and_is_named_until_it_is_there(at: Scene) -> None:
    at.script.pricing = lambda step: reject_once(at)
    drop_queue(at, "dead")
    assert at.deliver(at.message()) == [False]
    [told] = [h for h in at.tally.happenings if h.event is Event.NOT_SENT]
    assert (told.facts["to"], "dead" in told.facts["why"] or "exist" in told.facts["why"]) == ("sqs:dead", True)
    assert at.deliver(at.message()) == [False]
    at.aws.create_queue("dead")
    assert at.deliver(at.message()) == [True]
    assert (len(at.sent("dead")), len(at.script.handled)) == (1, 1), "the stage is not run again for it"


def test_a_dead_letter_queue_that_denies_is_named_with_the_services_own_words(at: Scene) -> None:
    def denied(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch" and call.params["QueueUrl"].endswith("/dead"):
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "not allowed"}}, call.operation)
        return proceed()

    at.script.pricing = lambda step: reject_once(at)
    with intercept(denied):
        assert at.deliver(at.message()) == [False]
    [told] = [h for h in at.tally.happenings if h.event is Event.NOT_SENT]
    assert "AccessDenied" in told.facts["why"]


def test_the_end_of_a_run_that_was_replaced_meanwhile_is_fenced_like_any_commit(at: Scene) -> None:
    def replaced_then_rejected(step: Step[OrderState]) -> None:
        supersede(at)
        raise Reject("too late to say so")

    at.script.pricing = replaced_then_rejected
    assert at.deliver(at.message()) == [True]
    item = at.item()
    assert item is not None
    assert (item.request_id, item.status, at.sent("dead")) == ("run-2", Status.RUNNING, [])


def test_a_database_that_fails_while_a_run_is_ended_leaves_the_record_in_its_queue(at: Scene) -> None:
    def down_for_commits(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateItem" and "if_not_exists" not in call.params["UpdateExpression"]:
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow down"}}, call.operation)
        return proceed()

    at.script.pricing = lambda step: reject_once(at)
    with intercept(down_for_commits):
        assert at.deliver(at.message()) == [False]
    assert (at.told(Event.BROKEN), at.sent("dead")) == (1, [])
    at.clock.advance(seconds=31)
    assert at.deliver(at.message()) == [True]
    assert at.priced() == 1


def test_a_retry_that_cannot_be_sent_leaves_the_record_to_sqs(at: Scene) -> None:
    at.script.pricing = boom
    drop_queue(at, "price-order")
    assert at.deliver(at.message()) == [False]
    assert at.told(Event.NOT_SENT) == 1


# -- batches, events without partial answers, time


def test_one_bad_record_never_harms_the_others(at: Scene) -> None:
    good, bad, stranger = record(at.message(), 0), record(at.message(), 1), record(at.message(flow="others"), 2)
    del bad["body"]
    answer = at.handler({"Records": [bad, stranger, good]})
    left = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
    assert left == {bad["messageId"], stranger["messageId"]}
    assert (at.told(Event.UNREADABLE), at.told(Event.UNROUTABLE), at.priced()) == (1, 1, 1)


def test_a_store_that_is_down_leaves_every_record_in_its_queue(at: Scene) -> None:
    def down(call: ApiCall, proceed: Proceed) -> Response:
        raise ClientError({"Error": {"Code": "InternalServerError", "Message": "down"}}, call.operation)

    with intercept(down):
        assert at.deliver(at.message(), at.newer()) == [False, False]
    assert (at.told(Event.BROKEN), at.script.handled) == (2, [])


class Hurried:
    """A Lambda context with little time left."""

    aws_request_id = "invocation"
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:orders"

    def __init__(self, ms: int) -> None:
        self._ms = ms

    def get_remaining_time_in_millis(self) -> int:
        return self._ms


def test_with_little_time_left_no_further_record_is_begun(at: Scene) -> None:
    other = at.message(object_id=ObjectId("o2"), body='{"order_id":"o2"}')
    assert at.deliver(at.message(), other, context=Hurried(900)) == [True, False]
    assert at.told(Event.RETURNED) == 1
    assert at.item("o2") is None


def test_the_lease_ends_when_the_invocation_does(at: Scene) -> None:
    at.deliver(at.message(), context=Hurried(12_000))
    item = at.item()
    assert item is not None
    assert item.lease_until == START + 12_000


def test_a_direct_invocation_is_told_the_verdict_and_a_duplicate_the_stored_result(at: Scene) -> None:
    at.deliver(at.message())
    event = {
        "Records": [
            {**record(at.second()), "eventSource": "aws:lambda", "eventSourceARN": Hurried.invoked_function_arn}
        ]
    }
    expected = {"request_id": "run-1", "verdict": Verdict.CLAIMED.value, "result": {"total": 7}}
    assert at.handler(event, Hurried(5_000)) == expected
    assert at.handler(event, Hurried(5_000)) == {**expected, "verdict": "DONE"}


# -- what the claims and commits look like over time


def test_a_commit_never_lies_before_the_one_that_went_before_whatever_the_clock_says(at: Scene) -> None:
    at.deliver(at.message())
    at.clock.advance(seconds=-3600)
    at.deliver(at.second())
    item = at.item()
    assert item is not None
    assert item.committed_at == START + 1


def test_a_message_without_any_attribute_starts_a_run_and_its_weak_id_is_told(at: Scene) -> None:
    plain: dict[str, Any] = {**record(at.message()), "messageAttributes": {}}
    at.handler({"Records": [plain]})
    item = at.item()
    assert item is not None
    assert (item.request_id, item.requested_at) == (plain["messageId"], START)
    assert at.told(Event.WEAK_ID) == 1


def test_the_stages_passed_keep_their_request_id_until_the_run_is_complete(at: Scene) -> None:
    at.deliver(at.message())
    at.script.closing = boom
    at.deliver(at.second())
    item = at.item()
    assert item is not None
    assert item.stages == {"price-order": "run-1", "close-order": "run-1"}
    at.script.closing = lambda step: None
    at.deliver(at.second()._replace(retry=1))
    item = at.item()
    assert item is not None
    assert item.stages == {}
