"""A plain handler under ``@once``, and the same without it.

The charge looks whether its order is there, and adds it if not. A repeat finds the order; but of two that look at the
same moment, each adds it.
"""

from __future__ import annotations

import json
from typing import Any

import boto3

from flowguard import KeyTable, once

TABLES = {"totals": "day", "orders": "order_id", "idempotency": "id"}

dynamodb = boto3.client("dynamodb", region_name="us-east-1")


def charge(record: dict[str, Any]) -> dict[str, Any]:
    order = json.loads(record["body"])
    key = {"order_id": {"S": order["order_id"]}}
    if "Item" not in dynamodb.get_item(TableName="orders", Key=key, ConsistentRead=True):
        add: Any = {
            "TableName": "totals",
            "Key": {"day": {"S": order["day"]}},
            "UpdateExpression": "ADD amount :amount",
            "ExpressionAttributeValues": {":amount": {"N": str(order["amount"])}},
        }
        dynamodb.transact_write_items(TransactItems=[{"Put": {"TableName": "orders", "Item": key}}, {"Update": add}])
    return {"charged": order["amount"]}


guarded = once("charge", key="body.order_id")(charge)
in_own_table = once("charge", key="body.order_id", table=KeyTable("idempotency"))(charge)


def handler(event: Any, context: Any) -> Any:
    return guarded.batch(event, context)


def with_own_table(event: Any, context: Any) -> Any:
    return in_own_table.batch(event, context)


def without_guard(event: Any, context: Any) -> None:
    for record in event["Records"]:
        charge(record)
