"""Handlers that survive everything: nothing may be found in them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import boto3

from tests.proofs.recall.writes import orders

dynamodb = boto3.client("dynamodb", region_name="us-east-1")
sqs = boto3.client("sqs", region_name="us-east-1")
EMAILS = "https://sqs.us-east-1.amazonaws.com/123456789012/emails"
DAY = timedelta(days=1)


def _key(order: Any) -> Any:
    return {"order_id": {"S": order["order_id"]}}


def puts(event: Any, context: object) -> None:
    for order in orders(event):
        dynamodb.put_item(TableName="orders", Item={**_key(order), "amount": {"N": str(order["amount"])}})


def deletes(event: Any, context: object) -> None:
    for order in orders(event):
        dynamodb.delete_item(TableName="orders", Key=_key(order))


def puts_once(event: Any, context: object) -> None:
    """Puts under a condition, and takes its failure for what it is."""
    for order in orders(event):
        try:
            dynamodb.put_item(
                TableName="orders", Item=_key(order), ConditionExpression="attribute_not_exists(order_id)"
            )
        except dynamodb.exceptions.ConditionalCheckFailedException:
            continue


def counts_in_one_transaction(event: Any, context: object) -> None:
    for order in orders(event):
        once: Any = {
            "TableName": "orders", "Item": _key(order), "ConditionExpression": "attribute_not_exists(order_id)"
        }  # fmt: skip
        add: Any = {
            "TableName": "totals",
            "Key": {"day": {"S": "monday"}},
            "UpdateExpression": "ADD amount :n",
            "ExpressionAttributeValues": {":n": {"N": str(order["amount"])}},
        }
        try:
            dynamodb.transact_write_items(TransactItems=[{"Put": once}, {"Update": add}])
        except dynamodb.exceptions.TransactionCanceledException:
            if "Item" not in dynamodb.get_item(TableName="orders", Key=_key(order), ConsistentRead=True):
                raise


def keeps_the_newer(event: Any, context: object) -> None:
    """Keeps that of two which was made later, in whatever order they arrive."""
    for order in orders(event):
        try:
            dynamodb.put_item(
                TableName="orders",
                Item={**_key(order), "version": {"N": str(order["version"])}},
                ConditionExpression="attribute_not_exists(order_id) OR version < :new",
                ExpressionAttributeValues={":new": {"N": str(order["version"])}},
            )
        except dynamodb.exceptions.ConditionalCheckFailedException:
            continue


def adds_under_a_version(event: Any, context: object) -> None:
    """Reads and writes back under the version that it read, and remembers which orders it has added."""
    for order in orders(event):
        key = {"day": {"S": "monday"}}
        for _ in range(5):
            found: Any = dynamodb.get_item(TableName="totals", Key=key, ConsistentRead=True).get("Item", {})
            known = found.get("orders", {"SS": []})["SS"]
            if order["order_id"] in known:
                break
            version = int(found.get("version", {"N": "0"})["N"])
            amount = int(found.get("amount", {"N": "0"})["N"]) + order["amount"]
            try:
                dynamodb.put_item(
                    TableName="totals",
                    Item={
                        **key,
                        "version": {"N": str(version + 1)},
                        "amount": {"N": str(amount)},
                        "orders": {"SS": sorted([*known, order["order_id"]])},
                    },
                    ConditionExpression="attribute_not_exists(#version) OR #version = :version",
                    ExpressionAttributeNames={"#version": "version"},
                    ExpressionAttributeValues={":version": {"N": str(version)}},
                )
                break
            except dynamodb.exceptions.ConditionalCheckFailedException:
                continue
        else:
            raise RuntimeError("the total is written too often")


def sends_with_an_id(event: Any, context: object) -> None:
    """Sends a copy under the id by which its receiver drops copies."""
    for order in orders(event):
        sqs.send_message(
            QueueUrl=EMAILS,
            MessageBody=json.dumps(order),
            MessageAttributes={"uniquerequestid": {"DataType": "String", "StringValue": order["order_id"]}},
        )


def sends_with_its_id_in_the_body(event: Any, context: object) -> None:
    """Sends a copy that its receiver drops by a field of the body."""
    for order in orders(event):
        sqs.send_message(QueueUrl=EMAILS, MessageBody=json.dumps({"id": order["order_id"], "text": "thanks"}))


def looks_at_what_was_not_taken(event: Any, context: object) -> None:
    for order in orders(event):
        puts: Any = [{"PutRequest": {"Item": {"entry": {"S": f"{order['order_id']}/{n}"}}}} for n in range(3)]
        left: Any = {"log": puts}
        for _ in range(5):
            if not left:
                break
            left = dynamodb.batch_write_item(RequestItems=left)["UnprocessedItems"]
        if left:
            raise RuntimeError("DynamoDB does not take the entries")


def retries_what_was_refused(event: Any, context: object) -> None:
    for order in orders(event):
        entries: Any = [
            {
                "Id": to,
                "MessageBody": to,
                "MessageAttributes": {
                    "uniquerequestid": {"DataType": "String", "StringValue": f"{order['order_id']}-{to}"}
                },
            }
            for to in ("buyer", "seller")
        ]
        if sqs.send_message_batch(QueueUrl=EMAILS, Entries=entries).get("Failed"):
            raise RuntimeError("the queue did not take all of them")


def refuses_to_work(event: Any, context: object) -> None:
    """Fails each time, as its tests want it to."""
    raise ValueError("this order is not for us")
