"""The store of callers: those who are answered with the end of a run that another request began.

::

    pk run#<flow>#<object>   sk run                    the run item: up to 16 callers
    pk run#<flow>#<object>   sk caller#<term>#<key>    a row for each further caller
    pk run#<flow>#<object>   sk order#<digest>         an order to reset that was carried out, or was for nothing
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from flowguard.aws import botocore_errors, expressions
from flowguard.aws.batch_writes import write_rows
from flowguard.aws.faults import error_code, patiently
from flowguard.aws.items import ASKER, LARGEST_ITEM, number, read_item, run_key
from flowguard.aws.refused_writes import is_at_fence, is_only_beside_fence, item_at_fence
from flowguard.errors import FlowguardError, TooLarge
from flowguard.names.ids import ObjectId
from flowguard.protocol.callers import LARGEST_HELD, MOST_HELD, Caller, Callers, StoredEnd
from flowguard.protocol.run import ENDED, ResetOnce, RunItem, Status
from flowguard.startup.named_tuple import NamedTuple

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

ROWS_A_PAGE = 100
"""Callers that are read, answered and removed together."""

LARGEST_ROW = LARGEST_ITEM - 4_096
"""Bytes of a caller's text in a row, beside its keys."""


Whole = Callable[[RunItem, Any], RunItem]


_ORDER = 32
"""Characters that name an order to reset in the row that remembers it."""


class DynamoDBCallers(NamedTuple):
    """Implements :class:`flowguard.worker.ports.CallerLists` on the run table.

    ``whole`` reads the restart payload of a run that is reset, ``ended`` the result or error of one that has ended.
    """

    client: DynamoDBClient
    table: str
    whole: Whole
    ended: Whole
    pause: Callable[[float], None] = time.sleep

    def attach(
        self, flow: str, object_id: ObjectId, callers: Callers, caller: Caller, until: int, row_until: int
    ) -> bool:
        """Add the caller to the list, if that is still open. One that is there stays as it was.

        One UpdateItem, and none for a caller that is there. Where the item holds as many as it may: a PutItem and an
        UpdateItem. The row is written before the update looks whether the list is open: the commit that closes it comes
        after both, and its reader finds the row. An item that lives longer than ``until`` by now, since its run has
        begun to wait, costs one more, and goes on living so long.
        """
        text = caller.to_text()
        if len(text.encode()) > LARGEST_ROW:
            raise TooLarge("a caller's attributes", {"caller": len(text.encode())}, LARGEST_ROW)
        if caller.key in callers.held:
            return True  # a copy of its message: the list was open with it in it
        if len(text.encode()) <= LARGEST_HELD and not callers.is_full:
            item = self._changed(flow, object_id, self._held(callers, caller, text), until)
            if item is None:
                return True
            if item.get("callers", {}).get("M", {}).get("term", {}).get("S") != callers.term:
                return False
        self._put(flow, object_id, callers.term, caller, text, row_until)
        return self._changed(flow, object_id, _in_rows(callers), until) is None

    def _held(self, callers: Callers, caller: Caller, text: str) -> dict[str, Any]:
        return {
            "UpdateExpression": expressions.SET_CALLER,
            "ConditionExpression": expressions.HOLD_CALLER,
            "ExpressionAttributeNames": {"#caller": caller.key, "#ttl": "ttl"},
            "ExpressionAttributeValues": {
                ":term": {"S": callers.term},
                ":caller": {"S": text},
                ":most": number(MOST_HELD),
            },
        }

    def _changed(self, flow: str, object_id: ObjectId, change: dict[str, Any], until: int) -> Any:
        """Change an open list. Returns None, or the item that stood in the way.

        ::

            caller's worker ── claim ──▶ ATTACHED, to an item that lives for 28 days
                            run's worker ── commit of a wait ──▶ it lives for 60 days and 28
                            ── attach, until day 28 ──▶ refused, and answered with the item: once more, until then
        """
        ends = until // 1000
        while True:
            item = self._change(flow, object_id, change, ends)
            if item is None or (lives := int(item.get("ttl", number(0))["N"])) <= ends:
                return item
            ends = lives

    def _change(self, flow: str, object_id: ObjectId, change: dict[str, Any], ends: int) -> Any:
        call: Any = {
            **change,
            "TableName": self.table,
            "Key": run_key(flow, object_id),
            "ExpressionAttributeValues": {**change["ExpressionAttributeValues"], ":ttl": number(ends)},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        try:
            patiently(lambda: self.client.update_item(**call), self.pause)
        except botocore_errors.ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise
            return error.response.get("Item") or {}
        return None

    # -- rows

    def _put(self, flow: str, object_id: ObjectId, term: str, caller: Caller, text: str, until: int) -> None:
        item: Any = {
            **_row_key(flow, object_id, term, caller),
            "caller": {"S": text},
            "ttl": number(until // 1000),
        }
        try:
            patiently(
                lambda: self.client.put_item(TableName=self.table, Item=item, ConditionExpression=expressions.IS_NEW),
                self.pause,
            )
        except botocore_errors.ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise

    def rows(self, flow: str, object_id: ObjectId, term: str) -> Iterator[Sequence[Caller]]:
        """Yield the callers of a list that are rows, with one consistent query a page."""
        call: Any = {
            "TableName": self.table,
            "KeyConditionExpression": "pk = :pk AND begins_with(sk, :rows)",
            "ExpressionAttributeValues": {
                ":pk": run_key(flow, object_id)["pk"],
                ":rows": {"S": f"caller#{term}#"},
            },
            "ConsistentRead": True,
            "Limit": ROWS_A_PAGE,
        }
        while True:
            answer: Any = patiently(lambda: self.client.query(**call), self.pause)
            if answer["Items"]:
                yield [Caller.from_text(item["caller"]["S"]) for item in answer["Items"]]
            if "LastEvaluatedKey" not in answer:
                return
            call["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def forget(self, flow: str, object_id: ObjectId, term: str, callers: Sequence[Caller]) -> None:
        """Remove rows of callers that were answered. A worker that dies then goes on with the others."""
        requests = [{"DeleteRequest": {"Key": _row_key(flow, object_id, term, caller)}} for caller in callers]
        if left := write_rows(self.client, self.table, requests, self.pause):
            raise RowsLeft(left)

    # -- resets

    def reset(
        self, flow: str, object_id: ObjectId, by: str, at: int, now: int, order: ResetOnce | None = None
    ) -> RunItem | None:
        """Fence the run at work, or drop the stored end, with one UpdateItem. None where there is nothing to reset.

        An ``order`` that is to be known is written with a row that remembers it, by one TransactWriteItems and a read.
        A run that was asked for after its latest moment, else after ``at`` (ms), is as good as reset.
        """
        call: Any = {
            "TableName": self.table,
            "Key": run_key(flow, object_id),
            "UpdateExpression": expressions.RESET,
            "ConditionExpression": expressions.CAN_RESET,
            "ExpressionAttributeNames": {"#status": "status", "#owner": "owner", "#at": "at"},
            "ExpressionAttributeValues": {
                ":failed": {"S": Status.FAILED.value},
                ":at": number(at),
                ":latest": number(at if order is None else order.latest),
                ":by": {"S": by},
                ":one": number(1),
                ":zero": number(0),
                ":now": number(now),
            },
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        known_until = None if order is None else order.known_until
        noted = None if known_until is None else self._noted(flow, object_id, by, known_until)
        try:
            raw = self._reset(call) if noted is None else self._reset_once(call, noted)
        except botocore_errors.ClientError as error:
            if not is_at_fence(error):
                raise
            raw = item_at_fence(error)
            item = read_item(raw) if raw else None
            if item is not None and item.reset_by == by and item.reset_at is not None:
                return self.whole(item, raw)
            if noted is not None:  # it has changed nothing, and is not to change what is asked for later
                self._note(noted)
            return None
        return self.whole(read_item(raw), raw) if raw else None

    def _reset(self, call: Any) -> Any:
        return patiently(lambda: self.client.update_item(**call, ReturnValues="ALL_NEW"), self.pause)["Attributes"]

    def _reset_once(self, call: Any, noted: Any) -> Any:
        """Reset a run by an order that has not come before. None where it has."""
        actions: Any = [{"Update": call}, {"Update": noted}]
        try:
            patiently(lambda: self.client.transact_write_items(TransactItems=actions), self.pause)
        except botocore_errors.ClientError as error:
            if not is_only_beside_fence(error):
                raise
            return None
        read: Any = patiently(
            lambda: self.client.get_item(TableName=self.table, Key=call["Key"], ConsistentRead=True), self.pause
        )
        return read.get("Item")

    def _noted(self, flow: str, object_id: ObjectId, by: str, known_until: int) -> Any:
        """Return the write of the row that remembers an order, where none does."""
        name = hashlib.sha256(by.encode("utf-8", "surrogatepass")).hexdigest()[:_ORDER]
        return {
            "TableName": self.table,
            "Key": {**run_key(flow, object_id), "sk": {"S": f"order#{name}"}},
            "UpdateExpression": expressions.NOTE_ORDER,
            "ConditionExpression": expressions.IS_NEW,
            "ExpressionAttributeNames": {"#ttl": "ttl"},
            "ExpressionAttributeValues": {":ttl": number(known_until // 1000)},
        }

    def _note(self, noted: Any) -> None:
        try:
            patiently(lambda: self.client.update_item(**noted), self.pause)
        except botocore_errors.ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise

    def stored_end(self, flow: str, object_id: ObjectId) -> StoredEnd | None:
        """Read the end of the object's run, consistently. None where there is none, or it was reset."""
        key = run_key(flow, object_id)
        raw: Any = patiently(
            lambda: self.client.get_item(TableName=self.table, Key=key, ConsistentRead=True), self.pause
        ).get("Item")
        if not raw or (item := read_item(raw)).status not in ENDED or item.reset_at is not None:
            return None
        item = self.ended(item, raw)
        if item.lost is not None:
            raise item.lost
        return StoredEnd(item.request_id, item.committed_at, item.status.value, item.result, item.error)

    # -- requests that a newer one has taken the object from

    def forget_askers(self, flow: str, object_id: ObjectId, keys: Sequence[str]) -> None:
        """Remove requests that were answered, or became callers, from the run item."""
        names = {f"#a{place}": f"{ASKER}{key}" for place, key in enumerate(keys)}
        call: Any = {
            "TableName": self.table,
            "Key": run_key(flow, object_id),
            "UpdateExpression": f"REMOVE {', '.join(names)}",
            "ConditionExpression": "attribute_exists(pk)",
            "ExpressionAttributeNames": names,
        }
        try:
            patiently(lambda: self.client.update_item(**call), self.pause)
        except botocore_errors.ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise


class RowsLeft(FlowguardError):
    """DynamoDB did not remove some of the rows, however often it was asked. Their callers are answered once more."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.rows = rows

    def __str__(self) -> str:
        return f"{self.rows} rows of callers that were answered are still there; they are answered again, under one id"


def _in_rows(callers: Callers) -> dict[str, Any]:
    return {
        "UpdateExpression": expressions.SET_ROWS,
        "ConditionExpression": expressions.NOTE_ROWS,
        "ExpressionAttributeNames": {"#rows": "rows", "#ttl": "ttl"},
        "ExpressionAttributeValues": {":term": {"S": callers.term}, ":yes": {"BOOL": True}},
    }


def _row_key(flow: str, object_id: ObjectId, term: str, caller: Caller) -> Any:
    return {**run_key(flow, object_id), "sk": {"S": f"caller#{term}#{caller.key}"}}
