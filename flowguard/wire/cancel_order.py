"""The order to cancel a flow's run, as a message brings it.

It stands in the ``flowguard`` attribute under ``cancel``."""

from __future__ import annotations

import json
from typing import NamedTuple

from flowguard.names.ids import ObjectId, RequestId
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute
from flowguard.wire.cancel_reason import read_reason
from flowguard.wire.message import FLOW_STAGE, PLACE, REQUEST_ID, REQUESTED_AT
from flowguard.wire.signing import Signer

CANCEL = "cancel"
"""The key of the place, and the name in its address, which belongs to no run that waits."""


class CancelOrder(NamedTuple):
    """An order to cancel. ``address`` has the flow, the object, and the order's own id and time."""

    address: AnswerAddress
    why: str

    @property
    def statement(self) -> str:
        """Return what a signature covers, unambiguous and in ASCII."""
        return json.dumps([self.address.statement, self.why], separators=(",", ":"))


def cancel_attributes(
    flow: str, stage: str, object_id: ObjectId, own: str, at: int, why: str, signer: Signer
) -> dict[str, Attribute]:
    """Return the attributes of an order of this id and time (ms), signed where messages are.

    It goes where the requests of ``stage`` do, and names that stage as they do: an inbox may filter by it.
    """
    order = CancelOrder(AnswerAddress(flow, object_id, RequestId(own), at, 1, CANCEL), why)
    signed = order.address._replace(signature=signer.sign(order.statement))
    place = {CANCEL: {**signed.as_json(), "why": why}}
    return {
        REQUEST_ID: Attribute.string(own),
        REQUESTED_AT: Attribute.number(at),
        FLOW_STAGE: Attribute.string(f"{flow}/{stage}"),
        PLACE: Attribute.string(json.dumps(place, separators=(",", ":"))),
    }


def read_cancel(place: str) -> CancelOrder | None:
    """Read the order in a place's text. None for a message that is none. Raises ValueError for one that is broken."""
    if f'"{CANCEL}"' not in place:
        return None
    try:
        data = json.loads(place)
    except (ValueError, RecursionError):
        return None  # its other reader says so
    if not isinstance(data, dict) or not isinstance(data.get(CANCEL), dict):
        return None
    said = data[CANCEL]
    return CancelOrder(AnswerAddress.parse({**said, "name": CANCEL}), read_reason(said.get("why")))
