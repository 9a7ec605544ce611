"""The order to reset a flow's run, as a message brings it: in the ``flowguard`` attribute, under ``reset``."""

from __future__ import annotations

import json

from flowguard.names.ids import ObjectId, RequestId
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import PLACE, REQUEST_ID, REQUESTED_AT
from flowguard.wire.signing import Signer

RESET = "reset"
"""The key of the place, and the name in its address, which belongs to no run that waits."""


def reset_attributes(flow: str, object_id: ObjectId, own: str, at: int, signer: Signer) -> dict[str, Attribute]:
    """Return the attributes of an order of this id and time (ms), signed where messages are."""
    address = AnswerAddress(flow, object_id, RequestId(own), at, 1, RESET)
    signed = address._replace(signature=signer.sign(address.statement))
    return {
        REQUEST_ID: Attribute.string(own),
        REQUESTED_AT: Attribute.number(at),
        PLACE: Attribute.string(json.dumps({RESET: signed.as_json()}, separators=(",", ":"))),
    }


def read_reset(place: str) -> AnswerAddress | None:
    """Read the order in a place's text. None for a message that is none. Raises ValueError for one that is broken."""
    if f'"{RESET}"' not in place:
        return None
    try:
        data = json.loads(place)
    except (ValueError, RecursionError):
        return None  # its other reader says so
    if not isinstance(data, dict) or not isinstance(data.get(RESET), dict):
        return None
    return AnswerAddress.parse({**data[RESET], "name": RESET})
