"""Handlers of other sources than a queue. The line to change ends in ``# here``."""

from __future__ import annotations

import json
from typing import Any

import boto3

dynamodb = boto3.client("dynamodb", region_name="us-east-1")


def _add(order: Any) -> None:
    dynamodb.update_item(  # here
        TableName="totals",
        Key={"day": {"S": "monday"}},
        UpdateExpression="ADD amount :n",
        ExpressionAttributeValues={":n": {"N": str(order["amount"])}},
    )


def _put(order: Any) -> None:
    dynamodb.put_item(TableName="orders", Item={"order_id": {"S": order["order_id"]}})


def of_a_topic(event: Any, context: object) -> None:
    for record in event["Records"]:
        _add(json.loads(record["Sns"]["Message"]))


def of_a_bus(event: Any, context: object) -> None:
    _add(event["detail"])


def of_an_api(event: Any, context: object) -> Any:
    """Sound: what is put again is the same."""
    _put(json.loads(event["body"]))
    return {"statusCode": 201, "body": "{}"}


def of_a_caller(event: Any, context: object) -> None:
    _add(event)
