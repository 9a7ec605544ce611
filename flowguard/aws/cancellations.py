"""Cancels runs in DynamoDB, by a note in the run item that fences the worker.

::

    pk run#<flow>#<object>   sk run               the run item
    pk run#<flow>#<object>   sk cancel#<digest>   an order to cancel: the run that had the object when it first came
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flowguard.aws import botocore_errors, expressions
from flowguard.aws.faults import error_code, patiently
from flowguard.aws.items import Item, number, read_item, record_item, run_key
from flowguard.errors import RunTooBusy
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.claims import is_waiting
from flowguard.protocol.run import ENDED, Cancellation, RunItem, RunName, Status
from flowguard.startup.named_tuple import NamedTuple
from flowguard.worker.restart import needs_restart, run_that_goes_on

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_ORDER = 32
"""Characters that name an order to cancel in the row that remembers it."""

MOST_TRIES = 8
"""How often a cancellation is tried while its run keeps moving on."""


class DynamoDBCancellations(NamedTuple):
    """Implements :class:`flowguard.worker.ports.Cancellations` on the run table.

    ``with_plan`` reads the plan of a wait.
    """

    client: DynamoDBClient
    table: str
    with_plan: Callable[[RunItem, Any], RunItem]
    pause: Callable[[float], None] = time.sleep

    def run_of(self, flow: str, object_id: ObjectId, by: RunName, known_until: int) -> RunName | None:
        """Return the run that the order ``by`` is for: the one that had the object when the order came first.

        One consistent GetItem, and one UpdateItem of the row that remembers it until ``known_until``. None where that
        was no run to cancel.
        """
        stored = self._read(flow, object_id)
        item = None if stored is None else read_item(stored)
        run = None
        if item is not None and _goes_on(item):
            run = run_that_goes_on(flow, object_id, item)
        if run is None or run.requested_at > by.requested_at:
            run = _NO_RUN
        digest = hashlib.sha256(json.dumps(by).encode()).hexdigest()[:_ORDER]
        call: Any = {
            "TableName": self.table,
            "Key": {**run_key(flow, object_id), "sk": {"S": f"cancel#{digest}"}},
            "UpdateExpression": expressions.NOTE_CANCEL,
            "ExpressionAttributeNames": {"#ttl": "ttl"},
            "ExpressionAttributeValues": {
                ":run": {"S": json.dumps(run)},
                ":ttl": number(known_until // 1000),
            },
            "ReturnValues": "ALL_NEW",
        }
        noted: Any = patiently(lambda: self.client.update_item(**call), self.pause)["Attributes"]
        first = RunName(*json.loads(noted["of_run"]["S"]))
        return None if first == _NO_RUN else first

    def cancel(
        self, flow: str, object_id: ObjectId, at: int, why: str, now: int, only: RequestId | RunName | None = None
    ) -> RunItem | None:
        """Fence the run, and note in its item that it is cancelled. None where there is no run to cancel.

        One consistent GetItem, and one UpdateItem under the condition that the run has not gone on since. A run that
        is cancelled already is left as it is. Raises :class:`RunTooBusy`.
        """
        for _ in range(MOST_TRIES):
            raw = self._read(flow, object_id)
            item = None if raw is None else read_item(raw)
            if item is None or not _goes_on(item) or not _is_meant(item, at, only):
                return None
            run = run_that_goes_on(flow, object_id, item)
            note = Cancellation(run.request_id, _time_of(run, at, only), why)
            if run.requested_at > note.at or (isinstance(only, RunName) and run != only):
                return None
            if _is_noted(item, note):
                return self._at_rest(item, raw)
            change = _of_a_restart(item) if needs_restart(item) else _of_a_run(item, now)
            noted = self._noted(run_key(flow, object_id), change, note)
            if noted is not None:
                return self._at_rest(read_item(noted), noted)
        raise RunTooBusy(flow, MOST_TRIES)

    def _at_rest(self, item: RunItem, raw: Any) -> RunItem:
        """Return the item, with its wait's plan where it waits. The hop after a wait has it until its commit."""
        return self.with_plan(item, raw) if item.status is Status.WAITING else item

    def _read(self, flow: str, object_id: ObjectId) -> Any:
        key = run_key(flow, object_id)
        answer: Any = patiently(
            lambda: self.client.get_item(TableName=self.table, Key=key, ConsistentRead=True), self.pause
        )
        return answer.get("Item")

    def _noted(self, key: Item, change: dict[str, Any], note: Cancellation) -> Any:
        """Note it in the item that was read. Return the item afterwards, None where the run has gone on."""
        call: Any = {
            "TableName": self.table,
            "Key": key,
            **change,
            "ReturnValues": "ALL_NEW",
        }
        call["ExpressionAttributeValues"][":cancelled"] = record_item(note)
        try:
            return patiently(lambda: self.client.update_item(**call), self.pause)["Attributes"]
        except botocore_errors.ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise
            return None


_NO_RUN = RunName(RequestId(""), 0)
"""What the row of an order names that came when there was nothing to cancel."""


def _of_a_run(item: RunItem, now: int) -> dict[str, Any]:
    return _of_a_wait(item, now) if is_waiting(item) else _of_a_worker(item, now)


def _of_a_restart(item: RunItem) -> dict[str, Any]:
    """Return the change for a reset run. Its worker is fenced, and another request begins the work anew.

    The epoch stays as it is. It tells whether that request has begun, or the run was reset once more.
    """
    return {
        "UpdateExpression": expressions.CANCEL_RESTART,
        "ConditionExpression": expressions.CAN_CANCEL_RESTART,
        "ExpressionAttributeValues": {":epoch": number(item.epoch)},
    }


def _of_a_worker(item: RunItem, now: int) -> dict[str, Any]:
    """Return the change that fences a worker. A text that has the first hop keeps it: its sender gets the end."""
    return {
        "UpdateExpression": expressions.CANCEL if item.first_text is None else expressions.CANCEL_OF_TEXT,
        "ConditionExpression": expressions.CAN_CANCEL,
        "ExpressionAttributeValues": {
            ":epoch": number(item.epoch),
            ":done": {"BOOL": item.done},
            ":one": number(1),
            ":now": number(now),
        },
    }


def _of_a_wait(item: RunItem, now: int) -> dict[str, Any]:
    """Return the change that ends a wait. The lease, which nobody has, says when that was."""
    return {
        "UpdateExpression": expressions.CANCEL_WAIT,
        "ConditionExpression": expressions.CAN_CANCEL_WAIT,
        "ExpressionAttributeNames": expressions.WAIT_NAMES,
        "ExpressionAttributeValues": {
            ":request_id": {"S": item.request_id},
            ":requested_at": number(item.requested_at),
            ":waiting": {"S": Status.WAITING.value},
            ":zero": number(0),
            ":yes": {"BOOL": True},
            ":now": number(now),
        },
    }


def _goes_on(item: RunItem) -> bool:
    """Answer whether the run goes on. One that has failed, and undoes what it did, is let to end."""
    return item.status not in ENDED and item.own_failure is None


def _time_of(run: RunName, at: int, only: RequestId | RunName | None) -> int:
    """Return the time of the note. Who names the run means it, whatever the own clock says."""
    return at if only is None else max(at, run.requested_at)


def _is_meant(item: RunItem, at: int, only: RequestId | RunName | None) -> bool:
    """Answer whether it is the run of the one request that a cancellation is for. Its id may come again later."""
    return not isinstance(only, str) or (item.request_id, item.requested_at) == (only, at)


def _is_noted(item: RunItem, note: Cancellation) -> bool:
    """Answer whether an earlier cancellation says as much: as late a copy of the request is cancelled by it.

    A further write would fence the worker that ends the run.
    """
    cancellation = item.cancellation
    return cancellation is not None and cancellation.request_id == note.request_id and cancellation.at >= note.at
