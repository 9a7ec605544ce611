"""More handlers with bugs of public trackers, which were measured only after the explorer had been changed.

The line to change ends in ``# here``.
"""

from __future__ import annotations

import json
import smtplib
import sqlite3
import time
from collections.abc import Iterator
from typing import Any

import boto3
import requests
import urllib3

REGION: Any = {"region_name": "us-east-1"}
dynamodb: Any = boto3.client("dynamodb", **REGION)
tables: Any = boto3.resource("dynamodb", **REGION)
sqs: Any = boto3.client("sqs", **REGION)
MAILS = "https://sqs.us-east-1.amazonaws.com/123456789012/mails"
_seen: set[str] = set()


def _bodies(event: Any) -> Iterator[dict[str, Any]]:
    return (json.loads(record["body"]) for record in event["Records"])


def follows_events_as_they_come(event: Any, context: Any) -> None:
    """Notes an object when it was created and deletes the note when it was removed, in any order of the two."""
    for change in _bodies(event):
        if change["event"] == "ObjectRemoved":
            tables.Table("index").delete_item(Key={"id": change["key"]})  # here
        else:
            tables.Table("index").put_item(Item={"id": change["key"], "size": change["size"]})  # here


def counts_down_to_zero(event: Any, context: Any) -> None:
    """Takes a floor at zero for a guard against copies."""
    for removed in _bodies(event):
        try:
            tables.Table("totals").update_item(  # here
                Key={"day": removed["day"]},
                UpdateExpression="SET n = n - :one",
                ConditionExpression="n > :none",
                ExpressionAttributeValues={":one": 1, ":none": 0},
            )
        except dynamodb.exceptions.ConditionalCheckFailedException:
            continue


def drops_what_this_process_has_seen(event: Any, context: Any) -> None:
    for order in _bodies(event):
        if order["order_id"] in _seen:
            continue
        _seen.add(order["order_id"])  # here
        tables.Table("orders").put_item(Item={"order_id": order["order_id"], "amount": order["amount"]})  # here


def orders_then_asks_for_the_link(event: Any, context: Any) -> None:
    shop = requests.Session()
    for order in _bodies(event):
        made = shop.post("https://shop.example/orders", json={"cart": order["order_id"]}, timeout=5)  # here
        made.raise_for_status()
        shop.get("https://shop.example/links", params={"cart": order["order_id"]}, timeout=5).raise_for_status()


def mails_until_it_is_told(event: Any, context: Any) -> None:
    """Sends once more where the answer was lost."""
    for order in _bodies(event):
        text = f"Subject: code\n\nYour code for {order['order_id']}"
        for _ in range(3):
            try:
                with smtplib.SMTP("smtp.example", timeout=5) as server:
                    server.sendmail("shop@shop.example", "buyer@home.example", text)  # here
            except (smtplib.SMTPException, OSError):
                continue
            break


def sends_before_it_commits(event: Any, context: Any) -> None:
    shop = sqlite3.connect("/mnt/shop/outgoing.db")
    shop.execute("CREATE TABLE IF NOT EXISTS sent (id TEXT PRIMARY KEY)")
    shop.commit()
    for order in _bodies(event):
        if shop.execute("INSERT OR IGNORE INTO sent VALUES (?)", (order["order_id"],)).rowcount:
            sqs.send_message(QueueUrl=MAILS, MessageBody=order["order_id"])  # here
        shop.commit()
    shop.close()


def counts_before_it_adds(event: Any, context: Any) -> None:
    """Lets a user have two projects, counted before the new one is there."""
    for project in _bodies(event):
        rows = tables.Table("projects").query(
            KeyConditionExpression="#user = :user",
            ExpressionAttributeNames={"#user": "user"},
            ExpressionAttributeValues={":user": project["user"]},
            ConsistentRead=True,
        )["Items"]
        others = [row for row in rows if row["project_id"] != project["project_id"]]
        if len(others) < 2:
            tables.Table("projects").put_item(  # here
                Item={"user": project["user"], "project_id": project["project_id"]}
            )


def writes_after_its_lock_is_over(event: Any, context: Any) -> None:
    """Adds each order once under a lock of twenty seconds, and never looks whether it still has the lock."""
    for order in _bodies(event):
        now = int(time.time())
        tables.Table("locks").put_item(
            Item={"id": "monday", "until": now + 20},
            ConditionExpression="attribute_not_exists(id) OR #until < :now",
            ExpressionAttributeNames={"#until": "until"},
            ExpressionAttributeValues={":now": now},
        )
        try:
            row = tables.Table("totals").get_item(Key={"day": "monday"}, ConsistentRead=True).get("Item")
            row = row or {"day": "monday", "amount": 0, "orders": []}
            if order["order_id"] not in row["orders"]:
                row = {
                    "day": "monday",
                    "amount": row["amount"] + order["amount"],
                    "orders": sorted([*row["orders"], order["order_id"]]),
                }
                tables.Table("totals").put_item(Item=row)  # here
        finally:
            tables.Table("locks").delete_item(Key={"id": "monday"})


def writes_a_batch_as_it_comes(event: Any, context: Any) -> None:
    """Puts all records of an event at once, which DynamoDB refuses where one of them is there twice."""
    puts: Any = [
        {"PutRequest": {"Item": {"order_id": {"S": order["order_id"]}, "amount": {"N": str(order["amount"])}}}}
        for order in _bodies(event)
    ]
    while puts:
        puts = dynamodb.batch_write_item(RequestItems={"orders": puts})["UnprocessedItems"].get("orders")  # here


def marks_before_it_charges(event: Any, context: Any) -> None:
    pool = urllib3.PoolManager(retries=False)
    for order in _bodies(event):
        item = {"order_id": order["order_id"], "status": "PENDING"}
        try:
            tables.Table("orders").put_item(Item=item, ConditionExpression="attribute_not_exists(order_id)")
        except dynamodb.exceptions.ConditionalCheckFailedException:
            continue
        answer = pool.request(  # here
            "POST",
            "https://psp.example/charges",
            body=json.dumps({"amount": order["amount"]}),
            headers={"Idempotency-Key": order["order_id"]},
        )
        if answer.status >= 400:
            raise RuntimeError(answer.status)


def puts_what_it_has(event: Any, context: Any) -> None:
    """Sound: a PUT of the same is the same."""
    for order in _bodies(event):
        url = f"https://shop.example/orders/{order['order_id']}"
        requests.put(url, json={"amount": order["amount"]}, timeout=5).raise_for_status()


def asks_for_a_rate(event: Any, context: Any) -> None:
    """Sound: who only asks changes nothing."""
    for order in _bodies(event):
        rate = requests.get("https://rates.example/eur", timeout=5).json()["rate"]
        tables.Table("orders").put_item(Item={"order_id": order["order_id"], "total": order["amount"] * rate})


def keeps_a_row_in_sql(event: Any, context: Any) -> None:
    """Sound: the same row again."""
    shop = sqlite3.connect("/mnt/shop/rows.db", isolation_level=None)
    shop.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, amount INTEGER)")
    for order in _bodies(event):
        shop.execute("INSERT OR REPLACE INTO orders VALUES (?, ?)", (order["order_id"], order["amount"]))
    shop.close()


def adds_while_nobody_else_has(event: Any, context: Any) -> None:
    """Sound: it writes only what nobody has changed since it read it, each order once."""
    for order in _bodies(event):
        while True:
            row = tables.Table("totals").get_item(Key={"day": "monday"}, ConsistentRead=True).get("Item")
            row = row or {"day": "monday", "version": 0, "amount": 0, "orders": []}
            if order["order_id"] in row["orders"]:
                break
            new = {
                "day": "monday",
                "version": row["version"] + 1,
                "amount": row["amount"] + order["amount"],
                "orders": sorted([*row["orders"], order["order_id"]]),
            }
            try:
                tables.Table("totals").put_item(
                    Item=new,
                    ConditionExpression="attribute_not_exists(#day) OR version = :version",
                    ExpressionAttributeNames={"#day": "day"},
                    ExpressionAttributeValues={":version": row["version"]},
                )
            except dynamodb.exceptions.ConditionalCheckFailedException:
                continue
            break
