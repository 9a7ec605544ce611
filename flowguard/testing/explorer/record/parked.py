"""Sends that a destination refused for good as they lie among the dead letters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from flowguard.destinations import Bus, Destination, Function, Queue, Topic, parse_destination
from flowguard.sim.sends import Posted
from flowguard.wire.attributes import Attribute


@dataclass(frozen=True, slots=True)
class Parked:
    """A parked send. ``letter`` is the message among the dead letters and ``to`` is written as in an outbox."""

    letter: Posted
    kind: str
    to: str
    id: str
    attributes: Mapping[str, Attribute]
    group: str | None

    def as_sent(self) -> Posted:
        """Return the message as its receiver would have had it."""
        to, body = parse_destination(self.to), self.letter.body
        if isinstance(to, Function):
            body = json.dumps({"Records": [{"body": body}]})
        return Posted(to=_address(to), body=body, call=self.letter.call, attributes=self.attributes, group=self.group)


def _address(to: Destination) -> str:
    """Return a destination's address as a posted message has it."""
    match to:
        case Queue():
            return f"sqs:{to.short_name}"
        case Topic():
            return f"sns:{to.arn.rpartition(':')[2]}"
        case Bus():
            return f"events:{to.name}"
        case Function():
            return f"lambda:{to.name}"
        case _:
            assert_never(to)


def parked(letter: Posted) -> Parked | None:
    """Read a letter. None for every other message."""
    said = letter.unsent
    if said is None:
        return None
    attributes = {name: Attribute(*pair) for name, pair in said.get("attributes", {}).items()}
    return Parked(letter, said["kind"], said["to"], said["id"], attributes, said.get("group"))
