"""Cancelling: a run at work is fenced, and its next message ends it."""

from __future__ import annotations

from typing import NamedTuple

from flowguard.events import Event, EventType
from flowguard.flow import AnyFlow
from flowguard.ids import ObjectId, RequestId
from flowguard.protocol.outbox import Send
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.message import Message
from flowguard.worker.ports import Services
from flowguard.worker.settler import Settler


class CancelDone(NamedTuple):
    """Whether a run was cancelled, and the message that goes on with a run which waited."""

    cancelled: bool
    send: Send | None = None


class Canceller:
    """Cancels runs. Holds nothing of them afterwards."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._settler = Settler(services)

    def cancel(self, flow: AnyFlow, object_id: ObjectId, by: RequestId, at: int, why: str) -> CancelDone:
        """Cancel the object's run under the id ``by``, unless it was asked for later than ``at`` (ms).

        A run that waits has no message under way, so one is to be sent. Where that is not sent, the deadline of the
        wait comes, or a copy of an answer, and sends it.
        """
        now = self._services.clock.now()
        item = self._services.store.cancellations.cancel(flow.name, object_id, at, why, now)
        if item is None:
            return CancelDone(False)
        about = Message(flow.name, item.stage, item.version, object_id, item.request_id, item.requested_at, "")
        self._services.observer(Event(EventType.WAS_CANCELLED, about._replace(hop=item.hop), {"by": by}))
        address = AnswerAddress(flow.name, object_id, item.request_id, item.requested_at, item.hop, "")
        next_hop = self._settler.next_hop(flow, address, item)
        return CancelDone(True, None if next_hop is None else next_hop[1])
