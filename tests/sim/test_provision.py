"""What flows use is there: beforehand where it is known, and else when it is first used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.project.declared import read_key, read_keys
from flowguard.sim.calls import Recorder, intercept
from flowguard.sim.in_process import AWSInProcess
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.provision import AutoProvisioner
from flowguard.testing import sqs_event
from flowguard.testing.explorer import explore
from tests.refusals.engines import IN_PROCESS
from tests.refusals.outcome import Refused, outcome

TARGET = {"Arn": "arn:aws:sqs:us-east-1:123456789012:emails", "RoleArn": "arn:aws:iam::123456789012:role/scheduler"}


class Order(BaseModel):
    order_id: str


class Count(Stage[Order], name="count", inbox="orders"):
    """Uses a table and a group of schedules that nobody has declared."""

    def handle(self, order: Order, step: Step) -> Outcome:
        step.update("undeclared", {"day": "monday"}, "ADD amount :n", values={":n": 1})
        scheduler: Any = boto3.client("scheduler", region_name="us-east-1")
        name = f"daily-{step.attempt}"
        try:
            scheduler.create_schedule(
                Name=name,
                GroupName="reports",
                ScheduleExpression="rate(1 day)",
                FlexibleTimeWindow={"Mode": "OFF"},
                Target=TARGET,
            )
        except scheduler.exceptions.ConflictException:
            return Done(name)
        return Done(name)


class Counting(Flow, name="counting", object_id="order_id"):
    stages = (Count,)


@pytest.fixture(params=IN_PROCESS)
def aws(request: pytest.FixtureRequest) -> Iterator[AWSInProcess]:
    with IN_PROCESS[request.param]() as found:
        yield found


@pytest.mark.parametrize(
    "arn",
    [
        "arn:aws:sns:us-east-1:123456789012:news",
        "arn:aws:sns:eu-west-1:123456789012:news",
        "arn:aws:sns:us-east-1:999999999999:news",
    ],
)
@pytest.mark.parametrize("name", ["TopicArn", "TargetArn"])
def test_a_topic_of_any_region_and_account_is_there_when_it_is_used(aws: AWSInProcess, arn: str, name: str) -> None:
    provisioner = AutoProvisioner(aws, {}, "flowguard")
    provisioner.subscribe({"readers": "news"})
    given = {name: arn}
    with intercept(Recorder()) as calls, intercept(provisioner):
        aws.client("sns").publish(**given, Message="hello")  # type: ignore[arg-type]  # one of the two parameters
    assert calls.calls[0].params[name] == arn, "whoever keeps the call sees what was asked"
    (message,) = aws.client("sqs").receive_message(QueueUrl=provisioner.queue("readers"))["Messages"]
    assert "hello" in message["Body"]


def test_a_topic_that_cannot_be_there_is_named(aws: AWSInProcess) -> None:
    arn = "arn:aws:sns:us-east-1:123456789012:news"
    aws.refusing.remove("sns:news")
    with intercept(AutoProvisioner(aws, {}, "flowguard")):
        found = outcome(lambda: aws.client("sns").publish(TopicArn=arn, Message="x"))
        assert found == Refused("NotFound", 404)
        with pytest.raises(aws.client("sns").exceptions.NotFoundException, match=f"Topic does not exist: {arn}"):
            aws.client("sns").publish(TopicArn=arn, Message="x")


def test_the_declared_is_there_beforehand_and_what_was_there_stays(aws: AWSInProcess) -> None:
    aws.create_table("prices")
    provisioner = AutoProvisioner(aws, read_keys({"prices": "sku", "orders": "order_id"}), "flowguard")
    provisioner.set_up(["b.fifo", "a"], ["news"])
    assert provisioner.tables == ["prices", "orders"]
    assert list(provisioner.queues) == ["a", "b.fifo"]
    assert set(aws.client("dynamodb").list_tables()["TableNames"]) == {"flowguard", "orders", "prices"}
    keys = aws.client("dynamodb").describe_table(TableName="prices")["Table"]["KeySchema"]
    assert [one["AttributeName"] for one in keys] == ["pk", "sk"]
    assert len(aws.client("sns").list_topics()["Topics"]) == 1


def test_an_engine_that_goes_back_has_what_was_supplied_and_not_what_users_created() -> None:
    with MemoryAWS() as aws:
        provisioner = AutoProvisioner(aws, {}, "flowguard")
        provisioner.set_up(["orders"])
        before, provided = aws.snapshot(), provisioner.provided()
        assert not provisioner.go_back(provided)
        with intercept(provisioner):
            aws.create_table("theirs")
            provisioner.table("totals", read_key("totals", "day"))
            provisioner.queue("emails")
        aws.restore(before)
        assert provisioner.go_back(provided)
        assert set(aws.client("dynamodb").list_tables()["TableNames"]) == {"flowguard", "totals"}
        assert provisioner.tables == ["totals"]
        assert len(aws.client("sqs").list_queues()["QueueUrls"]) == 2


@pytest.mark.slow("runs a flow on each engine")
def test_each_schedule_has_the_undeclared_that_the_first_one_used() -> None:
    report = explore(Counting, [sqs_event("orders", {"order_id": "o1"})], bound=0, walks=0)
    assert report.schedules > 40
    assert report.ok, str(report)


def test_a_queue_keeps_its_messages_as_long_as_sqs_can(aws: AWSInProcess) -> None:
    """A letter of the first day is there after a wait of ten."""
    url = AutoProvisioner(aws, {}, "flowguard").queue("dead")
    found = aws.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["MessageRetentionPeriod"])
    assert found["Attributes"] == {"MessageRetentionPeriod": "1209600"}
