"""Handlers that never work: something that they need is not there. The line to change ends in ``# here``."""

from __future__ import annotations

import json
import sys
from http.client import HTTPConnection
from typing import Any

import boto3

from tests.proofs.recall.writes import orders

dynamodb = boto3.client("dynamodb", region_name="us-east-1")
s3 = boto3.client("s3", region_name="us-east-1")
secrets = boto3.client("secretsmanager", region_name="us-east-1")
parameters = boto3.client("ssm", region_name="us-east-1")


def reads_from_no_bucket(event: Any, context: object) -> None:
    for order in orders(event):
        s3.get_object(Bucket="orders", Key=order["order_id"])  # here


def uses_a_reserved_word(event: Any, context: object) -> None:
    for order in orders(event):
        dynamodb.update_item(  # here
            TableName="orders",
            Key={"order_id": {"S": order["order_id"]}},
            UpdateExpression="SET status = :new",
            ExpressionAttributeValues={":new": {"S": "new"}},
        )


def queries_no_index(event: Any, context: object) -> None:
    for order in orders(event):
        dynamodb.query(  # here
            TableName="orders",
            IndexName="by-day",
            KeyConditionExpression="#day = :day",
            ExpressionAttributeNames={"#day": "day"},
            ExpressionAttributeValues={":day": {"S": order["order_id"]}},
        )


def gives_half_a_key(event: Any, context: object) -> None:
    for order in orders(event):
        dynamodb.get_item(TableName="lines", Key={"order_id": {"S": order["order_id"]}})  # here


def exits(event: Any, context: object) -> None:
    for order in orders(event):
        dynamodb.put_item(TableName="orders", Item={"order_id": {"S": order["order_id"]}})
        sys.exit(1)  # here


def asks_for_a_secret(event: Any, context: object) -> None:
    secret = secrets.get_secret_value(SecretId="shop")["SecretString"]  # here
    for order in orders(event):
        dynamodb.put_item(TableName="orders", Item={"order_id": {"S": order["order_id"]}, "by": {"S": secret}})


def asks_for_a_parameter(event: Any, context: object) -> None:
    """Sound where the parameter is given."""
    by = parameters.get_parameter(Name="/shop/by")["Parameter"]["Value"]  # here
    for order in orders(event):
        dynamodb.put_item(TableName="orders", Item={"order_id": {"S": order["order_id"]}, "by": {"S": by}})


def posts(event: Any, context: object) -> None:
    for order in orders(event):
        connection = HTTPConnection("127.0.0.1", 9)
        connection.request("POST", "/charge", json.dumps(order))  # here
        connection.getresponse()
