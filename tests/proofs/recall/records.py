"""Handlers of several records an invocation. The line to change ends in ``# here``."""

from __future__ import annotations

import json
from typing import Any

import boto3

dynamodb = boto3.client("dynamodb", region_name="us-east-1")


def _put(order: Any) -> None:
    dynamodb.put_item(TableName="orders", Item={"order_id": {"S": order["order_id"]}})  # here


def answers_what_failed(event: Any, context: object) -> Any:
    """Sound where the event source mapping reads the answer."""
    failures = []
    for record in event["Records"]:
        try:
            _put(json.loads(record["body"]))
        except Exception:
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}


def stops_at_the_first(event: Any, context: object) -> Any:
    """Answers the record that failed, and forgets those after it."""
    for record in event["Records"]:
        try:
            _put(json.loads(record["body"]))
        except Exception:
            return {"batchItemFailures": [{"itemIdentifier": record["messageId"]}]}
    return {"batchItemFailures": []}
