"""The rows of paused stages and paused keys in the run table.

::

    pk pause   sk <flow>#<stage>                    since, why, queue, nonce, [at_once]
                                                    before {<mapping>: <its largest concurrency, or 0>}
               sk <flow>#<stage>#<limit>#<digest>   the same of a key of a limit, with no queue and no mapping,
                                                    [shards], [until, ttl] of one that has paused itself

A row says what was done, for those who look. No worker reads it: what is paused is the stage's event source mapping,
or the key's item. A write of a row is under the condition that nobody has written it since it was read: it has a nonce
of each write. A worker writes and removes only rows of keys that have paused themselves. Such a row expires when nobody
has tried the key for a day.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from flowguard.aws import botocore_errors, expressions
from flowguard.aws.dead_letter_queue import Unusable
from flowguard.aws.faults import error_code
from flowguard.aws.items import Item, number
from flowguard.startup.named_tuple import NamedTuple

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_UNTIL: Final = {"#until": "until"}

UNBOUNDED: Final = 0
"""The largest concurrency of a mapping that has none."""

KEPT_FOR: Final = 86_400
"""Seconds that the row of a key that has paused itself outlives the time of its next trial."""

_PK: Final = "pause"


class Pause(NamedTuple):
    """A stage is paused since then (ms), or of it the key whose ``place`` is given. That has so many ``shards``.

    ``before`` has the mappings that were on, with their largest concurrency.

    ``queue`` is the ARN of the stage's queue. ``at_once`` is the concurrency at which it is drained, None while nothing
    of it begins. ``nonce`` is that of the last write. A key that has paused itself is tried from ``until`` (ms) on,
    which is 0 for others.
    """

    flow: str
    stage: str
    queue: str
    since: int
    why: str
    before: Mapping[str, int]
    at_once: int | None = None
    nonce: str = ""
    place: str = ""
    until: int = 0
    shards: int = 1


class PauseRows(NamedTuple):
    """The rows of one table."""

    client: DynamoDBClient
    table: str

    def all(self) -> list[Pause]:
        """Return the pauses of all flows, by the names of flow and stage.

        Raises :class:`Unusable` for a row that this release cannot read.
        """
        pages = self.client.get_paginator("query").paginate(
            TableName=self.table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": _PK}},
            ConsistentRead=True,
        )
        return [_pause(item) for page in pages for item in page["Items"]]

    def write(self, pause: Pause, before: Pause | None) -> bool:
        """Write a row in place of the one that was read, None for none. False where that is not what is there."""
        return self._done(self.client.put_item, {"Item": _item(pause)}, before)

    def remove(self, pause: Pause) -> bool:
        """Remove the row of a pause that has ended. False where it was written meanwhile, or is gone."""
        return self._done(self.client.delete_item, {"Key": _key(pause)}, pause)

    def tell(self, pause: Pause) -> bool:
        """Write the row of a key that has paused itself. False where somebody has paused it."""
        condition = {"ConditionExpression": expressions.NOT_BY_HAND, "ExpressionAttributeNames": _UNTIL}
        return self._held(self.client.put_item, {"Item": _item(pause), **condition})

    def tell_end(self, flow: str, stage: str, place: str) -> bool:
        """Remove the row of a key that had paused itself. False where there is none."""
        condition = {"ConditionExpression": expressions.BY_ITSELF, "ExpressionAttributeNames": _UNTIL}
        return self._held(
            self.client.delete_item, {"Key": _key(Pause(flow, stage, "", 0, "", {}, place=place)), **condition}
        )

    def _done(self, operation: Any, call: Any, before: Pause | None) -> bool:
        if before is None:
            condition: Any = {"ConditionExpression": expressions.IS_NEW}
        else:
            values = {":nonce": {"S": before.nonce}}
            condition = {"ConditionExpression": expressions.SAME_NONCE, "ExpressionAttributeValues": values}
        return self._held(operation, {**call, **condition})

    def _held(self, operation: Any, call: Any) -> bool:
        """Make a write, and answer whether its condition held."""
        try:
            operation(TableName=self.table, **call)
        except botocore_errors.ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise
            return False
        return True


def _key(pause: Pause) -> Item:
    return {"pk": {"S": _PK}, "sk": {"S": "#".join(part for part in (pause.flow, pause.stage, pause.place) if part)}}


def _item(pause: Pause) -> Item:
    before = {mapping: number(at_once) for mapping, at_once in pause.before.items()}
    drained = {} if pause.at_once is None else {"at_once": number(pause.at_once)}
    texts = {name: {"S": getattr(pause, name)} for name in ("why", "queue", "nonce")}
    itself = {"until": number(pause.until), "ttl": number(pause.until // 1000 + KEPT_FOR)} if pause.until else {}
    drained |= {"shards": number(pause.shards)} if pause.shards > 1 else {}
    return {**_key(pause), **texts, "since": number(pause.since), "before": {"M": before}, **drained, **itself}


def _pause(item: Any) -> Pause:
    try:
        return _read(item)
    except (KeyError, TypeError, ValueError) as error:
        problem = f"it cannot be read ({type(error).__name__}: {error})"
        raise Unusable(f"the row {_PK} {item['sk']['S']}", problem, "was it written by a newer release?") from None


def _read(item: Any) -> Pause:
    flow, stage, *place = item["sk"]["S"].split("#", 2)
    before = {mapping: int(value["N"]) for mapping, value in item["before"]["M"].items()}
    at_once = int(item["at_once"]["N"]) if "at_once" in item else None
    shards = int(item["shards"]["N"]) if "shards" in item else 1
    queue, why, nonce = (item[name]["S"] for name in ("queue", "why", "nonce"))
    until = int(item["until"]["N"]) if "until" in item else 0
    since = int(item["since"]["N"])
    return Pause(flow, stage, queue, since, why, before, at_once, nonce, "".join(place), until, shards)
