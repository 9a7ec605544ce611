"""Handlers behind the decorators of Powertools. Each has one with a bug, and one that is sound."""

from __future__ import annotations

import json
from typing import Any

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import (
    AsyncBatchProcessor,
    BatchProcessor,
    EventType,
    async_process_partial_response,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent
from aws_lambda_powertools.utilities.parser import envelopes, event_parser
from pydantic import BaseModel

TABLES = {"totals": "day", "orders": "order_id", "idempotency": "id"}
FREE = {"idempotency": ["expiration", "in_progress_expiration"]}

dynamodb: Any = boto3.client("dynamodb", region_name="us-east-1")
logger = Logger(service="orders", level="CRITICAL")
processor = BatchProcessor(event_type=EventType.SQS)
by_loop = AsyncBatchProcessor(event_type=EventType.SQS)
store = DynamoDBPersistenceLayer(table_name="idempotency", boto3_client=dynamodb)
by_order = IdempotencyConfig(event_key_jmespath="order_id", expires_after_seconds=14 * 24 * 60 * 60)


class Order(BaseModel):
    order_id: str
    amount: int


def add(order: Order) -> None:
    dynamodb.update_item(
        TableName="totals",
        Key={"day": {"S": "monday"}},
        UpdateExpression="ADD amount :amount",
        ExpressionAttributeValues={":amount": {"N": str(order.amount)}},
    )


def put(order: Order) -> None:
    item = {"order_id": {"S": order.order_id}, "amount": {"N": str(order.amount)}}
    dynamodb.put_item(TableName="orders", Item=item)


# -- the batch processor -----------------------------------------------------------------------------------------------


def add_record(record: SQSRecord) -> None:
    add(Order.model_validate_json(record.body))


def put_record(record: SQSRecord) -> None:
    put(Order.model_validate_json(record.body))


async def put_record_in_a_loop(record: SQSRecord) -> None:
    put_record(record)


def adds_batch(event: dict[str, Any], context: Any) -> Any:
    return process_partial_response(event, add_record, processor, context)


def puts_batch(event: dict[str, Any], context: Any) -> Any:
    return process_partial_response(event, put_record, processor, context)


def puts_batch_in_a_loop(event: dict[str, Any], context: Any) -> Any:
    return async_process_partial_response(event, put_record_in_a_loop, by_loop, context)


# -- the logger --------------------------------------------------------------------------------------------------------


@logger.inject_lambda_context(log_event=True, clear_state=True)
def adds_logged(event: dict[str, Any], context: Any) -> None:
    for record in event["Records"]:
        add(Order.model_validate_json(record["body"]))


@logger.inject_lambda_context(log_event=True, clear_state=True)
def puts_logged(event: dict[str, Any], context: Any) -> None:
    for record in event["Records"]:
        put(Order.model_validate_json(record["body"]))


# -- the parser --------------------------------------------------------------------------------------------------------


@event_parser(model=Order, envelope=envelopes.SqsEnvelope)
def adds_parsed(event: list[Order], context: Any) -> None:
    for order in event:
        add(order)


@event_parser(model=Order, envelope=envelopes.SqsEnvelope)
def puts_parsed(event: list[Order], context: Any) -> None:
    for order in event:
        put(order)


# -- idempotency -------------------------------------------------------------------------------------------------------


@idempotent(config=by_order, persistence_store=store)
def adds_idempotent(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """It adds again if it dies before the decorator has saved that it is done."""
    add(Order.model_validate(event))
    return {"statusCode": 200, "body": json.dumps(event)}


@idempotent(config=by_order, persistence_store=store)
def puts_idempotent(event: dict[str, Any], context: Any) -> dict[str, Any]:
    put(Order.model_validate(event))
    return {"statusCode": 200, "body": json.dumps(event)}
