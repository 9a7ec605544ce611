"""SQS and SNS in memory: when a message is seen, how often, in what order, and where it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError, ParamValidationError

from flowguard.clock import ManualClock
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import Envelope, normalize


def send(aws: MemoryAWS, url: str, body: str, **more: Any) -> str:
    return aws.client("sqs").send_message(QueueUrl=url, MessageBody=body, **more)["MessageId"]


def receive(aws: MemoryAWS, url: str, most: int = 10, **more: Any) -> list[Any]:
    answer: Any = aws.client("sqs").receive_message(
        QueueUrl=url, MaxNumberOfMessages=most, AttributeNames=["All"], MessageAttributeNames=["All"], **more
    )
    return list(answer.get("Messages", []))


def bodies(aws: MemoryAWS, url: str, most: int = 10) -> list[str]:
    return [message["Body"] for message in receive(aws, url, most)]


def delete(aws: MemoryAWS, url: str, message: Any) -> None:
    aws.client("sqs").delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


# -- visibility


def test_a_message_is_hidden_for_the_queues_visibility_timeout(aws: MemoryAWS, clock: ManualClock) -> None:
    url = aws.create_queue("q", VisibilityTimeout="7")
    send(aws, url, "x")
    assert bodies(aws, url) == ["x"]
    clock.advance(seconds=6.999)
    assert bodies(aws, url) == []
    clock.advance(ms=1)
    [again] = receive(aws, url)
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"
    assert again["Attributes"]["SentTimestamp"] == str(ManualClock().now())


def test_a_receive_may_say_how_long(aws: MemoryAWS, clock: ManualClock) -> None:
    url = aws.create_queue("q")
    send(aws, url, "x")
    assert len(receive(aws, url, VisibilityTimeout=0)) == 1
    assert len(receive(aws, url, VisibilityTimeout=100)) == 1
    clock.advance(seconds=99)
    assert receive(aws, url) == []


def test_visibility_can_be_changed_only_in_flight(aws: MemoryAWS, clock: ManualClock) -> None:
    url, sqs = aws.create_queue("q"), aws.client("sqs")
    send(aws, url, "x")
    [message] = receive(aws, url)
    receipt = message["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=90)
    clock.advance(seconds=89)
    assert receive(aws, url) == []
    clock.advance(seconds=1)
    with pytest.raises(sqs.exceptions.MessageNotInflight):
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=90)


def test_only_the_latest_receipt_deletes(aws: MemoryAWS) -> None:
    url = aws.create_queue("q", VisibilityTimeout="0")
    send(aws, url, "x")
    [first], [second] = receive(aws, url), receive(aws, url)
    delete(aws, url, first)
    assert len(aws.messages("q")) == 1
    delete(aws, url, second)
    assert aws.messages("q") == []


def test_what_is_no_receipt_is_refused(aws: MemoryAWS) -> None:
    url, sqs = aws.create_queue("q"), aws.client("sqs")
    with pytest.raises(sqs.exceptions.ReceiptHandleIsInvalid):
        sqs.delete_message(QueueUrl=url, ReceiptHandle="nonsense")
    answer = sqs.delete_message_batch(QueueUrl=url, Entries=[{"Id": "1", "ReceiptHandle": "nonsense"}])
    assert answer["Failed"][0]["Code"] == "ReceiptHandleIsInvalid"


# -- delays and retention


def test_a_message_comes_after_its_delay(aws: MemoryAWS, clock: ManualClock) -> None:
    url = aws.create_queue("q", DelaySeconds="5")
    send(aws, url, "default")
    send(aws, url, "longer", DelaySeconds=900)
    send(aws, url, "now", DelaySeconds=0)
    assert bodies(aws, url) == ["now"]
    clock.advance(seconds=5)
    assert bodies(aws, url) == ["default"]
    with pytest.raises(ClientError, match="InvalidParameterValue"):
        send(aws, url, "too long", DelaySeconds=901)


def test_a_message_is_dropped_when_its_time_is_over(aws: MemoryAWS, clock: ManualClock) -> None:
    url = aws.create_queue("q", MessageRetentionPeriod="60")
    send(aws, url, "x")
    clock.advance(seconds=61)
    assert bodies(aws, url) == []


# -- dead letters


def test_what_was_received_too_often_goes_to_the_dead_letters(aws: MemoryAWS, clock: ManualClock) -> None:
    dead = aws.create_queue("dead")
    policy = json.dumps({"deadLetterTargetArn": aws.queue_arn(dead), "maxReceiveCount": 2})
    url = aws.create_queue("q", VisibilityTimeout="1", RedrivePolicy=policy)
    name = send(aws, url, "x")
    for _ in range(2):
        assert bodies(aws, url) == ["x"]
        clock.advance(seconds=1)
    assert bodies(aws, dead) == []
    assert bodies(aws, url) == []
    [letter] = receive(aws, dead)
    assert (letter["MessageId"], letter["Attributes"]["ApproximateReceiveCount"]) == (name, "3"), "SQS counts on"
    assert letter["Attributes"]["DeadLetterQueueSourceArn"] == aws.queue_arn(url)
    assert aws.client("sqs").list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [url]


# -- FIFO


@pytest.fixture
def fifo(aws: MemoryAWS) -> str:
    return aws.create_queue("q.fifo", FifoQueue="true", VisibilityTimeout="10")


def ordered(aws: MemoryAWS, url: str, body: str, group: str) -> str:
    return send(aws, url, body, MessageGroupId=group, MessageDeduplicationId=body)


def test_a_group_waits_for_its_message_in_flight(aws: MemoryAWS, clock: ManualClock, fifo: str) -> None:
    for body, group in [("a1", "a"), ("a2", "a"), ("b1", "b")]:
        ordered(aws, fifo, body, group)
    [first] = receive(aws, fifo, 1)
    assert first["Attributes"]["MessageGroupId"] == "a"
    assert bodies(aws, fifo) == ["b1"]
    clock.advance(seconds=10)
    assert bodies(aws, fifo) == ["a1", "a2", "b1"]


def test_a_group_goes_on_when_its_message_is_deleted(aws: MemoryAWS, fifo: str) -> None:
    ordered(aws, fifo, "a1", "a")
    ordered(aws, fifo, "a2", "a")
    [first] = receive(aws, fifo, 1)
    delete(aws, fifo, first)
    assert bodies(aws, fifo) == ["a2"]


def test_a_copy_is_dropped_for_five_minutes(aws: MemoryAWS, clock: ManualClock, fifo: str) -> None:
    first = ordered(aws, fifo, "a1", "a")
    assert ordered(aws, fifo, "a1", "a") == first
    [message] = receive(aws, fifo)
    delete(aws, fifo, message)
    clock.advance(seconds=299)
    ordered(aws, fifo, "a1", "a")
    assert bodies(aws, fifo) == []
    clock.advance(seconds=1)
    ordered(aws, fifo, "a1", "a")
    assert bodies(aws, fifo) == ["a1"]


def test_an_expired_receipt_deletes_nothing_from_fifo(aws: MemoryAWS, clock: ManualClock, fifo: str) -> None:
    ordered(aws, fifo, "a1", "a")
    [message] = receive(aws, fifo)
    clock.advance(seconds=10)
    with pytest.raises(ClientError, match="expired"):
        delete(aws, fifo, message)


@pytest.mark.parametrize("more", [{}, {"MessageGroupId": "a"}, {"MessageGroupId": "a", "DelaySeconds": 1}])
def test_fifo_needs_a_group_and_an_id_and_takes_no_delay(aws: MemoryAWS, fifo: str, more: Any) -> None:
    with pytest.raises(ClientError):
        send(aws, fifo, "x", **more)


# -- what does not fit


def test_a_queue_that_is_missing_has_two_names_for_it(aws: MemoryAWS) -> None:
    sqs = aws.client("sqs")
    with pytest.raises(sqs.exceptions.QueueDoesNotExist) as missing:
        sqs.get_queue_url(QueueName="nowhere")
    assert missing.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"


def test_a_message_has_at_most_a_mebibyte_and_so_has_a_batch(aws: MemoryAWS) -> None:
    url, sqs = aws.create_queue("q"), aws.client("sqs")
    send(aws, url, "x" * 1_048_576)
    with pytest.raises(ClientError, match="InvalidParameterValue"):
        send(aws, url, "x" * 1_048_577)
    with pytest.raises(sqs.exceptions.BatchRequestTooLong):
        sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": n, "MessageBody": "x" * 600_000} for n in ("1", "2")])


def test_a_batch_tells_of_each_entry(aws: MemoryAWS) -> None:
    url = aws.create_queue("q")
    answer = aws.client("sqs").send_message_batch(
        QueueUrl=url,
        Entries=[{"Id": "good", "MessageBody": "x"}, {"Id": "bad", "MessageBody": "x", "DelaySeconds": 1000}],
    )
    assert [entry["Id"] for entry in answer["Successful"]] == ["good"]
    assert [(entry["Id"], entry["Code"]) for entry in answer["Failed"]] == [("bad", "InvalidParameterValue")]


@pytest.mark.parametrize(
    ("ids", "error"),
    [
        ([], "EmptyBatchRequest"),
        (["1", "1"], "BatchEntryIdsNotDistinct"),
        ([str(n) for n in range(11)], "TooManyEntriesInBatchRequest"),
    ],
)
def test_a_batch_has_one_to_ten_entries_with_ids_of_their_own(aws: MemoryAWS, ids: list[str], error: str) -> None:
    sqs, url = aws.client("sqs"), aws.create_queue("q")
    with pytest.raises(getattr(sqs.exceptions, error)):
        sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": name, "MessageBody": "x"} for name in ids])


def test_parameters_are_checked_as_boto3_checks_them(aws: MemoryAWS) -> None:
    number: Any = 3
    with pytest.raises(ParamValidationError):
        aws.client("sqs").send_message(QueueUrl=aws.create_queue("q"), MessageBody=number)


# -- topics


ATTRIBUTES: Any = {
    "text": {"DataType": "String", "StringValue": "täxt"},
    "count": {"DataType": "Number", "StringValue": "3"},
    "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
}


@pytest.mark.parametrize("raw", [False, True])
def test_what_is_published_arrives_with_its_attributes(aws: MemoryAWS, raw: bool) -> None:
    topic, url = aws.create_topic("carts"), aws.create_queue("q")
    aws.subscribe(topic, url, raw=raw)
    sent = aws.client("sns").publish(TopicArn=topic, Message="hello", MessageAttributes=ATTRIBUTES)
    [message] = receive(aws, url)
    [envelope] = normalize({"Messages": [message]})
    assert isinstance(envelope, Envelope)
    assert (envelope.message, envelope.attributes) == (
        "hello",
        {
            "text": Attribute.string("täxt"),
            "count": Attribute("Number", "3"),
            "bytes": Attribute.binary(b"\x00\xff"),
        },
    )
    assert raw or json.loads(message["Body"])["MessageId"] == sent["MessageId"]


def test_each_entry_of_a_batch_reaches_each_subscriber(aws: MemoryAWS) -> None:
    topic, one, other = aws.create_topic("carts"), aws.create_queue("one"), aws.create_queue("other")
    aws.subscribe(topic, one, raw=True)
    aws.subscribe(topic, other, raw=True)
    entries: Any = [{"Id": "1", "Message": "a"}, {"Id": "2", "Message": "b"}]
    answer = aws.client("sns").publish_batch(TopicArn=topic, PublishBatchRequestEntries=entries)
    assert [entry["Id"] for entry in answer["Successful"]] == ["1", "2"]
    assert bodies(aws, one) == bodies(aws, other) == ["a", "b"]


def test_a_topic_that_is_missing_says_so(aws: MemoryAWS) -> None:
    sns = aws.client("sns")
    with pytest.raises(sns.exceptions.NotFoundException):
        sns.publish(TopicArn="arn:aws:sns:us-east-1:123456789012:nowhere", Message="x")
