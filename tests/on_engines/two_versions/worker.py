"""One version of flowguard at work: ``worker.py <folder that flowguard is in>``, until its input ends.

It does for each queue what Lambda does. The environment says where the engines are.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

sys.path.insert(0, sys.argv[1])

import boto3

import flowguard
from flowguard import InProgress, Settings, callback_handler, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services

shared: Any = import_module("shared_flows")
"""Beside this script, under its own name: it is of no version."""

TIMEOUT = 6.0


class Context:
    """What Lambda's context tells."""

    aws_request_id = "invocation"
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:worker"

    def __init__(self) -> None:
        self._ends = time.monotonic() + TIMEOUT

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._ends - time.monotonic()) * 1000))


def record_of(message: Any, queue: str) -> dict[str, Any]:
    attributes = {
        name: {"dataType": one["DataType"], "stringValue": one["StringValue"]}
        for name, one in message.get("MessageAttributes", {}).items()
    }
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "messageAttributes": attributes,
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{queue}",
        "awsRegion": "us-east-1",
    }


def work(sqs: Any, queue: str, function: Callable[[Any, Any], Any]) -> None:
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    while True:
        found = sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=3,
            WaitTimeSeconds=1,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        ).get("Messages", [])
        if not found:
            continue
        records = [record_of(message, queue) for message in found]
        failed = {one["itemIdentifier"] for one in function({"Records": records}, Context())["batchItemFailures"]}
        for record in records:
            if record["messageId"] not in failed:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=record["receiptHandle"])


def charged(dynamodb: Any) -> Callable[[Any, Any], Any]:
    """Note what each call under ``@once`` has returned."""

    def function(event: Any, context: Any) -> Any:
        failed = []
        for record in event["Records"]:
            order = json.loads(record["body"])
            try:
                result = shared.charge.within(context)(order)
            except InProgress:
                failed.append({"itemIdentifier": record["messageId"]})
                continue
            dynamodb.update_item(
                TableName="effects",
                Key={"id": {"S": f"charged {order['order']}"}},
                UpdateExpression="ADD results :result, calls :one",
                ExpressionAttributeValues={":result": {"SS": [result]}, ":one": {"N": "1"}},
            )
        return {"batchItemFailures": failed}

    return function


def main() -> None:
    assert flowguard.__file__.startswith(sys.argv[1]), flowguard.__file__
    services = aws_services(Settings.from_environment(os.environ), Clients())
    sqs, dynamodb = boto3.client("sqs"), boto3.client("dynamodb")
    stages, callbacks = lambda_handler(*shared.FLOWS), callback_handler(*shared.FLOWS)
    served: dict[str, Callable[[Any, Any], Any]] = {
        "work": stages.using(services),
        "answers": stages.using(services),
        "payments": callbacks.using(services),
        "charges": charged(dynamodb),
    }
    for queue, function in served.items():
        threading.Thread(target=work, args=(sqs, queue, function), daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
