"""The delay between two attempts in a FIFO group, on queues that lock a group while one of its messages is hidden."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard import PER_REQUEST, Done, Fixed, Flow, Outcome, RetryPolicy, Stage, Step, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.events import Tally
from flowguard.settings import Settings
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.virtual import VirtualTime
from flowguard.wire.envelope import Envelope, normalize

START = 1_767_225_600_000
VISIBILITY = 210
HANDLED: list[tuple[str, int, int]] = []
"""Which record was handled as which attempt, at which second."""


class Apply(Stage[dict[str, Any]], name="apply", retry=RetryPolicy(attempts=3, backoff=Fixed(2), jitter=0)):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        HANDLED.append((payload["name"], step.attempt, int(step.now().timestamp()) - START // 1000))
        if payload["name"] == "r1" and step.attempt < 3:
            raise ConnectionError("not now")
        return Done()


class Ordered(Flow, name="ordered", object_id=PER_REQUEST, inbox="ordered.fifo", dead_letters="ordered-dead"):
    stages = (Apply,)


def work_off(aws: MemoryAWS, time: VirtualTime, *, together: bool, seconds: int) -> None:
    """Poll the queue once a second, as an event source mapping with batches of ten does."""
    sqs = aws.client("sqs")
    url = sqs.get_queue_url(QueueName="ordered.fifo")["QueueUrl"]
    services = aws_services(Settings(), Clients(), clock=time, observer=Tally())
    function = lambda_handler(Ordered, together=together).using(services)
    for _ in range(seconds):
        received = sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
        )
        records = received.get("Messages", [])
        event = {"Messages": [{**one, "EventSourceARN": aws.queue_arn(url)} for one in records]}
        left = {one["itemIdentifier"] for one in function(event)["batchItemFailures"]} if records else set()
        for one in records:
            if one["MessageId"] not in left:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
        time.move_to(time.now() + 1_000)


def test_the_longest_delay_fits_into_the_12_hours_since_the_record_was_received() -> None:
    """SQS refuses a longer one, and would bring the record at its queue's own pace: sooner than declared."""
    with VirtualTime(START) as time, MemoryAWS() as aws:
        sqs = aws.client("sqs")
        url = aws.create_queue("orders")
        sqs.send_message(QueueUrl=url, MessageBody="x")
        [received] = sqs.receive_message(QueueUrl=url, VisibilityTimeout=5_400)["Messages"]
        time.move_to(START + 1_200_000)
        receipt = received["ReceiptHandle"]
        with pytest.raises(ClientError, match="Total VisibilityTimeout for the message is beyond the limit"):
            sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=42_001)
        record = {**received, "EventSourceARN": aws.queue_arn(url)}
        [envelope] = normalize({"Messages": [record]})
        assert isinstance(envelope, Envelope)
        aws_services(Settings(), Clients()).sender.postpone(envelope, 43_200)
        time.move_to(time.now() + 42_000_000 - 1)
        assert "Messages" not in sqs.receive_message(QueueUrl=url)
        time.move_to(time.now() + 1)
        assert "Messages" in sqs.receive_message(QueueUrl=url)


@pytest.mark.parametrize("together", [False, True])
def test_the_records_behind_one_that_fails_do_not_make_its_declared_delay_longer(*, together: bool) -> None:
    HANDLED.clear()
    with VirtualTime(START) as time, MemoryAWS() as aws:
        aws.create_table("flowguard")
        aws.create_queue("ordered-dead")
        sqs = aws.client("sqs")
        attributes: Any = {"FifoQueue": "true", "VisibilityTimeout": str(VISIBILITY)}
        url = sqs.create_queue(QueueName="ordered.fifo", Attributes=attributes)["QueueUrl"]
        for name in ("r1", "r2", "r3"):
            sqs.send_message(
                QueueUrl=url, MessageBody=f'{{"name": "{name}"}}', MessageGroupId="red", MessageDeduplicationId=name
            )
        work_off(aws, time, together=together, seconds=6)
    assert HANDLED == [("r1", 1, 0), ("r1", 2, 2), ("r1", 3, 4), ("r2", 1, 4), ("r3", 1, 4)]
