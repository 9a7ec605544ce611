"""AWS inside the process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest

from flowguard.errors import SettingsError
from flowguard.sim.account import ACCOUNT_ID
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.sim.moto import EmbeddedAWS


def test_a_table_is_keyed_by_pk_and_sk_on_demand_and_expires_by_ttl(embedded: EmbeddedAWS) -> None:
    embedded.create_table("runs")
    dynamodb = embedded.client("dynamodb")
    table = dynamodb.describe_table(TableName="runs")["Table"]
    assert table["KeySchema"] == [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ]
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    expiry = dynamodb.describe_time_to_live(TableName="runs")["TimeToLiveDescription"]
    assert expiry == {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}


def test_a_subscribed_queue_gets_what_is_published_as_a_notification(embedded: EmbeddedAWS) -> None:
    queue, topic = embedded.create_queue("orders"), embedded.create_topic("events")
    embedded.subscribe(topic, queue)
    embedded.client("sns").publish(TopicArn=topic, Message="hello")
    body = json.loads(received(embedded, queue))
    assert (body["Type"], body["TopicArn"], body["Message"]) == ("Notification", topic, "hello")


def test_a_raw_subscription_delivers_the_message_alone(embedded: EmbeddedAWS) -> None:
    queue, topic = embedded.create_queue("orders"), embedded.create_topic("events")
    embedded.subscribe(topic, queue, raw=True)
    embedded.client("sns").publish(TopicArn=topic, Message="hello")
    assert received(embedded, queue) == "hello"


def test_a_queue_takes_sqs_own_attributes(embedded: EmbeddedAWS) -> None:
    queue = embedded.create_queue("orders.fifo", FifoQueue="true", VisibilityTimeout="7")
    attributes = embedded.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert attributes["VisibilityTimeout"] == "7"
    assert embedded.queue_arn(queue) == f"arn:aws:sqs:us-east-1:{ACCOUNT_ID}:orders.fifo"


def received(aws: EmbeddedAWS, queue: str) -> str:
    (message,) = aws.client("sqs").receive_message(QueueUrl=queue)["Messages"]
    return message["Body"]


# -- apart from the world ---------------------------------------------------------------------------------------------


def test_nothing_is_left_for_the_next_block() -> None:
    with EmbeddedAWS() as aws:
        aws.create_table("runs")
    with EmbeddedAWS() as aws:
        assert aws.client("dynamodb").list_tables()["TableNames"] == []


def test_the_machine_s_own_aws_settings_are_out_of_sight_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {
        "AWS_ACCESS_KEY_ID": "own",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_PROFILE": "production",
        "AWS_REGION": "eu-west-1",
    }
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    before = dict(os.environ)
    with EmbeddedAWS() as aws:
        assert not set(own.items()) & set(os.environ.items())
        assert aws.client("sqs").list_queues().get("QueueUrls", []) == []
        assert boto3.client("sqs").meta.region_name == "us-east-1"
    assert dict(os.environ) == before


def test_the_region_is_a_setting() -> None:
    with EmbeddedAWS(region="eu-central-1") as aws:
        assert aws.create_topic("events") == f"arn:aws:sns:eu-central-1:{ACCOUNT_ID}:events"


def test_a_second_one_at_the_same_time_is_refused(embedded: EmbeddedAWS) -> None:
    with pytest.raises(SettingsError, match="another one is open"), EmbeddedAWS():
        pass
    embedded.create_table("still-works")


@pytest.mark.slow("starts processes and threads on moto")
def test_a_client_made_before_moto_was_imported_does_not_reach_the_real_aws() -> None:
    script = """
import sys, boto3
early = boto3.client("dynamodb", "us-east-1", aws_access_key_id="real", aws_secret_access_key="real",
                     endpoint_url="https://dynamodb.us-east-1.amazonaws.com")
from flowguard.sim.moto import EmbeddedAWS
assert "moto" not in sys.modules, "moto is heavy, and must be imported late"
early._endpoint.http_session.send = None  # what reaches the network fails
with EmbeddedAWS() as aws:
    aws.create_table("runs")
    assert early.list_tables()["TableNames"] == ["runs"]
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_client_made_where_no_credentials_are_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one at the top of a handler's module, on a machine that has no account."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    client = boto3.session.Session().client("sqs", region_name="us-east-1")
    with EmbeddedAWS():
        assert client.create_queue(QueueName="q")["QueueUrl"].endswith("/q")


def test_without_moto_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedAWS():
        pass  # the tests' own hook needs moto when the first one is opened
    monkeypatch.setitem(sys.modules, "moto", None)
    with pytest.raises(SettingsError, match=r"pip install 'flowguard-aws\[local\]'"), EmbeddedAWS():
        pass
    monkeypatch.undo()
    with EmbeddedAWS() as aws:
        aws.create_table("opens-again")


# -- the same each time -----------------------------------------------------------------------------------------------


def ids(seed: int) -> list[str]:
    with EmbeddedAWS(seed=seed) as aws:
        queue, topic = aws.create_queue("orders"), aws.create_topic("events")
        subscription = aws.subscribe(topic, queue)
        published = aws.client("sns").publish(TopicArn=topic, Message="hello")["MessageId"]
        sent = aws.client("sqs").send_message(QueueUrl=queue, MessageBody="hello")["MessageId"]
        messages = aws.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
        return [subscription, published, sent, *(message["ReceiptHandle"] for message in messages)]


def test_equal_seeds_give_equal_ids() -> None:
    assert ids(seed=1) == ids(seed=1)


def test_other_seeds_give_other_ids() -> None:
    assert not set(ids(seed=1)) & set(ids(seed=2))


# -- threads ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def restless_threads() -> Iterator[None]:
    """Threads that take turns every microsecond, so that a race which can happen does."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow("starts processes and threads on moto")
@pytest.mark.usefixtures("restless_threads")
def test_of_eight_racing_conditional_writes_one_wins(embedded: EmbeddedAWS) -> None:
    embedded.create_table("races")
    dynamodb = embedded.client("dynamodb")
    ready = threading.Barrier(8, timeout=10)

    def wins(race: str) -> bool:
        ready.wait()
        try:
            dynamodb.put_item(
                TableName="races",
                Item={"pk": {"S": race}, "sk": {"S": "-"}},
                ConditionExpression="attribute_not_exists(pk)",
            )
        except dynamodb.exceptions.ConditionalCheckFailedException:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        winners = [sum(threads.map(wins, [f"race {number}"] * 8)) for number in range(25)]
    assert winners == [1] * 25


def test_threads_share_one_client_of_a_service(embedded: EmbeddedAWS) -> None:
    with ThreadPoolExecutor(8) as threads:
        clients = set(threads.map(lambda _: embedded.client("sns"), range(16)))
    assert clients == {embedded.client("sns")}


def test_the_lock_is_inside_whatever_intercepts_calls_in_the_block(embedded: EmbeddedAWS) -> None:
    """Two calls that wait for each other before they are made: with the lock outside, they would wait forever."""
    both_wait = threading.Barrier(2, timeout=10)

    def meet(_: ApiCall, proceed: Proceed) -> Response:
        both_wait.wait()
        return proceed()

    with intercept(meet), intercept(Recorder()) as made, ThreadPoolExecutor(2) as threads:
        list(threads.map(embedded.create_queue, ["one", "two"]))
    assert made.count("sqs", "CreateQueue") == 2
