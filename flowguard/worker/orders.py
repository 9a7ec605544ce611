"""Read the answers, deadlines and orders that are for a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from flowguard.flow import AnyFlow
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.envelope import Envelope
from flowguard.worker.believed import RecordKind
from flowguard.worker.cancelling import Canceller, find_cancel
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.group_asks import GroupAsks, find_group
from flowguard.worker.ports import Services
from flowguard.worker.resets import Resetter, find_reset
from flowguard.worker.routing import Routes
from flowguard.worker.settler import Settler, find_arrived
from flowguard.worker.trust import SignedOrder, Trust, signed_order


class RunOrder(NamedTuple):
    """What is for a run and no stage's message. ``ending`` carries it out."""

    address: AnswerAddress
    ending: Callable[[], Ending]


class Orders:
    """Reads and believes the orders among the records of one invocation."""

    def __init__(self, routes: Routes, services: Services, trust: Trust, emitter: Emitter) -> None:
        self._routes = routes
        self._trust = trust
        self._settler = Settler(services)
        self._resetter = Resetter(services)
        self._canceller = Canceller(services)
        self._group_asks = GroupAsks(services, emitter)

    def find(self, envelope: Envelope) -> RunOrder | None:
        """Find the order, answer or deadline that the record is. None for a stage's message.

        Raises :class:`Untrusted` for one that is not believed from where it came, or as it is signed.
        """
        if (reset := find_reset(envelope)) is not None:
            flow = self._believed(envelope, reset.flow, signed_order(RecordKind.RESET, reset))
            return RunOrder(reset, partial(self._resetter.ending, envelope, flow, reset))
        if (wanted := find_cancel(envelope)) is not None:
            signed = SignedOrder(RecordKind.CANCEL, wanted.statement, wanted.address.signature)
            flow = self._believed(envelope, wanted.address.flow, signed)
            return RunOrder(wanted.address, partial(self._canceller.ending, envelope, flow, wanted))
        if (order := find_group(envelope)) is not None:
            flow = self._believed(envelope, order.address.flow, signed_order(RecordKind.GROUP, order.address))
            return RunOrder(order.address, partial(self._group_asks.ending, envelope, flow, order))
        if (arrived := find_arrived(envelope)) is not None:
            signed = SignedOrder(arrived.said, arrived.statement, arrived.address.signature)
            flow = self._believed(envelope, arrived.address.flow, signed)
            return RunOrder(arrived.address, partial(self._settler.ending, envelope, flow, arrived))
        return None

    def _believed(self, envelope: Envelope, flow_name: str, order: SignedOrder) -> AnyFlow:
        flow = self._routes.flow(flow_name)
        self._trust.check_order(envelope, flow, order, self._routes.queues)
        return flow
