"""What calls touch: two runs that touch nothing of one another's end alike in whatever order they run.

A place is named from the service down: ``("dynamodb", "orders", "o1")``. It contains the places that begin
with it. An item's place is its hash key: who queries a partition reads all that is in it. Two that add to the numbers
of one item commute, too, where neither has a condition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, TypeAlias

from flowguard.sim.calls import ApiCall
from flowguard.sim.limits.queues import queue_name
from flowguard.testing.explorer.record.outside_call import DATA_API, OUTSIDE, POSTGRES

Place: TypeAlias = tuple[str, ...]
ADDED: Final = "\0added"
"""The last part of the place of an item to whose numbers a call adds, and which it neither reads nor replaces."""

_HASH: Final = re.compile(r"\s*\(?\s*([\w#]+)\s*=\s*(:\w+)")
_ADDING: Final = ("Send", "Publish", "Put", "Invoke", "ChangeMessageVisibility", "DeleteMessage")
"""Operations of queues, topics, buses and functions whose order no receiver can rely on, unless it is FIFO."""

_SENDING: Final = frozenset({"sqs", "sns", "events", "lambda", "ses", "sesv2"})


def places_of(call: ApiCall, target: str, hash_keys: Mapping[str, str]) -> tuple[Place, ...]:
    """Return the places that a call reads or writes. ``hash_keys`` are the names of tables' hash keys.

    ``target`` is what it is for, as its record says. A call of which less is known touches all of its service.
    """
    try:
        return _places(call, target, hash_keys)
    except Exception:  # malformed parameters: the service refuses them, and the explorer must not fail first
        return ((call.service,),)


def is_reading(operation: str, *, is_read: bool) -> bool:
    """Answer whether a call changes nothing for others. Who receives a message takes it."""
    return is_read and not operation.startswith("Receive")


def _places(call: ApiCall, target: str, hash_keys: Mapping[str, str]) -> tuple[Place, ...]:
    match call.service:
        case service if service in OUTSIDE:
            return tuple(call.params["Places"])
        case "dynamodb":
            return tuple(dict.fromkeys(_items(call.params, hash_keys))) or (("dynamodb",),)
        case service if service == DATA_API:
            return ((POSTGRES,),)
        case "s3" if "Bucket" in call.params and "CopySource" not in call.params:
            return (("s3", *(str(call.params[name]) for name in ("Bucket", "Key") if name in call.params)),)
        case service if service in _SENDING and call.operation.startswith(_ADDING):
            to = queue_name(call.params) if "QueueUrl" in call.params else target
            return ((service, to),) if to.endswith(".fifo") else ((service, to, ADDED),)
        case "sqs" if "QueueUrl" in call.params:
            return (("sqs", queue_name(call.params)),)
        case "scheduler" if "Name" in call.params:
            return (("scheduler", call.params.get("GroupName", "default"), call.params["Name"]),)
        case service:
            return ((service,),)


def _items(params: Mapping[str, Any], hash_keys: Mapping[str, str]) -> Iterator[Place]:
    actions = [action for item in (*params.get("TransactItems", ()),) for action in item.values()]
    for action in (params, *actions):
        if "TableName" in action:
            key = action.get("Key") or action.get("Item") or _partition(action)
            place = _place(action["TableName"], key, hash_keys)
            yield (*place, ADDED) if _only_adds(action) else place
    for table, requests in params.get("RequestItems", {}).items():
        keys = requests["Keys"] if isinstance(requests, Mapping) else map(_written, requests)
        yield from (_place(table, key, hash_keys) for key in keys)


def _only_adds(action: Mapping[str, Any]) -> bool:
    """Answer whether an update adds to numbers and does nothing else, whatever is there."""
    words = str(action.get("UpdateExpression", "")).upper().split()
    is_plain = words[:1] == ["ADD"] and not {"SET", "REMOVE", "DELETE"} & set(words)
    reads = {"ConditionExpression", "ReturnValues"} & action.keys()
    return is_plain and not reads and all(map(_is_number, action.get("ExpressionAttributeValues", {}).values()))


def _is_number(value: Any) -> bool:
    return "N" in value if isinstance(value, Mapping) else isinstance(value, int | Decimal)


def _written(request: Mapping[str, Any]) -> Mapping[str, Any]:
    ((_, write),) = request.items()
    return {**write.get("Item", {}), **write.get("Key", {})}


def _partition(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the hash key that a query names. Empty for a scan, and for a query of an index."""
    condition = _HASH.match(str(params.get("KeyConditionExpression")))
    if condition is None or "IndexName" in params:
        return {}
    name, value = condition[1], params.get("ExpressionAttributeValues", {}).get(condition[2])
    return {params.get("ExpressionAttributeNames", {}).get(name, name): value}


def _place(table: str, key: Mapping[str, Any], hash_keys: Mapping[str, str]) -> Place:
    table = table.rpartition("/")[2]  # of an ARN the name
    value = key.get(hash_keys.get(table, ""))
    return ("dynamodb", table) if value is None else ("dynamodb", table, _text(value))


def _text(value: Any) -> str:
    """Return the text of a key's value, which clients and resources of boto3 write differently."""
    if isinstance(value, Mapping):
        ((kind, value),) = value.items()
        value = Decimal(value) if kind == "N" else value
    if isinstance(value, int | Decimal):
        return str(Decimal(value).normalize())
    return value if isinstance(value, str) else repr(getattr(value, "value", value))


@dataclass(slots=True)
class Touched:
    """The places that runs have read and written, and with each all that contain it."""

    reads: set[Place] = field(default_factory=set)
    writes: set[Place] = field(default_factory=set)
    around_reads: set[Place] = field(default_factory=set)
    around_writes: set[Place] = field(default_factory=set)

    def add(self, places: Iterable[Place], *, is_read: bool) -> None:
        """Add the places of a call."""
        for place in places:
            (self.reads if is_read else self.writes).add(place)
            around = self.around_reads if is_read else self.around_writes
            around.update(place[:length] for length in range(1, len(place) + 1))

    def join(self, other: Touched) -> None:
        """Add what others have touched."""
        self.add(other.reads, is_read=True)
        self.add(other.writes, is_read=False)

    def meets(self, other: Touched) -> bool:
        """Answer whether either wrote where the other read or wrote: then their order may matter."""
        return (
            _overlap(self.writes, self.around_writes, other.writes, other.around_writes)
            or _overlap(self.writes, self.around_writes, other.reads, other.around_reads)
            or _overlap(self.reads, self.around_reads, other.writes, other.around_writes)
        )


def _overlap(places: set[Place], around: set[Place], others: set[Place], around_others: set[Place]) -> bool:
    """Answer whether a place contains one of the others, or the other way round. To add twice to an item is neither."""
    if around.isdisjoint(others) and places.isdisjoint(around_others):
        return False
    return any(place[-1] != ADDED for place in around & others | places & around_others)
