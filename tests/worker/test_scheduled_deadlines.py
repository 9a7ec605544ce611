"""The deadline of a long wait by one schedule of EventBridge Scheduler, and by SQS where the scheduler refuses."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from flowguard.aws.schedules import schedule_name
from flowguard.aws.sender import AWSSender
from flowguard.aws.services import aws_services
from flowguard.clock import ManualClock
from flowguard.events import EventType, Tally
from flowguard.flow import Flow
from flowguard.outcome import Outcome
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.step import Step
from flowguard.testing import FlowRunner
from flowguard.testing.explorer import explore
from tests.aws.engines import same_clients
from tests.waits import SCRIPT, STAGES, START, Cart, Late, Progress, Search, WaitScene, asks, record, wait_scene

ROLE = "arn:aws:iam::123456789012:role/scheduler"
LONG = timedelta(days=3)
DAY = 86_400_000


class LongCarts(Flow, name="long-carts", object_id="cart_id", answers="answers", long_delays=True, trust_senders=True):
    stages = STAGES


def for_three_days(step: Step[Progress]) -> Outcome:
    asked: dict[str, Any] = {name: step.ask(Search, Cart(cart_id=name)) for name in "ab"}
    return Late.when_all(**asked, within=LONG, on_timeout="late")


@pytest.fixture
def at() -> Iterator[WaitScene]:
    with wait_scene(LongCarts, Settings(scheduler_role=ROLE)) as found:
        found.aws.create_queue("long-carts-dead-letters")
        yield found


def scheduled(at: WaitScene) -> dict[str, Any]:
    [found] = at.aws.schedules
    return dict(found)


def arriving(at: WaitScene) -> dict[str, Any]:
    """What the schedule puts into the queue: a body alone."""
    return record({}, scheduled(at)["Target"]["Input"], "answers")


def test_a_long_deadline_is_one_schedule_for_its_very_moment(at: WaitScene) -> None:
    at.begin(for_three_days)
    found = scheduled(at)
    assert found["ScheduleExpression"] == "at(2027-01-18T08:00:00)"
    assert found["ActionAfterCompletion"] == "DELETE"
    assert found["Target"]["Arn"] == "arn:aws:sqs:us-east-1:123456789012:answers"
    assert at.wait.deadline == START + 3 * DAY
    assert at.waiting("answers") == [], "SQS has none beside it"


def test_where_a_look_has_to_prove_what_was_sent_the_schedule_is_made_by_it(at: WaitScene) -> None:
    at.begin(lambda step: Late.when_all(**asks(step, "ab"), within=LONG, on_timeout="late"))
    [first] = at.waiting("answers")
    assert at.aws.schedules == ()
    assert at.deliver(first)
    assert (at.waiting("answers"), len(at.aws.schedules)) == ([], 1)


def test_it_ends_the_wait_when_it_comes_and_only_once(at: WaitScene) -> None:
    at.begin(for_three_days)
    at.move_to(START + 3 * DAY)
    for _ in range(2):
        assert at.deliver(arriving(at))
    assert at.told(EventType.TIMED_OUT) == 1
    assert at.resume() > 0
    assert [stage for stage, _ in SCRIPT.got] == ["late"]
    assert at.deliver(arriving(at)), "nor when the run has ended"
    assert at.item().status is Status.COMPLETED


def test_one_that_comes_late_ends_the_wait_then(at: WaitScene) -> None:
    at.begin(for_three_days)
    at.move_to(START + 5 * DAY)
    assert at.deliver(arriving(at))
    assert at.told(EventType.TIMED_OUT) == 1


def test_one_that_comes_early_goes_on_by_sqs_and_the_schedule_that_is_there_is_enough(at: WaitScene) -> None:
    at.begin(for_three_days)
    at.move_to(START + 3 * DAY - 60_000)
    assert at.deliver(arriving(at))
    [again] = at.waiting("answers")
    assert again["messageAttributes"]["flowguard"], "SQS waits for the rest"
    assert at.told(EventType.TIMED_OUT) == 0
    at.move_to(START + DAY)
    assert len(at.aws.schedules) == 1


def test_a_schedule_of_a_wait_that_is_over_finds_nothing_to_do(at: WaitScene) -> None:
    """So nobody needs to delete it."""
    at.begin(for_three_days)
    for name in "ab":
        at.answer(name)
    at.resume()
    at.move_to(START + 3 * DAY)
    assert at.deliver(arriving(at))
    assert at.told(EventType.TIMED_OUT) == 0
    assert at.waiting("carts") == []


def test_a_repeated_commit_makes_the_same_schedule(at: WaitScene) -> None:
    at.begin(for_three_days)
    assert at.begin(for_three_days), "the copy of its message sends the outbox again"
    assert len(at.aws.schedules) == 1
    assert at.waiting("answers") == []


def test_one_that_is_sent_late_is_for_its_own_moment(at: WaitScene) -> None:
    """Its worker died before it could send it, and the message came again a day later."""

    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        if call.service in ("scheduler", "sqs"):
            raise EndpointConnectionError(endpoint_url="https://aws")
        return proceed()

    with intercept(refuse):
        assert not at.begin(for_three_days)
    at.move_to(START + DAY)
    at.begin(for_three_days)
    assert scheduled(at)["ScheduleExpression"] == "at(2027-01-18T08:00:00)"


def test_one_that_is_sent_when_little_is_left_goes_by_sqs(at: WaitScene) -> None:
    with intercept(Refusing("sqs", EndpointConnectionError(endpoint_url="https://aws"))):
        assert not at.begin(for_three_days)
    at.move_to(START + 3 * DAY - 600_000)
    with intercept(Recorder()) as calls:
        at.begin(for_three_days)
    delays = [
        entry["DelaySeconds"]
        for call in calls.calls
        if call.operation == "SendMessageBatch"
        for entry in call.params["Entries"]
        if call.params["QueueUrl"].endswith("/answers")
    ]
    assert (delays, at.aws.schedules) == ([600], ())


class Refusing:
    """Refuses all calls of a service, and of an operation where one is named."""

    def __init__(self, service: str, error: Exception, operation: str | None = None) -> None:
        self._of, self._error = (service, operation), error

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        service, operation = self._of
        if call.service == service and operation in (None, call.operation):
            raise self._error
        return proceed()


def denied(operation: str, code: str = "AccessDeniedException") -> ClientError:
    response: Any = {"Error": {"Code": code, "Message": "no"}}
    return ClientError(response, operation)


REFUSALS: dict[str, Refusing] = {
    "denied for good": Refusing("scheduler", denied("CreateSchedule")),
    "throttled": Refusing("scheduler", denied("CreateSchedule", "ThrottlingException")),
    "no such group": Refusing("scheduler", denied("CreateSchedule", "ResourceNotFoundException")),
    "down": Refusing("scheduler", EndpointConnectionError(endpoint_url="https://scheduler")),
    "the queue's ARN may not be read": Refusing("sqs", denied("GetQueueAttributes"), "GetQueueAttributes"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_where_the_scheduler_refuses_a_deadline_goes_by_sqs_in_steps(
    refusal: str, at: WaitScene, caplog: pytest.LogCaptureFixture
) -> None:
    with intercept(REFUSALS[refusal]), caplog.at_level(logging.WARNING, "flowguard"):
        assert at.begin(for_three_days), "nothing waits for the scheduler"
    assert "a deadline goes by SQS, a quarter of an hour at a time: " in caplog.text
    assert at.aws.schedules == ()
    [step] = at.waiting("answers")
    at.move_to(START + 900_000)
    assert at.deliver(step)
    assert scheduled(at)["ScheduleExpression"] == "at(2027-01-18T08:00:00)", "each step tries the scheduler again"
    assert at.waiting("answers") == []


def test_without_a_role_every_step_goes_by_sqs() -> None:
    with wait_scene(LongCarts) as at:
        at.begin(for_three_days)
        [step] = at.waiting("answers")
        at.move_to(START + 900_000)
        assert at.deliver(step)
        assert len(at.waiting("answers")) == 1
        assert at.aws.schedules == ()


def test_a_schedule_that_was_made_though_its_answer_was_lost_is_no_second_deadline(at: WaitScene) -> None:
    def lose(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        if call.operation == "CreateSchedule":
            raise EndpointConnectionError(endpoint_url="https://scheduler")
        return answer

    with intercept(lose):
        at.begin(for_three_days)
    [step] = at.waiting("answers")
    at.move_to(START + 900_000)
    assert at.deliver(step)
    assert at.waiting("answers") == [], "the schedule is there, and the steps end"
    assert len(at.aws.schedules) == 1


def test_a_flow_without_long_delays_makes_no_schedule() -> None:
    with wait_scene(settings=Settings(scheduler_role=ROLE)) as at:
        at.begin(for_three_days)
        assert at.aws.schedules == ()
        assert len(at.waiting("answers")) == 1


def test_only_a_deadline_goes_another_way(at: WaitScene) -> None:
    """A retry after hours must not come back sooner: it is refused, and its record stays."""
    clients, tally = same_clients(), Tally()
    sender = aws_services(Settings(), clients, clock=ManualClock(START), observer=tally).sender
    retry = Send(Kind.SIDE, LongCarts.inbox_of(STAGES[0]), "{}", "r-1", delay=3_600)
    assert set(sender.send([retry])) == {0}
    body = json.dumps({"deadline": START + 3_600_000})
    assert sender.send([retry._replace(kind=Kind.DEADLINE, body=body)]) == {}
    assert isinstance(sender, AWSSender)


def test_the_name_of_a_schedule_is_that_of_its_wait() -> None:
    one = Send(Kind.DEADLINE, LongCarts.answers, "{}", "run-1.1.deadline", delay=1_000)
    name = schedule_name(one, "carts")
    assert name == schedule_name(one._replace(delay=2_000), "carts")
    assert name != schedule_name(one._replace(id="run-1.2.deadline"), "carts")


# -- in virtual time ---------------------------------------------------------------------------------------------------


def test_a_test_of_a_flow_waits_for_days_by_one_message(flow_runner: FlowRunner) -> None:
    SCRIPT.waits = for_three_days
    flow_runner.send(LongCarts, Cart(cart_id="c1"))
    result = flow_runner.run()
    assert result.run("c1").status == "COMPLETED"
    stages = [one.stage for one in result.deliveries]
    assert stages.count("late") == 1
    assert len(result.deliveries) == 3, "the request, the deadline and what it leads to"


@pytest.mark.proof("explores a flow that waits")
def test_every_fault_of_a_scheduled_deadline_is_survived() -> None:
    SCRIPT.waits = for_three_days
    report = explore(LongCarts, [Cart(cart_id="c1")], bound=5, walks=5)
    assert report.ok, str(report)
    met = [call for call in report.coverage if "CreateSchedule" in call]
    assert len(met) == 1
