"""What a record of a soak is about: which object, which run and which hop."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from tests.proofs.soak.mapping import Record

FORGED: Final = "forged"
"""The attribute by which a record of the insider is known. flowguard does not know it."""

OF_INSIDER: Final = re.compile("forged-[0-9]+")
"""Its value, wherever it stands in a dead letter: what nobody believes is wrapped whole."""


def place_of(record: Record) -> dict[str, Any]:
    """What its ``flowguard`` attribute says.

    An answer or a deadline names the hop that waits; others, and what is forged, nothing.
    """
    if _said(record, FORGED):
        return {"hop": 0}
    place: dict[str, Any] = json.loads(_said(record, "flowguard") or '{"hop": 0}')
    for kind in ("answer", "deadline"):
        if kind in place:
            return {"object": place[kind]["object"], "hop": place[kind]["hop"], "of": place[kind]["request"]}
    return place


def run_of(record: Record) -> str:
    """The request that it belongs to; of what a party outside or an insider sent, its own id."""
    own = _said(record, FORGED) or place_of(record).get("of") or _said(record, "uniquerequestid")
    return str(own or record["messageId"])


def _said(record: Record, name: str) -> str:
    return str(record["messageAttributes"].get(name, {}).get("stringValue", ""))
