"""Where calls of AWS are made, resources have the names that they have there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from flowguard import Bus, Function, Queue, Topic
from flowguard.aws.clients import Clients
from flowguard.aws.dead_letter_queue import DeadLetterQueue
from flowguard.aws.ledger import ledger_of
from flowguard.aws.sender import AWSSender
from flowguard.aws.services import aws_sender, aws_services
from flowguard.aws.writes import write_action
from flowguard.destinations import Destination
from flowguard.errors import WriteDenied
from flowguard.items.writes import Check, Condition, Delete, Put, Update, Write
from flowguard.key_table import KeyTable
from flowguard.names.at_aws import Names
from flowguard.observers.named import named_observers
from flowguard.protocol.outbox import Kind, Send
from flowguard.settings import Settings
from flowguard.sim.account import ACCOUNT_ID, REGION, SIMULATED_ROLE
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.moto import EmbeddedAWS
from flowguard.wire.envelope import BadRecord, Envelope, normalize

SETTINGS: Final = Settings.model_validate(
    {"names": "staging-*,topics.news=told", "scheduler_role": SIMULATED_ROLE, "table": "runs"}
)
NAMES: Final = SETTINGS.at_aws
TOPIC: Final = f"arn:aws:sns:{REGION}:{ACCOUNT_ID}:news"


@pytest.fixture
def calls() -> Iterator[list[ApiCall]]:
    """The calls that are made meanwhile."""
    made: list[ApiCall] = []

    def keep(call: ApiCall, proceed: Proceed) -> Response:
        made.append(call)
        return proceed()

    with EmbeddedAWS() as aws, intercept(keep):
        aws.client("sqs").create_queue(QueueName="staging-orders")
        made.clear()
        yield made


def sent(to: Destination, calls: list[ApiCall], *, delay: int = 0) -> dict[str, Any]:
    """Send to a destination, and return what the last call asked for."""
    with suppress(ClientError):
        aws_sender(SETTINGS, Clients()).send([Send(Kind.SIDE, to, "{}", "id", {}, delay=delay)])
    return dict(calls[-1].params)


def test_a_message_goes_to_the_queue_of_this_deployment(calls: list[ApiCall]) -> None:
    assert sent(Queue("orders"), calls)["QueueUrl"].endswith("/staging-orders")


def test_so_does_one_that_is_scheduled(calls: list[ApiCall]) -> None:
    target = sent(Queue("orders"), calls, delay=int(timedelta(hours=1).total_seconds()))["Target"]
    assert target["Arn"].endswith(":staging-orders")


def test_other_destinations_have_their_names_at_aws_too(calls: list[ApiCall]) -> None:
    assert sent(Topic(TOPIC), calls)["TopicArn"] == TOPIC.replace("news", "told")
    assert sent(Bus("shop", "shop", "Placed"), calls)["Entries"][0]["EventBusName"] == "staging-shop"
    assert sent(Function("price:live"), calls)["FunctionName"] == "staging-price:live"


def test_tables_have_their_names_at_aws(calls: list[ApiCall]) -> None:
    services = aws_services(SETTINGS, Clients())
    assert services.tables is not None
    with pytest.raises(WriteDenied) as denied:
        services.tables.read("stock", {"sku": "tea"})
    assert denied.value.tables == {"stock"}, "as the writes of the stage name it, by which a denial ends"
    assert calls[-1].params["TableName"] == "staging-stock"
    assert SETTINGS.run_table == "staging-runs"
    with pytest.raises(Exception, match="staging-keys"):
        ledger_of(SETTINGS, Clients(), KeyTable("keys")).read("charge", "1")
    with pytest.raises(Exception, match="staging-runs"):
        ledger_of(SETTINGS, Clients()).read("charge", "1")


ALWAYS: Final = Condition("attribute_exists(sku)")


@pytest.mark.parametrize(
    "write",
    [
        Put("stock", {"sku": "tea"}),
        Update("stock", {"sku": "tea"}, Condition("SET a = :a", values={":a": 1})),
        Delete("stock", {"sku": "tea"}),
        Check("stock", {"sku": "tea"}, ALWAYS),
    ],
    ids=lambda write: type(write).__name__,
)
def test_a_recorded_write_is_made_in_the_table_of_this_deployment(write: Write) -> None:
    [action] = write_action(write, NAMES).values()
    assert action["TableName"] == "staging-stock"
    [plain] = write_action(write).values()
    assert plain["TableName"] == "stock"


def record(queue: str, **more: object) -> dict[str, Any]:
    return {
        "messageId": "m",
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{queue}",
        "body": "{}",
        "attributes": {},
        "messageAttributes": {},
        **more,
    }


def test_a_record_is_read_by_the_name_that_its_queue_has_in_the_code() -> None:
    moved = {"attributes": {"DeadLetterQueueSourceArn": f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:staging-orders"}}
    for event, queue, through in (
        (record("staging-orders"), "orders", "orders"),
        (record("orders"), f"{ACCOUNT_ID}:orders", f"{ACCOUNT_ID}:orders"),
        (record("staging-killed", **moved), "killed", "orders"),
    ):
        [envelope] = normalize({"Records": [event]}, names=NAMES)
        assert isinstance(envelope, Envelope)
        assert (envelope.queue, envelope.came_through) == (queue, through)
        assert envelope.queue_arn == event["eventSourceARN"], "it goes back to where it is"


def test_what_cannot_be_read_keeps_the_names() -> None:
    broken = json.dumps({"Type": "Notification", "MessageId": "n", "TopicArn": TOPIC})
    for event, queue in ((record("staging-orders", body=broken), "orders"), (record("staging-orders", body=7), None)):
        [bad] = normalize({"Records": [event]}, names=NAMES)
        assert isinstance(bad, BadRecord)
        assert (None if bad.envelope is None else bad.envelope.queue) == queue


def test_a_topic_has_the_arn_of_the_code() -> None:
    notification = {
        "Type": "Notification",
        "MessageId": "s",
        "TopicArn": TOPIC.replace("news", "told"),
        "Message": "{}",
        "Timestamp": "2026-01-02T03:04:05.678Z",
    }
    [envelope] = normalize({"Records": [record("staging-orders", body=json.dumps(notification))]}, names=NAMES)
    assert isinstance(envelope, Envelope)
    assert envelope.topic_arn == TOPIC


@pytest.mark.parametrize("name", ["orders", "staging-orders"])
def test_an_operator_names_a_queue_as_in_the_code_or_as_at_aws(name: str, calls: list[ApiCall]) -> None:
    assert DeadLetterQueue.find(Clients(), name, names=NAMES).url.endswith("/staging-orders")


@pytest.mark.parametrize("form", ["arn:aws:sqs:{region}:{account}:{name}", "https://sqs/{account}/{name}"])
def test_an_arn_or_url_names_that_queue_whatever_the_rule(form: str, calls: list[ApiCall]) -> None:
    sqs = Clients().sqs
    theirs, ours = (sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("dead", "dead-staging"))
    for name, url in (("dead", theirs), ("dead-staging", ours)):
        exact = form.format(region=REGION, account=ACCOUNT_ID, name=name)
        found = DeadLetterQueue.find(Clients(), exact, names=Names.parse("*-staging")).url
        assert found in (url, exact), "the letters of another deployment are neither shown nor dropped"


def test_two_deployments_that_share_a_group_schedule_messages_of_one_id_each(calls: list[ApiCall]) -> None:
    Clients().sqs.create_queue(QueueName="orders")
    send = Send(Kind.NEXT, Queue("orders"), "{}", "run-1.1.1", {}, delay=3_600)
    for settings in (SETTINGS, SETTINGS.model_copy(update={"names": "*"})):
        assert aws_sender(settings, Clients()).send([send]) == {}
    made = {call.params["Name"] for call in calls if call.operation == "CreateSchedule"}
    assert len(made) == 2, "else the second would be taken for a copy of the first, and its run would stand still"


def test_without_names_of_its_own_a_sender_takes_those_of_the_code(calls: list[ApiCall]) -> None:
    with pytest.raises(ClientError):
        AWSSender(Clients()).queue_url("orders")
    assert calls[-1].params["QueueName"] == "orders"


def test_metrics_of_two_deployments_are_in_two_namespaces(capsys: pytest.CaptureFixture[str]) -> None:
    from flowguard.events import Event, EventType

    for names in (Names(), NAMES):
        named_observers("metrics", names)(Event(EventType.BROKEN, None, {}))
    written = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    namespaces = {one["_aws"]["CloudWatchMetrics"][0]["Namespace"] for one in written}
    assert namespaces == {"flowguard", "staging-flowguard"}
