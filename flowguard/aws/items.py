"""The run item's layout in the table.

It has keys, attribute names and types; conditions are in ``expressions``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from flowguard.names.ids import ObjectId
from flowguard.payload.codec import About
from flowguard.protocol.fields import BY_NAME, FIELDS, PARTS, Field, Kind
from flowguard.protocol.groups import key_of
from flowguard.protocol.run import RunItem, Status
from flowguard.protocol.run_history import LONGEST as LONGEST_HISTORY
from flowguard.protocol.waiting import Wait
from flowguard.wire.message import Message

Item = dict[str, Any]
"""An item as DynamoDB's low-level API writes it: ``{"hop": {"N": "1"}, …}``."""

_Record = TypeVar("_Record")

LARGEST_ITEM = 409_600
"""400 KB, DynamoDB's limit for an item, names included."""

KEPT_FREE = 8_192
"""Bytes that a commit leaves: the next claim adds a stage, or a longer request id, and must not be refused for it."""

KEPT_FREE_TO_UNDO = 4_096
"""The same of a commit that goes on at ``on_failed``: the failure takes a part of what the hop before it left."""

KEPT_FREE_AT_THE_END = 256
"""The same of a commit that ends its run FAILED: the error takes what the hop before it left, and its stage's claim."""

LONGEST_ID = 1_024
"""Bytes of an id: two of them and a flow's name fit into a key, and a claim adds no more than :data:`KEPT_FREE`."""

_LONGEST_STAGE = 255
"""Bytes of what may stand for a name in an expression."""

_MOST = 10**38
"""DynamoDB's numbers have 38 digits."""

_LARGEST_NUMBER = 21
"""Bytes of a number of 38 digits; a flag takes less."""

FIXED = 768 + LONGEST_HISTORY + 16
"""More than the names of all attributes, their numbers and flags, an owner, a status and a history take together."""


def run_key(flow: str, object_id: ObjectId) -> Item:
    """Return ``pk`` and ``sk`` of the run item. Other kinds of items of the same table have other prefixes."""
    return {"pk": {"S": f"run#{flow}#{object_id}"}, "sk": {"S": "run"}}


def awaiting_key(flow: str, awaited_id: str) -> Item:
    """Return ``pk`` of the rows of everything that waits for an answer under this id."""
    return {"pk": {"S": f"wait#{flow}#{awaited_id}"}}


def about_of(key: Item, kind: str) -> About:
    """Return what a text of this kind is about, in the item or row with the key. A run item's has its object."""
    _, flow, rest = key["pk"]["S"].split("#", 2)
    return About(flow, rest, f"{kind} {key['sk']['S']}")


def rest_size(key: Item, request_id: str, stages: Mapping[str, str]) -> int:
    """Return the bytes of an item beside its long texts, as DynamoDB counts them or a few more.

    ``stages`` are those passed.
    """
    id_size = len(request_id.encode())
    key_size = len(key["pk"]["S"].encode()) + len(key["sk"]["S"].encode())
    longest_stage = 64
    size = FIXED + key_size + id_size + longest_stage
    for name, text in stages.items():
        size += len(name.encode()) + len(text.encode()) + 1
    return size


def message_problem(message: Message) -> str | None:
    """Say which part of a message no run item can hold. None where all fit.

    The parts are ids, the stage's name and counts.
    """
    texts = (
        ("request id", message.request_id, LONGEST_ID),
        ("object id", message.object_id, LONGEST_ID),
        ("stage's name", message.stage, _LONGEST_STAGE),
    )
    for part, text, longest in texts:
        is_plain = text.isascii() and 0 < len(text) <= longest  # nearly all are
        if not is_plain and (problem := _text_problem(text, longest)):
            return f"its {part} {problem}"
    numbers = (message.requested_at, message.version, message.hop, message.retry, message.redrive)
    if max(map(abs, numbers)) < _MOST:
        return None
    names = ("requested_at", "version", "hop", "retry", "redrive")
    name = next(name for name, number in zip(names, numbers, strict=True) if abs(number) >= _MOST)
    return f"its {name} has more than the 38 digits that DynamoDB stores"


def _text_problem(text: str, longest: int) -> str | None:
    if not text:
        return "is empty"
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        return "has half a surrogate pair, which DynamoDB cannot hold"
    return f"has {size:,} bytes of at most {longest:,}" if size > longest else None


def number(value: int) -> dict[str, str]:
    return {"N": str(value)}


def _history(raw: Item) -> str:
    """Return the history of an item. What is none is left out: nothing decides by it."""
    text = raw.get("S", "")
    return text if len(text) <= LONGEST_HISTORY else ""


_NUMBER: Final = (number, lambda stored: int(stored["N"]))
_CODECS: Final[Mapping[Kind, tuple[Callable[[Any], Item], Callable[[Item], Any]]]] = {
    Kind.TEXT: (lambda text: {"S": text}, lambda stored: stored["S"]),
    Kind.STATUS: (lambda status: {"S": status.value}, lambda stored: Status(stored["S"])),
    Kind.HISTORY: (lambda text: {"S": text}, _history),
    Kind.COUNT: _NUMBER,
    Kind.TIME: _NUMBER,
    Kind.SECONDS: _NUMBER,
    Kind.FLAG: (lambda flag: {"BOOL": flag}, lambda stored: stored["BOOL"]),
    Kind.MARK: (lambda _: {"BOOL": True}, lambda _: True),
    Kind.NAMES: (lambda names: {"SS": sorted(names)}, lambda stored: frozenset(stored["SS"])),
    Kind.TEXTS: (
        lambda texts: {"M": {name: {"S": text} for name, text in texts.items()}},
        lambda stored: {name: text["S"] for name, text in stored["M"].items()},
    ),
}
"""How values of each kind are written and read. Long texts and maps have code of their own."""


def stored(kind: Kind | type, value: Any) -> Item:
    """Return a value of a kind as the item holds it."""
    return _writer(kind)(value)


Values: TypeAlias = tuple[tuple[str, str, Callable[[Any], Item]], ...]
"""The values of an expression: for each its placeholder, the field that has it, and the function that encodes it."""


def values_of(fields: Iterable[Field]) -> Values:
    """Prepare the values of fields for expressions, once for all items."""
    return tuple((f":{field.attribute}", field.value_name, _writer(field.kind)) for field in fields)


def expression_values(values: Values, item: Any) -> Item:
    """Return the values of one item by their placeholders, in DynamoDB's form."""
    return {name: write(getattr(item, field)) for name, field, write in values}


def _writer(kind: Kind | type) -> Callable[[Any], Item]:
    return _CODECS[kind][0] if isinstance(kind, Kind) else record_item


def record_item(record: Any) -> Item:
    """Return a named tuple as the item holds it."""
    parts: Item = {}
    for part, kind in PARTS[type(record)].items():
        value = getattr(record, part)
        if value is not None and value is not False:
            parts[part] = stored(kind, value)
    return {"M": parts}


def read_record(kind: type[_Record], raw: Item) -> _Record:
    """Read what :func:`record_item` made."""
    record: Any = kind  # a named tuple, for which there is no bound
    parts, optional = raw["M"], record._field_defaults
    present = {part: of for part, of in PARTS[kind].items() if part in parts or part not in optional}
    return kind(**{part: _reader(of)(parts[part]) for part, of in present.items()})


def _reader(kind: Kind | type) -> Callable[[Item], Any]:
    return _CODECS[kind][1] if isinstance(kind, Kind) else functools.partial(read_record, kind)


_READ: Final = tuple(
    (field.value_name, field.attribute, _reader(field.kind))
    for field in FIELDS
    if field.kind not in (Kind.LONG, Kind.MAP) and not field.part_of
)
_REQUIRED: Final = tuple(field for field in _READ if field[0] not in RunItem._field_defaults)
_OPTIONAL: Final = tuple(field for field in _READ if field[0] in RunItem._field_defaults)


def read_item(item: Item) -> RunItem:
    """Read the item without its long texts. The store unpacks those when they are needed."""
    values = {name: read(item[attribute]) for name, attribute, read in _REQUIRED}
    values |= {name: read(item[attribute]) for name, attribute, read in _OPTIONAL if attribute in item}
    if "wait" in item:
        values["wait"] = _wait(item)
    if item.get("text_epoch") != item["epoch"]:
        values["first_text"] = None
    values["askers"] = {name[len(ASKER) :]: item[name]["S"] for name in sorted(item) if name.startswith(ASKER)}
    return RunItem(**values)


ASKER: Final = BY_NAME["askers"].attribute
"""What the name of an attribute begins with that holds a request which has not been answered."""


def _wait(item: Item) -> Wait:
    parts = item["wait"]["M"]
    return Wait(
        waiting=frozenset(item["waiting"]["SS"] if "waiting" in item else ()),
        spare=int(parts["spare"]["N"]),
        deadline=int(parts["deadline"]["N"]),
        timed_out="timed_out" in parts,
        room=int(parts["room"]["N"]),
        answered=frozenset(parts["answers"]["M"]),
        size=size_of_value(item["wait"]) + size_of_value(item.get("waiting", {"SS": []})),
        looked_at=int(parts["looked_at"]["N"]) if "looked_at" in parts else 0,
        looked_by=parts["looked_by"]["S"] if "looked_by" in parts else "",
        group=parts["group"]["S"] if "group" in parts else None,
        asked=int(parts["asked"]["N"]) if "asked" in parts else 0,
        asking=int(parts["asking"]["N"]) if "asking" in parts else 0,
    )


def shard_key(flow: str, key: str, shard: int) -> Item:
    """Return ``pk`` of a group's shard, and of the rows of its requests. Parts of a group have keys of their own."""
    return {"pk": {"S": f"group#{flow}#{key_of(key, shard)}#{shard}"}}


def size_of_value(value: Item) -> int:
    """Return the bytes of an attribute's value as DynamoDB counts them, or a few more."""
    for kind, data in value.items():
        if kind == "S":
            return len(data.encode())
        if kind == "B":
            return len(data)
        if kind == "M":
            return 3 + sum(1 + len(name.encode()) + size_of_value(part) for name, part in data.items())
        if kind == "SS":
            return 3 + sum(1 + len(text.encode()) for text in data)
    return _LARGEST_NUMBER
