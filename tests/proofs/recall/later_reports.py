"""Handlers with bugs of public trackers that the explorer had never met when they were first measured.

The line to change ends in ``# here``.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
import urllib.error
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
s3: Any = boto3.client("s3", **REGION)
scheduler: Any = boto3.client("scheduler", **REGION)
ORDERS = "https://sqs.us-east-1.amazonaws.com/123456789012/orders"
MAILS = "https://sqs.us-east-1.amazonaws.com/123456789012/mails"
CHARGES = "https://psp.example/charges"


def _bodies(event: Any) -> Iterator[dict[str, Any]]:
    return (json.loads(record["body"]) for record in event["Records"])


def charges_under_its_invocation(event: Any, context: Any) -> None:
    """Takes the id of the invocation for that of the request. Each receive of a record is another invocation."""
    for order in _bodies(event):
        requests.post(  # here
            CHARGES,
            json={"amount": order["amount"]},
            headers={"Idempotency-Key": f"{context.aws_request_id}-{order['order_id']}"},
            timeout=5,
        ).raise_for_status()


def drops_what_was_received_before(event: Any, context: Any) -> None:
    """Takes whatever is received again for a copy of what was done."""
    for record in event["Records"]:
        if int(record["attributes"]["ApproximateReceiveCount"]) > 1:
            continue  # here
        order = json.loads(record["body"])
        tables.Table("orders").put_item(Item={"order_id": order["order_id"], "status": "DONE"})  # here


def counts_parts(event: Any, context: Any) -> None:
    """Counts the parts of a job. Whoever counts the last one reports the job."""
    for part in _bodies(event):
        key = {"job": part["job"], "part": part["part"]}
        tables.Table("parts").put_item(Item=key | {"size": part["size"]})
        row = tables.Table("jobs").update_item(  # here
            Key={"job": part["job"]},
            UpdateExpression="ADD done :one",
            ExpressionAttributeValues={":one": 1},
            ReturnValues="ALL_NEW",
        )["Attributes"]
        if row["done"] == part["of"]:
            tables.Table("jobs").update_item(
                Key={"job": part["job"]},
                UpdateExpression="SET #state = :over",
                ExpressionAttributeNames={"#state": "state"},
                ExpressionAttributeValues={":over": "OVER"},
            )


def writes_the_old_content_under_the_new_version(event: Any, context: Any) -> None:
    """Looks up only the version once more when another one was first, and not what is to be added to."""
    for order in _bodies(event):
        table = tables.Table("baskets")
        row = table.get_item(Key={"id": "b1"}, ConsistentRead=True)["Item"]
        if order["sku"] in row["skus"]:
            continue
        skus, version = sorted([*row["skus"], order["sku"]]), row["version"]
        while True:
            try:
                table.put_item(  # here
                    Item={"id": "b1", "skus": skus, "version": version + 1},
                    ConditionExpression="version = :version",
                    ExpressionAttributeValues={":version": version},
                )
            except dynamodb.exceptions.ConditionalCheckFailedException:
                version = table.get_item(Key={"id": "b1"}, ConsistentRead=True)["Item"]["version"]
                continue
            break


def saves_the_address(event: Any, context: Any) -> None:
    for change in _bodies(event):
        customer = tables.Table("customers").get_item(Key={"id": change["id"]}, ConsistentRead=True)["Item"]
        customer["address"] = change["address"]
        tables.Table("customers").put_item(Item=customer)  # here


def saves_the_status(event: Any, context: Any) -> None:
    for change in _bodies(event):
        customer = tables.Table("customers").get_item(Key={"id": change["id"]}, ConsistentRead=True)["Item"]
        customer["status"] = change["status"]
        tables.Table("customers").put_item(Item=customer)  # here


def schedules_under_a_new_name(event: Any, context: Any) -> None:
    for order in _bodies(event):
        scheduler.create_schedule(  # here
            Name=f"remind-{uuid.uuid4()}",
            ScheduleExpression="at(2030-01-01T08:00:00)",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target={
                "Arn": "arn:aws:sqs:us-east-1:123456789012:mails",
                "RoleArn": "arn:aws:iam::123456789012:role/scheduler",
                "Input": json.dumps({"remind": order["order_id"]}),
            },
        )


def takes_a_number_for_each_try(event: Any, context: Any) -> None:
    """Writes each invoice once. Its number is taken before it is looked whether there is one already."""
    for order in _bodies(event):
        number = tables.Table("numbers").update_item(  # here
            Key={"id": "invoices"},
            UpdateExpression="ADD #last :one",
            ExpressionAttributeNames={"#last": "last"},
            ExpressionAttributeValues={":one": 1},
            ReturnValues="ALL_NEW",
        )["Attributes"]["last"]
        try:
            tables.Table("invoices").put_item(
                Item={"order_id": order["order_id"], "number": number},
                ConditionExpression="attribute_not_exists(order_id)",
            )
        except dynamodb.exceptions.ConditionalCheckFailedException:
            continue


def takes_a_time_out_for_a_refusal(event: Any, context: Any) -> None:
    """Cancels the order where no answer came. Whether the card was charged it does not know then."""
    for order in _bodies(event):
        request = urllib.request.Request(
            CHARGES,
            data=json.dumps({"amount": order["amount"]}).encode(),
            headers={"Idempotency-Key": order["order_id"], "Content-Type": "application/json"},
            method="POST",
        )
        status = "PAID"
        try:
            with urllib.request.urlopen(request, timeout=5):  # noqa: S310  # here
                pass
        except urllib.error.HTTPError:
            raise
        except OSError:
            status = "CANCELLED"  # here
        tables.Table("orders").put_item(Item={"order_id": order["order_id"], "status": status})


def frees_its_mark_after_a_failure(event: Any, context: Any) -> None:
    """Deletes its mark whatever failed, so that the next try refunds under another key."""
    for order in _bodies(event):
        mark = {"id": order["order_id"]}
        row = tables.Table("seen").get_item(Key=mark, ConsistentRead=True).get("Item")
        if row is None:
            row = {**mark, "key": str(uuid.uuid4()), "status": "BEGUN"}
            tables.Table("seen").put_item(Item=row)
        if row["status"] == "DONE":
            continue
        try:
            requests.post(
                "https://psp.example/refunds",
                json={"amount": order["amount"]},
                headers={"Idempotency-Key": row["key"]},
                timeout=5,
            ).raise_for_status()
        except requests.RequestException:
            tables.Table("seen").delete_item(Key=mark)  # here
            raise
        tables.Table("seen").put_item(Item=row | {"status": "DONE"})


def replaces_lines_piece_by_piece(event: Any, context: Any) -> None:
    """Keeps the newer version of an order, which it looks up once, and writes its lines one by one."""
    for order in _bodies(event):
        table = tables.Table("lines")
        now = table.query(
            KeyConditionExpression="order_id = :id",
            ExpressionAttributeValues={":id": order["order_id"]},
            ConsistentRead=True,
        )["Items"]
        if any(row["version"] > order["version"] for row in now):
            continue
        for row in now:
            table.delete_item(Key={"order_id": order["order_id"], "line": row["line"]})  # here
        for line in order["lines"]:
            table.put_item(  # here
                Item={"order_id": order["order_id"], "line": line, "version": order["version"]}
            )


def leaves_it_to_a_thread(event: Any, context: Any) -> None:
    """Answers while a thread is at work, which Lambda stops then."""
    for order in _bodies(event):
        item = {"order_id": order["order_id"], "status": "DONE"}
        threading.Thread(target=tables.Table("orders").put_item, kwargs={"Item": item}).start()  # here


def deletes_its_message_first(event: Any, context: Any) -> None:
    for record in event["Records"]:
        sqs.delete_message(QueueUrl=ORDERS, ReceiptHandle=record["receiptHandle"])  # here
        order = json.loads(record["body"])
        tables.Table("orders").put_item(Item={"order_id": order["order_id"], "status": "DONE"})


def moves_its_cursor_first(event: Any, context: Any) -> None:
    """Sends what is newer than its cursor, under ids, and moves the cursor before."""
    cursor = tables.Table("cursors").get_item(Key={"id": "outbox"}, ConsistentRead=True)["Item"]
    rows = tables.Table("outbox").scan(ConsistentRead=True)["Items"]
    newer = sorted((row for row in rows if row["at"] > cursor["at"]), key=lambda row: row["at"])
    if newer:
        tables.Table("cursors").put_item(Item={"id": "outbox", "at": newer[-1]["at"]})  # here
    for row in newer:
        sqs.send_message(
            QueueUrl=MAILS,
            MessageBody=row["text"],
            MessageAttributes={"uniquerequestid": {"DataType": "String", "StringValue": row["id"]}},
        )


def relies_on_five_minutes(event: Any, context: Any) -> None:
    """Sends under its order's id to a FIFO queue, which knows ids for five minutes."""
    for order in _bodies(event):
        sqs.send_message(  # here
            QueueUrl=f"{MAILS}.fifo",
            MessageBody=order["order_id"],
            MessageGroupId="all",
            MessageDeduplicationId=order["order_id"],
        )


def drops_what_is_old(event: Any, context: Any) -> None:
    """Drops what was sent more than twenty seconds ago. Who is tried again after a crash comes later than that."""
    for record in event["Records"]:
        if time.time() - int(record["attributes"]["SentTimestamp"]) / 1000 > 20:
            continue  # here
        order = json.loads(record["body"])
        tables.Table("orders").put_item(Item={"order_id": order["order_id"], "status": "DONE"})  # here


def numbers_objects_by_their_count(event: Any, context: Any) -> None:
    for order in _bodies(event):
        there = s3.list_objects_v2(Bucket="reports").get("Contents", [])
        s3.put_object(  # here
            Bucket="reports", Key=f"part-{len(there) + 1}.json", Body=json.dumps(order).encode()
        )


def numbers_rows_by_the_greatest(event: Any, context: Any) -> None:
    shop = sqlite3.connect("/mnt/shop/numbers.db", isolation_level=None)
    shop.execute("CREATE TABLE IF NOT EXISTS bills (number INTEGER PRIMARY KEY, id TEXT)")
    for order in _bodies(event):
        if shop.execute("SELECT 1 FROM bills WHERE id = ?", (order["order_id"],)).fetchone():
            continue
        (last,) = shop.execute("SELECT COALESCE(MAX(number), 0) FROM bills").fetchone()
        shop.execute("INSERT OR REPLACE INTO bills VALUES (?, ?)", (last + 1, order["order_id"]))  # here
    shop.close()


# -- sound


def deletes_its_message_last(event: Any, context: Any) -> None:
    """Sound, as functions were written before Lambda read queues: what was processed is deleted."""
    for record in event["Records"]:
        order = json.loads(record["body"])
        tables.Table("orders").put_item(Item={"order_id": order["order_id"], "status": "DONE"})
        sqs.delete_message_batch(QueueUrl=ORDERS, Entries=[{"Id": "only", "ReceiptHandle": record["receiptHandle"]}])


def gathers_parts(event: Any, context: Any) -> None:
    """Sound: a part is an element of a set, so that to add it again changes nothing."""
    for part in _bodies(event):
        row = tables.Table("jobs").update_item(
            Key={"job": part["job"]},
            UpdateExpression="ADD parts :part",
            ExpressionAttributeValues={":part": {part["part"]}},
            ReturnValues="ALL_NEW",
        )["Attributes"]
        if len(row["parts"]) == part["of"]:
            tables.Table("jobs").update_item(
                Key={"job": part["job"]},
                UpdateExpression="SET #state = :over",
                ExpressionAttributeNames={"#state": "state"},
                ExpressionAttributeValues={":over": "OVER"},
            )


def _set(customer: str, field: str, value: str) -> None:
    tables.Table("customers").update_item(
        Key={"id": customer},
        UpdateExpression="SET #field = :value",
        ExpressionAttributeNames={"#field": field},
        ExpressionAttributeValues={":value": value},
    )


def sets_the_address(event: Any, context: Any) -> None:
    """Sound: it writes its own attribute alone."""
    for change in _bodies(event):
        _set(change["id"], "address", change["address"])


def sets_the_status(event: Any, context: Any) -> None:
    """Sound: it writes its own attribute alone."""
    for change in _bodies(event):
        _set(change["id"], "status", change["status"])


def schedules_under_its_order(event: Any, context: Any) -> None:
    """Sound: the name is that of the order, and one that is there is enough."""
    for order in _bodies(event):
        try:
            scheduler.create_schedule(
                Name=f"remind-{order['order_id']}",
                ScheduleExpression="at(2030-01-01T08:00:00)",
                FlexibleTimeWindow={"Mode": "OFF"},
                Target={
                    "Arn": "arn:aws:sqs:us-east-1:123456789012:mails",
                    "RoleArn": "arn:aws:iam::123456789012:role/scheduler",
                    "Input": json.dumps({"remind": order["order_id"]}),
                },
            )
        except scheduler.exceptions.ConflictException:
            continue


def takes_a_number_once(event: Any, context: Any) -> None:
    """Sound: the number and the invoice are taken together, while nobody else has taken one."""
    for order in _bodies(event):
        while True:
            invoice = {"order_id": order["order_id"]}
            if "Item" in tables.Table("invoices").get_item(Key=invoice, ConsistentRead=True):
                break
            last = int(tables.Table("numbers").get_item(Key={"id": "invoices"}, ConsistentRead=True)["Item"]["last"])
            take: Any = {
                "TableName": "numbers",
                "Key": {"id": {"S": "invoices"}},
                "UpdateExpression": "SET #last = :next",
                "ConditionExpression": "#last = :last",
                "ExpressionAttributeNames": {"#last": "last"},
                "ExpressionAttributeValues": {":last": {"N": str(last)}, ":next": {"N": str(last + 1)}},
            }
            write: Any = {
                "TableName": "invoices",
                "Item": {"order_id": {"S": order["order_id"]}},
                "ConditionExpression": "attribute_not_exists(order_id)",
            }
            try:
                dynamodb.transact_write_items(TransactItems=[{"Update": take}, {"Put": write}])
            except dynamodb.exceptions.TransactionCanceledException:
                continue
            break


def asks_again_after_a_time_out(event: Any, context: Any) -> None:
    """Sound: a time-out says nothing, so the record comes again, under the same key."""
    for order in _bodies(event):
        answer = requests.post(
            CHARGES,
            json={"amount": order["amount"]},
            headers={"Idempotency-Key": order["order_id"]},
            timeout=5,
        )
        answer.raise_for_status()
        tables.Table("orders").put_item(Item={"order_id": order["order_id"], "status": "PAID"})
