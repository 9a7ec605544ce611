"""Handlers that need something: services, buckets, hosts. They load fast, as each cold start loads them again."""

from __future__ import annotations

import json
import sys
import urllib.request
from typing import Any

import boto3


def aws(service: str) -> Any:
    make: Any = boto3.client
    return make(service, region_name="us-east-1")


def put(order_id: str = "o1", text: str = "x") -> None:
    aws("dynamodb").put_item(TableName="orders", Item={"order_id": {"S": order_id}, "text": {"S": text}})


def put_order(event: Any, context: Any) -> None:
    put()


def asks(event: Any, context: Any) -> None:
    put(text=aws("ssm").get_parameter(Name="/shop/by")["Parameter"]["Value"])


def asks_and_swallows(event: Any, context: Any) -> None:
    try:
        asks(event, context)
    except Exception:
        put(text="by default")


def exits(event: Any, context: Any) -> None:
    put()
    sys.exit(3)


def uses_a_reserved_word(event: Any, context: Any) -> None:
    aws("dynamodb").update_item(
        TableName="orders",
        Key={"order_id": {"S": "o1"}},
        UpdateExpression="SET status = :s",
        ExpressionAttributeValues={":s": {"S": "x"}},
    )


def uses_no_index(event: Any, context: Any) -> None:
    aws("dynamodb").query(
        TableName="orders",
        IndexName="by-day",
        KeyConditionExpression="d = :d",
        ExpressionAttributeValues={":d": {"S": "x"}},
    )


def writes_to_no_table(event: Any, context: Any) -> None:
    aws("dynamodb").put_item(TableName="unheard", Item={"id": {"S": "x"}})


def reads_no_bucket(event: Any, context: Any) -> None:
    aws("s3").get_object(Bucket="reports", Key="x")


def store(event: Any, context: Any) -> None:
    aws("s3").put_object(Bucket="reports", Key="o1.json", Body=b"tea")


def append(event: Any, context: Any) -> None:
    s3 = aws("s3")
    before = s3.get_object(Bucket="reports", Key="all.csv")["Body"].read()
    s3.put_object(Bucket="reports", Key="all.csv", Body=before + b"5\n")


def posts(event: Any, context: Any) -> None:
    try:
        urllib.request.urlopen("http://localhost:9/charge", data=b"{}")
    except OSError:
        put()


def sends(event: Any, context: Any) -> None:
    sqs = aws("sqs")
    url = sqs.get_queue_url(QueueName="emails")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"id": "o1"}))
