"""A message that its destination refused for good, as a dead letter carries it: beside its body, all that it takes to
send it after all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from flowguard.attributes import Attribute
from flowguard.destinations import Destination, parse_destination
from flowguard.message import PLACE
from flowguard.outbox import Kind, Send

UNSENT = "unsent"
TO = "to"
"""Keys of the ``flowguard`` attribute: the whole send, and of a next hop's message where it was to go."""


class Undelivered(NamedTuple):
    """The send without its body, which is the letter's."""

    kind: Kind
    to: Destination
    id: str
    attributes: Mapping[str, Attribute]
    group: str | None

    @classmethod
    def of(cls, attributes: Mapping[str, Attribute]) -> Undelivered | None:
        """Read it from a letter's own attributes; None where the letter is another. Raises ValueError."""
        said = _said(attributes)
        if UNSENT not in said:
            return None
        found: dict[str, Any] = said[UNSENT] if isinstance(said[UNSENT], dict) else {}
        match found.get("kind"), found.get("to"), found.get("id"):
            case str(kind), str(to), str(name) if name:
                return cls(_kind(kind), parse_destination(to), name, _attributes(found), _group(found))
            case _:
                raise ValueError(f"has an {UNSENT!r} that is not an object with kind, to and id")

    def send(self, body: str, to: Destination | None = None) -> Send:
        """The send itself, to where it was to go or to another place."""
        return Send(self.kind, to if to is not None else self.to, body, self.id, self.attributes, group=self.group)


def bound_for(attributes: Mapping[str, Attribute]) -> Destination | None:
    """Where a next hop's message was to go, which its inbox refused; None where the letter does not say it.

    Raises ValueError for what is no destination.
    """
    found = _said(attributes).get(TO)
    if found is not None and not isinstance(found, str):
        raise ValueError(f"has a {TO!r} that is not text")
    return None if found is None else parse_destination(found)


def _said(attributes: Mapping[str, Attribute]) -> dict[str, Any]:
    """The ``flowguard`` attribute; nothing where it cannot be read, which its other readers say."""
    if PLACE not in attributes:
        return {}
    try:
        found = json.loads(attributes[PLACE].value)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _kind(text: str) -> Kind:
    if text not in (Kind.SIDE, Kind.COMPLETE):
        raise ValueError(f"has an {UNSENT!r} of kind {text[:40]!r}; it is side or complete")
    return Kind(text)


def _attributes(found: Mapping[str, Any]) -> dict[str, Attribute]:
    pairs = found.get("attributes") or {}
    if not isinstance(pairs, dict) or not all(_is_pair(pair) for pair in pairs.values()):
        raise ValueError(f"has an {UNSENT!r} whose attributes are not each [type, value]")
    return {name: Attribute(*pair) for name, pair in pairs.items()}


def _is_pair(pair: object) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)


def _group(found: Mapping[str, Any]) -> str | None:
    group = found.get("group")
    if group is not None and not isinstance(group, str):
        raise ValueError(f"has an {UNSENT!r} whose group is not text")
    return group
