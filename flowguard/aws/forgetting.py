"""Removes what an object has left in the run table and in the bucket. The run item keeps what late messages meet.

::

    journal ──▶ trace of the run ──▶ rows, answers ──▶ texts in S3 ──▶ journal removed
                └ condition: nothing has claimed the object since it was read

Only the trace is written under a condition of the run. What was found before it is of that run or of earlier ones, so a
run that begins after it loses nothing. The journal names the texts, to which nothing points any more once the trace is
written. Each step that is made again changes nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from flowguard.aws import botocore_errors, expressions
from flowguard.aws.batch_writes import write_rows
from flowguard.aws.faults import error_code, patiently
from flowguard.aws.items import Item, number, run_key
from flowguard.aws.object_scan import Started
from flowguard.aws.object_traces import JOURNAL, Early
from flowguard.aws.stored_texts import StoredText, StoredTexts
from flowguard.errors import FlowguardError
from flowguard.names.ids import ObjectId
from flowguard.protocol.fields import FIELDS
from flowguard.protocol.forgotten import KEPT, LAST_REDRIVE, forgotten_error
from flowguard.protocol.run import Status
from flowguard.startup.named_tuple import NamedTuple

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TEXTS_A_ROW: Final = 200
"""Texts that a row of the journal names: with keys of 1,024 bytes they take half an item."""

NOTHING_STARTED: Final = '["",""]'
"""The result of a start without the ids of its request and object."""

_NOBODY: Final = "forgotten"
"""Who has used an answer that was for nobody."""


class RowsNotRemoved(FlowguardError):
    """DynamoDB did not take some of the writes, however often they were made. To forget the object again makes them."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.rows = rows

    def __str__(self) -> str:
        return f"{self.rows} rows were not written or removed; forget the object again, which goes on from here"


class Forgetting(NamedTuple):
    """Removes what :class:`flowguard.aws.object_traces.TraceReader` has found."""

    client: DynamoDBClient
    table: str
    texts: StoredTexts
    pause: Callable[[float], None] = time.sleep

    def note_texts(self, flow: str, object_id: str, texts: Sequence[StoredText], until: int) -> list[Item]:
        """Write the journal, whose rows live until then (ms). Returns their keys."""
        pk = run_key(flow, ObjectId(object_id))["pk"]
        rows: list[Item] = [
            {
                "pk": pk,
                "sk": {"S": f"{JOURNAL}{place:04d}"},
                "texts": {"SS": [json.dumps(text) for text in part]},
                "ttl": number(until // 1000),
            }
            for place, part in enumerate(_parts(texts, TEXTS_A_ROW))
        ]
        self._write([{"PutRequest": {"Item": row}} for row in rows])
        return [{name: row[name] for name in ("pk", "sk")} for row in rows]

    def leave_trace(self, item: Item, *, now: int, at: int, until: int, works_until: int) -> bool:
        """Empty the run item, which lives until then. ``at`` is when its run has ended. All are in ms.

        A worker may be in its handler up to ``works_until``. The trace has that in place of the lease.

        False where somebody has claimed or cancelled the run since it was read. Then nothing is removed.
        """
        removed = sorted(_removed(item))
        names = {f"#r{place}": name for place, name in enumerate(removed)}
        call: Any = {
            "TableName": self.table,
            "Key": {name: item[name] for name in ("pk", "sk")},
            "UpdateExpression": f"{expressions.LEAVE_TRACE} REMOVE {', '.join(names)}",
            "ConditionExpression": expressions.IS_AS_READ,
            "ExpressionAttributeNames": {**expressions.TRACE_NAMES, **names},
            "ExpressionAttributeValues": {
                **{f":{name}": item[name] for name in expressions.AS_READ},
                ":failed": {"S": Status.FAILED.value},
                ":error": {"S": str(forgotten_error(now))},
                ":last": number(LAST_REDRIVE),
                ":one": number(1),
                ":yes": {"BOOL": True},
                ":works_until": number(works_until),
                ":at": number(at),
                ":ttl": number(until // 1000),
            },
        }
        return self._change(call)

    def remove_rows(self, keys: Sequence[Item]) -> None:
        """Remove rows, 25 with one BatchWriteItem."""
        self._write([{"DeleteRequest": {"Key": key}} for key in keys])

    def empty_asked(self, rows: Sequence[Item]) -> None:
        """Write the rows of children that have not begun again, without their data."""
        self._write([{"PutRequest": {"Item": row}} for row in rows])

    def empty_early(self, early: Early) -> bool:
        """Empty an answer that came before its wait. False where another has taken its place, or somebody has used it.

        What was emptied is for nobody.
        """
        used: Item = {":used": {"S": early.used_by}} if early.used_by else {}
        call: Any = {
            "TableName": self.table,
            "Key": early.key,
            "UpdateExpression": expressions.EMPTY_EARLY,
            "ConditionExpression": expressions.IS_USED if used else expressions.IS_UNUSED,
            "ExpressionAttributeNames": {"#text": "text"},
            "ExpressionAttributeValues": {
                **used,
                ":by": {"S": early.given_by},
                ":nothing": {"S": "null"},
                ":yes": {"BOOL": True},
                ":who": {"S": _NOBODY},
            },
        }
        return self._change(call)

    def empty_started(self, started: Started) -> bool:
        """Take the ids from the entry of an Idempotency-Key. False where it has gone, or was begun anew.

        The entry stays: a repeat of the request finds it, and starts nothing.
        """
        call: Any = {
            "TableName": self.table,
            "Key": started.key,
            "UpdateExpression": expressions.EMPTY_STARTED,
            "ConditionExpression": expressions.IS_STARTED,
            "ExpressionAttributeNames": {"#result": "result"},
            "ExpressionAttributeValues": {":read": started.result, ":nothing": {"S": NOTHING_STARTED}},
        }
        return self._change(call)

    def remove_texts(self, texts: Sequence[StoredText]) -> dict[StoredText, str]:
        """Remove texts from S3 with all their versions, one after another. Returns why some are still there."""
        left: dict[StoredText, str] = {}
        for text in texts:
            try:
                self.texts.remove(text)
            except botocore_errors.ClientError as error:
                if error_code(error) != "NoSuchBucket":  # whose texts are gone with it
                    left[text] = str(error)
        return left

    def _change(self, call: Any) -> bool:
        try:
            patiently(lambda: self.client.update_item(**call), self.pause)
        except botocore_errors.ClientError as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise
            return False
        return True

    def _write(self, requests: Sequence[Any]) -> None:
        if left := write_rows(self.client, self.table, requests, self.pause):
            raise RowsNotRemoved(left)


def _removed(item: Item) -> Iterator[str]:
    """Yield the attributes that do not stay, those too that the item may have got since it was read."""
    yield from {name for name in item if name not in KEPT}
    yield from {field.attribute for field in FIELDS} - KEPT - item.keys()


def _parts(texts: Sequence[StoredText], size: int) -> Iterator[Sequence[StoredText]]:
    return (texts[start : start + size] for start in range(0, len(texts), size))
