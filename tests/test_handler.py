"""What a Lambda answers to each kind of invoker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard.errors import NotProcessed, Reject, SettingsError
from flowguard.events import EventType
from flowguard.handler import lambda_handler
from flowguard.names.ids import ObjectId
from tests.scene import START, Orders, Scene, orders, record, scene


class Context:
    """What Lambda hands in beside the event."""

    aws_request_id = "8a7f3c52-4a6e-4d7b-9a1e-0f2b6d1c9e55"
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:orders"

    def get_remaining_time_in_millis(self) -> int:
        return 10_000


def sns_event(at: Scene, body: str) -> dict[str, Any]:
    attributes = {name: {"Type": a.type, "Value": a.value} for name, a in at.message().attributes().items()}
    notification = {
        "Type": "Notification",
        "MessageId": "5d2f6f5e-0000-4000-8000-000000000001",
        "TopicArn": "arn:aws:sns:us-east-1:123456789012:orders",
        "Subject": None,
        "Message": body,
        "Timestamp": "2027-01-15T08:00:00.000Z",
        "MessageAttributes": attributes,
    }
    return {"Records": [{"EventSource": "aws:sns", "EventVersion": "1.0", "Sns": notification}]}


def test_a_queue_is_told_which_records_to_deliver_again() -> None:
    with scene() as at:
        lost = record(at.message(flow="others"), 1)
        answer = at.handler({"Records": [record(at.message(), 0), lost]}, Context())
        assert answer == {"batchItemFailures": [{"itemIdentifier": lost["messageId"]}]}


def test_an_empty_batch_has_no_failures() -> None:
    with scene() as at:
        assert at.handler({"Records": []}, Context()) == {"batchItemFailures": []}


def test_a_topic_gets_an_error_where_something_is_left_over_for_it_knows_no_partial_answers() -> None:
    with scene() as at:
        assert at.handler(sns_event(at, '{"order_id":"o1"}'), Context())["verdict"] == "CLAIMED"
        at.script.pricing = fail
        event = sns_event(at, '{"order_id":"o2"}')
        event["Records"][0]["Sns"]["MessageAttributes"] = {}
        with pytest.raises(NotProcessed, match="RuntimeError: down"):
            at.handler(event, Context())
        assert at.told(EventType.RETRIED) == 1


def fail(step: Any) -> None:
    raise RuntimeError("down")


def test_a_direct_invocation_is_an_entry_like_any_other_and_its_id_is_the_invocations() -> None:
    with scene() as at:
        answer = at.handler({"order_id": "o1"}, Context())
        assert answer == {"request_id": Context.aws_request_id, "verdict": "CLAIMED", "result": None}
        assert at.handler({"order_id": "o1"}, Context())["verdict"] == "DONE"
        assert (at.priced(), at.told(EventType.WEAK_ID)) == (1, 0)


def test_a_direct_caller_is_told_why_its_run_has_failed_and_so_is_a_copy() -> None:
    def refuse(step: Any) -> None:
        raise Reject("no such order")

    with scene() as at:
        at.script.pricing = refuse
        expected = {"request_id": Context.aws_request_id, "result": None, "problem": "Reject: no such order"}
        assert at.handler({"order_id": "o1"}, Context()) == {**expected, "verdict": "CLAIMED"}
        assert at.handler({"order_id": "o1"}, Context()) == {**expected, "verdict": "DONE"}


def test_a_direct_caller_is_told_why_its_message_is_parked() -> None:
    with scene() as at:
        answer = at.handler(sns_event(at, '{"order_id": ""}'), Context())
        assert answer["problem"]


def test_whoever_invokes_the_last_stage_is_given_the_result_of_its_run_and_a_copy_is_given_it_again() -> None:
    with scene() as at:
        at.deliver(at.message())
        invoked = {"eventSource": "aws:lambda", "eventSourceARN": Context.invoked_function_arn}
        event = {"Records": [{**record(at.second()), **invoked}]}
        expected = {"request_id": "run-1", "verdict": "CLAIMED", "result": {"total": 7}}
        assert at.handler(event, Context()) == expected
        assert at.handler(event, Context()) == {**expected, "verdict": "DONE"}


def test_one_bad_record_never_harms_the_others() -> None:
    with scene() as at:
        good, bad, stranger = record(at.message(), 0), record(at.message(), 1), record(at.message(flow="others"), 2)
        del bad["body"]
        answer = at.handler({"Records": [bad, stranger, good]}, Context())
        left = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        assert left == {bad["messageId"], stranger["messageId"]}
        assert (at.told(EventType.UNREADABLE), at.told(EventType.UNROUTABLE), at.priced()) == (1, 1, 1)


def test_an_error_of_an_invocation_repeats_no_long_text_and_no_control() -> None:
    """Lambda logs it with each delivery, and hands it to the caller."""
    with scene() as at:
        event = sns_event(at, '{"order_id":"o1"}')
        sns = event["Records"][0]["Sns"]
        sns["MessageId"] = f"\x1b{'m' * 90_000}"
        sns["MessageAttributes"]["flowstage"] = {"Type": "String", "Value": f"{chr(0x9B)}{'f' * 90_000}/x"}
        with pytest.raises(NotProcessed) as caught:
            at.handler(event, Context())
    text = str(caught.value)
    assert "Unroutable" in text
    assert len(text) < 2_000
    assert text.isprintable()


class Hurried(Context):
    """A Lambda with little time left."""

    def get_remaining_time_in_millis(self) -> int:
        return 900


def test_with_little_time_left_no_further_record_is_begun() -> None:
    with scene() as at:
        other = at.message(object_id=ObjectId("o2"), body='{"order_id":"o2"}')
        assert at.deliver(at.message(), other, context=Hurried()) == [True, False]
        assert at.told(EventType.RETURNED) == 1
        assert at.item("o2") is None


def test_a_record_without_a_name_fails_the_whole_invocation_after_the_others_are_done() -> None:
    with scene() as at:
        nameless = record(at.message(), 1)
        del nameless["messageId"]
        with pytest.raises(NotProcessed, match="messageId"):
            at.handler({"Records": [record(at.message(), 0), nameless]}, Context())
        assert at.priced() == 1


def test_what_is_left_of_a_failed_invocation_is_named_by_its_id_or_else_by_its_place() -> None:
    with scene() as at:
        nameless, bad = record(at.message(), 0), record(at.message(), 1)
        del nameless["messageId"], bad["body"]
        with pytest.raises(NotProcessed) as caught:
            at.handler({"Records": [nameless, bad]}, Context())
        assert list(caught.value.records) == [bad["messageId"], "[0]"]


def test_a_function_serves_the_stages_it_names_and_no_others() -> None:
    with scene(orders, "close-order") as at:
        assert at.deliver(at.message()) == [False]
        assert at.told(EventType.UNROUTABLE) == 1


def test_functions_in_a_row_hand_the_run_on() -> None:
    with scene(orders, "price-order") as at:
        at.deliver(at.message())
        [passed] = at.sent("close-order")
        closing = lambda_handler(at.flow, at.flow.stages[1]).using(at.handler._services)
        closing({"Messages": [passed]})
        item = at.item()
        assert item is not None
        assert json.loads(item.result or "") == {"total": 7}
        assert item.committed_at > START


@pytest.mark.parametrize("targets", [(), (Orders.stages[0],), (Orders, object)])
def test_a_function_that_serves_nothing_is_refused_when_it_is_defined(targets: Any) -> None:
    with pytest.raises(SettingsError, match="lambda_handler"):
        lambda_handler(*targets)
