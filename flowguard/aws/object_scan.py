"""The Scan that finds what names an object outside its own partition of the run table, and what names its children.

::

    pk group#<flow>#<key>#<shard>   sk shard      a part of a group that a run of the object asks: its ``asker``
    pk wait#<flow>#<id>             sk <digest>   an id that a run of the object waits for, or has waited for
    pk once#start/<flow>#<key>      sk once       what a request over HTTP has started: its result names the object
    pk run#<any flow>#<object>      sk run        a run that the object's run has asked for: its request id says so
    pk run#<flow>#<other object>    sk run        a run with a request id of the object's, or with texts under one

A table has no index of these, so all of it is read, consistently, and once. Which objects are children is known when
all is read: of their flows all waits and groups are kept until then, as a few short texts each. A child's child has
the ids of both in its request id, so that it is found too.
"""

from __future__ import annotations

import json
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from flowguard.aws.faults import patiently
from flowguard.aws.items import Item
from flowguard.aws.waits import awaiting_row
from flowguard.protocol.fields import FIELDS, Kind
from flowguard.protocol.groups import Member
from flowguard.startup.named_tuple import NamedTuple
from flowguard.worker.early_answers import user_of

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

MOST_FLOWS: Final = 12
"""Flows whose waits and groups are asked for by name: an expression has 4 KB. Of more, those of all flows are read."""

_LONG: Final = tuple(field.attribute for field in FIELDS if field.kind is Kind.LONG and field.attribute != "error")
"""The attributes that may point to a text in S3. An error is always in the item."""

_SHORT: Final = {f"#l{place}": name for place, name in enumerate(_LONG)}
"""Short names for them."""


class RequestTexts(NamedTuple):
    """A request, and what the keys of its texts in S3 begin with."""

    request_id: str
    prefix: str


class Child(NamedTuple):
    """An object of a flow, such as one whose run was asked for by a run of another."""

    flow: str
    object_id: str


class Wait(NamedTuple):
    """An id for which a run waits or has waited.

    ``pk`` is the partition of its rows, ``user`` names the run as a user of early answers.
    """

    pk: str
    user: str


class Started(NamedTuple):
    """The entry of an Idempotency-Key. ``result`` is the attribute that names the request and the object.

    ``at`` is the time of the request, ms.
    """

    key: Item
    result: Item
    at: int


class Named(NamedTuple):
    """What names an object. ``shared`` are those requests which other objects have, or have texts of."""

    waits: Sequence[Wait]
    shards: Sequence[str]
    children: Sequence[Child]
    shared: frozenset[str]
    started: Sequence[Started] = ()


class _Run(NamedTuple):
    """A row of a run, which names requests.

    It names its own, and those in the keys of texts to which it points.
    """

    of: Child
    is_run: bool
    request_id: str
    keys: Sequence[str]

    def is_asked_by(self, stem: str) -> bool:
        """Answer whether runs with this stem have asked for it, or for one of whose texts it has some."""
        return stem in self.request_id or any(quote(stem, safe="") in key for key in self.keys)

    def shares(self, texts: RequestTexts) -> bool:
        """Answer whether it may have texts of the request."""
        return self.request_id == texts.request_id or any(key.startswith(texts.prefix) for key in self.keys)


class Scanned(NamedTuple):
    """What the Scan has found, of an object and of all that its runs have asked for.

    ``stems`` are those of the object's runs. Requests whose ids, or whose texts' keys, have none of them were looked
    for as far as they are the object's own.
    """

    stems: Sequence[str]
    waits: Mapping[Child, Sequence[Wait]]
    shards: Mapping[Child, Sequence[str]]
    runs: Sequence[_Run]
    started: Mapping[Child, Sequence[Started]]

    def named(self, of: Child, stems: Sequence[str], requests: Sequence[RequestTexts]) -> Named:
        """Return what names an object, whose runs have these stems and requests."""
        children = {run.of for run in self.runs if run.is_run and any(stem in run.request_id for stem in stems)}
        others = [run for run in self.runs if run.of.flow == of.flow and run.of != of]
        shared = frozenset(texts.request_id for texts in requests if any(run.shares(texts) for run in others))
        return Named(
            self.waits.get(of, ()), self.shards.get(of, ()), sorted(children - {of}), shared, self.started.get(of, ())
        )

    def not_begun(self, rows: Sequence[Item], stems: Sequence[str]) -> list[Item]:
        """Return those of groups' rows that ask another flow, and have neither an answer nor a run of their child.

        ``stems`` are of the runs that have asked them. Of a request under an id of one's own no run is known, so it is
        none of them. Where several groups ask a child under one number, nothing tells for which of them it has run.
        """
        of_stems = [run for run in self.runs if any(stem in run.request_id for stem in stems)]
        begun = {(run.of.object_id, *run.request_id.rsplit(".", 3)[1:]) for run in of_stems}
        asked = [(row, (row["object_id"]["S"], *_member_of(row).split("."))) for row in rows if "object_id" in row]
        groups = Counter(child for _, child in asked)
        unanswered = [(row, child) for row, child in asked if row.keys().isdisjoint(("answer", "request_id"))]
        return [row for row, child in unanswered if child not in begun or groups[child] > 1]

    def asked_for(self, texts: RequestTexts) -> bool:
        """Answer whether the object's runs have asked for the request: then others with its texts were looked for."""
        return any(quote(stem, safe="") in texts.prefix for stem in self.stems)

    def followed(self, stems: Sequence[str]) -> bool:
        """Answer whether what runs with these stems have asked for was looked for too.

        Ids that grow too long become digests, in which the ids before them are not to be seen.
        """
        return all(any(parent in stem for parent in self.stems) for stem in stems)


class ObjectScan(NamedTuple):
    """Scans for an object of a flow, and for what its runs have asked for of ``flows``.

    ``stems`` begin the ids of what its runs ask for; without a run it has none. Expressions have 4 KB, so that what
    may be long is compared here, row by row.
    """

    of: Child
    stems: Sequence[str] = ()
    requests: Sequence[RequestTexts] = ()
    flows: Collection[str] = ()

    def read(self, client: DynamoDBClient, table: str, pause: Callable[[float], None] = time.sleep) -> Scanned:
        """Read the whole table, with one Scan for each MB."""
        waits, shards, runs = defaultdict[Child, list[Wait]](list), defaultdict[Child, list[str]](list), list[_Run]()
        started = defaultdict[Child, list[Started]](list)
        for row in pages_of(lambda start: client.scan(TableName=table, **self._call(), **start), pause):
            kind, flow, rest = row["pk"]["S"].split("#", 2)
            if kind == "wait":
                wait = Wait(row["pk"]["S"], user_of(awaiting_row("", row).address))
                waits[Child(flow, row["object_id"]["S"])].append(wait)
            elif kind == "group":
                shards[Child(flow, row["asker"]["S"])].append(row["pk"]["S"])
            elif kind == "once":
                if (of := _started_by(flow, row)) is not None:
                    started[of].append(
                        Started({name: row[name] for name in ("pk", "sk")}, row["result"], int(row["begun_at"]["N"]))
                    )
            elif self._is_meant(run := _run(flow, rest, row)):
                runs.append(run)
        return Scanned(self.stems, waits, shards, runs, started)

    def _is_meant(self, run: _Run) -> bool:
        """Answer whether a run is a child, or may have texts of a request. It may just have a long text."""
        asked = any(run.is_asked_by(stem) for stem in self.stems)
        return asked or (run.of.flow == self.of.flow and any(run.shares(texts) for texts in self.requests))

    def _call(self) -> Any:
        values: Item = {":object": {"S": self.of.object_id}}
        conditions = [*self._waits_and_groups(values), *self._runs(values), *self._starts(values)]
        call: Any = {"FilterExpression": _any(conditions), "ExpressionAttributeValues": values}
        of_runs = {"#k": "key", **_SHORT} if ":any_run" in values else {}
        call["ExpressionAttributeNames"] = {"#result": "result", **of_runs}
        return {"ConsistentRead": True, **call}

    def _starts(self, values: Item) -> Iterator[str]:
        """Yield the condition on entries of keys that have started runs of the object, or of what may be children."""
        flows = dict.fromkeys([f"{self.of.flow}#", *self._beginnings()])
        of_flows = {f":o{place}": {"S": f"once#start/{flow}"} for place, flow in enumerate(flows)}
        values |= of_flows
        begun = _any(f"begins_with(pk,{of_flow})" for of_flow in of_flows)
        yield f"(({begun}) AND attribute_exists(#result))"

    def _waits_and_groups(self, values: Item) -> Iterator[str]:
        """Yield the conditions on waits and groups of the object and of what may be children, and add their values."""
        for name, kind, by in ((":w", "wait", "object_id"), (":g", "group", "asker")):
            values[name] = {"S": f"{kind}#{self.of.flow}#"}
            yield f"(begins_with(pk,{name}) AND {by} = :object)"
            of_flows = {f"{name}{place}": {"S": f"{kind}#{flow}"} for place, flow in enumerate(self._beginnings())}
            values |= of_flows
            if of_flows:
                yield f"(({_any(f'begins_with(pk,{of_flow})' for of_flow in of_flows)}) AND attribute_exists({by}))"

    def _beginnings(self) -> Sequence[str]:
        """Return what names the flows of children behind the kind of a row. Without a run there are none."""
        if not self.stems:
            return []
        return [f"{flow}#" for flow in sorted(self.flows)] if len(self.flows) <= MOST_FLOWS else [""]

    def _runs(self, values: Item) -> Iterator[str]:
        """Yield the condition on runs that name a request of the object or of a child, or point to any text in S3."""
        stems = {f":s{place}": {"S": stem} for place, stem in enumerate(self.stems)}
        requests = {f":r{place}": {"S": texts.request_id} for place, texts in enumerate(self.requests)}
        if stems or requests:
            values |= {":any_run": {"S": "run#"}, **stems, **requests}
            named = [f"contains(request_id,{stem})" for stem in stems]
            same = [f"request_id IN ({','.join(requests)})"] if requests else []
            pointing = [f"attribute_exists({name}.#k)" for name in _SHORT]
            yield f"(begins_with(pk,:any_run) AND ({_any([*named, *same, *pointing])}))"


def pages_of(read: Callable[[Any], Any], pause: Callable[[float], None]) -> Iterator[Item]:
    """Yield the items of all pages. ``read`` is given where a page begins."""
    place: Any = {}
    while place is not None:
        start = {"ExclusiveStartKey": place} if place else {}
        answer: Any = patiently(partial(read, start), pause)
        yield from answer["Items"]
        place = answer.get("LastEvaluatedKey")


def _any(conditions: Iterable[str]) -> str:
    return " OR ".join(conditions)


def _started_by(name: str, row: Item) -> Child | None:
    """Return the object of which a run was started. None for what says none."""
    try:
        result = row["result"]
        _, object_id = json.loads(zlib.decompress(result["B"]) if "B" in result else result["S"])
        return Child(name.removeprefix("start/"), str(object_id))
    except (ValueError, TypeError):
        return None


def _member_of(row: Item) -> str:
    """Return what the request id of a group's request ends with."""
    return Member(int(row["pk"]["S"].rpartition("#")[2]), int(row["sk"]["S"].rpartition("#")[2])).text


def _run(flow: str, object_id: str, row: Item) -> _Run:
    return _Run(Child(flow, object_id), row["sk"]["S"] == "run", row["request_id"]["S"], [*_keys(row)])


def _keys(row: Item) -> Iterator[str]:
    """Yield the keys of the texts to which a row points."""
    for name in _LONG:
        if "key" in row.get(name, {}).get("M", {}):
            yield row[name]["M"]["key"]["S"]
