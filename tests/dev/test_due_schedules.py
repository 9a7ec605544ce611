"""What EventBridge Scheduler would send, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flowguard.aws.clients import Clients
from flowguard.clock import ManualClock
from flowguard.dev.due_schedules import DueSchedules, moment
from flowguard.sim.account import SIMULATED_ROLE
from flowguard.sim.moto import EmbeddedAWS

DUE = 1_798_858_445_000  # 2027-01-02T02:54:05Z


@pytest.fixture
def aws() -> Iterator[EmbeddedAWS]:
    with EmbeddedAWS() as found:
        yield found


def schedule(aws: EmbeddedAWS, name: str, at: str, queue_arn: str) -> None:
    target: Any = {"Arn": queue_arn, "RoleArn": SIMULATED_ROLE, "Input": name}
    aws.client("scheduler").create_schedule(
        Name=name, ScheduleExpression=at, FlexibleTimeWindow={"Mode": "OFF"}, Target=target
    )


def test_a_message_is_sent_once_and_when_it_is_due(aws: EmbeddedAWS) -> None:
    url = aws.create_queue("orders")
    schedule(aws, "soon", "at(2027-01-02T02:54:05)", aws.queue_arn(url))
    schedule(aws, "later", "at(2027-01-02T02:54:06)", aws.queue_arn(url))
    schedule(aws, "never", "rate(1 day)", aws.queue_arn(url))
    clock = ManualClock(DUE - 1)
    schedules = DueSchedules(Clients(), "default", clock.now)
    bodies = []
    for _ in range(3):
        schedules.send()
        found = aws.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        bodies.append([one["Body"] for one in found])
        clock.advance(ms=1)
    assert bodies == [[], ["soon"], []]
    left = aws.client("scheduler").list_schedules()["Schedules"]
    assert sorted(one["Name"] for one in left) == ["later", "never"]


@pytest.mark.parametrize("expression", ["", "at()", "at(2027-02-30T00:00:00)", "cron(0 0 * * ? *)", "at(\ud800)"])
def test_what_is_no_moment_is_never_due(expression: str) -> None:
    assert moment(expression) > DUE
