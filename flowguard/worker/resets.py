"""Resets of a run at work, and of a kept result."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from flowguard.errors import RunFailed
from flowguard.events import Event, EventType
from flowguard.flow import AnyFlow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.run import ENDED, ResetOnce
from flowguard.protocol.run_orders import ResetOrder
from flowguard.startup.named_tuple import NamedTuple
from flowguard.verdicts import ResetVerdict
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import Message
from flowguard.worker.ending import Ending
from flowguard.worker.lifetimes import lifetimes_of
from flowguard.worker.ports import Services
from flowguard.worker.replies import takes_callers
from flowguard.worker.restart import Restart, needs_restart, restart_of
from flowguard.worker.routing import Arrival

GOOD_FOR: Final = timedelta(days=1)
"""A run that is asked for so long after an order was made has read what the order's commit wrote.

Between the two lies the rest of one invocation, and by how far clocks differ. An order that comes late drops nothing
that was made since, and one that is sent again, by somebody who reads the queue, nothing at all.
"""


class ResetDone(NamedTuple):
    """What a reset has changed, and the message that is to be sent for it."""

    verdict: ResetVerdict
    restart: Restart | None = None


class Resetter:
    """Resets runs of one function's flows, or of a client's. Holds nothing of them afterwards."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def ending(self, envelope: Envelope, flow: AnyFlow, order: ResetOrder) -> Ending:
        """Carry out the order that a record brings, as of now. One that comes twice sends the same restart.

        The order was made before its commit and sent after it. A run that was requested in between may have read what
        the commit replaced, so it is reset too.
        """
        address, now, lifetimes = order.address, self._services.clock.now(), lifetimes_of(flow)
        at = max(address.requested_at, now)
        latest = min(at, address.requested_at + GOOD_FOR // timedelta(milliseconds=1))
        if lifetimes.of_order(address.requested_at) <= now:
            return Ending(envelope, ack=True, verdict=ResetVerdict.NOTHING)
        once = ResetOnce(latest, lifetimes.of_order_row(at))
        done = self.reset(flow, address.object_id, address.request_id, at, once)
        if done.restart is None:
            return Ending(envelope, ack=True, verdict=done.verdict)
        arrival = Arrival(envelope, flow, None, done.restart.message)
        return Ending(envelope, ack=True, verdict=done.verdict, arrival=arrival, sends=(done.restart.send,))

    def reset(
        self, flow: AnyFlow, object_id: ObjectId, by: RequestId, at: int, once: ResetOnce | None = None
    ) -> ResetDone:
        """Reset the object's run under the id ``by``, as of ``at`` (ms): by an order that counts ``once``, or at once.

        Raises :class:`RunFailed` for a flow that takes no callers.
        """
        if not takes_callers(flow):
            fix = "say on_conflict=ATTACH or keep_result=…; under SUPERSEDE a newer request begins the work anew"
            raise RunFailed(f"{flow.name} keeps no result that could be reset; {fix}")
        item = self._services.store.callers.reset(flow.name, object_id, by, at, self._services.clock.now(), once)
        if item is None:
            return ResetDone(ResetVerdict.NOTHING)
        verdict = ResetVerdict.DROPPED if item.status in ENDED else ResetVerdict.RESTARTED
        restart = restart_of(flow, object_id, item, self._services.signer) if needs_restart(item) else None
        about = Message(flow.name, item.stage, item.version, object_id, item.request_id, item.requested_at, "")
        facts = {"verdict": verdict.value, "by": by}
        self._services.observer(Event(EventType.WAS_RESET, about._replace(hop=item.hop), facts))
        return ResetDone(verdict, restart)
