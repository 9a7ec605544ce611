"""Handlers that keep something in their module, or depend on the order of records or on reads that may be old."""

from __future__ import annotations

import json
import time
from typing import Any

import boto3

TABLES = {"totals": "day", "orders": "order_id", "log": "entry"}

dynamodb: Any = boto3.client("dynamodb", region_name="us-east-1")
gathered: list[str] = []
prices: dict[str, str] = {}


def orders(event: Any) -> Any:
    return [json.loads(record["body"]) for record in event["Records"]]


def gathers(event: Any, context: Any) -> None:
    for order in orders(event):
        gathered.append(order["order_id"])
        item = {"order_id": {"S": order["order_id"]}, "with": {"S": ",".join(gathered)}}
        dynamodb.put_item(TableName="orders", Item=item)


def remembers(event: Any, context: Any) -> None:
    """Sound: what it keeps is the same whoever comes first."""
    for order in orders(event):
        prices.setdefault("tea", "4")
        item = {"order_id": {"S": order["order_id"]}, "price": {"N": prices["tea"]}}
        dynamodb.put_item(TableName="orders", Item=item)


def keeps_the_last(event: Any, context: Any) -> None:
    for order in orders(event):
        item = {"order_id": {"S": order["order_id"]}, "amount": {"N": str(order["amount"])}}
        dynamodb.put_item(TableName="orders", Item=item)


def reads_what_it_wrote(event: Any, context: Any, *, at_once: bool = False) -> None:
    for order in orders(event):
        key = {"order_id": {"S": order["order_id"]}}
        dynamodb.put_item(TableName="orders", Item={**key, "amount": {"N": str(order["amount"])}})
        found = dynamodb.get_item(TableName="orders", Key=key, ConsistentRead=at_once).get("Item", {})
        bill = {"entry": {"S": order["order_id"]}, "amount": found.get("amount", {"N": "0"})}
        dynamodb.put_item(TableName="log", Item=bill)


def reads_it_at_once(event: Any, context: Any) -> None:
    reads_what_it_wrote(event, context, at_once=True)


def bills_both(event: Any, context: Any, *, orders_at_once: bool = False, totals_at_once: bool = False) -> None:
    """Writes an order and its sum, and a bill of what one batch of reads finds of the two."""
    for order in orders(event):
        amount = {"N": str(order["amount"])}
        dynamodb.put_item(TableName="orders", Item={"order_id": {"S": order["order_id"]}, "amount": amount})
        dynamodb.put_item(TableName="totals", Item={"day": {"S": "monday"}, "amount": amount})
        asked = {
            "orders": {"Keys": [{"order_id": {"S": order["order_id"]}}], "ConsistentRead": orders_at_once},
            "totals": {"Keys": [{"day": {"S": "monday"}}], "ConsistentRead": totals_at_once},
        }
        found = dynamodb.batch_get_item(RequestItems=asked)["Responses"]
        bill = {f"{table}_amount": found[table][0]["amount"] for table in found if found[table]}
        dynamodb.put_item(TableName="log", Item={"entry": {"S": order["order_id"]}, **bill})


def bills_at_once(event: Any, context: Any) -> None:
    bills_both(event, context, orders_at_once=True, totals_at_once=True)


def looks_late_at_orders(event: Any, context: Any) -> None:
    bills_both(event, context, totals_at_once=True)


def bills_after_a_while(event: Any, context: Any) -> None:
    """Sound, but for what is written within the second before the reads."""
    for order in orders(event):
        dynamodb.put_item(TableName="orders", Item={"order_id": {"S": order["order_id"]}})
        dynamodb.put_item(TableName="totals", Item={"day": {"S": "monday"}})
        time.sleep(2)
        asked = {"orders": {"Keys": [{"order_id": {"S": order["order_id"]}}]}}
        dynamodb.batch_get_item(RequestItems=asked)


def bills_in_one_transaction(event: Any, context: Any) -> None:
    """Sound: a transaction of reads sees what was written before it."""
    for order in orders(event):
        key = {"order_id": {"S": order["order_id"]}}
        dynamodb.put_item(TableName="orders", Item={**key, "amount": {"N": str(order["amount"])}})
        (found,) = dynamodb.transact_get_items(TransactItems=[{"Get": {"TableName": "orders", "Key": key}}])[
            "Responses"
        ]
        dynamodb.put_item(TableName="log", Item={"entry": {"S": order["order_id"]}, "amount": found["Item"]["amount"]})


def leaves_a_part(event: Any, context: Any) -> None:
    for order in orders(event):
        puts = [{"PutRequest": {"Item": {"entry": {"S": f"{order['order_id']}/{n}"}}}} for n in range(3)]
        dynamodb.batch_write_item(RequestItems={"log": puts})


def writes_the_rest(event: Any, context: Any) -> None:
    for order in orders(event):
        left = {"log": [{"PutRequest": {"Item": {"entry": {"S": f"{order['order_id']}/{n}"}}}} for n in range(3)]}
        for _ in range(3):
            left = dynamodb.batch_write_item(RequestItems=left)["UnprocessedItems"] if left else {}
        if left:
            raise RuntimeError("DynamoDB does not take the rest")


def reads_a_part(event: Any, context: Any) -> None:
    """Counts what a batch of reads found, and never asks for the rest."""
    keys = [{"order_id": {"S": name}} for name in ("a", "b")]
    found = dynamodb.batch_get_item(RequestItems={"orders": {"Keys": keys}})["Responses"]
    item = {"day": {"S": "monday"}, "n": {"N": str(len(found.get("orders", ())))}}
    dynamodb.put_item(TableName="totals", Item=item)


def adds(event: Any, context: Any) -> None:
    for order in orders(event):
        dynamodb.update_item(
            TableName="totals",
            Key={"day": {"S": "monday"}},
            UpdateExpression="ADD amount :n",
            ExpressionAttributeValues={":n": {"N": str(order["amount"])}},
        )


def swallows(event: Any, context: Any) -> None:
    try:
        keeps_the_last(event, context)
    except dynamodb.exceptions.ClientError:
        return
