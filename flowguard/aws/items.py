"""The run item's layout in the table.

It has keys, attribute names and types; conditions are in ``expressions``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowguard.ids import ObjectId, Owner, RequestId
from flowguard.protocol.callers import Callers
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.groups import key_of
from flowguard.protocol.run import BackOff, Cancellation, RunItem, Status
from flowguard.protocol.run_history import LONGEST as LONGEST_HISTORY
from flowguard.protocol.waiting import Late, Wait
from flowguard.wire.message import ErrorNote, Message

Item = dict[str, Any]
"""An item as DynamoDB's low-level API writes it: ``{"hop": {"N": "1"}, …}``."""

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


def rest_size(key: Item, request_id: str, stages: Mapping[str, str]) -> int:
    """Return the bytes of an item beside its long texts, as DynamoDB counts them or a few more.

    ``stages`` are those passed.
    """
    own = len(request_id.encode())
    entries = sum(len(name.encode()) + len(one.encode()) + 1 for name, one in stages.items())
    longest_stage = 64
    return FIXED + sum(len(part["S"].encode()) for part in key.values()) + own + longest_stage + entries


def message_problem(message: Message) -> str | None:
    """Say which part of a message no run item can hold. None where all fit.

    The parts are ids, the stage's name and counts.
    """
    texts = (
        ("request id", message.request_id, LONGEST_ID),
        ("object id", message.object_id, LONGEST_ID),
        ("stage's name", message.stage, _LONGEST_STAGE),
    )
    for what, text, longest in texts:
        if problem := _text_problem(text, longest):
            return f"its {what} {problem}"
    for name in ("requested_at", "version", "hop", "retry", "redrive"):
        if not -_MOST < getattr(message, name) < _MOST:
            return f"its {name} has more than the 38 digits that DynamoDB stores"
    return None


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


def read_item(item: Item) -> RunItem:
    """Read the item without its long texts. The store unpacks those when they are needed."""
    return RunItem(
        request_id=RequestId(item["request_id"]["S"]),
        requested_at=int(item["requested_at"]["N"]),
        version=int(item["version"]["N"]),
        status=Status(item["status"]["S"]),
        stage=item["stage"]["S"],
        hop=int(item["hop"]["N"]),
        retry=int(item["retry"]["N"]),
        redrive=int(item["redrive"]["N"]),
        epoch=int(item["epoch"]["N"]),
        owner=Owner(item["owner"]["S"]),
        lease_until=int(item["lease_until"]["N"]),
        done=item["done"]["BOOL"],
        committed_at=int(item["committed_at"]["N"]) if "committed_at" in item else 0,
        stages={name: RequestId(value["S"]) for name, value in item.get("stages", {"M": {}})["M"].items()},
        ttl=int(item["ttl"]["N"]) if "ttl" in item else 0,
        wait=_wait(item) if "wait" in item else None,
        late=_late(item["late"]["M"]) if "late" in item else None,
        failed=_failed(item["failed"]["M"]) if "failed" in item else None,
        cancellation=_cancellation(item["cancelled"]["M"]) if "cancelled" in item else None,
        callers=read_callers(item["callers"]) if "callers" in item else None,
        reset_at=int(item["reset_at"]["N"]) if "reset_at" in item else None,
        reset_by=item["reset_by"]["S"] if "reset_by" in item else None,
        answered=read_callers(item["answered"]) if "answered" in item else None,
        answered_by=RequestId(item["answered_by"]["S"]) if "answered_by" in item else None,
        answered_key=item["answered_key"]["S"] if "answered_key" in item else None,
        back_off=_back_off(item["back_off"]["M"]) if "back_off" in item else None,
        history=_history(item["history"]) if "history" in item else "",
        kills=int(item["kills"]["N"]) if "kills" in item else 0,
        first_text=item["first_text"]["S"] if item.get("text_epoch") == item["epoch"] else None,
        full_history="full_history" in item,
        askers={name[len(ASKER) :]: item[name]["S"] for name in sorted(item) if name.startswith(ASKER)},
    )


ASKER = "asker-"
"""What the name of an attribute begins with that holds a request which has not been answered."""


def callers_item(callers: Callers) -> Item:
    """Return a list of callers as the item holds it."""
    held = {key: {"S": text} for key, text in callers.held.items()}
    return {
        "M": {"term": {"S": callers.term}, "held": {"M": held}, **({"rows": {"BOOL": True}} if callers.rows else {})}
    }


def read_callers(found: Item) -> Callers:
    """Read what :func:`callers_item` made."""
    stored = found["M"]
    held = {key: one["S"] for key, one in stored["held"]["M"].items()}
    return Callers(stored["term"]["S"], held, "rows" in stored)


def late_item(late: Late) -> Item:
    """Return the names that came too late as the item holds them."""
    group = {} if late.group is None else {"group": {"S": late.group}}
    return {"M": {"hop": number(late.hop), "names": {"SS": sorted(late.names)}, **group}}


def _late(found: Item) -> Late:
    group = found["group"]["S"] if "group" in found else None
    return Late(int(found["hop"]["N"]), frozenset(found["names"]["SS"]), group)


def cancellation_item(cancellation: Cancellation) -> Item:
    """Return a cancelled run as the item holds it."""
    c = cancellation
    return {"M": {"request_id": {"S": c.request_id}, "at": number(c.at), "why": {"S": c.why}}}


def _cancellation(found: Item) -> Cancellation:
    return Cancellation(RequestId(found["request_id"]["S"]), int(found["at"]["N"]), found["why"]["S"])


def back_off_item(back_off: BackOff) -> Item:
    """Return why and until when a hop rests as the item holds it."""
    return {"M": {"error": _error_item(back_off.error), "until": number(back_off.until)}}


def _back_off(found: Item) -> BackOff:
    return BackOff(_error(found["error"]["M"]), int(found["until"]["N"]))


def _error_item(error: ErrorNote) -> Item:
    return {"M": {"type": {"S": error.type}, "text": {"S": error.text}, "at": number(error.at)}}


def _error(found: Item) -> ErrorNote:
    return ErrorNote(found["type"]["S"], found["text"]["S"], int(found["at"]["N"]))


def failed_item(failed: FailedHop) -> Item:
    """Return where a run failed as the item holds it."""
    undone = {"undone": {"BOOL": True}} if failed.undone else {}
    run = {"request_id": {"S": failed.request_id}, "requested_at": number(failed.requested_at)}
    place = {"hop": number(failed.hop), "redrive": number(failed.redrive)}
    return {"M": {**run, **place, "error": _error_item(failed.error), **undone}}


def _failed(found: Item) -> FailedHop:
    return FailedHop(
        request_id=RequestId(found["request_id"]["S"]),
        requested_at=int(found["requested_at"]["N"]),
        hop=int(found["hop"]["N"]),
        redrive=int(found["redrive"]["N"]),
        error=_error(found["error"]["M"]),
        undone="undone" in found,
    )


def _history(found: Item) -> str:
    """Return the history of an item. What is none is left out: nothing decides by it."""
    text = found.get("S", "")
    return text if len(text) <= LONGEST_HISTORY else ""


def _wait(item: Item) -> Wait:
    found = item["wait"]["M"]
    return Wait(
        waiting=frozenset(item["waiting"]["SS"] if "waiting" in item else ()),
        spare=int(found["spare"]["N"]),
        deadline=int(found["deadline"]["N"]),
        timed_out="timed_out" in found,
        room=int(found["room"]["N"]),
        answered=frozenset(found["answers"]["M"]),
        size=size_of_value(item["wait"]) + size_of_value(item.get("waiting", {"SS": []})),
        looked_at=int(found["looked_at"]["N"]) if "looked_at" in found else 0,
        looked_by=found["looked_by"]["S"] if "looked_by" in found else "",
        group=found["group"]["S"] if "group" in found else None,
        asked=int(found["asked"]["N"]) if "asked" in found else 0,
        asked_by=found["asked_by"]["S"] if "asked_by" in found else "",
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
            return 3 + sum(1 + len(name.encode()) + size_of_value(one) for name, one in data.items())
        if kind == "SS":
            return 3 + sum(1 + len(text.encode()) for text in data)
    return _LARGEST_NUMBER
