"""The memory of hops in DynamoDB. It is a map in the run item, written under the commit's own fence.

::

    memo = {request_id, hop, results: {name: JSON text}}

A commit removes it. A hop that failed for good keeps it, for its redrive. What another run or hop left there is
overwritten.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from flowguard.aws import botocore_errors, expressions
from flowguard.aws.faults import error_code, patiently
from flowguard.aws.items import (
    KEPT_FREE,
    LARGEST_ITEM,
    Item,
    about_of,
    number,
    read_item,
    record_item,
    rest_size,
    run_key,
    size_of_value,
)
from flowguard.aws.refused_writes import is_at_fence, item_at_fence, refusal_of
from flowguard.aws.writes import write_action
from flowguard.errors import TooLarge
from flowguard.items.writes import Write
from flowguard.names.at_aws import AS_IN_CODE, Names
from flowguard.names.ids import RequestId
from flowguard.protocol.claims import fenced_by, is_claimed_by
from flowguard.protocol.memo import Memo
from flowguard.protocol.run import Claim, Fenced

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from flowguard.aws.packing import Packed, Packing

_BESIDE: Final = 64
"""Bytes of the item that a result takes beside its text and its name, or more."""


class DynamoDBMemos:
    """Implements :class:`flowguard.worker.ports.Memos` on the table of the run items."""

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        packing: Packing,
        key_of: Callable[[Claim, str], str],
        pause: Callable[[float], None],
        names: Names = AS_IN_CODE,
    ) -> None:
        self._client = client
        self._table = table
        self._packing = packing
        self._key_of = key_of
        self._pause = pause
        self._names = names

    def remember(
        self, claim: Claim, name: str, text: str, *, is_first: bool, writes: Sequence[Write] = ()
    ) -> Fenced | int:
        """Keep the text under the name and apply the writes with it. All of that is done once, or nothing.

        A long text stays in the item while S3 is away, if there is room: its call was made, and would be made again.
        A short one for which that has left no room goes to S3.
        """
        about = about_of(run_key(claim.message.flow, claim.message.object_id), f"memo {name}")
        try:
            packed = self._packing.pack(text, self._key_of(claim, "memo"), about=about)
        except (botocore_errors.ClientError, botocore_errors.BotoCoreError) as away:
            try:
                return self._kept(claim, name, self._packing.pack(text, None, about=about), is_first, writes)
            except TooLarge:
                raise away from None
        try:
            return self._kept(claim, name, packed, is_first, writes)
        except TooLarge:
            aside = self._packing.pack_aside(text, self._key_of(claim, "memo"), about=about)
        return self._kept(claim, name, aside, is_first, writes)

    def _kept(self, claim: Claim, name: str, packed: Packed, is_first: bool, writes: Sequence[Write]) -> Fenced | int:
        size = packed.size + len(name.encode()) + _BESIDE
        self._check_room(claim, name, size, is_first)
        update = _update(self._table, claim, name, packed.value, is_first)
        actions: Any = [{"Update": update}, *(write_action(write, self._names) for write in writes)]
        try:
            if writes:
                patiently(lambda: self._client.transact_write_items(TransactItems=actions), self._pause)
            else:
                patiently(lambda: self._client.update_item(**update), self._pause)
        except botocore_errors.ClientError as error:
            if is_at_fence(error):
                fenced = _fence(claim, item_at_fence(error))
                return size if fenced is None else fenced
            if not writes and error_code(error) == "ValidationException":  # the outbox of a run taken over is there too
                raise TooLarge(f"what {name!a} is to remember", {"its JSON": size}, LARGEST_ITEM) from None
            raise refusal_of(writes, error) from None
        return size

    def fetch_key(self, claim: Claim) -> None:
        """Fetch the data key that :meth:`remember` seals with, by sealing an empty text. Nothing is stored."""
        about = about_of(run_key(claim.message.flow, claim.message.object_id), "memo")
        self._packing.pack("", None, about=about)

    def forget(self, claim: Claim) -> Fenced | None:
        """Remove what is remembered if the claim still holds, with one UpdateItem. Else return who has the item."""
        values = _fence_values(claim)
        call: Any = {
            "TableName": self._table,
            "Key": run_key(claim.message.flow, claim.message.object_id),
            "UpdateExpression": expressions.FORGET,
            "ConditionExpression": expressions.COMMIT,
            "ExpressionAttributeNames": {"#owner": "owner"},
            "ExpressionAttributeValues": values,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        try:
            patiently(lambda: self._client.update_item(**call), self._pause)
        except botocore_errors.ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise
            raw: Any = error.response.get("Item")
            return fenced_by(claim, read_item(raw) if raw else None)
        return None

    def holds(self, claim: Claim) -> bool:
        """Answer by one consistent read whether the claim still holds: a commit now would be applied."""
        call: Any = {
            "TableName": self._table,
            "Key": run_key(claim.message.flow, claim.message.object_id),
            "ConsistentRead": True,
        }
        raw: Any = patiently(lambda: self._client.get_item(**call), self._pause).get("Item")
        item = read_item(raw) if raw else None
        return item is not None and is_claimed_by(claim, item) and not item.done

    def _check_room(self, claim: Claim, name: str, size: int, is_first: bool) -> None:
        """Raise :class:`TooLarge` where the item would have no room left for the end of its run.

        A hop that fails for good keeps all of this.
        """
        item = claim.item
        sizes = {"its JSON": size, "the rest": KEPT_FREE}
        sizes["the rest"] += rest_size(
            run_key(claim.message.flow, claim.message.object_id), item.request_id, item.stages
        )
        if item.memo is not None and not is_first:
            sizes["what it remembers"] = item.memo.size
        if item.state is not None:
            about = about_of(run_key(claim.message.flow, claim.message.object_id), "state")
            sizes["state"] = self._packing.size_of(item.state, about=about)
        if item.left is not None:
            sizes["state"] = item.left.size
        if item.wait is not None:
            sizes["the answers"] = item.wait.size
        if item.failed is not None:
            sizes["the failure"] = size_of_value(record_item(item.failed))
        if item.cancellation is not None:
            sizes["the cancelled run"] = size_of_value(record_item(item.cancellation))
        if sum(sizes.values()) > LARGEST_ITEM:
            raise TooLarge(f"what {name!a} is to remember", sizes, LARGEST_ITEM)


def _update(table: str, claim: Claim, name: str, value: Item, is_first: bool) -> Any:
    item = claim.item
    values: dict[str, Any] = {**_fence_values(claim), ":hop": number(item.hop)}
    if is_first:
        memo = {"request_id": values[":request_id"], "hop": values[":hop"], "results": {"M": {name: value}}}
        change, values[":memo"] = "SET memo = :memo", {"M": memo}
    else:
        change, values[":result"] = "SET memo.results.#name = :result", value
    return {
        "TableName": table,
        "Key": run_key(claim.message.flow, claim.message.object_id),
        "UpdateExpression": change,
        "ConditionExpression": expressions.REMEMBER,
        "ExpressionAttributeNames": {"#owner": "owner", "#name": name},
        "ExpressionAttributeValues": values,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def _fence_values(claim: Claim) -> dict[str, Any]:
    item = claim.item
    return {
        ":request_id": {"S": item.request_id},
        ":epoch": number(item.epoch),
        ":owner": {"S": item.owner},
        ":no": {"BOOL": False},
    }


def _fence(claim: Claim, raw: Any) -> Fenced | None:
    """Return the owner of the item. None where the claim holds: this very call was made, and its answer was lost."""
    item = read_item(raw) if raw else None
    if item is not None and is_claimed_by(claim, item) and not item.done:
        return None
    return fenced_by(claim, item)


def read_memo(item: Item, text: Callable[[Item, Any, str], str]) -> Memo:
    """Read the memory that is in an item. ``text`` reads one of its texts, by its kind."""
    parts = item["memo"]["M"]
    results = {
        name: functools.partial(text, item, value, f"memo {name}") for name, value in parts["results"]["M"].items()
    }
    return Memo(RequestId(parts["request_id"]["S"]), int(parts["hop"]["N"]), results, size_of_value(item["memo"]))
