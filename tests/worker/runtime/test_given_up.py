"""The dead-letter queue that SQS itself fills: what was killed ends its run, and what was never begun goes back."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from flowguard.aws import store
from flowguard.destinations import Topic
from flowguard.events import EventType
from flowguard.flow import Flow
from flowguard.handler import dlq_handler
from flowguard.lanes import Lane
from flowguard.names.ids import ObjectId
from flowguard.protocol.run import Status
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.step import Step
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import LANE, ErrorNote, Message
from tests.scene import START, OrderState, Scene, Script, message_id, record, two_stages
from tests.worker.runtime.mishaps import boom, drop_queue
from tests.worker.runtime.test_kills import kill, no_commits, received

ACKED: dict[str, Any] = {"batchItemFailures": []}
DAY = 86_400


def give_up(at: Scene, message: Message, **changes: Any) -> Any:
    """What the function of the killed queue answers for the record. What it sends can be received at once."""
    ender = dlq_handler(*at.handler.routes.flows).using(at.handler._services)
    with intercept(at_once):
        return ender({"Records": [received(message, **changes)]})


def at_once(call: ApiCall, proceed: Proceed) -> Response:
    for entry in call.params["Entries"] if call.operation == "SendMessageBatch" else ():
        entry["DelaySeconds"] = 0
    return proceed()


def came_back(at: Scene, queue: str = "price-order") -> list[dict[str, Any]]:
    return [json.loads(one["MessageAttributes"]["flowguard"]["StringValue"]) for one in at.sent(queue)]


def test_what_was_killed_again_and_again_ends_its_run_and_is_parked_in_the_form_that_a_redrive_needs(
    at: Scene,
) -> None:
    kill(at, at.message(), 2)
    handled = len(at.script.handled)
    assert give_up(at, at.message()) == ACKED
    item = at.item()
    assert item is not None
    assert (item.status, len(at.script.handled)) == (Status.FAILED, handled)
    [letter] = at.sent("dead")
    place = json.loads(letter["MessageAttributes"]["flowguard"]["StringValue"])
    assert (place["redrive"], "the function was killed 2 times" in place["error"][1]) == (1, True)
    [told] = at.sent("completed")
    assert json.loads(told["Body"])["status"] == "FAILED"
    assert at.deliver(at.message(redrive=1)) == [True]
    assert at.priced() == 1


def test_what_was_never_begun_goes_back_to_its_queue_and_ends_as_it_would_have_ended(at: Scene) -> None:
    at.clock.advance(seconds=3 * DAY)
    assert give_up(at, at.message()) == ACKED
    assert (at.item(), at.sent("dead"), at.told(EventType.FAILED)) == (None, [], 0)
    [back] = at.sent("price-order")
    place = json.loads(back["MessageAttributes"]["flowguard"]["StringValue"])
    assert (place["since"], place["hop"], "retry" in place) == (START, 1, False)
    assert at.handler({"Messages": [{**back, "eventSourceARN": record(at.message())["eventSourceARN"]}]}) == ACKED
    assert at.priced() == 1
    [onward] = at.sent("close-order")
    assert "since" not in onward["MessageAttributes"]["flowguard"]["StringValue"]


def test_a_later_hop_that_was_never_begun_goes_back_as_well(at: Scene) -> None:
    at.deliver(at.message())
    at.sent("close-order")
    assert give_up(at, at.second()) == ACKED
    [place] = came_back(at, "close-order")
    assert (place["hop"], at.sent("dead")) == (2, [])
    assert at.deliver(at.second()) == [True]
    assert at.told(EventType.COMPLETED) == 1


def test_a_hop_whose_worker_was_killed_once_and_one_whose_worker_has_met_an_outage_go_back(at: Scene) -> None:
    kill(at, at.message())
    give_up(at, at.message())
    assert len(came_back(at)) == 1
    with intercept(no_commits):
        for _ in range(5):
            at.deliver(at.message())
    give_up(at, at.message())
    assert len(came_back(at)) == 1
    assert at.told(EventType.FAILED) == 0


def test_one_record_goes_back_once_however_often_it_is_taken_and_says_so(at: Scene) -> None:
    for _ in range(2):
        give_up(at, at.message())
    sent = [event.facts["id"] for event in at.tally.events if event.type is EventType.SENT]
    assert len(set(sent)) == 1


@pytest.mark.parametrize(("waited", "shortest", "longest"), [(0, 30, 60), (3_600, 225, 450), (DAY, 450, 900)])
def test_the_delay_grows_with_what_has_passed(at: Scene, waited: int, shortest: int, longest: int) -> None:
    at.clock.advance(seconds=waited)
    give_up(at, at.message())
    [delay] = [event.facts["delay"] for event in at.tally.events if event.type is EventType.SENT]
    assert shortest <= delay <= longest


@pytest.mark.parametrize(("waited", "ends"), [(14 * DAY - 1, False), (14 * DAY, True)])
def test_an_outage_of_the_whole_retention_ends_the_run_and_its_end_says_so(at: Scene, waited: int, ends: bool) -> None:
    at.clock.advance(seconds=waited)
    late = record(at.message())["attributes"] | {"SentTimestamp": str(START + 1_000 * (waited - 60))}
    give_up(at, at.message(since=START), attributes=late)
    assert (at.told(EventType.FAILED), len(at.sent("dead")), len(came_back(at))) == (ends, ends, not ends)
    if ends:
        item = at.item()
        assert item is not None
        assert item.error is not None
        assert "an outage has outlasted the flow's retention of 14 days: for 14.0 days no worker" in item.error


def test_a_time_ahead_counts_as_now_so_that_a_sender_cannot_keep_its_record_going_round(at: Scene) -> None:
    give_up(at, at.message(since=START + 1_000 * 365 * DAY))
    [place] = came_back(at)
    assert place["since"] == START


def test_the_retention_is_that_of_the_flow(at: Scene) -> None:
    at.flow.retention = timedelta(hours=2)
    at.clock.advance(seconds=7_200)
    give_up(at, at.message())
    assert at.told(EventType.FAILED) == 1


def test_it_goes_back_to_the_queue_that_sqs_has_moved_it_from(at: Scene) -> None:
    at.aws.create_queue("elsewhere")
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:elsewhere"
    attributes = record(at.message())["attributes"] | {"DeadLetterQueueSourceArn": arn}
    give_up(at, at.message(), attributes=attributes)
    assert len(came_back(at, "elsewhere")) == 1


@pytest.mark.parametrize(("said", "group"), [({"MessageGroupId": "g"}, "g"), ({}, "o1")])
def test_in_a_fifo_queue_it_goes_back_to_its_group_or_to_that_of_its_object(
    at: Scene, said: dict[str, str], group: str
) -> None:
    at.aws.create_queue("elsewhere.fifo", FifoQueue="true")
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:elsewhere.fifo"
    attributes = record(at.message())["attributes"] | {"DeadLetterQueueSourceArn": arn, **said}
    give_up(at, at.message(), attributes=attributes)
    [back] = at.sent("elsewhere.fifo")
    assert back["Attributes"]["MessageGroupId"] == group


def test_where_no_queue_of_sqs_is_named_it_goes_back_to_the_inbox_of_its_stage(at: Scene) -> None:
    arn = f"arn:aws:sns:{REGION}:{ACCOUNT_ID}:elsewhere"
    attributes = record(at.message())["attributes"] | {"DeadLetterQueueSourceArn": arn}
    give_up(at, at.message(), attributes=attributes)
    assert len(came_back(at)) == 1


def test_a_record_that_does_not_say_when_it_was_sent_goes_back_as_one_that_was_sent_now(at: Scene) -> None:
    """Only who invokes the function itself can make one."""
    give_up(at, at.message(), attributes={})
    [place] = came_back(at)
    assert (place["since"], at.told(EventType.BROKEN)) == (START, 0)


def test_a_hop_that_cannot_be_looked_up_now_stays_where_it_is_and_is_not_begun(at: Scene) -> None:
    with intercept(no_reads):
        assert give_up(at, at.message()) != ACKED
    assert (at.script.handled, came_back(at), at.item()) == ([], [], None)


@pytest.mark.parametrize(("waited", "is_parked"), [(12 * DAY - 1, False), (12 * DAY, True)])
def test_what_cannot_be_looked_up_until_its_queue_nearly_deletes_it_is_a_dead_letter(
    at: Scene, waited: int, is_parked: bool
) -> None:
    at.clock.advance(seconds=waited)
    attributes = record(at.message())["attributes"] | {"SentTimestamp": str(START), "ApproximateReceiveCount": "50"}
    with intercept(no_reads):
        answer = give_up(at, at.message(), attributes=attributes)
    letters = at.sent("dead")
    assert (answer == ACKED, len(letters), at.told(EventType.PARKED)) == (is_parked, is_parked, is_parked)
    assert came_back(at) == []
    if is_parked:
        assert at.deliver(at.message(redrive=1)) == [True], "a redrive goes on with it"
        assert at.priced() == 1


OLD: dict[str, Any] = {"SentTimestamp": str(START), "ApproximateReceiveCount": "50"}
"""Of a record that its queue keeps for not much longer."""


def test_what_is_nearly_deleted_and_needs_no_parking_is_acknowledged_alone(at: Scene) -> None:
    at.deliver(at.message())
    at.clock.advance(seconds=12 * DAY)
    attributes = record(at.message())["attributes"] | OLD
    assert give_up(at, at.message(), attributes=attributes) == ACKED
    assert (at.sent("dead"), at.told(EventType.PARKED)) == ([], 0)


def test_what_its_own_function_cannot_begin_is_left_to_the_queue_of_what_is_given_up(at: Scene) -> None:
    at.clock.advance(seconds=12 * DAY)
    old = record(at.message())
    with intercept(no_database):
        assert at.handler({"Records": [{**old, "attributes": old["attributes"] | OLD}]})["batchItemFailures"]
    assert (at.sent("dead"), at.told(EventType.PARKED)) == ([], 0)


def test_what_is_nearly_deleted_is_a_dead_letter_of_its_own_flow(at: Scene) -> None:
    class Other(Flow, name="other", object_id="order_id", dead_letters="dead-of-others"):
        stages = two_stages(Script())

    at.aws.create_queue("dead-of-others")
    at.clock.advance(seconds=12 * DAY)
    attributes = record(at.message())["attributes"] | OLD
    ender = dlq_handler(Other, at.flow).using(at.handler._services)
    with intercept(no_reads):
        assert ender({"Records": [received(at.message(), attributes=attributes)]}) == ACKED
    assert (len(at.sent("dead")), at.sent("dead-of-others")) == (1, [])


def no_database(call: ApiCall, proceed: Proceed) -> Response:
    if call.service == "dynamodb":
        raise EndpointConnectionError(endpoint_url="https://dynamodb")
    return proceed()


def test_what_is_nearly_deleted_stays_where_its_dead_letter_is_refused(at: Scene) -> None:
    drop_queue(at, "dead")
    at.clock.advance(seconds=12 * DAY)
    attributes = record(at.message())["attributes"] | {"SentTimestamp": str(START), "ApproximateReceiveCount": "50"}
    with intercept(no_reads):
        assert give_up(at, at.message(), attributes=attributes)["batchItemFailures"]


def no_reads(call: ApiCall, proceed: Proceed) -> Response:
    if call.operation == "GetItem":
        raise EndpointConnectionError(endpoint_url="https://dynamodb")
    return proceed()


def test_a_message_that_can_never_work_ends_its_run_at_once(at: Scene) -> None:
    assert give_up(at, at.message(body='{"order":"no"}', object_id=ObjectId(""))) == ACKED
    assert (at.told(EventType.FAILED), len(at.sent("dead")), came_back(at)) == (1, 1, [])


def test_a_record_of_a_topic_is_not_published_to_all_who_listen(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic(at.aws.client("sns").create_topic(Name="ordered")["TopicArn"])
    monkeypatch.setattr(at.flow, "inbox_of", lambda stage, carried=None: topic)
    assert give_up(at, at.message())["batchItemFailures"]
    assert (at.item(), at.told(EventType.SENT), at.told(EventType.BROKEN)) == (None, 0, 0)
    attributes = record(at.message())["attributes"] | {
        "DeadLetterQueueSourceArn": record(at.message())["eventSourceARN"]
    }
    assert give_up(at, at.message(), attributes=attributes) == ACKED
    assert len(came_back(at)) == 1


def test_a_record_of_which_sqs_says_no_queue_goes_back_to_its_lane(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = (Lane("normal", "price-order"), Lane("urgent", "close-order"))
    monkeypatch.setattr(at.flow, "lanes_of", lambda stage: lanes)
    monkeypatch.setattr(at.flow, "carry", (LANE,))
    assert give_up(at, at.message()._replace(carried={LANE: Attribute.string("urgent")})) == ACKED
    assert len(at.sent("close-order")) == 1


def test_the_attempts_of_a_fifo_record_are_those_of_its_item(at: Scene) -> None:
    message = at.message()
    arn = f"{record(message)['eventSourceARN']}.fifo"
    at.script.pricing = boom
    at.handler({"Records": [received(message, eventSourceARN=arn)]})
    at.clock.advance(seconds=20)
    give_up(at, message, eventSourceARN=arn)
    [place] = came_back(at)
    assert (place["retry"], place["error"][0], at.told(EventType.FAILED)) == (1, "GivenUp", 0)
    assert place["error"][1] == "attempt 1 failed, and SQS gave its record up; the function's log has the error"
    give_up(at, message._replace(retry=1, first_error=ErrorNote("Boom", "at first", START)), eventSourceARN=arn)
    assert [one["error"][0] for one in came_back(at)] == ["Boom"]
    kill(at, message, 2, eventSourceARN=arn)
    give_up(at, message, eventSourceARN=arn)
    assert at.told(EventType.FAILED) == 1


def test_a_fifo_record_that_is_given_up_while_its_run_rests_goes_back_when_its_delay_is_over(at: Scene) -> None:
    """There it would be the next attempt, which no note in the item keeps waiting."""
    message = at.message()
    arn = f"{record(message)['eventSourceARN']}.fifo"
    at.script.pricing = boom
    at.handler({"Records": [received(message, eventSourceARN=arn)]})
    assert give_up(at, message, eventSourceARN=arn) != ACKED
    assert came_back(at) == []
    at.clock.advance(seconds=20)
    assert give_up(at, message, eventSourceARN=arn) == ACKED
    assert [place["retry"] for place in came_back(at)] == [1]


def test_a_record_goes_back_with_the_error_of_an_attempt_that_has_failed_and_with_none_before(at: Scene) -> None:
    give_up(at, at.message())
    give_up(at, at.message(retry=1))
    assert ["error" in place for place in came_back(at)] == [False, True]


def test_a_copy_of_an_attempt_that_another_message_has_followed_does_not_go_back(at: Scene) -> None:
    at.script.pricing = boom
    for retry in range(2):
        assert at.deliver(at.message(retry=retry)) == [True]
    at.sent("price-order")
    at.clock.advance(seconds=31)
    assert give_up(at, at.message()) == ACKED
    assert (came_back(at), at.sent("dead")) == ([], [])


def test_a_request_that_is_too_deep_does_not_go_round_while_its_dead_letter_is_refused(at: Scene) -> None:
    at.flow.max_depth = 1
    drop_queue(at, "dead")
    kept = {"batchItemFailures": [{"itemIdentifier": message_id(0)}]}
    assert give_up(at, at.message(depth=2)) == kept
    assert (at.item(), at.sent("price-order")) == (None, [])
    at.aws.create_queue("dead")
    assert give_up(at, at.message(depth=2)) == ACKED
    [letter] = at.sent("dead")
    assert "max_depth is 1" in letter["MessageAttributes"]["flowguard"]["StringValue"]


def test_a_message_that_no_run_item_can_hold_is_a_dead_letter_from_there_too(
    at: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "message_problem", lambda _: "its redrive has too many digits")
    assert give_up(at, at.message()) == ACKED
    [letter] = at.sent("dead")
    assert "can have no run" in letter["MessageAttributes"]["flowguard"]["StringValue"]


def test_what_cannot_be_looked_at_stays_and_is_not_begun(at: Scene) -> None:
    with intercept(no_reads):
        assert give_up(at, at.message())["batchItemFailures"]
    assert (at.item(), at.script.handled, came_back(at)) == (None, [], [])


def test_a_run_that_went_on_meanwhile_is_left_as_it_is(at: Scene) -> None:
    at.deliver(at.message())
    at.sent("close-order")
    assert give_up(at, at.message()) == ACKED
    item = at.item()
    assert item is not None
    assert item.status is Status.RUNNING
    assert (len(at.sent("close-order")), at.sent("dead")) == (1, []), "what the dead worker had to send is sent"


def test_a_message_whose_worker_may_still_live_stays_in_the_dead_letter_queue(at: Scene) -> None:
    answers: list[Any] = []

    def given_up_too_early(step: Step[OrderState]) -> None:
        answers.append(give_up(at, at.message()))

    at.script.pricing = given_up_too_early
    with intercept(no_visibility):
        at.deliver(at.message())
    assert answers == [{"batchItemFailures": [{"itemIdentifier": message_id(0)}]}]
    assert at.priced() == 1


def test_a_hop_that_becomes_free_while_it_is_looked_at_is_neither_ended_nor_taken_from_its_worker(at: Scene) -> None:
    """The first read says BUSY, and at the second one the lease is over. Its worker is slow, and lives."""

    def time_goes_by(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        if call.operation == "GetItem":
            at.clock.advance(seconds=31)
        return answer

    def slow(step: Step[OrderState]) -> None:
        with intercept(time_goes_by), intercept(no_visibility):
            assert give_up(at, at.message())["batchItemFailures"]

    at.script.pricing = slow
    at.deliver(at.message())
    assert at.calls == ["UpdateItem", "GetItem", "GetItem", "TransactWriteItems"], "who only looks claims nothing"
    assert (at.priced(), at.told(EventType.CLAIMED), at.sent("dead")) == (1, 1, [])
    assert give_up(at, at.message()) == ACKED
    assert (came_back(at), at.told(EventType.FAILED)) == ([], 0)


def no_visibility(call: ApiCall, proceed: Proceed) -> Response:
    return {} if call.operation.startswith("ChangeMessageVisibility") else proceed()
