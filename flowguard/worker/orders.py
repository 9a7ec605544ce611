"""Carry out the answers, deadlines and orders that records bring for runs."""

from __future__ import annotations

from typing import assert_never

from flowguard.flow import AnyFlow
from flowguard.protocol.group_cancel import GroupCancelOrder
from flowguard.protocol.run_orders import (
    ArrivedAnswer,
    ArrivedDeadline,
    CancelOrder,
    GroupOrder,
    ResetOrder,
    RunOrder,
)
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import PLACE
from flowguard.worker.cancelling import Canceller
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.group_asks import GroupAsks
from flowguard.worker.group_cancels import GroupCancels
from flowguard.worker.ports import Services
from flowguard.worker.record_sources import NamedQueues
from flowguard.worker.resets import Resetter
from flowguard.worker.routing import check_not_ahead
from flowguard.worker.settler import Settler
from flowguard.worker.trust import Trust


class Orders:
    """Carries out what is for a run and no stage's message, once that is believed. ``queues`` are of the function."""

    def __init__(self, services: Services, emitter: Emitter, trust: Trust, queues: NamedQueues) -> None:
        self._trust = trust
        self._queues = queues
        self._clock = services.clock
        self._settler = Settler(services)
        self._resetter = Resetter(services)
        self._canceller = Canceller(services)
        self._group_asks = GroupAsks(services, emitter)
        self._group_cancels = GroupCancels(services, emitter)

    def ending(self, envelope: Envelope, flow: AnyFlow, order: RunOrder) -> Ending:
        """Carry it out, and return the ending of its record.

        Raises :class:`Untrusted` for one that is not believed from where it came, or as it is signed, and
        :class:`flowguard.errors.EnvelopeError` for an order of its own time that lies ahead.
        """
        self._trust.check_order(envelope, flow, order, self._queues)
        if isinstance(order, CancelOrder | ResetOrder):  # their time is their own, and says how long copies count
            check_not_ahead(order.address.requested_at, f"attributes.{PLACE}.at", envelope, self._clock.now())
        match order:
            case ArrivedAnswer() | ArrivedDeadline():
                return self._settler.ending(envelope, flow, order)
            case GroupOrder():
                return self._group_asks.ending(envelope, flow, order)
            case GroupCancelOrder():
                return self._group_cancels.ending(envelope, flow, order)
            case CancelOrder():
                return self._canceller.ending(envelope, flow, order)
            case ResetOrder():
                return self._resetter.ending(envelope, flow, order)
            case _:
                assert_never(order)
