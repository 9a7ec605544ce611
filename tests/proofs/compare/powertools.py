"""Powertools: ``idempotent_function`` for each record of a batch, as its page on idempotency has it.

The key is the producer's own id. Records are kept for longer than a queue keeps a message. The context is registered,
so that a record that was left in progress expires with its function's time.
"""

from __future__ import annotations

import json
from typing import Any

import boto3
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.typing import LambdaContext

TABLES = {"totals": "day", "confirmed": "day", "idempotency": "id", "addresses": "order_id"}
FOURTEEN_DAYS = 14 * 24 * 60 * 60

dynamodb = boto3.client("dynamodb", region_name="us-east-1")
sqs = boto3.client("sqs", region_name="us-east-1")
processor = BatchProcessor(event_type=EventType.SQS)
orders = DynamoDBPersistenceLayer(table_name="idempotency", boto3_client=dynamodb)
by_order = IdempotencyConfig(event_key_jmespath="order_id", expires_after_seconds=FOURTEEN_DAYS)
changes = DynamoDBPersistenceLayer(table_name="idempotency", boto3_client=dynamodb)
by_request = IdempotencyConfig(event_key_jmespath="request_id", expires_after_seconds=FOURTEEN_DAYS)


def charge(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    by_order.register_lambda_context(context)
    return process_partial_response(event, charge_record, processor, context)


def confirm(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    by_order.register_lambda_context(context)
    return process_partial_response(event, confirm_record, processor, context)


def save(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    by_request.register_lambda_context(context)
    return process_partial_response(event, save_record, processor, context)


def charge_record(record: SQSRecord) -> None:
    charge_order(order=record.json_body)


def confirm_record(record: SQSRecord) -> None:
    confirm_order(order=record.json_body)


def save_record(record: SQSRecord) -> None:
    save_change(change=record.json_body)


@idempotent_function(  # type: ignore[untyped-decorator]  # it answers Any
    data_keyword_argument="order", config=by_order, persistence_store=orders
)
def charge_order(order: dict[str, Any]) -> None:
    dynamodb.update_item(
        TableName="totals",
        Key={"day": {"S": order["day"]}},
        UpdateExpression="ADD amount :amount",
        ExpressionAttributeValues={":amount": {"N": str(order["amount"])}},
    )
    url = sqs.get_queue_url(QueueName="confirmations")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps(order))


@idempotent_function(  # type: ignore[untyped-decorator]  # it answers Any
    data_keyword_argument="order", config=by_order, persistence_store=orders
)
def confirm_order(order: dict[str, Any]) -> None:
    dynamodb.update_item(
        TableName="confirmed",
        Key={"day": {"S": order["day"]}},
        UpdateExpression="ADD orders :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
    )


@idempotent_function(  # type: ignore[untyped-decorator]  # it answers Any
    data_keyword_argument="change", config=by_request, persistence_store=changes
)
def save_change(change: dict[str, Any]) -> None:
    dynamodb.put_item(
        TableName="addresses",
        Item={
            "order_id": {"S": change["order_id"]},
            "address": {"S": change["address"]},
            "requested_at": {"N": str(change["requested_at"])},
        },
    )


def decline(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    by_order.register_lambda_context(context)
    return process_partial_response(event, decline_record, processor, context)


def decline_record(record: SQSRecord) -> None:
    decline_order(order=record.json_body)


@idempotent_function(  # type: ignore[untyped-decorator]  # it answers Any
    data_keyword_argument="order", config=by_order, persistence_store=orders
)
def decline_order(order: dict[str, Any]) -> None:
    dynamodb.update_item(
        TableName="totals",
        Key={"day": {"S": order["day"]}},
        UpdateExpression="ADD amount :amount",
        ExpressionAttributeValues={":amount": {"N": str(-order["amount"])}},
    )
