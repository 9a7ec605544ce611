"""By hand: put a mark under a condition, then act. A mark is taken back when the work fails with an exception."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3

TABLES = {"totals": "day", "confirmed": "day", "processed": "id", "addresses": "order_id"}

dynamodb = boto3.client("dynamodb", region_name="us-east-1")
sqs = boto3.client("sqs", region_name="us-east-1")


def charge(event: dict[str, Any], context: object) -> None:
    for record in event["Records"]:
        order = json.loads(record["body"])
        with once(f"charge {order['order_id']}") as is_first:
            if not is_first:
                continue
            dynamodb.update_item(
                TableName="totals",
                Key={"day": {"S": order["day"]}},
                UpdateExpression="ADD amount :amount",
                ExpressionAttributeValues={":amount": {"N": str(order["amount"])}},
            )
            url = sqs.get_queue_url(QueueName="confirmations")["QueueUrl"]
            sqs.send_message(QueueUrl=url, MessageBody=json.dumps(order))


def confirm(event: dict[str, Any], context: object) -> None:
    for record in event["Records"]:
        order = json.loads(record["body"])
        with once(f"confirm {order['order_id']}") as is_first:
            if not is_first:
                continue
            dynamodb.update_item(
                TableName="confirmed",
                Key={"day": {"S": order["day"]}},
                UpdateExpression="ADD orders :one",
                ExpressionAttributeValues={":one": {"N": "1"}},
            )


def save(event: dict[str, Any], context: object) -> None:
    for record in event["Records"]:
        change = json.loads(record["body"])
        with once(f"save {change['request_id']}") as is_first:
            if not is_first:
                continue
            dynamodb.put_item(
                TableName="addresses",
                Item={
                    "order_id": {"S": change["order_id"]},
                    "address": {"S": change["address"]},
                    "requested_at": {"N": str(change["requested_at"])},
                },
            )


@contextmanager
def once(work: str) -> Iterator[bool]:
    key = {"id": {"S": work}}
    try:
        dynamodb.put_item(TableName="processed", Item=key, ConditionExpression="attribute_not_exists(id)")
    except dynamodb.exceptions.ConditionalCheckFailedException:
        yield False
        return
    try:
        yield True
    except Exception:
        dynamodb.delete_item(TableName="processed", Key=key)
        raise


def decline(event: dict[str, Any], context: object) -> None:
    for record in event["Records"]:
        order = json.loads(record["body"])
        with once(f"decline {order['order_id']}") as is_first:
            if not is_first:
                continue
            dynamodb.update_item(
                TableName="totals",
                Key={"day": {"S": order["day"]}},
                UpdateExpression="ADD amount :amount",
                ExpressionAttributeValues={":amount": {"N": str(-order["amount"])}},
            )
