"""Handlers that store objects in S3. The line to change ends in ``# here``."""

from __future__ import annotations

import json
import uuid
from typing import Any

import boto3

from tests.proofs.recall.writes import orders

s3 = boto3.client("s3", region_name="us-east-1")


def appends_to_an_object(event: Any, context: object) -> None:
    for order in orders(event):
        try:
            before = s3.get_object(Bucket="reports", Key="monday.csv")["Body"].read()
        except s3.exceptions.NoSuchKey:
            before = b""
        s3.put_object(Bucket="reports", Key="monday.csv", Body=before + f"{order['amount']}\n".encode())  # here


def stores_under_a_new_name(event: Any, context: object) -> None:
    for order in orders(event):
        s3.put_object(Bucket="reports", Key=f"{uuid.uuid4()}.json", Body=json.dumps(order).encode())  # here


def stores(event: Any, context: object) -> None:
    """Sound: the same object again."""
    for order in orders(event):
        s3.put_object(Bucket="reports", Key=f"{order['order_id']}.json", Body=json.dumps(order).encode())
