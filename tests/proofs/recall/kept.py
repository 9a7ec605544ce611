"""Handlers whose module remembers. The line to change ends in ``# here``."""

from __future__ import annotations

from typing import Any

import boto3

from tests.proofs.recall.writes import orders

dynamodb = boto3.client("dynamodb", region_name="us-east-1")
lines: list[str] = []
prices: dict[str, str] = {}


def gathers(event: Any, context: object) -> None:
    """Gathers lines in a list that the next record finds full."""
    for order in orders(event):
        lines.append(str(order["amount"]))
        item = {"order_id": {"S": order["order_id"]}, "lines": {"S": ",".join(lines)}}
        dynamodb.put_item(TableName="orders", Item=item)  # here


def remembers(event: Any, context: object) -> None:
    """Sound: what is kept is the same for each record."""
    for order in orders(event):
        prices.setdefault("tea", "4")
        item = {"order_id": {"S": order["order_id"]}, "price": {"N": prices["tea"]}}
        dynamodb.put_item(TableName="orders", Item=item)
