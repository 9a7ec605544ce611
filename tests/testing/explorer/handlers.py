"""Plain Lambda handlers, as people write them without flowguard. The guilty line ends in ``# here``."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3

TABLES = {"totals": "day", "orders": "order_id"}

dynamodb = boto3.client("dynamodb", region_name="us-east-1")
sqs = boto3.client("sqs", region_name="us-east-1")
sns = boto3.client("sns", region_name="us-east-1")
seen: list[str] = []


def add(event: dict[str, Any], context: object) -> None:
    for record in event["Records"]:
        order = json.loads(record["body"])
        dynamodb.update_item(  # here
            TableName="totals",
            Key={"day": {"S": "monday"}},
            UpdateExpression="ADD amount :n",
            ExpressionAttributeValues={":n": {"N": str(order["amount"])}},
        )


def put(event: dict[str, Any], context: object) -> None:
    for record in event["Records"]:
        order = json.loads(record["body"])
        dynamodb.put_item(TableName="orders", Item={"order_id": {"S": order["order_id"]}})


def forward(event: dict[str, Any], context: object) -> None:
    """To the queue of another handler."""
    url = sqs.get_queue_url(QueueName="forwarded")["QueueUrl"]
    for record in event["Records"]:
        sqs.send_message(QueueUrl=url, MessageBody=record["body"])


def tell(event: dict[str, Any], context: object) -> None:
    """To a queue that nobody here reads."""
    url = sqs.get_queue_url(QueueName="emails")["QueueUrl"]
    for record in event["Records"]:
        sqs.send_message(QueueUrl=url, MessageBody=record["body"])


def announce(event: dict[str, Any], context: object) -> None:
    """To a topic."""
    for record in event["Records"]:
        sns.publish(TopicArn="arn:aws:sns:us-east-1:123456789012:news", Message=record["body"])


def put_news(event: dict[str, Any], context: object) -> None:
    """What a topic has put into its queue."""
    for record in event["Records"]:
        order = json.loads(json.loads(record["body"])["Message"])
        dynamodb.put_item(TableName="orders", Item={"order_id": {"S": order["order_id"]}})


def late(event: dict[str, Any], context: Any) -> Any:
    """Fails at the first receive, and notes when it did not, and how long it then may run."""
    (record,) = event["Records"]
    if record["attributes"]["ApproximateReceiveCount"] == "1":
        return {"batchItemFailures": [{"itemIdentifier": record["messageId"]}]}
    noted = {"at": str(int(datetime.now(UTC).timestamp())), "left": str(context.get_remaining_time_in_millis())}
    item = {"order_id": {"S": "o1"}, **{name: {"N": value} for name, value in noted.items()}}
    dynamodb.put_item(TableName="orders", Item=item)
    return {"batchItemFailures": []}


def keep(event: dict[str, Any], context: Any) -> None:
    """Keeps the ids of its invocations in its module, and tells how many there are."""
    seen.append(context.aws_request_id)
    event["told"].append(len(seen))
    during: Callable[[], None] = event["during"]
    during()


def guilty_line() -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith("(  # here"))
