"""The event in a message's text. EventBridge writes it, and its ``detail`` is the payload.

It is recognised by its whole form and never by one key: a payload may well have a ``source`` or a ``detail``. What is
no whole event is left as it is.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from flowguard.startup.late_pattern import late_pattern
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import PLACE, REQUEST_ID, REQUESTED_AT, chain_in, place_at_depth
from flowguard.wire.notification import from_timestamp
from flowguard.wire.object_events import object_event_id


class BusEvent(NamedTuple):
    """An event of EventBridge.

    ``id`` is the event's, or the place of a change among those of an object of S3. ``detail`` is its text to the
    letter. ``time`` is ms since 1970 and of whole seconds, as EventBridge writes it. ``attributes`` are the id and the
    time that a flow's own event brings in its detail.
    """

    id: str
    detail_type: str
    source: str
    account: str
    time: int
    region: str
    resources: tuple[str, ...]
    detail: str
    attributes: dict[str, Attribute]


def find_bus_event(text: str) -> BusEvent | None:
    """Return the event that the text is. None where it is none, or is not whole."""
    if '"detail-type"' not in text:
        return None
    try:
        values, texts = _members(text)
    except (ValueError, RecursionError):
        return None
    return _event(values, texts["detail"]) if is_bus_event(values) else None


def is_bus_event(value: object) -> bool:
    """Answer whether the value has all that marks an event, each with its type."""
    if not isinstance(value, dict) or not all(isinstance(value.get(name), kind) for name, kind in _FORM.items()):
        return False
    if not all(form.fullmatch(value[name]) for name, form in _TEXTS.items()):
        return False
    return all(isinstance(arn, str) for arn in value["resources"]) and _is_time(value["time"])


def _event(values: dict[str, Any], detail: str) -> BusEvent:
    return BusEvent(
        id=object_event_id(values) or values["id"],
        detail_type=values["detail-type"],
        source=values["source"],
        account=values["account"],
        time=from_timestamp(values["time"]),
        region=values["region"],
        resources=tuple(values["resources"]),
        detail=detail,
        attributes=_own_attributes(values["detail"].get("flowguard")),
    )


def _own_attributes(entry: object) -> dict[str, Attribute]:
    """Return the id, the time, the depth and the tenant in a detail that a flow has sent.

    See ``flowguard.wire.bodies``.

    Copies of one message are events with ids of their own. What it says of stage, hop and attempt is not read: only
    requests come in over a bus.
    """
    if not isinstance(entry, dict):
        return {}
    read = {name: entry[name] for name in (REQUEST_ID, REQUESTED_AT) if isinstance(entry.get(name), str)}
    attributes = {name: Attribute.string(text) for name, text in read.items()}
    place = chain_in(entry.get(PLACE))
    return {**attributes, **place_at_depth(place.depth, place.tenant)} if place.depth else attributes


def _is_time(text: str) -> bool:
    try:
        return from_timestamp(text) >= 0
    except ValueError:
        return False


_FORM: Final[dict[str, type]] = {
    "version": str,
    "id": str,
    "detail-type": str,
    "source": str,
    "account": str,
    "time": str,
    "region": str,
    "resources": list,
    "detail": dict,
}
_TEXTS: Final = {
    "version": late_pattern("0"),
    "id": late_pattern("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
    "detail-type": late_pattern(".+", re.DOTALL),
    "source": late_pattern(".+", re.DOTALL),
    "account": late_pattern("[0-9]{12}"),
    "time": late_pattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"),
    "region": late_pattern("[a-z0-9-]+"),
}


# -- the members of an object, each with its own text ----------------------------------------------------------------

_COLON: Final = late_pattern(r"[ \t\n\r]*:[ \t\n\r]*")
_OPENING: Final = late_pattern(r"[ \t\n\r]*\{[ \t\n\r]*")
_BETWEEN: Final = late_pattern(r"[ \t\n\r]*(?:(,)[ \t\n\r]*|\}[ \t\n\r]*)")
_read: Final = json.JSONDecoder().raw_decode


def _members(text: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Read a JSON object. Return its values, and their texts to the letter: decoding and encoding would change numbers.

    Raises ValueError where the text is no object. Of one name twice the last counts.
    """
    values: dict[str, Any] = {}
    texts: dict[str, str] = {}
    at, goes_on = _past(_OPENING, text, 0).end(), True
    while goes_on:
        name, at = _read(text, at)
        if not isinstance(name, str):
            raise ValueError("a name is text")
        begin = _past(_COLON, text, at).end()
        values[name], end = _read(text, begin)
        texts[name] = text[begin:end]
        between = _past(_BETWEEN, text, end)
        at, goes_on = between.end(), between[1] is not None
    if at != len(text):
        raise ValueError("something comes after the object")
    return values, texts


def _past(form: re.Pattern[str], text: str, at: int) -> re.Match[str]:
    match = form.match(text, at)
    if match is None:
        raise ValueError(f"not JSON at {at}")
    return match
