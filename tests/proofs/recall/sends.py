"""Handlers that send messages. The line to change ends in ``# here``."""

from __future__ import annotations

import json
from typing import Any

import boto3

from tests.proofs.recall.writes import orders

sqs = boto3.client("sqs", region_name="us-east-1")
sns = boto3.client("sns", region_name="us-east-1")
events = boto3.client("events", region_name="us-east-1")
functions = boto3.client("lambda", region_name="us-east-1")
EMAILS = "https://sqs.us-east-1.amazonaws.com/123456789012/emails"


def sends(event: Any, context: object) -> None:
    for order in orders(event):
        sqs.send_message(QueueUrl=EMAILS, MessageBody=json.dumps(order))  # here


def publishes(event: Any, context: object) -> None:
    for order in orders(event):
        sns.publish(TopicArn="arn:aws:sns:us-east-1:123456789012:news", Message=json.dumps(order))  # here


def puts_an_event(event: Any, context: object) -> None:
    for order in orders(event):
        events.put_events(Entries=[{"Source": "shop", "DetailType": "Ordered", "Detail": json.dumps(order)}])  # here


def invokes(event: Any, context: object) -> None:
    for order in orders(event):
        functions.invoke(FunctionName="charge", InvocationType="Event", Payload=json.dumps(order))  # here


def does_not_look(event: Any, context: object) -> None:
    """Sends a batch whose entries say whose copies they are, and never looks at those that were refused."""
    for order in orders(event):
        entries: Any = [
            {
                "Id": to,
                "MessageBody": to,
                "MessageAttributes": {
                    "uniquerequestid": {"DataType": "String", "StringValue": f"{order['order_id']}-{to}"}
                },
            }
            for to in ("buyer", "seller")
        ]
        sqs.send_message_batch(QueueUrl=EMAILS, Entries=entries)  # here


def forwards(event: Any, context: object) -> None:
    """Sends to the queue of the next function."""
    for order in orders(event):
        url = sqs.get_queue_url(QueueName="counted")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps(order))
