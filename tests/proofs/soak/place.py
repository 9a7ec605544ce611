"""What a record of a soak is about: which object, which run and which hop."""

from __future__ import annotations

import json
from typing import Any

from tests.proofs.soak.mapping import Record


def place_of(record: Record) -> dict[str, Any]:
    """What its ``flowguard`` attribute says. An answer or a deadline names the hop that waits; others nothing."""
    place: dict[str, Any] = json.loads(_said(record, "flowguard") or '{"hop": 0}')
    for kind in ("answer", "deadline"):
        if kind in place:
            return {"object": place[kind]["object"], "hop": place[kind]["hop"], "of": place[kind]["request"]}
    return place


def run_of(record: Record) -> str:
    """The request that it belongs to; of what a party outside sent, the message's own id."""
    return str(place_of(record).get("of") or _said(record, "uniquerequestid") or record["messageId"])


def _said(record: Record, name: str) -> str:
    return str(record["messageAttributes"].get(name, {}).get("stringValue", ""))
