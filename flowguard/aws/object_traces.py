"""What an object has left in the run table and in the bucket. Nothing is written.

::

    pk run#<flow>#<object>         sk run         the run item
                                   sk caller#…    who waits for the end of its run, or waited
                                   sk history#…   what has happened
                                   sk turn#…      the message of a hop that waits for a place of a limit
                                   sk forget#…    texts in S3 that a removal was about to remove when it was cut off
    pk group#<flow>#<key>#<shard>                 the requests of its groups
    pk wait#<flow>#<id>            sk early       an answer that came before its wait
    pk once#start/<flow>#<key>     sk once        the entry of an Idempotency-Key that has started a run
    <prefix><flow>/<request>/…     of S3          texts of its runs

How they are found is in :mod:`flowguard.aws.object_scan`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from flowguard.aws.commit_texts import prefix_of_request
from flowguard.aws.dead_letter_queue import explained
from flowguard.aws.items import Item, run_key
from flowguard.aws.object_scan import Child, Named, ObjectScan, RequestTexts, Scanned, Started, pages_of
from flowguard.aws.stored_texts import StoredText, StoredTexts, texts_of
from flowguard.names.ids import ObjectId
from flowguard.protocol.forgotten import LAST_REDRIVE
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.send_ids import stem_of_run

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

JOURNAL: Final = "forget#"
"""What the sort keys of rows begin with that name texts which are about to be removed."""

MOST_REQUESTS: Final = 20
"""Requests of an object that are followed at once: their texts are removed, and what they have asked for is found."""

_OTHERS: Final = frozenset({"answers", "groups"})
"""Requests under whose ids the bucket has texts of all objects."""

_OF_ASKED: Final = frozenset({"pk", "sk", "object_id", "ttl"})
"""What stays in the row of a request to a child that has not begun."""

_CALLER: Final = "caller#"
_HISTORY: Final = "history#"
_TURN: Final = "turn#"
_EARLY: Final = "early"
_TIME: Final = "requested_at"


class Early(NamedTuple):
    """An answer that came before its wait, from the message ``given_by``. ``used_by`` is empty until it is used.

    ``is_free`` says that nobody has used it or waited for it: it is for the next wait.
    """

    key: Item
    given_by: str
    used_by: str
    texts: tuple[StoredText, ...]
    is_free: bool = False


class Traces(NamedTuple):
    """What an object has left.

    ``callers``, ``calls``, ``history`` and ``groups`` are keys of rows. ``asked`` are rows of groups without data:
    their requests to children have not begun. The rows of their shards are not among ``groups``. ``shared`` are
    requests that other objects have too: their texts look alike, and are not among ``texts``. So may those be of
    ``unknown`` requests of a child. ``waiting`` are requests that have left more than those, ``young`` counts texts
    that were written too late to be among them, ``unbegun`` entries of Idempotency-Key of requests that may yet begin,
    ``awaited`` ids for which its runs wait or waited, and ``free`` early answers under these, for the next wait.
    ``followed`` says that what its runs have asked for was looked for. ``journal`` is what a removal that was cut off
    has left to do, in the rows with the keys ``journal_rows``.
    """

    item: Item | None
    scanned: Scanned
    callers: tuple[Item, ...] = ()
    calls: tuple[Item, ...] = ()
    history: tuple[Item, ...] = ()
    groups: tuple[Item, ...] = ()
    asked: tuple[Item, ...] = ()
    early: tuple[Early, ...] = ()
    started: tuple[Started, ...] = ()
    texts: tuple[StoredText, ...] = ()
    children: tuple[Child, ...] = ()
    shared: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    waiting: frozenset[str] = frozenset()
    young: int = 0
    unbegun: int = 0
    awaited: int = 0
    free: int = 0
    followed: bool = True
    journal: tuple[StoredText, ...] = ()
    journal_rows: tuple[Item, ...] = ()


class TraceReader(NamedTuple):
    """Reads what objects have left. Without a ``bucket`` no texts are looked for but those that are pointed to.

    ``flows`` are those of which children are read too.
    """

    client: DynamoDBClient
    table: str
    texts: StoredTexts
    bucket: str | None
    prefix: str
    pause: Callable[[float], None] = time.sleep
    flows: Collection[str] = ()

    def read(
        self,
        of: Child,
        requests: Sequence[tuple[str, int]] = (),
        before: int | None = None,
        scanned: Scanned | None = None,
    ) -> Traces:
        """Read what an object has left. ``requests`` are known from elsewhere, by id and time; newer ones are no part.

        Texts to which nothing points count if they were written ``before`` (ms): a younger one may be of a hop of
        another object, under the same request id, that is not committed yet. A child is read with what the Scan of its
        parent has found, which is not made again.
        """
        rows = _Rows([*self._partition(run_key(of.flow, ObjectId(of.object_id))["pk"])])
        runs = rows.runs(requests)
        stems = [stem_of_run(of.flow, of.object_id, *run) for run in runs[:MOST_REQUESTS]]
        listed = [*self._listed(of.flow, rows.requests(runs), before)]
        now, later = listed[:MOST_REQUESTS], listed[MOST_REQUESTS:]
        beyond = (request for request, _ in runs[MOST_REQUESTS:])
        waiting = frozenset([*(each.of.request_id for each in later), *beyond])
        here = scanned or self._scan(of, stems, now)
        named = here.named(of, stems, [each.of for each in now])
        unknown = [each.of.request_id for each in now if scanned and not scanned.asked_for(each.of)]
        groups = [row for shard in named.shards for row in self._partition({"S": shard})]
        asked = [] if rows.item is None else here.not_begun(groups, stems)
        kept = {(row["pk"]["S"], name) for row in asked for name in (row["sk"]["S"], "shard")}
        early = [*self._early(named)]
        started = tuple(each for each in named.started if rows.has_begun(each.at))
        unshared = [each for each in now if each.of.request_id not in named.shared.union(unknown)]
        return Traces(
            item=rows.item,
            scanned=here,
            callers=_keys(rows.of_kind(_CALLER)),
            calls=_keys(rows.of_kind(_TURN)),
            history=_keys([row for row in rows.of_kind(_HISTORY) if waiting.isdisjoint(_requests([row]))]),
            groups=_keys([row for row in groups if (row["pk"]["S"], row["sk"]["S"]) not in kept]),
            asked=tuple({name: value for name, value in row.items() if name in _OF_ASKED} for row in asked),
            early=tuple(each for each in early if not each.is_free),
            free=sum(each.is_free for each in early),
            started=started,
            texts=_texts([*rows.rows, *groups], unshared),
            children=tuple(named.children),
            shared=tuple(sorted(named.shared.union(rows.of_others(runs)))),
            unknown=tuple(unknown),
            waiting=waiting,
            young=sum(each.young for each in [*unshared, *later]),
            unbegun=len(named.started) - len(started),
            awaited=len(named.waits),
            followed=here.followed(stems),
            journal=tuple(rows.journal()),
            journal_rows=_keys(rows.of_kind(JOURNAL)),
        )

    def callers_of(self, of: Child) -> tuple[Item, ...]:
        """Return the keys of the rows of callers of a forgotten run. None where a newer run may have some of them.

        The run item comes after them: where it is the trace, no newer run had begun when they were read.
        """
        rows = _Rows([*self._partition(run_key(of.flow, ObjectId(of.object_id))["pk"])])
        is_trace = rows.item is not None and int(rows.item["redrive"]["N"]) == LAST_REDRIVE
        return _keys(rows.of_kind(_CALLER)) if is_trace else ()

    def _scan(self, of: Child, stems: Sequence[str], listed: Sequence[_Listed]) -> Scanned:
        return ObjectScan(of, stems, [each.of for each in listed], self.flows).read(self.client, self.table, self.pause)

    def _listed(self, flow: str, requests: Iterable[str], before: int | None) -> Iterator[_Listed]:
        """Yield the texts of each request that has some, whatever object they are of."""
        if self.bucket is None:
            return
        for request in requests:
            prefix = prefix_of_request(self.prefix, flow, request)
            with explained(f"bucket {self.bucket}"):
                texts, young = self.texts.under(self.bucket, prefix, before)
            if texts or young:
                yield _Listed(RequestTexts(request, prefix), texts, young)

    def _early(self, named: Named) -> Iterator[Early]:
        """Yield the answers that runs of the object have used, or for which they waited when these came.

        So are those that are free, under ids for which these have waited.
        """
        users = {"", *(wait.user for wait in named.waits)}
        for pk in sorted({wait.pk for wait in named.waits}):
            for row in _Rows([*self._partition({"S": pk})]).of_kind(_EARLY):
                used_by = row.get("used_by", {"S": ""})["S"]
                user = used_by or row.get("waited", {"S": ""})["S"]
                if "forgotten" not in row and user in users:
                    yield Early(_key(row), row["given_by"]["S"], used_by, tuple(texts_of(row)), is_free=not user)

    def _partition(self, pk: Item) -> Iterator[Item]:
        call: Any = {
            "TableName": self.table,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": pk},
            "ConsistentRead": True,
        }
        return pages_of(lambda start: self.client.query(**call, **start), self.pause)


class _Listed(NamedTuple):
    """The texts that S3 lists of a request, and how many beside them are too young."""

    of: RequestTexts
    texts: Sequence[StoredText]
    young: int


class _Rows(NamedTuple):
    """The rows of a partition."""

    rows: Sequence[Item]

    @property
    def item(self) -> Item | None:
        """Return the run item, where it is among them."""
        return next((row for row in self.rows if row["sk"]["S"] == "run"), None)

    def of_kind(self, beginning: str) -> list[Item]:
        """Return those whose sort keys begin like this."""
        return [row for row in self.rows if row["sk"]["S"].startswith(beginning)]

    def runs(self, elsewhere: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
        """Return the object's runs by request and time, that of the item first and then the newest.

        The history tells them, and dead letters ``elsewhere``, of which newer ones are left out.
        """
        timed = [_run_of(row) for row in [*self.of_kind("run"), *reversed(self.of_kind(_HISTORY))] if _TIME in row]
        latest = int(self.item[_TIME]["N"]) if self.item is not None else None
        return list(dict.fromkeys([*timed, *(run for run in elsewhere if latest is None or run[1] <= latest)]))

    def requests(self, runs: Iterable[tuple[str, int]]) -> list[str]:
        """Return the requests that have texts of their own, those of the runs among them."""
        return [request for request in self._all_requests(runs) if request not in _OTHERS]

    def of_others(self, runs: Iterable[tuple[str, int]]) -> list[str]:
        """Return the requests under whose ids the bucket has texts of all objects."""
        return [request for request in self._all_requests(runs) if request in _OTHERS]

    def has_begun(self, at: int) -> bool:
        """Answer whether a request of this time is no newer one than the object's run. One without a run may begin."""
        return self.item is not None and at <= int(self.item[_TIME]["N"])

    def journal(self) -> Iterator[StoredText]:
        """Yield the texts that the journal names."""
        for row in self.of_kind(JOURNAL):
            yield from (StoredText(*json.loads(text)) for text in row["texts"]["SS"])

    def _all_requests(self, runs: Iterable[tuple[str, int]]) -> Iterable[str]:
        return dict.fromkeys([*_requests(self.rows), *(request for request, _ in runs)])


def stem_of(flow: str, object_id: str, item: Item) -> str:
    """Return what stands in the ids of all that the item's run has asked for."""
    return stem_of_run(flow, object_id, *_run_of(item))


def _run_of(row: Item) -> tuple[str, int]:
    return row["request_id"]["S"], int(row[_TIME]["N"])


def _requests(rows: Sequence[Item]) -> Iterator[str]:
    """Yield the requests that rows of the object name, that of its run first."""
    for row in sorted(rows, key=lambda row: row["sk"]["S"] != "run"):
        for name in ("request_id", "answered_by"):
            if name in row:
                yield row[name]["S"]
        for name in ("failed", "outbox", "memo", "cancelled"):
            if "request_id" in row.get(name, {}).get("M", {}):
                yield row[name]["M"]["request_id"]["S"]


def _texts(rows: Iterable[Item], listed: Iterable[_Listed]) -> tuple[StoredText, ...]:
    """Return the texts to which rows point, and those that are listed."""
    pointed = (text for row in rows for text in texts_of(row))
    return tuple(dict.fromkeys([*pointed, *(text for each in listed for text in each.texts)]))


def _keys(rows: Sequence[Item]) -> tuple[Item, ...]:
    return tuple(_key(row) for row in rows)


def _key(row: Item) -> Item:
    return {name: row[name] for name in ("pk", "sk")}
