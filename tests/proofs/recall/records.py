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


def lists_all_from_the_first(event: Any, context: object) -> Any:
    """Sound: what comes after a failure is delivered again, too."""
    left = list(event["Records"])
    while left:
        try:
            _put(json.loads(left[0]["body"]))
        except Exception:
            break
        left.pop(0)
    return {"batchItemFailures": [{"itemIdentifier": record["messageId"]} for record in left]}


def carries_over(event: Any, context: object) -> None:
    """Puts into an item what the record before it said."""
    item: dict[str, Any] = {}
    for record in event["Records"]:
        item |= {name: {"S": str(value)} for name, value in json.loads(record["body"]).items()}
        dynamodb.put_item(TableName="orders", Item=item)  # here


def puts_each(event: Any, context: object) -> None:
    """Sound, whichever records come together, and however often."""
    for record in event["Records"]:
        _put(json.loads(record["body"]))
