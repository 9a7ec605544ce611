"""Lambda's event source mapping on any SQS: receive, call the function, delete what it did not report as failed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from mypy_boto3_sqs import SQSClient

from flowguard.wire.attributes import Attribute, attributes_to, read_attributes

Record = dict[str, Any]
Function = Callable[[Any, Any], Any]


class Invocation:
    """What Lambda's context tells: how long is left."""

    aws_request_id = "invocation"
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:worker"

    def __init__(self, timeout: timedelta) -> None:
        self._ends = time.monotonic() + timeout.total_seconds()

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._ends - time.monotonic()) * 1000))


@dataclass(frozen=True)
class Mapping:
    """``function`` is called with batches of at most ten; ``timeout`` is what its context says it has."""

    sqs: SQSClient
    queue_url: str
    function: Function
    timeout: timedelta = timedelta(seconds=4)
    batch: int = 10

    def receive(self, wait: int = 1) -> list[Record]:
        """The next batch, as Lambda shows it to the function. Waits for a message by long polling."""
        answer = self.sqs.receive_message(
            QueueUrl=self.queue_url,
            MaxNumberOfMessages=self.batch,
            WaitTimeSeconds=wait,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        )
        return [as_record(message, self.queue_url) for message in answer.get("Messages", [])]

    def invoke(self, records: Sequence[Record]) -> list[Record]:
        """Calls the function; answers what it has settled. An error of the function's own leaves everything queued."""
        answer = self.function({"Records": list(records)}, Invocation(self.timeout))
        failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        return [record for record in records if record["messageId"] not in failed]

    def delete(self, records: Sequence[Record]) -> None:
        """Raises what SQS answers; what is not deleted is seen again."""
        entries: Any = [{"Id": str(n), "ReceiptHandle": record["receiptHandle"]} for n, record in enumerate(records)]
        if entries:
            self.sqs.delete_message_batch(QueueUrl=self.queue_url, Entries=entries)

    def once(self, wait: int = 1) -> int:
        """One round. Answers how many messages there were."""
        records = self.receive(wait)
        if records:
            self.delete(self.invoke(records))
        return len(records)


def die_at_the_end_of(timeout: timedelta, last_words: Callable[[], None]) -> None:
    """What Lambda does to a function that takes too long. Call it again to set the clock anew."""

    def die(*_: object) -> None:
        last_words()
        signal.raise_signal(signal.SIGKILL)

    signal.signal(signal.SIGALRM, die)
    signal.setitimer(signal.ITIMER_REAL, timeout.total_seconds())


def as_record(message: Any, queue_url: str) -> Record:
    """A received message, as Lambda shows it to a function."""
    read = read_attributes(
        message.get("MessageAttributes"), Attribute.of_receive_message, message["MessageId"], "MessageAttributes"
    )
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "messageAttributes": attributes_to(Attribute.to_sqs_record, read),
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{queue_url.rpartition('/')[2]}",
        "awsRegion": "us-east-1",
    }
