"""Handlers of a shop, as people write them: each does several things, and one of them wrong."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3

from tests.proofs.recall import shared

REGION: Any = {"region_name": "us-east-1"}
dynamodb: Any = boto3.client("dynamodb", **REGION)
tables: Any = boto3.resource("dynamodb", **REGION)
s3: Any = boto3.client("s3", **REGION)
sns: Any = boto3.client("sns", **REGION)
sqs: Any = boto3.client("sqs", **REGION)
events: Any = boto3.client("events", **REGION)
log = logging.getLogger(__name__)
log.propagate = False

TABLES: Any = {"seen": "id", "locks": "id", "orders": "order_id", "stock": "sku", "prices": "sku", "totals": "day"}


def _orders(event: Any) -> Iterator[dict[str, Any]]:
    return (json.loads(record["body"]) for record in event["Records"])


def marks_at_the_end(event: Any, context: Any) -> None:
    for order in _orders(event):
        if "Item" in tables.Table("seen").get_item(Key={"id": order["order_id"]}, ConsistentRead=True):
            continue
        s3.put_object(Bucket="orders", Key=order["order_id"], Body=json.dumps(order))
        sns.publish(TopicArn="arn:aws:sns:us-east-1:123456789012:orders", Message=order["order_id"])  # here
        tables.Table("seen").put_item(Item={"id": order["order_id"]})


def reserves_then_notes_it(event: Any, context: Any) -> None:
    for order in _orders(event):
        taken = {"Key": {"sku": order["sku"]}, "ExpressionAttributeValues": {":n": order["amount"]}}
        change = {"UpdateExpression": "SET n = n - :n", "ConditionExpression": "n >= :n"}
        status = "RESERVED"
        try:
            tables.Table("stock").update_item(**taken, **change)  # here
        except dynamodb.exceptions.ConditionalCheckFailedException:
            status = "REJECTED"
        tables.Table("orders").put_item(Item={"order_id": order["order_id"], "status": status})


def accepts_then_ships(event: Any, context: Any) -> None:
    url = sqs.get_queue_url(QueueName="shipping")["QueueUrl"]
    for order in _orders(event):
        item = {"order_id": order["order_id"], "status": "NEW"}
        try:
            tables.Table("orders").put_item(Item=item, ConditionExpression="attribute_not_exists(order_id)")
        except dynamodb.exceptions.ConditionalCheckFailedException:
            continue
        own = {"uniquerequestid": {"DataType": "String", "StringValue": order["order_id"]}}
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps(item), MessageAttributes=own)  # here


def takes_what_fails_for_poison(event: Any, context: Any) -> Any:
    failures = []
    for record in event["Records"]:
        try:
            order_id = json.loads(record["body"])["order_id"]
            dynamodb.put_item(TableName="orders", Item={"order_id": {"S": order_id}})  # here
        except KeyError:
            failures.append({"itemIdentifier": record["messageId"]})
        except Exception:
            log.exception("a record that cannot be read")
    return {"batchItemFailures": failures}


def locks_without_an_end(event: Any, context: Any) -> None:
    locks = tables.Table("locks")
    for order in _orders(event):
        lock = {"id": order["order_id"]}
        try:
            locks.put_item(Item=lock, ConditionExpression="attribute_not_exists(id)")
        except dynamodb.exceptions.ConditionalCheckFailedException:
            continue
        dynamodb.put_item(TableName="orders", Item={"order_id": {"S": order["order_id"]}})  # here
        locks.delete_item(Key=lock)


def says_when(event: Any, context: Any) -> None:
    for order in _orders(event):
        dynamodb.put_item(TableName="orders", Item={"order_id": {"S": order["order_id"]}})
        detail = json.dumps({"order_id": order["order_id"], "at": datetime.now(UTC).isoformat()})
        entry = {"Source": "shop", "DetailType": "placed", "EventBusName": "shop", "Detail": detail}
        events.put_events(Entries=[entry])  # here


def adds_a_line(event: Any, context: Any) -> None:
    for order in _orders(event):
        try:
            before = s3.get_object(Bucket="orders", Key="today")["Body"].read().decode()
        except s3.exceptions.NoSuchKey:
            before = ""
        s3.put_object(Bucket="orders", Key="today", Body=f"{before}{order['order_id']}\n")  # here


def knows_skus(event: Any, context: Any) -> None:
    for order in _orders(event):
        if order["sku"] not in shared.Seen.skus:
            shared.Seen.skus.add(order["sku"])
            dynamodb.put_item(TableName="orders", Item={"order_id": {"S": order["order_id"]}})  # here


def gathers_two(event: Any, context: Any) -> None:
    waiting = shared.buffer.orders
    waiting += _orders(event)
    if len(waiting) >= 2:
        for order in waiting:
            dynamodb.put_item(TableName="orders", Item={"order_id": {"S": order["order_id"]}})  # here
        waiting.clear()


def counts_an_object(event: Any, context: Any) -> None:
    for record in event["Records"]:
        about = record["s3"]
        size = s3.head_object(Bucket=about["bucket"]["name"], Key=about["object"]["key"])["ContentLength"]
        total: Any = {"UpdateExpression": "ADD kilos :n", "ExpressionAttributeValues": {":n": {"N": str(size)}}}
        dynamodb.update_item(TableName="totals", Key={"day": {"S": "monday"}}, **total)  # here


# -- sound -------------------------------------------------------------------------------------------------------------


def looks_up_prices(event: Any, context: Any) -> None:
    for order in _orders(event):
        own = {"order_id": {"S": order["order_id"]}, "price": {"N": shared.price(dynamodb, order["sku"])}}
        dynamodb.put_item(TableName="orders", Item=own)


def reserves_in_one_transaction(event: Any, context: Any) -> None:
    for order in _orders(event):
        own = {"TableName": "orders", "ConditionExpression": "attribute_not_exists(order_id)"}
        taken = {"TableName": "stock", "Key": {"sku": {"S": order["sku"]}}, "ConditionExpression": "n >= :n"}
        change = {
            "UpdateExpression": "SET n = n - :n",
            "ExpressionAttributeValues": {":n": {"N": str(order["amount"])}},
        }
        put: Any = {"Put": {**own, "Item": {"order_id": {"S": order["order_id"]}}}}
        update: Any = {"Update": {**taken, **change}}
        try:
            dynamodb.transact_write_items(TransactItems=[put, update])
        except dynamodb.exceptions.TransactionCanceledException as error:
            if error.response["CancellationReasons"][0]["Code"] != "ConditionalCheckFailed":
                raise


def writes_what_it_read(event: Any, context: Any) -> None:
    table = tables.Table("totals")
    for order in _orders(event):
        while True:
            total: Any = table.get_item(Key={"day": "monday"}, ConsistentRead=True).get("Item")
            total = total or {"day": "monday", "orders": {}, "version": 0}
            if order["order_id"] in total["orders"]:
                break
            read = total["version"]
            total = {**total, "orders": {**total["orders"], order["order_id"]: order["amount"]}, "version": read + 1}
            unchanged: Any = {"ConditionExpression": "attribute_not_exists(version) OR version = :v"}
            try:
                table.put_item(Item=total, ExpressionAttributeValues={":v": read}, **unchanged)
            except dynamodb.exceptions.ConditionalCheckFailedException:
                continue


def writes_lines(event: Any, context: Any) -> None:
    for order in _orders(event):
        with tables.Table("lines").batch_writer() as batch:
            for line in ("1", "2", "3"):
                batch.put_item(Item={"order_id": order["order_id"], "line": line})


def ships_in_order(event: Any, context: Any) -> None:
    url = sqs.get_queue_url(QueueName="shipping.fifo")["QueueUrl"]
    for order in _orders(event):
        own = order["order_id"]
        said: Any = {"uniquerequestid": {"DataType": "String", "StringValue": own}}
        ids: Any = {"MessageGroupId": own, "MessageDeduplicationId": own}
        sqs.send_message(QueueUrl=url, MessageBody=own, MessageAttributes=said, **ids)
