"""The full history of an object's runs: a row for each commit, and for each failed attempt that is tried again.

::

    pk run#<flow>#<object>   sk run                            the run item
    pk run#<flow>#<object>   sk history#<moment, ms>#<epoch>   what one write adds to the history

A row is written in one transaction with the run item, under the condition of that. So a worker that is fenced writes
none, and one whose answer got lost finds its own commit in the item. Rows are never changed. They expire.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from flowguard.aws import botocore_errors, expressions
from flowguard.aws.faults import patiently
from flowguard.aws.items import Item, number, run_key
from flowguard.aws.refused_writes import is_at_fence
from flowguard.names.ids import ObjectId
from flowguard.protocol.run import Claim, Commit
from flowguard.protocol.run_history import Happened, error_of, read_history, told_by_commit, told_by_retry
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.message import ErrorNote

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_ROWS: Final = "history#"

ROWS_SHOWN: Final = 100
"""Rows that are read where nobody asks for more."""

MOST_ROWS: Final = 10_000
"""Rows that are read at most."""


class Told(NamedTuple):
    """The end of an attempt, as a row tells it. ``error`` is the type of the error with which it failed."""

    happened: Happened
    error: str | None = None


class FullHistory(NamedTuple):
    """What rows tell, the oldest first. ``more`` says that there are rows before them."""

    told: tuple[Told, ...] = ()
    more: bool = False


def row_of_commit(table: str, claim: Claim, commit: Commit, until: int) -> Any:
    """Return the row of a commit as an action of its transaction. It may be removed at ``until`` (ms)."""
    return _put(table, claim, commit.committed_at, told_by_commit(claim, commit), error_of(commit), until // 1000)


def tell(
    client: DynamoDBClient, table: str, claim: Claim, error: ErrorNote, pause: Callable[[float], None] = time.sleep
) -> None:
    """Write the row of an attempt that has failed, with one TransactWriteItems. Nothing where its worker is fenced."""
    m, item = claim.message, claim.item
    noted: Any = {
        "TableName": table,
        "Key": run_key(m.flow, m.object_id),
        "UpdateExpression": "SET full_history = :yes",
        "ConditionExpression": expressions.COMMIT,
        "ExpressionAttributeNames": {"#owner": "owner"},
        "ExpressionAttributeValues": {
            ":request_id": {"S": item.request_id},
            ":epoch": number(item.epoch),
            ":owner": {"S": item.owner},
            ":no": {"BOOL": False},
            ":yes": {"BOOL": True},
        },
    }
    row = _put(table, claim, error.at, told_by_retry(claim, error.at), error.type, item.ttl)
    try:
        patiently(lambda: client.transact_write_items(TransactItems=[{"Update": noted}, row]), pause)
    except botocore_errors.ClientError as refusal:
        if not is_at_fence(refusal):
            raise


def _put(table: str, claim: Claim, at: int, text: str, error: str | None, ttl: int) -> Any:
    m = claim.message
    item: Item = {
        **run_key(m.flow, m.object_id),
        "sk": {"S": f"{_ROWS}{at:015d}#{claim.item.epoch}"},
        "told": {"S": text},
        "request_id": {"S": m.request_id},
        "requested_at": number(m.requested_at),
        "ttl": number(ttl),
    }
    if error is not None:
        item["error"] = {"S": error}
    return {"Put": {"TableName": table, "Item": item}}


def read_rows(client: DynamoDBClient, table: str, flow: str, object_id: str, most: int = ROWS_SHOWN) -> FullHistory:
    """Read what the newest rows tell, ``most`` of them, by consistent queries."""
    call: Any = {
        "TableName": table,
        "KeyConditionExpression": "pk = :pk AND begins_with(sk, :rows)",
        "ExpressionAttributeValues": {
            ":pk": run_key(flow, ObjectId(object_id))["pk"],
            ":rows": {"S": _ROWS},
        },
        "ConsistentRead": True,
        "ScanIndexForward": False,
    }
    items: list[Any] = []
    while len(items) <= most:
        answer: Any = client.query(**call, Limit=most + 1 - len(items))
        items += answer["Items"]
        if "LastEvaluatedKey" not in answer:
            break
        call["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
    items.reverse()
    return FullHistory(_told(items, len(items) > most), len(items) > most)


def _told(rows: Sequence[Any], more: bool) -> tuple[Told, ...]:
    """Return what the rows tell; the first one where there are ``more`` only says what the second need not tell.

    A row may tell of the attempt before its own, too. Where that has a row, it tells itself.
    """
    lines = [read_history(row.get("told", {}).get("S", "")) for row in rows]
    covered = {(entries[-1].run, entries[-1].epoch) for entries in lines if entries}
    history: list[Told] = []
    for row, entries in islice(zip(rows, lines, strict=True), int(more), None):
        history += (Told(entry) for entry in entries[:-1] if (entry.run, entry.epoch) not in covered)
        history += (Told(entry, row.get("error", {}).get("S")) for entry in entries[-1:])
    return tuple(history)
