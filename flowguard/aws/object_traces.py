"""What an object has left in the run table and in the bucket. Nothing is written.

::

    pk run#<flow>#<object>         sk run         the run item
                                   sk caller#…    who waits for the end of its run, or waited
                                   sk history#…   what has happened
                                   sk forget#…    texts in S3 that a removal was about to remove when it was cut off
    pk group#<flow>#<key>#<shard>                 the requests of its groups
    pk wait#<flow>#<id>            sk early       an answer that came before its wait
    <prefix><flow>/<request>/…     of S3          texts of its runs

How they are found is in :mod:`flowguard.aws.object_scan`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from flowguard.aws.commit_texts import prefix_of_request
from flowguard.aws.items import Item, run_key
from flowguard.aws.object_scan import Child, Named, ObjectScan, RequestTexts, pages_of
from flowguard.aws.stored_texts import StoredText, StoredTexts, texts_of
from flowguard.aws.waits import awaiting_row
from flowguard.names.ids import ObjectId
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.send_ids import stem_of_run
from flowguard.worker.early_answers import user_of

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

JOURNAL: Final = "forget#"
"""What the sort keys of rows begin with that name texts which are about to be removed."""

MOST_REQUESTS: Final = 20
"""Requests of an object whose texts are removed at once."""

_OTHERS: Final = frozenset({"answers", "groups"})
"""Requests under whose ids the bucket has texts of all objects."""

_CALLER: Final = "caller#"
_HISTORY: Final = "history#"
_EARLY: Final = "early"


class Early(NamedTuple):
    """An answer that came before its wait, from the message ``given_by``. ``used_by`` is empty until it is used."""

    key: Item
    given_by: str
    used_by: str
    texts: tuple[StoredText, ...]


class Traces(NamedTuple):
    """What an object has left.

    ``callers``, ``history`` and ``groups`` are keys of rows. ``shared`` are requests that other objects have too: their
    texts look alike, and are not among ``texts``. ``unread`` counts requests that have texts beside those, ``young``
    texts that were written too late to be among them. ``journal`` is what a removal that was cut off has left to do, in
    the rows with the keys ``journal_rows``.
    """

    item: Item | None
    callers: tuple[Item, ...] = ()
    history: tuple[Item, ...] = ()
    groups: tuple[Item, ...] = ()
    early: tuple[Early, ...] = ()
    texts: tuple[StoredText, ...] = ()
    children: tuple[Child, ...] = ()
    shared: tuple[str, ...] = ()
    unread: int = 0
    young: int = 0
    awaited: int = 0
    journal: tuple[StoredText, ...] = ()
    journal_rows: tuple[Item, ...] = ()


class TraceReader(NamedTuple):
    """Reads what objects have left. Without a ``bucket`` no texts are looked for but those that are pointed to."""

    client: DynamoDBClient
    table: str
    texts: StoredTexts
    bucket: str | None
    prefix: str
    pause: Callable[[float], None] = time.sleep

    def read(
        self, flow: str, object_id: str, requests: Sequence[tuple[str, int]] = (), before: int | None = None
    ) -> Traces:
        """Read what an object has left. ``requests`` are known from elsewhere, by id and time; newer ones are no part.

        Texts to which nothing points count if they were written ``before`` (ms): a younger one may be of a hop of
        another object, under the same request id, that is not committed yet.
        """
        rows = list(self._partition(run_key(flow, ObjectId(object_id))["pk"]))
        item = next((row for row in rows if row["sk"]["S"] == "run"), None)
        latest = None if item is None else int(item["requested_at"]["N"])
        elsewhere = [request for request, at in requests if latest is None or at <= latest]
        known = dict.fromkeys([*_requests(rows), *elsewhere])
        with_texts = [*self._listed(flow, [request for request in known if request not in _OTHERS], before)]
        listed = [(of, texts) for of, texts, _ in with_texts][:MOST_REQUESTS]
        stem = None if item is None else stem_of(flow, object_id, item)
        scan = ObjectScan(flow, object_id, stem, [of for of, _ in listed])
        named = scan.named(self.client, self.table, self.pause)
        groups = [row for shard in named.shards for row in self._partition(shard["pk"])]
        unshared = [text for of, texts in listed if of.request_id not in named.shared for text in texts]
        pointed = [text for row in [*rows, *groups] for text in texts_of(row)]
        journal = _of_kind(rows, JOURNAL)
        return Traces(
            item=item,
            callers=_keys(_of_kind(rows, _CALLER)),
            history=_keys(_of_kind(rows, _HISTORY)),
            groups=_keys(groups),
            early=tuple(self._early(named)),
            texts=tuple(dict.fromkeys([*pointed, *unshared])),
            children=named.children,
            shared=tuple(sorted(named.shared | (_OTHERS & known.keys()))),
            unread=len(with_texts[MOST_REQUESTS:]),
            young=sum(young for of, _, young in with_texts if of.request_id not in named.shared),
            awaited=len(named.waits),
            journal=tuple(StoredText(*json.loads(text)) for row in journal for text in row["texts"]["SS"]),
            journal_rows=_keys(journal),
        )

    def _listed(
        self, flow: str, requests: Sequence[str], before: int | None
    ) -> Iterator[tuple[RequestTexts, list[StoredText], int]]:
        """Yield the texts of each request that has some, whatever object they are of, and how many are too young."""
        if self.bucket is None:
            return
        for request in requests:
            prefix = prefix_of_request(self.prefix, flow, request)
            texts, young = self.texts.under(self.bucket, prefix, before)
            if texts or young:
                yield RequestTexts(request, prefix), texts, young

    def _early(self, named: Named) -> Iterator[Early]:
        """Yield the answers that runs of the object have used, or for which they waited when these came.

        One that nobody has used or waited for is for the next wait.
        """
        users = {user_of(awaiting_row("", row).address) for row in named.waits}
        for pk in sorted({row["pk"]["S"] for row in named.waits}):
            rows = list(self._partition({"S": pk}))
            for row in _of_kind(rows, _EARLY):
                used_by = row.get("used_by", {"S": ""})["S"]
                user = used_by or row.get("waited", {"S": ""})["S"]
                if "forgotten" not in row and user in users:
                    yield Early(_key(row), row["given_by"]["S"], used_by, tuple(texts_of(row)))

    def _partition(self, pk: Item) -> Iterator[Item]:
        call: Any = {
            "TableName": self.table,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": pk},
            "ConsistentRead": True,
        }
        return pages_of(lambda start: self.client.query(**call, **start), self.pause)


def stem_of(flow: str, object_id: str, item: Item) -> str:
    """Return what stands in the ids of all that the item's run has asked for."""
    return stem_of_run(flow, object_id, item["request_id"]["S"], int(item["requested_at"]["N"]))


def _requests(rows: Sequence[Item]) -> Iterator[str]:
    """Yield the requests that rows of the object name, that of its run first."""
    for row in sorted(rows, key=lambda row: row["sk"]["S"] != "run"):
        for name in ("request_id", "answered_by"):
            if name in row:
                yield row[name]["S"]
        for name in ("failed", "outbox", "memo", "cancelled"):
            if "request_id" in row.get(name, {}).get("M", {}):
                yield row[name]["M"]["request_id"]["S"]


def _of_kind(rows: Sequence[Item], beginning: str) -> list[Item]:
    return [row for row in rows if row["sk"]["S"].startswith(beginning)]


def _keys(rows: Sequence[Item]) -> tuple[Item, ...]:
    return tuple(_key(row) for row in rows)


def _key(row: Item) -> Item:
    return {name: row[name] for name in ("pk", "sk")}
