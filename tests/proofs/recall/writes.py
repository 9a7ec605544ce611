"""Handlers that write to DynamoDB. The line to change ends in ``# here``."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterator
from typing import Any

import boto3

dynamodb = boto3.client("dynamodb", region_name="us-east-1")
log = logging.getLogger(__name__)


def orders(event: Any) -> Iterator[Any]:
    for record in event["Records"]:
        yield json.loads(record["body"])


def adds(event: Any, context: object) -> None:
    for order in orders(event):
        dynamodb.update_item(  # here
            TableName="totals",
            Key={"day": {"S": "monday"}},
            UpdateExpression="ADD amount :n",
            ExpressionAttributeValues={":n": {"N": str(order["amount"])}},
        )


def appends(event: Any, context: object) -> None:
    """Appends to a list of the item."""
    for order in orders(event):
        dynamodb.update_item(  # here
            TableName="orders",
            Key={"order_id": {"S": order["order_id"]}},
            UpdateExpression="SET amounts = list_append(if_not_exists(amounts, :none), :one)",
            ExpressionAttributeValues={":none": {"L": []}, ":one": {"L": [{"N": str(order["amount"])}]}},
        )


def logs_under_a_new_id(event: Any, context: object) -> None:
    for order in orders(event):
        entry = {"entry": {"S": str(uuid.uuid4())}, "order_id": {"S": order["order_id"]}}
        dynamodb.put_item(TableName="log", Item=entry)  # here


def logs_under_the_time(event: Any, context: object) -> None:
    for order in orders(event):
        entry = {"entry": {"S": f"{order['order_id']}/{time.time()}"}}
        dynamodb.put_item(TableName="log", Item=entry)  # here


def checks_then_adds(event: Any, context: object) -> None:
    """Looks whether the order was counted, then counts it."""
    for order in orders(event):
        key = {"order_id": {"S": order["order_id"]}}
        if "Item" in dynamodb.get_item(TableName="orders", Key=key, ConsistentRead=True):
            continue
        dynamodb.update_item(  # here
            TableName="totals",
            Key={"day": {"S": "monday"}},
            UpdateExpression="ADD amount :n",
            ExpressionAttributeValues={":n": {"N": str(order["amount"])}},
        )
        dynamodb.put_item(TableName="orders", Item=key)


def marks_then_adds(event: Any, context: object) -> None:
    """Marks the order as counted, then counts it: a crash between the two loses the amount."""
    for order in orders(event):
        try:
            dynamodb.put_item(
                TableName="orders",
                Item={"order_id": {"S": order["order_id"]}},
                ConditionExpression="attribute_not_exists(order_id)",
            )
        except dynamodb.exceptions.ConditionalCheckFailedException:
            continue
        dynamodb.update_item(  # here
            TableName="totals",
            Key={"day": {"S": "monday"}},
            UpdateExpression="ADD amount :n",
            ExpressionAttributeValues={":n": {"N": str(order["amount"])}},
        )


def reads_then_writes(event: Any, context: object) -> None:
    """Reads a sum, adds to it here, and writes it back: two at once lose one of the two."""
    for order in orders(event):
        key = {"day": {"S": order["order_id"]}}
        found = dynamodb.get_item(TableName="totals", Key=key, ConsistentRead=True).get("Item", {})
        amount = int(found.get("amount", {"N": "0"})["N"]) + order["amount"]
        dynamodb.put_item(TableName="totals", Item={**key, "amount": {"N": str(amount)}})  # here


def keeps_the_last(event: Any, context: object) -> None:
    """Keeps whichever of two arrives last, and not the one that was sent last."""
    for order in orders(event):
        dynamodb.put_item(  # here
            TableName="orders",
            Item={"order_id": {"S": order["order_id"]}, "amount": {"N": str(order["amount"])}},
        )


def swallows(event: Any, context: object) -> None:
    for order in orders(event):
        try:
            dynamodb.put_item(TableName="orders", Item={"order_id": {"S": order["order_id"]}})  # here
        except Exception:
            log.warning("the order was not noted")


def tries_again(event: Any, context: object) -> None:
    """Tries once more where the answer does not come."""
    for order in orders(event):
        for _ in range(2):
            try:
                dynamodb.update_item(  # here
                    TableName="totals",
                    Key={"day": {"S": "monday"}},
                    UpdateExpression="ADD amount :n",
                    ExpressionAttributeValues={":n": {"N": str(order["amount"])}},
                )
                break
            except Exception:
                log.warning("the order was not added")


def leaves_what_was_not_taken(event: Any, context: object) -> None:
    """Writes a batch, of which DynamoDB may take a part."""
    for order in orders(event):
        puts: Any = [{"PutRequest": {"Item": {"entry": {"S": f"{order['order_id']}/{n}"}}}} for n in range(3)]
        dynamodb.batch_write_item(RequestItems={"log": puts})  # here


def moves_in_two_steps(event: Any, context: object) -> None:
    """Moves stock: takes it from one item where there is any, then gives it to another."""
    for order in orders(event):
        try:
            dynamodb.update_item(
                TableName="stock",
                Key={"sku": {"S": "shelf"}},
                UpdateExpression="SET moved = :order ADD n :less",
                ConditionExpression="moved <> :order",
                ExpressionAttributeValues={":less": {"N": "-1"}, ":order": {"S": order["order_id"]}},
            )
        except dynamodb.exceptions.ConditionalCheckFailedException:
            continue
        dynamodb.update_item(  # here
            TableName="stock",
            Key={"sku": {"S": "truck"}},
            UpdateExpression="ADD n :more",
            ExpressionAttributeValues={":more": {"N": "1"}},
        )


def reads_what_may_be_old(event: Any, context: object) -> None:
    """Writes an order, and then a bill of what a read finds, which may be behind."""
    for order in orders(event):
        key = {"order_id": {"S": order["order_id"]}}
        dynamodb.put_item(TableName="orders", Item={**key, "amount": {"N": str(order["amount"])}})
        found = dynamodb.get_item(TableName="orders", Key=key).get("Item", {})  # here
        bill = {"entry": {"S": order["order_id"]}, "amount": found.get("amount", {"N": "0"})}
        dynamodb.put_item(TableName="log", Item=bill)


def reads_a_batch_that_may_be_old(event: Any, context: object) -> None:
    """Writes an order, and then a bill of what a batch of reads finds, which may be behind."""
    for order in orders(event):
        key = {"order_id": {"S": order["order_id"]}}
        dynamodb.put_item(TableName="orders", Item={**key, "amount": {"N": str(order["amount"])}})
        answer = dynamodb.batch_get_item(RequestItems={"orders": {"Keys": [key]}})  # here
        if answer["UnprocessedKeys"]:
            raise RuntimeError("DynamoDB did not read it")
        amounts = [one["amount"] for one in answer["Responses"]["orders"]]
        dynamodb.put_item(TableName="log", Item={"entry": {"S": order["order_id"]}, "amounts": {"L": amounts}})


def counts_in_a_table_nobody_named(event: Any, context: object) -> None:
    for order in orders(event):
        dynamodb.put_item(TableName="unheard", Item={"id": {"S": order["order_id"]}})  # here
