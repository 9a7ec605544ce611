"""Destinations that refuse for good, on each engine of the process, in the words of each service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flowguard.errors import SettingsError
from flowguard.sim.calls import intercept
from flowguard.sim.in_process import AWSInProcess
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.moto import EmbeddedAWS
from flowguard.sim.provision import AutoProvisioner
from flowguard.sim.table_keys import create_table
from tests.refusals.engines import IN_PROCESS
from tests.refusals.outcome import Outcome, Refused, Simply, outcome

KEY = {"pk": {"S": "a"}}
TARGET = {"Arn": "arn:aws:sqs:us-east-1:123456789012:emails", "RoleArn": "arn:aws:iam::123456789012:role/scheduler"}

Act = Callable[[AWSInProcess], Any]


@pytest.fixture(params=IN_PROCESS)
def aws(request: pytest.FixtureRequest) -> Iterator[AWSInProcess]:
    """An engine that has a destination of each kind."""
    with IN_PROCESS[request.param]() as found:
        found.create_queue("emails")
        found.create_topic("news")
        create_table(found.client("dynamodb"), "orders", "pk")
        found.client("events").create_event_bus(Name="shop")
        found.client("s3").create_bucket(Bucket="texts")
        found.client("s3").put_object(Bucket="texts", Key="long", Body=b"x")
        yield found


def url(aws: AWSInProcess) -> str:
    return f"https://sqs.{aws.region}.amazonaws.com/123456789012/emails"


def send(aws: AWSInProcess) -> Any:
    return aws.client("sqs").send_message(QueueUrl=url(aws), MessageBody="x")


def send_batch(aws: AWSInProcess) -> Any:
    return aws.client("sqs").send_message_batch(QueueUrl=url(aws), Entries=[{"Id": "1", "MessageBody": "x"}])


def queue_url(aws: AWSInProcess) -> Any:
    return aws.client("sqs").get_queue_url(QueueName="emails")


def publish(aws: AWSInProcess) -> Any:
    return aws.client("sns").publish(TopicArn=f"arn:aws:sns:{aws.region}:123456789012:news", Message="x")


def publish_batch(aws: AWSInProcess) -> Any:
    arn = f"arn:aws:sns:{aws.region}:123456789012:news"
    return aws.client("sns").publish_batch(TopicArn=arn, PublishBatchRequestEntries=[{"Id": "1", "Message": "x"}])


def put_item(aws: AWSInProcess) -> Any:
    return aws.client("dynamodb").put_item(TableName="orders", Item=KEY)


def get_item(aws: AWSInProcess) -> Any:
    return aws.client("dynamodb").get_item(TableName="orders", Key=KEY)


def transact(aws: AWSInProcess) -> Any:
    actions: Any = [{"Put": {"TableName": "orders", "Item": KEY}}]
    return aws.client("dynamodb").transact_write_items(TransactItems=actions)


def write_batch(aws: AWSInProcess) -> Any:
    return aws.client("dynamodb").batch_write_item(RequestItems={"orders": [{"PutRequest": {"Item": KEY}}]})


def put_events(aws: AWSInProcess) -> Any:
    entry: Any = {"EventBusName": "shop", "Source": "s", "DetailType": "t", "Detail": "{}"}
    return aws.client("events").put_events(Entries=[entry])


def invoke(aws: AWSInProcess, name: str = "mailer") -> Any:
    return aws.client("lambda").invoke(FunctionName=name, InvocationType="Event", Payload=b"{}")


def invoke_by_arn(aws: AWSInProcess) -> Any:
    return invoke(aws, f"arn:aws:lambda:{aws.region}:123456789012:function:mailer:live")


def schedule(aws: AWSInProcess) -> Any:
    return aws.client("scheduler").create_schedule(
        Name="later", ScheduleExpression="at(2030-01-01T00:00:00)", FlexibleTimeWindow={"Mode": "OFF"}, Target=TARGET
    )


def read(aws: AWSInProcess) -> Any:
    return aws.client("s3").get_object(Bucket="texts", Key="long")


def head(aws: AWSInProcess) -> Any:
    return aws.client("s3").head_object(Bucket="texts", Key="long")


def write(aws: AWSInProcess) -> Any:
    return aws.client("s3").put_object(Bucket="texts", Key="long", Body=b"x")


QUEUE, TABLE = Refused("AccessDenied", 403), Refused("AccessDeniedException", 400)
FUNCTION = Refused("AccessDeniedException", 403)

DENIED: list[tuple[str, Act, Outcome]] = [
    ("sqs:emails", send, QUEUE),
    ("sqs:emails", send_batch, QUEUE),
    ("sqs:emails", queue_url, Simply.TAKEN),
    ("sns:news", publish, Refused("AuthorizationError", 403)),
    ("sns:news", publish_batch, Refused("AuthorizationError", 403)),
    *(("dynamodb:orders", act, TABLE) for act in (put_item, get_item, transact, write_batch)),
    ("events:shop", put_events, TABLE),
    ("lambda:mailer", invoke, FUNCTION),
    ("lambda:mailer", invoke_by_arn, FUNCTION),
    ("scheduler:default", schedule, FUNCTION),
    ("s3:texts", read, Refused("AccessDenied", 403)),
    ("s3:texts/long", read, Refused("AccessDenied", 403)),
    ("s3:texts", head, Refused("403", 403)),
    ("s3:texts/long", write, Refused("AccessDenied", 403)),
]

GONE: list[tuple[str, Act, Outcome]] = [
    *(("sqs:emails", act, Refused("AWS.SimpleQueueService.NonExistentQueue")) for act in (send, send_batch, queue_url)),
    ("sns:news", publish, Refused("NotFound", 404)),
    ("sns:news", publish_batch, Refused("NotFound", 404)),
    *(
        ("dynamodb:orders", act, Refused("ResourceNotFoundException"))
        for act in (put_item, get_item, transact, write_batch)
    ),
    ("events:shop", put_events, Simply.TAKEN),
    ("lambda:mailer", invoke, Refused("ResourceNotFoundException", 404)),
    ("lambda:mailer", invoke_by_arn, Refused("ResourceNotFoundException", 404)),
    ("scheduler:default", schedule, Refused("ResourceNotFoundException", 404)),
    ("s3:texts", read, Refused("NoSuchBucket", 404)),
    ("s3:texts", write, Refused("NoSuchBucket", 404)),
    ("s3:texts/long", read, Refused("NoSuchKey", 404)),
    ("s3:texts/long", head, Refused("404", 404)),
    ("s3:texts/long", write, Simply.TAKEN),
]


@pytest.mark.parametrize(("place", "act", "said"), DENIED)
def test_what_is_denied_is_refused_as_the_service_refuses_it(
    aws: AWSInProcess, place: str, act: Act, said: Outcome
) -> None:
    aws.refusing.deny(place)
    assert outcome(lambda: act(aws)) == outcome(lambda: act(aws)) == said


@pytest.mark.parametrize(("place", "act", "said"), GONE)
def test_what_is_removed_is_refused_as_missing(aws: AWSInProcess, place: str, act: Act, said: Outcome) -> None:
    aws.refusing.remove(place)
    assert outcome(lambda: act(aws)) == outcome(lambda: act(aws)) == said


def test_nothing_is_put_on_a_bus_that_is_missing() -> None:
    with MemoryAWS() as aws:
        aws.refusing.remove("events:shop")
        put_events(aws)
        assert aws.events == ()


def test_only_what_is_named_refuses_and_only_until_it_is_allowed(aws: AWSInProcess) -> None:
    aws.refusing.deny("sqs:emails-2", "sns:emails", "s3:text")
    aws.refusing.remove("sqs:email")
    assert outcome(lambda: send(aws)) is Simply.TAKEN
    aws.refusing.deny("sqs:emails")
    aws.refusing.remove("sqs:emails")
    assert outcome(lambda: send(aws)) == QUEUE
    aws.refusing.allow("sqs:emails")
    assert outcome(lambda: send(aws)) is Simply.TAKEN


@pytest.mark.parametrize("place", ["emails", "sqs", "sqs:", "sq:emails", "", ":emails"])
def test_what_names_no_destination_is_refused_with_the_form_of_a_name(place: str) -> None:
    aws = EmbeddedAWS()
    for how in (aws.refusing.deny, aws.refusing.remove, aws.refusing.allow):
        with pytest.raises(SettingsError, match="names no destination; one is written as sqs:…"):
            how(place)


@pytest.mark.parametrize(("place", "act"), [("sqs:emails", send), ("sns:news", publish), ("lambda:mailer", invoke)])
def test_a_world_does_not_supply_what_refuses(aws: AWSInProcess, place: str, act: Act) -> None:
    """It makes destinations when they are first used."""
    with intercept(AutoProvisioner(aws, {}, "flowguard")):
        assert outcome(lambda: act(aws)) is Simply.TAKEN
        aws.refusing.remove(place)
        assert isinstance(outcome(lambda: act(aws)), Refused)
        aws.refusing.deny(place)
        assert isinstance(outcome(lambda: act(aws)), Refused)


def test_a_world_supplies_a_group_of_schedules(aws: AWSInProcess) -> None:
    scheduler = aws.client("scheduler")

    def create(name: str) -> Any:
        return scheduler.create_schedule(
            Name=name,
            GroupName="delays",
            ScheduleExpression="at(2030-01-01T00:00:00)",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target=TARGET,
        )

    assert outcome(lambda: create("a")) == Refused("ResourceNotFoundException", 404)
    with intercept(AutoProvisioner(aws, {}, "flowguard")):
        assert outcome(lambda: create("a")) is outcome(lambda: create("b")) is Simply.TAKEN


def test_no_parameter_is_changed_for_who_keeps_a_batch(aws: AWSInProcess) -> None:
    """moto gets the good entries only; a recorder sees what was asked."""
    seen: list[Any] = []
    entries = [{"Id": "good", "MessageBody": "x"}, {"Id": "bad", "MessageBody": "\x00"}]

    def recorder(call: Any, proceed: Any) -> Any:
        seen.append(call.params)
        return proceed()

    with intercept(recorder):
        aws.client("sqs").send_message_batch(QueueUrl=url(aws), Entries=entries)  # type: ignore[arg-type]  # a list of dicts
    assert seen[0]["Entries"] == entries
