"""By hand: the mark and the effect in one conditional write, and the message sent after it each time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import boto3

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import UpdateTypeDef

TABLES = {"totals": "day", "confirmed": "day", "processed": "id", "addresses": "order_id"}

dynamodb = boto3.client("dynamodb", region_name="us-east-1")
sqs = boto3.client("sqs", region_name="us-east-1")


def charge(event: dict[str, Any], context: object) -> None:
    for record in event["Records"]:
        order = json.loads(record["body"])
        apply_once(
            f"charge {order['order_id']}",
            {
                "TableName": "totals",
                "Key": {"day": {"S": order["day"]}},
                "UpdateExpression": "ADD amount :amount",
                "ExpressionAttributeValues": {":amount": {"N": str(order["amount"])}},
            },
        )
        url = sqs.get_queue_url(QueueName="confirmations")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps(order))


def confirm(event: dict[str, Any], context: object) -> None:
    for record in event["Records"]:
        order = json.loads(record["body"])
        apply_once(
            f"confirm {order['order_id']}",
            {
                "TableName": "confirmed",
                "Key": {"day": {"S": order["day"]}},
                "UpdateExpression": "ADD orders :one",
                "ExpressionAttributeValues": {":one": {"N": "1"}},
            },
        )


def save(event: dict[str, Any], context: object) -> None:
    for record in event["Records"]:
        change = json.loads(record["body"])
        requested_at = {"N": str(change["requested_at"])}
        try:
            dynamodb.put_item(
                TableName="addresses",
                Item={
                    "order_id": {"S": change["order_id"]},
                    "address": {"S": change["address"]},
                    "requested_at": requested_at,
                },
                ConditionExpression="attribute_not_exists(order_id) OR requested_at < :mine",
                ExpressionAttributeValues={":mine": requested_at},
            )
        except dynamodb.exceptions.ConditionalCheckFailedException:
            continue


def apply_once(work: str, update: UpdateTypeDef) -> None:
    mark = {"id": {"S": work}}
    try:
        dynamodb.transact_write_items(
            TransactItems=[
                {
                    "Put": {
                        "TableName": "processed",
                        "Item": mark,
                        "ConditionExpression": "attribute_not_exists(id)",
                    }
                },
                {"Update": update},
            ]
        )
    except dynamodb.exceptions.TransactionCanceledException as cancelled:
        if cancelled.response["CancellationReasons"][0].get("Code") != "ConditionalCheckFailed":
            raise


def decline(event: dict[str, Any], context: object) -> None:
    for record in event["Records"]:
        order = json.loads(record["body"])
        apply_once(
            f"decline {order['order_id']}",
            {
                "TableName": "totals",
                "Key": {"day": {"S": order["day"]}},
                "UpdateExpression": "ADD amount :amount",
                "ExpressionAttributeValues": {":amount": {"N": str(-order["amount"])}},
            },
        )
