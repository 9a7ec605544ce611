"""The ledger of ``@once`` in DynamoDB. Each key has an entry; one conditional write claims it, another completes it.

::

    pk once#<name>#<key>   sk once     in flowguard's table
    id once#<name>#<key>               in a table whose key is a hash key alone, such as one of Powertools

A claim lets a repeat of a completed call through as well, which it only counts: the answer brings the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from flowguard.aws import botocore_errors, expressions
from flowguard.aws.clients import Clients
from flowguard.aws.faults import error_code, patiently
from flowguard.aws.items import KEPT_FREE, LARGEST_ITEM, Item, number
from flowguard.aws.packing import Packed, Packing
from flowguard.errors import SettingsError, TooLarge, shown
from flowguard.key_table import KeyTable
from flowguard.protocol.entry import (
    Completion,
    Entry,
    EntryStatus,
    KeyAsk,
    KeyClaim,
    KeyVerdict,
    Met,
    judge_completed,
    judge_key,
)
from flowguard.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from flowguard.aws.place_items import DynamoDBPlaces

MOST_TRIES = 3
"""How often a claim is made again that found an expired entry, and then another one or none in its place."""

_PREFIX: Final = "once#"
_SORT: Final = {"S": "once"}

# -- what stands in an entry: RUNNING also of an attempt that failed, which has no owner

_RUNNING, _COMPLETED = {"S": EntryStatus.RUNNING.value}, {"S": EntryStatus.COMPLETED.value}


class DynamoDBLedger:
    """The entries in one table. Immutable; safe to share between threads, functions and nested calls."""

    def __init__(
        self,
        client: DynamoDBClient,
        table: KeyTable,
        packing: Packing,
        prefix: str = "flowguard/",
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._table = table
        self._packing = packing
        self._prefix = prefix
        self._pause = pause

    # -- claim

    def claim(self, ask: KeyAsk) -> KeyClaim | Met:
        """Claim the key with one UpdateItem, or learn from its answer why that cannot be.

        An expired entry that DynamoDB has not removed yet takes a second one.
        """
        for _ in range(MOST_TRIES):
            answer = self._claim(ask, self._meet_call(ask))
            if isinstance(answer, Met) and answer.verdict is KeyVerdict.EXPIRED:
                answer = self._claim(ask, self._begin_call(ask))
            if answer is not None:
                return answer
        return Met(KeyVerdict.BUSY, Entry(EntryStatus.RUNNING, None, ask.now + 1_000, 0, ask.now, ask.now))

    def _claim(self, ask: KeyAsk, call: Any) -> KeyClaim | Met | None:
        """Return None where another entry, or none, stands in the place of an expired one."""
        try:
            raw: Any = patiently(lambda: self._client.update_item(**call), self._pause).get("Attributes")
        except botocore_errors.ClientError as error:
            return self._refused(ask, error)
        before = _entry(raw) if raw else None
        if before is not None and judge_key(before, ask) is KeyVerdict.DONE:
            return Met(KeyVerdict.DONE, self._with_result(before, raw))
        return KeyClaim(ask, before)

    def _refused(self, ask: KeyAsk, error: botocore_errors.ClientError) -> KeyClaim | Met | None:
        if error_code(error) == "ResourceNotFoundException":
            raise self._no_table() from None
        if error_code(error) != "ConditionalCheckFailedException":
            raise error
        raw: Any = error.response.get("Item")
        if not raw:
            return None
        entry = _entry(raw)
        match judge_key(entry, ask):
            case KeyVerdict.CLAIMED:  # its lease ended meanwhile, or it is this very call's, repeated by a lost answer
                return None
            case KeyVerdict.DONE:
                return Met(KeyVerdict.DONE, self._with_result(entry, raw))
            case verdict:
                return Met(verdict, entry)

    def _meet_call(self, ask: KeyAsk) -> Any:
        if ask.digest is None:
            condition, update = expressions.CLAIM_KEY, expressions.MEET_KEY
        else:
            condition, update = expressions.CLAIM_PAYLOADS_KEY, expressions.MEET_PAYLOADS_KEY
        return self._claim_call(ask, condition, update, {"#key": self._table.key})

    def _begin_call(self, ask: KeyAsk) -> Any:
        update = expressions.BEGIN_KEY if ask.digest is None else expressions.BEGIN_PAYLOADS_KEY
        return self._claim_call(ask, expressions.CLAIM_EXPIRED_KEY, update, {"#result": "result"})

    def _claim_call(self, ask: KeyAsk, condition: str, update: str, names: Mapping[str, str]) -> Any:
        values = {
            ":running": _RUNNING,
            ":owner": {"S": ask.owner},
            ":now": number(ask.now),
            ":lease_until": number(ask.lease_until),
            ":believed_until": number(ask.believed_until),
            ":ttl": number(-(-ask.removed_at // 1000)),
            ":one": number(1),
            ":digest": {"S": str(ask.digest)},
        }
        return {
            "TableName": self._table.name,
            "Key": self._key(ask.name, ask.key),
            "UpdateExpression": update,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {**expressions.KEY_NAMES, "#ttl": self._table.ttl, **names},
            "ExpressionAttributeValues": {name: values[name] for name in values if name in f"{condition} {update}"},
            "ReturnValues": "ALL_OLD",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    def _no_table(self) -> SettingsError:
        where = f"there is no table {shown(self._table.name)} in {self._client.meta.region_name}"
        sort = f" and {self._table.sort!r}" if self._table.sort else ""
        fix = f"create it with the text key {self._table.key!r}{sort}, or name the right one"
        return SettingsError("FLOWGUARD_TABLE", f"{where}; {fix}. Nothing was called or written")

    # -- finish

    def finish(self, claim: KeyClaim, end: Completion) -> Met | None:
        """Complete the key with one UpdateItem, if the claim still holds. Else return who has it; None where it held.

        A result that no item can hold goes to S3 first. Raises :class:`TooLarge` without a bucket; nothing was written
        then. An entry that is gone counts as one that another call holds.
        """
        ask = claim.ask
        names = {**expressions.KEY_NAMES, "#ttl": self._table.ttl}
        values = {
            ":running": _RUNNING,
            ":completed": _COMPLETED,
            ":owner": {"S": ask.owner},
            ":now": number(end.now),
            ":expires_at": number(end.expires_at),
            ":ttl": number(-(-end.expires_at // 1000)),
        }
        if end.result is not None:
            update = expressions.FINISH_KEY
            names["#result"], values[":result"] = "result", self._packed(ask, end.result).value
        else:
            update = expressions.REFUSE_KEY
            values[":refusal"] = {"S": str(end.refusal)}
        call: Any = {
            "TableName": self._table.name,
            "Key": self._key(ask.name, ask.key),
            "UpdateExpression": update,
            "ConditionExpression": expressions.HOLD_KEY,
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        try:
            patiently(lambda: self._client.update_item(**call), self._pause)
        except botocore_errors.ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise
            return self._fenced(claim, end, error.response.get("Item"))
        return None

    def _fenced(self, claim: KeyClaim, end: Completion, raw: Any) -> Met | None:
        if not raw:
            return Met(KeyVerdict.BUSY, Entry(EntryStatus.RUNNING, None, end.now, 0, end.now, end.now))
        entry = _entry(raw)
        if entry.completed_by == claim.ask.owner:  # its own write, whose answer was lost
            return None
        if entry.status is not EntryStatus.COMPLETED:
            return Met(KeyVerdict.BUSY, entry)
        return Met(judge_completed(entry, claim.ask), self._with_result(entry, raw))

    def _packed(self, ask: KeyAsk, text: str) -> Packed:
        digest = sha256(ask.key.encode()).hexdigest()
        packed = self._packing.pack(text, f"{self._prefix}once/{ask.name}/{digest}/{ask.owner}", about=None)
        sizes = {"result": packed.size, "the rest": KEPT_FREE}
        if sum(sizes.values()) > LARGEST_ITEM:
            raise TooLarge("the entry", sizes, LARGEST_ITEM)
        return packed

    # -- free

    def free(self, claim: KeyClaim, failure: str | None, now: int, *, holds: bool = False) -> None:
        """End the lease of a call that raised, with one UpdateItem, so that the next one may begin at once.

        ``failure`` is None of a call whose function was not called. A key that it took from a call that has died is
        that one's again. ``holds`` says that the call may still hold places of limits: the entry has its owner as the
        one that has ``ended``. Writes nothing where another call holds the key by now.
        """
        what: Item
        if failure is not None:
            updates, what = (expressions.FREE_KEY, expressions.FREE_HOLDING_KEY), {":failure": {"S": failure}}
        elif claim.died is None:
            updates, what = (expressions.LEAVE_KEY, expressions.LEAVE_HOLDING_KEY), {":less": number(-1)}
        else:
            updates = (expressions.HAND_BACK_KEY, expressions.HAND_BACK_HOLDING_KEY)
            what = {":less": number(-1), ":died": {"S": claim.died}}
        call: Any = {
            "TableName": self._table.name,
            "Key": self._key(claim.ask.name, claim.ask.key),
            "UpdateExpression": updates[holds],
            "ConditionExpression": expressions.HOLD_KEY,
            "ExpressionAttributeNames": expressions.KEY_NAMES,
            "ExpressionAttributeValues": {
                ":running": _RUNNING,
                ":owner": {"S": claim.ask.owner},
                ":now": number(now),
                **what,
            },
        }
        try:
            patiently(lambda: self._client.update_item(**call), self._pause)
        except botocore_errors.ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise

    # -- for tools and tests, never called while a function is

    def read(self, name: str, key: str) -> Entry | None:
        """Read an entry consistently, with its result."""
        where: Any = self._key(name, key)
        try:
            answer = self._client.get_item(TableName=self._table.name, Key=where, ConsistentRead=True)
        except botocore_errors.ClientError as error:
            if error_code(error) == "ResourceNotFoundException":
                raise self._no_table() from None
            raise
        raw: Any = answer.get("Item")
        return self._with_result(_entry(raw), raw) if raw else None

    def remove(self, name: str, key: str, now: int) -> Entry | None:
        """Remove an entry, and return it without its result. None where there is none, or a call is at work.

        A result in S3 stays there, and its bucket's rules remove it.
        """
        call: Any = {
            "TableName": self._table.name,
            "Key": self._key(name, key),
            "ConditionExpression": expressions.IS_AT_REST,
            "ExpressionAttributeNames": {"#status": "status", "#owner": "owner"},
            "ExpressionAttributeValues": {":running": {"S": EntryStatus.RUNNING.value}, ":now": number(now)},
            "ReturnValues": "ALL_OLD",
        }
        try:
            answer: Any = patiently(lambda: self._client.delete_item(**call), self._pause)
        except botocore_errors.ClientError as error:
            if error_code(error) == "ConditionalCheckFailedException":
                return None
            if error_code(error) == "ResourceNotFoundException":
                raise self._no_table() from None
            raise
        return _entry(answer["Attributes"])

    def places(self) -> DynamoDBPlaces:
        """Return the places of limits, which are items of the same table."""
        from flowguard.aws.place_items import DynamoDBPlaces  # most functions have no limit

        return DynamoDBPlaces(self._client, self._table.name, self._packing, self._pause)

    def _with_result(self, entry: Entry, raw: Item) -> Entry:
        return entry._replace(result=self._packing.unpack(raw["result"], None)) if "result" in raw else entry

    def _key(self, name: str, key: str) -> Item:
        primary = {self._table.key: {"S": f"{_PREFIX}{name}#{key}"}}
        return primary if self._table.sort is None else {**primary, self._table.sort: _SORT}


def ledger_of(settings: Settings, clients: Clients, table: KeyTable | None = None) -> DynamoDBLedger:
    """Build the ledger in flowguard's own table, or in another one."""
    packing = Packing.of(settings, clients)
    in_code = table if table is not None else KeyTable(settings.table, "pk", "sk", "ttl")
    at_aws = in_code._replace(name=settings.at_aws.table(in_code.name))
    return DynamoDBLedger(clients.dynamodb, at_aws, packing, settings.prefix)


def lasting(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what of an entry does not depend on its calls: key, status, result. Another item is returned as it is.

    The item is in plain values.
    """
    texts = {name: value for name, value in item.items() if isinstance(value, str)}
    if not any(value.startswith(_PREFIX) for value in texts.values()) or not item.keys() >= {"met", "begun_at"}:
        return item
    keys = {name for name, value in texts.items() if value.startswith(_PREFIX) or value == _SORT["S"]}
    return {name: value for name, value in item.items() if name in {*keys, "status", "result", "refusal"}}


def _entry(item: Item) -> Entry:
    """Read an entry without its result, which may be in S3."""

    def at(name: str) -> int:
        return int(item[name]["N"]) if name in item else 0

    def text(name: str) -> Any:
        return item[name]["S"] if name in item else None

    at_rest = EntryStatus.FAILED if "failure" in item else EntryStatus.FREE
    return Entry(
        status=EntryStatus(item["status"]["S"]) if "owner" in item else at_rest,
        owner=text("owner"),
        lease_until=at("lease_until"),
        met=at("met"),
        begun_at=at("begun_at"),
        updated_at=at("updated_at"),
        digest=text("digest"),
        failure=text("failure"),
        completed_at=at("completed_at"),
        completed_by=text("completed_by"),
        expires_at=at("expires_at"),
        refusal=text("refusal"),
        ended=text("ended"),
    )
