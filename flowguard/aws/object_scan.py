"""The Scan that finds what names an object outside its own partition of the run table.

::

    pk group#<flow>#<key>#<shard>   sk shard      a part of a group that a run of the object asks: its ``asker``
    pk wait#<flow>#<id>             sk <digest>   an id that a run of the object waits for, or has waited for
    pk run#<any flow>#<object>      sk run        a run that the object's run has asked for: its request id says so
    pk run#<flow>#<other object>    sk run        a run with a request id of the object's, or with texts under one

A table has no index of these, so all of it is read, consistently.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from flowguard.aws.faults import patiently
from flowguard.aws.items import Item, run_key
from flowguard.names.ids import ObjectId
from flowguard.protocol.fields import FIELDS, Kind
from flowguard.startup.named_tuple import NamedTuple

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_LONG: Final = tuple(field.attribute for field in FIELDS if field.kind is Kind.LONG and field.attribute != "error")
"""The attributes that may point to a text in S3. An error is always in the item."""

_SHORT: Final = {f"#l{place}": name for place, name in enumerate(_LONG)}
"""Short names for them: an expression has 4 KB for the texts of many requests."""


class RequestTexts(NamedTuple):
    """A request, and what the keys of its texts in S3 begin with."""

    request_id: str
    prefix: str


class Child(NamedTuple):
    """A run that was asked for by a run of another object."""

    flow: str
    object_id: str


class Named(NamedTuple):
    """What names an object. ``shared`` are those requests which other objects have, or have texts of."""

    waits: tuple[Item, ...]
    shards: tuple[Item, ...]
    children: tuple[Child, ...]
    shared: frozenset[str]


class ObjectScan(NamedTuple):
    """Scans for an object of a flow. ``stem`` begins the ids of what its run asks for; without a run it has none."""

    flow: str
    object_id: str
    stem: str | None
    requests: Sequence[RequestTexts] = ()

    def named(self, client: DynamoDBClient, table: str, pause: Callable[[float], None] = time.sleep) -> Named:
        """Read the whole table, with one Scan for each MB."""
        rows = list(pages_of(lambda start: client.scan(TableName=table, **self._call(), **start), pause))
        runs = [row for row in rows if row["pk"]["S"].startswith("run#")]
        return Named(
            tuple(row for row in rows if row["pk"]["S"].startswith("wait#")),
            tuple(row for row in rows if row["pk"]["S"].startswith("group#")),
            tuple(sorted(_child(row) for row in runs if self._is_child(row))),
            frozenset(texts.request_id for texts in self.requests if any(self._shares(row, texts) for row in runs)),
        )

    def _call(self) -> Any:
        conditions = [
            "(begins_with(pk, :waits) AND object_id = :object)",
            "(begins_with(pk, :groups) AND asker = :object)",
        ]
        values: Item = {
            ":waits": {"S": f"wait#{self.flow}#"},
            ":groups": {"S": f"group#{self.flow}#"},
            ":object": {"S": self.object_id},
        }
        call: Any = {"ConsistentRead": True, "ExpressionAttributeValues": values}
        if self.stem is not None:
            conditions.append("(begins_with(pk, :any_run) AND contains(request_id, :stem))")
            values |= {":any_run": {"S": "run#"}, ":stem": {"S": self.stem}}
        if self.requests:
            conditions.append(f"(begins_with(pk, :runs) AND pk <> :own AND ({' OR '.join(self._sharing(values))}))")
            values |= {":runs": {"S": f"run#{self.flow}#"}, ":own": run_key(self.flow, ObjectId(self.object_id))["pk"]}
            call["ExpressionAttributeNames"] = {"#k": "key", **_SHORT}
        return {**call, "FilterExpression": " OR ".join(conditions)}

    def _sharing(self, values: Item) -> Iterator[str]:
        """Yield the conditions on runs of other objects, and add their values."""
        for place, texts in enumerate(self.requests):
            values |= {f":r{place}": {"S": texts.request_id}, f":p{place}": {"S": texts.prefix}}
            yield f"request_id = :r{place}"
            yield from (f"begins_with({name}.#k, :p{place})" for name in _SHORT)

    def _is_child(self, row: Item) -> bool:
        return self.stem is not None and self.stem in row["request_id"]["S"]

    def _shares(self, row: Item, texts: RequestTexts) -> bool:
        """Answer whether the run of another object may have texts of the request.

        Those of other flows are here as children, whose request ids are new ones.
        """
        keys = [row[name]["M"].get("key", {"S": ""})["S"] for name in _LONG if "M" in row.get(name, {})]
        return row["request_id"]["S"] == texts.request_id or any(key.startswith(texts.prefix) for key in keys)


def pages_of(read: Callable[[Any], Any], pause: Callable[[float], None]) -> Iterator[Item]:
    """Yield the items of all pages. ``read`` is given where a page begins."""
    place: Any = {}
    while place is not None:
        start = {"ExclusiveStartKey": place} if place else {}
        answer: Any = patiently(partial(read, start), pause)
        yield from answer["Items"]
        place = answer.get("LastEvaluatedKey")


def _child(row: Item) -> Child:
    _, flow, object_id = row["pk"]["S"].split("#", 2)
    return Child(flow, object_id)
