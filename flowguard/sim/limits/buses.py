"""EventBridge: the entries that PutEvents takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from flowguard.sim.limits.fault import Fault
from flowguard.sim.limits.texts import byte_size

LARGEST: Final = 1_048_576
"""Bytes that all entries of a call have less than."""

MOST_ENTRIES: Final = 10
TIME: Final = 14
"""What a ``Time`` counts, in bytes."""

Entry = Mapping[str, Any]


def entry_size(entry: Entry) -> int:
    texts = (entry.get("Source", ""), entry.get("DetailType", ""), entry.get("Detail", ""), *entry.get("Resources", ()))
    return sum(map(byte_size, texts)) + (TIME if "Time" in entry else 0)


def check_entries(entries: list[Entry]) -> None:
    """Raise a Fault for entries that make EventBridge refuse the whole call."""
    if not 0 < len(entries) <= MOST_ENTRIES:
        raise Fault("ValidationException", f"'entries' must have length 1 to {MOST_ENTRIES}; there are {len(entries)}")
    if sum(map(entry_size, entries)) >= LARGEST:
        raise Fault("ValidationException", "Total size of the entries in the request is over the limit.")


def entry_fault(entry: Entry) -> Fault | None:
    """Return why one entry fails, if it does. The answer reports it, and the others are put."""
    for name in ("Source", "DetailType", "Detail"):
        if not entry.get(name):
            return Fault("InvalidArgument", f"Parameter {name} is not valid. Reason: {name} is a required argument.")
    return None if _is_object(entry["Detail"]) else Fault("MalformedDetail", "Detail is malformed.")


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def bus_name(entry: Entry) -> str:
    """Return the name of the bus that an entry goes to. The entry may give its ARN."""
    return str(entry.get("EventBusName") or "default").rpartition("/")[2]
