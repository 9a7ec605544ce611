"""flowguard without a flow: ``@once`` for each record of a batch, on the producer's own id."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import boto3

from flowguard import KeyTable, once

TABLES = {"totals": "day", "confirmed": "day", "idempotency": "id", "addresses": "order_id"}
KEYS = KeyTable("idempotency")
FOURTEEN_DAYS = timedelta(days=14)

dynamodb = boto3.client("dynamodb", region_name="us-east-1")
sqs = boto3.client("sqs", region_name="us-east-1")


def charge(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return charge_order.batch(event, context)


def confirm(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return confirm_order.batch(event, context)


def save(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return save_change.batch(event, context)


@once("charge", key="body.order_id", keep=FOURTEEN_DAYS, table=KEYS)
def charge_order(record: dict[str, Any]) -> None:
    order = json.loads(record["body"])
    dynamodb.update_item(
        TableName="totals",
        Key={"day": {"S": order["day"]}},
        UpdateExpression="ADD amount :amount",
        ExpressionAttributeValues={":amount": {"N": str(order["amount"])}},
    )
    url = sqs.get_queue_url(QueueName="confirmations")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps(order))


@once("confirm", key="body.order_id", keep=FOURTEEN_DAYS, table=KEYS)
def confirm_order(record: dict[str, Any]) -> None:
    order = json.loads(record["body"])
    dynamodb.update_item(
        TableName="confirmed",
        Key={"day": {"S": order["day"]}},
        UpdateExpression="ADD orders :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
    )


@once("save", key="body.request_id", keep=FOURTEEN_DAYS, table=KEYS)
def save_change(record: dict[str, Any]) -> None:
    change = json.loads(record["body"])
    dynamodb.put_item(
        TableName="addresses",
        Item={
            "order_id": {"S": change["order_id"]},
            "address": {"S": change["address"]},
            "requested_at": {"N": str(change["requested_at"])},
        },
    )


def decline(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return decline_order.batch(event, context)


@once("decline", key="body.order_id", keep=FOURTEEN_DAYS, table=KEYS)
def decline_order(record: dict[str, Any]) -> None:
    order = json.loads(record["body"])
    dynamodb.update_item(
        TableName="totals",
        Key={"day": {"S": order["day"]}},
        UpdateExpression="ADD amount :amount",
        ExpressionAttributeValues={":amount": {"N": str(-order["amount"])}},
    )
