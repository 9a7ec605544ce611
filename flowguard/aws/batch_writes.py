"""Writes of many rows to a table, a batch to a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from flowguard.aws import botocore_errors
from flowguard.aws.faults import is_final, patiently

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

ROWS_A_CALL = 25
"""What BatchWriteItem takes."""

MOST_TRIES = 5
"""How often rows that DynamoDB left unprocessed are written."""


def write_rows(client: DynamoDBClient, table: str, requests: Sequence[Any], pause: Callable[[float], None]) -> int:
    """Make the requests, 25 to a BatchWriteItem. What DynamoDB refuses for now or leaves unprocessed is tried again.

    Each is a ``PutRequest`` or ``DeleteRequest``. Returns how many a batch left at last; the batches after it are not
    written then.
    """
    for start in range(0, len(requests), ROWS_A_CALL):
        if left := _write_batch(client, {table: requests[start : start + ROWS_A_CALL]}, pause):
            return left
    return 0


def _write_batch(client: DynamoDBClient, left: Any, pause: Callable[[float], None]) -> int:
    for attempt in range(MOST_TRIES):
        try:
            left = patiently(partial(client.batch_write_item, RequestItems=left), pause).get("UnprocessedItems")
        except botocore_errors.ClientError as error:
            if is_final(error) or attempt == MOST_TRIES - 1:
                raise
        if not left:
            return 0
        pause(0.05 * 2**attempt)
    return sum(map(len, left.values()))
