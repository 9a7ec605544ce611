"""Handlers with bugs that public trackers tell of, in shapes of our own. The line to change ends in ``# here``."""

from __future__ import annotations

import hashlib
import json
import smtplib
import sqlite3
import time
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import boto3
import requests

REGION: Any = {"region_name": "us-east-1"}
dynamodb: Any = boto3.client("dynamodb", **REGION)
tables: Any = boto3.resource("dynamodb", **REGION)
sqs: Any = boto3.client("sqs", **REGION)
MAILS = "https://sqs.us-east-1.amazonaws.com/123456789012/mails"


def _bodies(event: Any) -> Iterator[dict[str, Any]]:
    return (json.loads(record["body"]) for record in event["Records"])


def keeps_the_last_status(event: Any, context: Any) -> None:
    """An event of an hour ago may come after that of a minute ago."""
    for change in _bodies(event):
        item = {"id": change["subscription"], "status": change["status"]}
        tables.Table("subscriptions").put_item(Item=item)  # here


def adds_up_in_sql(event: Any, context: Any) -> None:
    with sqlite3.connect("/mnt/shop/feedback.db") as shop:
        shop.execute("CREATE TABLE IF NOT EXISTS totals (day TEXT PRIMARY KEY, n INTEGER)")
        for feedback in _bodies(event):
            shop.execute("INSERT OR IGNORE INTO totals VALUES (?, 0)", (feedback["day"],))
            shop.execute("UPDATE totals SET n = n + 1 WHERE day = ?", (feedback["day"],))  # here


def forgets_after_half_an_hour(event: Any, context: Any) -> None:
    """Counts in one transaction with the mark that it was counted, which is worth nothing half an hour later."""
    for order in _bodies(event):
        now = int(time.time())
        mark: Any = {
            "TableName": "seen",
            "Item": {"id": {"S": order["order_id"]}, "forgotten": {"N": str(now + 1800)}},
            "ConditionExpression": "attribute_not_exists(id) OR forgotten < :now",
            "ExpressionAttributeValues": {":now": {"N": str(now)}},
        }
        add: Any = {
            "TableName": "totals",
            "Key": {"day": {"S": "monday"}},
            "UpdateExpression": "ADD amount :n",
            "ExpressionAttributeValues": {":n": {"N": str(order["amount"])}},
        }
        try:
            dynamodb.transact_write_items(TransactItems=[{"Put": mark}, {"Update": add}])  # here
        except dynamodb.exceptions.TransactionCanceledException as error:
            if error.response["CancellationReasons"][0]["Code"] != "ConditionalCheckFailed":
                raise


def charges_under_a_new_key(event: Any, context: Any) -> None:
    for order in _bodies(event):
        charge = urllib.request.Request(
            "https://psp.example/charges",
            data=json.dumps({"order": order["order_id"], "amount": order["amount"]}).encode(),
            headers={"Idempotency-Key": str(uuid.uuid4()), "Content-Type": "application/json"},
            method="POST",
        )
        with urllib.request.urlopen(charge, timeout=5) as answer:  # noqa: S310  # here
            json.load(answer)


def mails_before_it_marks(event: Any, context: Any) -> None:
    for order in _bodies(event):
        if "Item" in tables.Table("seen").get_item(Key={"id": order["order_id"]}, ConsistentRead=True):
            continue
        with smtplib.SMTP("smtp.example", 587, timeout=5) as server:
            server.sendmail(  # here
                "shop@shop.example", ["buyer@home.example"], f"Subject: {order['order_id']}\n\nThanks"
            )
        tables.Table("seen").put_item(Item={"id": order["order_id"]})


def charges_before_it_records(event: Any, context: Any) -> None:
    for order in _bodies(event):
        if "Item" in tables.Table("orders").get_item(Key={"order_id": order["order_id"]}, ConsistentRead=True):
            continue
        charge = {"amount": order["amount"]}
        requests.post("https://psp.example/charges", json=charge, timeout=5).raise_for_status()  # here
        tables.Table("orders").put_item(Item={"order_id": order["order_id"], "status": "PAID"})


def checks_stock_before_it_takes(event: Any, context: Any) -> None:
    """Takes for each order once. Two that look at the same moment both get what is there once."""
    for order in _bodies(event):
        row = tables.Table("stock").get_item(Key={"sku": order["sku"]}, ConsistentRead=True)["Item"]
        if row["n"] < order["amount"]:
            continue
        accept: Any = {
            "TableName": "orders",
            "Item": {"order_id": {"S": order["order_id"]}},
            "ConditionExpression": "attribute_not_exists(order_id)",
        }
        take: Any = {
            "TableName": "stock",
            "Key": {"sku": {"S": order["sku"]}},
            "UpdateExpression": "SET n = n - :n",
            "ExpressionAttributeValues": {":n": {"N": str(order["amount"])}},
        }
        try:
            dynamodb.transact_write_items(TransactItems=[{"Put": accept}, {"Update": take}])  # here
        except dynamodb.exceptions.TransactionCanceledException as error:
            if error.response["CancellationReasons"][0]["Code"] != "ConditionalCheckFailed":
                raise


def locks_in_milliseconds(event: Any, context: Any) -> None:
    """Compares seconds with the milliseconds of a lock, which is never over."""
    for order in _bodies(event):
        tables.Table("locks").put_item(  # here
            Item={"id": order["order_id"], "until": int(time.time() * 1000) + 10_000},
            ConditionExpression="attribute_not_exists(id) OR #until < :now",
            ExpressionAttributeNames={"#until": "until"},
            ExpressionAttributeValues={":now": int(time.time())},
        )
        tables.Table("orders").put_item(Item={"order_id": order["order_id"], "status": "DONE"})
        tables.Table("locks").delete_item(Key={"id": order["order_id"]})


def sends_before_it_deletes(event: Any, context: Any) -> None:
    """Empties an outbox: first it sends, then it deletes."""
    rows = tables.Table("outbox").scan(ConsistentRead=True)["Items"]
    for row in rows:
        sqs.send_message(QueueUrl=MAILS, MessageBody=row["text"])  # here
        tables.Table("outbox").delete_item(Key={"id": row["id"]})


def takes_the_same_for_a_copy(event: Any, context: Any) -> None:
    """Tells copies by their text. Who buys the same twice says the same twice."""
    for record in event["Records"]:
        sale = json.loads(record["body"])
        mark: Any = {
            "TableName": "seen",
            "Item": {"id": {"S": hashlib.sha256(record["body"].encode()).hexdigest()}},
            "ConditionExpression": "attribute_not_exists(id)",
        }
        add: Any = {
            "TableName": "totals",
            "Key": {"day": {"S": "monday"}},
            "UpdateExpression": "ADD sold :n",
            "ExpressionAttributeValues": {":n": {"N": str(sale["n"])}},
        }
        try:
            dynamodb.transact_write_items(TransactItems=[{"Put": mark}, {"Update": add}])  # here
        except dynamodb.exceptions.TransactionCanceledException as error:
            if error.response["CancellationReasons"][0]["Code"] != "ConditionalCheckFailed":
                raise


def charges_under_the_order(event: Any, context: Any) -> None:
    """Sound: the key is that of the order."""
    for order in _bodies(event):
        requests.post(
            "https://psp.example/charges",
            json={"amount": order["amount"]},
            headers={"Idempotency-Key": order["order_id"]},
            timeout=5,
        ).raise_for_status()


def adds_up_once_in_sql(event: Any, context: Any) -> None:
    """Sound: the row of the order and the sum are one transaction."""
    shop = sqlite3.connect("/mnt/shop/sales.db")
    shop.execute("CREATE TABLE IF NOT EXISTS totals (day TEXT PRIMARY KEY, n INTEGER)")
    shop.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY)")
    for order in _bodies(event):
        with shop:
            new = shop.execute("INSERT OR IGNORE INTO orders VALUES (?)", (order["order_id"],)).rowcount
            if new:
                shop.execute("INSERT OR IGNORE INTO totals VALUES ('monday', 0)")
                shop.execute("UPDATE totals SET n = n + ? WHERE day = 'monday'", (order["amount"],))
    shop.close()


def keeps_the_newest_status(event: Any, context: Any) -> None:
    """Sound: what is older than what is there is dropped."""
    for change in _bodies(event):
        try:
            tables.Table("subscriptions").put_item(
                Item={"id": change["subscription"], "status": change["status"], "at": change["at"]},
                ConditionExpression="attribute_not_exists(id) OR #at < :at",
                ExpressionAttributeNames={"#at": "at"},
                ExpressionAttributeValues={":at": change["at"]},
            )
        except dynamodb.exceptions.ConditionalCheckFailedException:
            continue


def takes_what_is_there(event: Any, context: Any) -> None:
    """Sound: who comes first gets it, each order once, and who gets nothing is noted."""
    for order in _bodies(event):
        accept: Any = {
            "TableName": "orders",
            "Item": {"order_id": {"S": order["order_id"]}, "status": {"S": "ACCEPTED"}},
            "ConditionExpression": "attribute_not_exists(order_id)",
        }
        take: Any = {
            "TableName": "stock",
            "Key": {"sku": {"S": order["sku"]}},
            "UpdateExpression": "SET n = n - :n",
            "ConditionExpression": "n >= :n",
            "ExpressionAttributeValues": {":n": {"N": str(order["amount"])}},
        }
        try:
            dynamodb.transact_write_items(TransactItems=[{"Put": accept}, {"Update": take}])
        except dynamodb.exceptions.TransactionCanceledException as error:
            codes = [reason["Code"] for reason in error.response["CancellationReasons"]]
            if codes == ["None", "ConditionalCheckFailed"]:
                _refuse(order["order_id"])
            elif codes[0] != "ConditionalCheckFailed":
                raise


def _refuse(order_id: str) -> None:
    item = {"order_id": order_id, "status": "REFUSED"}
    try:
        tables.Table("orders").put_item(Item=item, ConditionExpression="attribute_not_exists(order_id)")
    except dynamodb.exceptions.ConditionalCheckFailedException:
        return
