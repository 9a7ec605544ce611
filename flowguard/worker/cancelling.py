"""Cancelling fences a run at work, and its next message ends it."""

from __future__ import annotations

from flowguard.events import Event, EventType
from flowguard.flow import AnyFlow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.outbox import Send
from flowguard.protocol.run import ENDED, Refused, RunItem, RunName
from flowguard.protocol.run_orders import CancelOrder
from flowguard.startup.named_tuple import NamedTuple
from flowguard.verdicts import Verdict
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import Message
from flowguard.worker.ending import Ending, acked, kept
from flowguard.worker.lifetimes import lifetimes_of
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival
from flowguard.worker.settler import Settler


class CancelDone(NamedTuple):
    """The run that is cancelled, and the message that goes on with one which waited. ``item`` is None for no run."""

    item: RunItem | None
    onward: tuple[Message, Send] | None = None


class _Cancelled(NamedTuple):
    """The run that is cancelled, and the address of what it may wait for."""

    address: AnswerAddress
    item: RunItem


def is_for_its_run(message: Message, refused: Refused) -> bool:
    """Answer whether it is a request that comes once more, as cancelled, and whose run has the object and goes on."""
    item = refused.item
    if message.cancelled is None or item is None or item.status in ENDED or item.own_failure is not None:
        return False
    return (item.request_id, item.requested_at) == (message.request_id, message.requested_at)


class Canceller:
    """Cancels runs. Holds nothing of them afterwards."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._settler = Settler(services)

    def ending(self, envelope: Envelope, flow: AnyFlow, order: CancelOrder) -> Ending:
        """Carry out the order that a record brings. One that comes twice changes nothing more.

        A reader of the queue can send it again. It is for the run that had the object when it came first, whatever
        has the object then. One that is older than any copy of it can be changes nothing.
        """
        address, now, lifetimes = order.address, self._services.clock.now(), lifetimes_of(flow)
        if lifetimes.of_order(address.requested_at) <= now:
            return Ending(envelope, ack=True)
        by = RunName(address.request_id, address.requested_at)
        known_until = lifetimes.of_order_row(max(address.requested_at, now))
        run = self._services.store.cancellations.run_of(flow.name, address.object_id, by, known_until)
        if run is None:
            return Ending(envelope, ack=True)
        cancelled = self._cancelled(flow, address.object_id, *by, order.why, only=run)
        onward = None if cancelled is None else self._settler.onward(flow, envelope, *cancelled)
        if onward is None:
            return Ending(envelope, ack=True)
        return Ending(envelope, ack=True, arrival=onward[0], sends=(onward[1],))

    def of_request(self, arrival: Arrival, verdict: Verdict) -> Ending:
        """Cancel the run of a request that comes once more, as cancelled, and is not claimed so.

        One that a worker has in its first hop is ended by this record or by the worker's own, whichever comes first:
        the other may never have been sent.
        """
        m = arrival.message
        done = self._cancelled(
            arrival.flow, m.object_id, m.request_id, m.requested_at, str(m.cancelled), only=m.request_id
        )
        if verdict is Verdict.BUSY:
            left = 0 if done is None else done.item.lease_until - self._services.clock.now()
            seconds = max(1, -(-left // 1000))
            self._services.sender.postpone(arrival.envelope, seconds)
            return kept(arrival, verdict, f"its run is cancelled, and ends in {seconds} s")
        onward = None if done is None else self._settler.onward(arrival.flow, arrival.envelope, *done)
        return acked(arrival, verdict, () if onward is None else (onward[1],))

    def cancel(
        self, flow: AnyFlow, object_id: ObjectId, by: RequestId, at: int, why: str, only: RunName | None = None
    ) -> CancelDone:
        """Cancel the object's run under the id ``by``, unless it was asked for later than ``at`` (ms).

        ``only`` restricts that to one run.

        A run that waits has no message under way, so one is to be sent. Where that is not sent, the deadline of the
        wait comes, or a copy of an answer, and sends it.
        """
        done = self._cancelled(flow, object_id, by, at, why, only=only)
        return CancelDone(None) if done is None else CancelDone(done.item, self._settler.next_hop(flow, *done))

    def _cancelled(
        self,
        flow: AnyFlow,
        object_id: ObjectId,
        by: RequestId,
        at: int,
        why: str,
        *,
        only: RequestId | RunName | None = None,
    ) -> _Cancelled | None:
        """Cancel the run of the object. ``only`` restricts that to one run, or to the run of one request."""
        now = self._services.clock.now()
        item = self._services.store.cancellations.cancel(flow.name, object_id, at, why, now, only)
        if item is None:
            return None
        about = Message(flow.name, item.stage, item.version, object_id, item.request_id, item.requested_at, "")
        self._services.observer(Event(EventType.WAS_CANCELLED, about._replace(hop=item.hop), {"by": by}))
        address = AnswerAddress(flow.name, object_id, item.request_id, item.requested_at, item.hop, "")
        return _Cancelled(address, item)
