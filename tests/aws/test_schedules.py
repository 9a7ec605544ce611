"""Delays longer than SQS has: one schedule each, however often the call is repeated, and everything inside the body."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from flowguard.aws.schedules import Schedules, schedule_name
from flowguard.aws.services import aws_services
from flowguard.clock import ManualClock
from flowguard.destinations import Queue
from flowguard.errors import Retry
from flowguard.events import EventType
from flowguard.flow import AnyFlow, Flow
from flowguard.protocol.outbox import Kind, Send
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.sim.in_process import AWSInProcess
from flowguard.sim.limits.schedules import delivered_input
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.step import Step
from flowguard.testing import sqs_event
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, normalize
from flowguard.wire.message import Place
from flowguard.worker.ports import Refusal
from tests.aws.engines import same_clients
from tests.scene import START, OrderState, Scene, Script, scene, two_stages

ARN = "arn:aws:sqs:us-east-1:123456789012:price-order"
ROLE = "arn:aws:iam::123456789012:role/scheduler"
SEND = Send(Kind.SIDE, Queue(ARN), '{"order_id":"o1"}', "run-1.1.0.1", delay=3_600)


def schedules(aws: AWSInProcess, role: str | None = ROLE) -> Schedules:
    return Schedules(same_clients(), role, clock=ManualClock(START))


def stored(aws: AWSInProcess) -> Sequence[Mapping[str, Any]]:
    if isinstance(aws, MemoryAWS):
        return aws.schedules
    scheduler = aws.client("scheduler")
    return [scheduler.get_schedule(Name=one["Name"]) for one in scheduler.list_schedules()["Schedules"]]


def test_a_long_delay_becomes_a_schedule_that_deletes_itself(aws: AWSInProcess) -> None:
    assert schedules(aws).create({0: SEND}) == {}
    [found] = stored(aws)
    assert found["Name"] == schedule_name(SEND, ARN)
    assert found["ScheduleExpression"] == "at(2027-01-15T09:00:00)"
    assert (found["ActionAfterCompletion"], found["FlexibleTimeWindow"]) == ("DELETE", {"Mode": "OFF"})
    target = {name: value for name, value in found["Target"].items() if name != "RetryPolicy"}  # moto's own default
    assert target == {"Arn": ARN, "RoleArn": ROLE, "Input": '{"order_id":"o1"}'}


def test_what_cannot_be_delivered_has_a_queue_where_one_is_named(aws: AWSInProcess) -> None:
    letters = "arn:aws:sqs:us-east-1:123456789012:dead-letters"
    Schedules(same_clients(), ROLE, undelivered=letters, clock=ManualClock(START)).create({0: SEND})
    [found] = stored(aws)
    assert found["Target"]["DeadLetterConfig"] == {"Arn": letters}


def test_a_message_is_kept_under_the_key_that_is_named_and_under_no_other(aws: AWSInProcess) -> None:
    key = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    settings = Settings(scheduler_role=ROLE, scheduler_key=key)
    aws_services(settings, same_clients(), clock=ManualClock(START)).sender.send([SEND])
    schedules(aws).create({0: SEND._replace(id="run-2.1.0.1")})
    assert sorted(found.get("KmsKeyArn") or "" for found in stored(aws)) == ["", key]


def test_a_repeated_call_makes_one_schedule_and_is_no_failure(aws: AWSInProcess) -> None:
    for _ in range(2):
        assert schedules(aws).create({0: SEND}) == {}
    assert len(stored(aws)) == 1


def test_without_a_role_it_says_which_setting_is_missing(aws: AWSInProcess) -> None:
    failures = schedules(aws, None).create({4: SEND})
    why = "a delay above 15 minutes needs FLOWGUARD_SCHEDULER_ROLE, the ARN of a role"
    assert failures == {4: Refusal(why, final=False, for_minutes=True)}, "its setting may come after its code"


def test_the_arn_of_a_queue_given_by_name_or_url_is_looked_up_once(aws: AWSInProcess) -> None:
    url = aws.create_queue("price-order")
    for name in ("price-order", url):
        made = schedules(aws)
        with intercept(Recorder()) as calls:
            for number in range(2):
                send = Send(Kind.SIDE, Queue(name), "{}", f"{name}-{number}", delay=901)
                assert made.create({0: send}) == {}
        assert calls.count("sqs", "GetQueueAttributes") == 1
        assert calls.count("sqs", "GetQueueUrl") == (1 if name == "price-order" else 0)
    assert {found["Target"]["Arn"] for found in stored(aws)} == {ARN}


def test_a_queue_that_is_not_there_is_refused_for_minutes(aws: AWSInProcess) -> None:
    [refusal] = schedules(aws).create({0: Send(Kind.SIDE, Queue("inbox"), "{}", "r", delay=901)}).values()
    assert "QueueDoesNotExist" in refusal.why
    assert (refusal.final, refusal.for_minutes) == (False, True)


def test_attributes_are_put_inside_the_body(aws: AWSInProcess) -> None:
    assert schedules(aws).create({0: SEND._replace(attributes={"tenant": Attribute.string("é\ud800")})}) == {}
    [found] = stored(aws)
    [envelope] = normalize(sqs_event("price-order", found["Target"]["Input"]))
    assert isinstance(envelope, Envelope)
    assert (envelope.message, envelope.attributes["tenant"].value) == (SEND.body, "é\ud800")


@pytest.mark.parametrize("attributes", [{}, {"tenant": Attribute.string("<aws.scheduler.attempt-number>")}])
def test_a_text_like_an_attribute_of_the_scheduler_arrives_as_it_was(
    aws: AWSInProcess, attributes: Mapping[str, Attribute]
) -> None:
    """The scheduler replaces its context attributes wherever they stand in the input."""
    body = '{"note":"see <aws.scheduler.execution-id>"}'
    assert schedules(aws).create({0: SEND._replace(body=body, attributes=attributes)}) == {}
    [found] = stored(aws)
    text = found["Target"]["Input"]
    assert delivered_input(text) == text
    [envelope] = normalize(sqs_event("price-order", text))
    assert isinstance(envelope, Envelope)
    assert json.loads(envelope.message) == json.loads(body)
    if attributes:
        assert (envelope.message, envelope.attributes["tenant"]) == (body, attributes["tenant"])


def test_the_engines_replace_what_the_scheduler_does() -> None:
    assert delivered_input("<aws.scheduler.scheduled-time> <aws.scheduler.else>") == (
        "the scheduled-time <aws.scheduler.else>"
    )


def test_a_scheduler_that_is_down_fails_its_message(aws: AWSInProcess) -> None:
    def down(call: ApiCall, proceed: Proceed) -> Response:
        raise EndpointConnectionError(endpoint_url="https://scheduler")

    with intercept(down):
        [refusal] = schedules(aws).create({0: SEND}).values()
    assert "EndpointConnectionError" in refusal.why
    assert not refusal.final


def test_a_scheduler_that_refuses_fails_its_message_alone(aws: AWSInProcess) -> None:
    def first_refused(call: ApiCall, proceed: Proceed) -> Response:
        if call.number == 1:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "CreateSchedule")
        return proceed()

    with intercept(first_refused):
        failures = schedules(aws).create({3: SEND, 4: SEND._replace(id="run-1.1.0.2")})
    assert {place: "AccessDenied" in refusal.why for place, refusal in failures.items()} == {3: True}
    assert len(stored(aws)) == 1


def test_a_role_that_is_too_new_refuses_for_minutes_and_not_for_good(aws: AWSInProcess) -> None:
    def too_new(call: ApiCall, proceed: Proceed) -> Response:
        why = "The execution role you provide must allow AWS EventBridge Scheduler to assume the role."
        error = {"Code": "ValidationException", "Message": why}
        answer: Any = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}}
        raise ClientError(answer, call.operation)

    with intercept(too_new):
        [refusal] = schedules(aws).create({0: SEND}).values()
    assert (refusal.final, refusal.for_minutes) == (False, True)


def test_a_mistake_in_the_code_is_not_taken_for_a_scheduler_that_refuses(aws: AWSInProcess) -> None:
    def broken(call: ApiCall, proceed: Proceed) -> Response:
        raise TypeError("a mistake")

    with intercept(broken), pytest.raises(TypeError, match="a mistake"):
        schedules(aws).create({0: SEND})


def deadline(after: int, delay: int) -> Send:
    """The message of a deadline so many seconds after the start, which a commit has given this delay."""
    return Send(
        Kind.DEADLINE, Queue(ARN), json.dumps({"deadline": START + after * 1_000}), "run-1.1.deadline", delay=delay
    )


@pytest.mark.parametrize(("after", "delay", "left"), [(600, 3_600, 600), (-5, 3_600, 0), (3_600, 900, 900)])
def test_a_deadline_that_is_sent_late_waits_for_its_moment_and_a_step_of_sqs_stays_a_step(
    aws: AWSInProcess, after: int, delay: int, left: int
) -> None:
    assert schedules(aws).timed(deadline(after, delay)).delay == left


def test_what_is_no_deadline_keeps_its_delay_however_late_it_is_sent(aws: AWSInProcess) -> None:
    assert schedules(aws).timed(SEND) == SEND


def patient(script: Script) -> AnyFlow:
    class Patient(Flow, name="orders", object_id="order_id", long_delays=True):
        stages = two_stages(script)

    return Patient


def ask_for_an_hour(step: Step[OrderState]) -> None:
    raise Retry("the shop is closed", after=timedelta(hours=1))


def test_a_retry_in_an_hour_comes_back_as_the_same_request_one_attempt_later() -> None:
    bodies: list[str] = []

    def watch(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "CreateSchedule":
            bodies.append(call.params["Target"]["Input"])
            return {}
        return proceed()

    with scene(patient) as at, intercept(watch):
        with_role(at)
        at.script.pricing = ask_for_an_hour
        assert at.deliver(at.message()) == [True]
        [told] = [h for h in at.tally.events if h.type is EventType.RETRIED]
        assert told.facts["delay"] == 3_600
        record = {
            "messageId": "m-2",
            "receiptHandle": "r",
            "body": bodies[0],
            "attributes": {},
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": ARN,
        }
        [again] = normalize({"Records": [record]})
        assert isinstance(again, Envelope)
        place = Place.parse(again.attributes["flowguard"].value)
        assert (again.message, again.attributes["uniquerequestid"].value) == ('{"order_id":"o1"}', "run-1")
        assert (place.hop, place.retry, place.object_id) == (1, 1, "o1")
        at.script.pricing = lambda step: None
        at.handler({"Records": [record]})
        assert (at.priced(), at.script.handled[-1]) == (1, ("price-order", "run-1", 2))


def with_role(at: Scene) -> None:
    sender: Any = at.handler._services.sender
    sender._schedules._role = ROLE


def test_a_retry_that_can_never_be_scheduled_ends_its_run_and_names_the_setting(denied_for_minutes: None) -> None:
    with scene(patient) as at:
        at.receives = 3
        at.aws.create_queue("orders-dead-letters")
        at.script.pricing = ask_for_an_hour
        assert at.deliver(at.message()) == [True]
        [told] = [h for h in at.tally.events if h.type is EventType.FAILED]
        assert "its retry cannot be sent" in told.facts["why"]
        assert "FLOWGUARD_SCHEDULER_ROLE" in told.facts["why"]
        [letter] = at.sent("orders-dead-letters")
        assert json.loads(letter["MessageAttributes"]["flowguard"]["StringValue"])["redrive"] == 1
