"""By hand: look whether it was done, do it, and note that it was done."""

from __future__ import annotations

import json
from typing import Any

import boto3

TABLES = {"totals": "day", "confirmed": "day", "processed": "id", "addresses": "order_id"}

dynamodb = boto3.client("dynamodb", region_name="us-east-1")
sqs = boto3.client("sqs", region_name="us-east-1")


def charge(event: dict[str, Any], context: object) -> None:
    for record in event["Records"]:
        order = json.loads(record["body"])
        if is_done(f"charge {order['order_id']}"):
            continue
        dynamodb.update_item(
            TableName="totals",
            Key={"day": {"S": order["day"]}},
            UpdateExpression="ADD amount :amount",
            ExpressionAttributeValues={":amount": {"N": str(order["amount"])}},
        )
        url = sqs.get_queue_url(QueueName="confirmations")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps(order))
        note(f"charge {order['order_id']}")


def confirm(event: dict[str, Any], context: object) -> None:
    for record in event["Records"]:
        order = json.loads(record["body"])
        if is_done(f"confirm {order['order_id']}"):
            continue
        dynamodb.update_item(
            TableName="confirmed",
            Key={"day": {"S": order["day"]}},
            UpdateExpression="ADD orders :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
        )
        note(f"confirm {order['order_id']}")


def save(event: dict[str, Any], context: object) -> None:
    for record in event["Records"]:
        change = json.loads(record["body"])
        key = {"order_id": {"S": change["order_id"]}}
        there = dynamodb.get_item(TableName="addresses", Key=key, ConsistentRead=True).get("Item")
        if there is not None and int(there["requested_at"]["N"]) >= change["requested_at"]:
            continue
        written = {"address": {"S": change["address"]}, "requested_at": {"N": str(change["requested_at"])}}
        dynamodb.put_item(TableName="addresses", Item={**key, **written})


def is_done(work: str) -> bool:
    return "Item" in dynamodb.get_item(TableName="processed", Key={"id": {"S": work}}, ConsistentRead=True)


def note(work: str) -> None:
    dynamodb.put_item(TableName="processed", Item={"id": {"S": work}})


def decline(event: dict[str, Any], context: object) -> None:
    for record in event["Records"]:
        order = json.loads(record["body"])
        if is_done(f"decline {order['order_id']}"):
            continue
        dynamodb.update_item(
            TableName="totals",
            Key={"day": {"S": order["day"]}},
            UpdateExpression="ADD amount :amount",
            ExpressionAttributeValues={":amount": {"N": str(-order["amount"])}},
        )
        note(f"decline {order['order_id']}")
