"""Answers and deadlines: messages that reach a flow's functions and are for no stage. They settle a wait."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import PLACE
from flowguard.worker.wait_planner import ANSWER, DEADLINE


def address_in(attributes: Mapping[str, Attribute]) -> AnswerAddress | None:
    """Return the address that an answer or deadline carries.

    None for a stage's message, and for an address that cannot be read.
    """
    found = attributes.get(PLACE)
    return None if found is None else _address(found.value)


@lru_cache(maxsize=1024)
def _address(text: str) -> AnswerAddress | None:
    try:
        place = json.loads(text)
        said = [place[key] for key in (ANSWER, DEADLINE) if key in place] if isinstance(place, dict) else []
        return AnswerAddress.parse(said[0]) if said else None
    except (ValueError, RecursionError):
        return None


def is_deadline(address: AnswerAddress) -> bool:
    """Answer whether the address is that of a deadline."""
    return address.name == DEADLINE
