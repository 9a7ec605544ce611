"""The records of one invocation. Each goes its own way, their messages are sent together, none harms another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from flowguard.errors import EnvelopeError, RunFailed, Untrusted
from flowguard.events import EventType
from flowguard.wire.envelope import Envelope
from flowguard.worker.cancelling import Canceller, find_cancel
from flowguard.worker.dispatch import dispatch
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.ports import Budget, Services
from flowguard.worker.resets import Resetter, find_reset
from flowguard.worker.routing import Arrival, Routes, Unroutable
from flowguard.worker.runtime import Runtime
from flowguard.worker.settler import Settler, find_arrived
from flowguard.worker.trust import Trust

DISPATCH_RESERVE_MS = 1_000
"""Kept of an invocation for sending what was committed: no further record is begun when less is left."""

WARNING_MS = 1_000
"""How long before its end an invocation warns that it will be cut off."""


class Batch:
    """Takes the envelopes of one invocation through the flows of one function.

    ``from_dlq`` is for the function of a dead-letter queue: SQS moved these records there, so their runs are ended.
    ``function_arn`` is the function's own, where Lambda says it. ``weak_flows`` are the flows that the function has
    warned of before, because their senders name no requests.
    """

    def __init__(
        self,
        routes: Routes,
        services: Services,
        budget: Budget,
        *,
        from_dlq: bool = False,
        function_arn: str | None = None,
        weak_flows: set[str] | None = None,
    ) -> None:
        self._weak_flows: set[str] = set() if weak_flows is None else weak_flows
        self._routes = routes
        self._services = services
        self._budget = budget
        self._from_dlq = from_dlq
        self._trust = Trust(services.signer, function_arn)
        self._emitter = Emitter(services.observer)
        self._settler = Settler(services)
        self._resetter = Resetter(services)
        self._canceller = Canceller(services)
        self._runtime = Runtime(services, self._emitter)
        self._now_at: Arrival | None = None

    def run(self, envelopes: Sequence[Envelope]) -> list[Ending]:
        """Process the envelopes and return their endings in order. Those that say ``ack`` are done with.

        Of a FIFO queue each record's messages are sent before the next record is begun, and after one that stays in
        its queue the rest of its group stays too, untouched.
        """
        endings: list[Ending] = []
        held: set[tuple[str | None, str | None]] = set()
        with self._warning():
            for envelope in envelopes:
                group = (envelope.queue_arn, envelope.group_id) if envelope.is_fifo else None
                if group in held:
                    endings.append(self._returned(envelope, "a record before it in its group stays in the queue"))
                    continue
                ending = self._ending(envelope, first=not endings)
                if group is not None:
                    [ending] = dispatch(self._services, self._emitter, [ending])
                    ending = ending._replace(sends=())
                    held.update(() if ending.ack else {group})
                endings.append(ending)
            return dispatch(self._services, self._emitter, endings)

    def _ending(self, envelope: Envelope, *, first: bool) -> Ending:
        """Take one envelope through its stage. Whatever goes wrong outside a stage leaves the record in its queue."""
        arrival: Arrival | None = None
        try:
            if (order := find_reset(envelope)) is not None:
                return self._resetter.ending(envelope, self._routes.flow(order.flow), order)
            if (wanted := find_cancel(envelope)) is not None:
                return self._canceller.ending(envelope, self._routes.flow(wanted.address.flow), wanted)
            if (arrived := find_arrived(envelope)) is not None:
                return self._settler.ending(envelope, self._routes.flow(arrived.address.flow), arrived)
            arrival = self._now_at = self._arrival(envelope)
            if not first and not self._has_time(arrival):
                return self._returned(envelope, "not enough time was left to begin it")
            with self._emitter.working_on(arrival):
                return self._runtime.work(arrival, self._budget)
        except Exception as error:  # a service, the network, a setting: kept, reported, delivered again by the queue
            why = f"{type(error).__name__}: {error}"
            self._emitter.emit(_event_of(error), arrival, record=envelope.message_id, **_field(error), why=why)
            return Ending(envelope=envelope, ack=False, why=why)

    def _arrival(self, envelope: Envelope) -> Arrival:
        arrival = self._routes.resolve(envelope, self._services.clock.now(), self._trust)
        if arrival.weak_id and arrival.flow.name not in self._weak_flows:
            self._weak_flows.add(arrival.flow.name)
            self._emitter.emit(EventType.WEAK_ID, arrival)
        if self._from_dlq and arrival.problem is None:
            why = (
                "SQS gave the message up: each time it was delivered its function was killed, could not answer, or its "
                "stage failed and left it there (FIFO, or no queue to retry in); the function's log says which"
            )
            return arrival._replace(problem=RunFailed(why))
        return arrival

    def _has_time(self, arrival: Arrival) -> bool:
        left = self._budget.remaining()
        if left is None:
            return True
        timeout = arrival.stage.timeout if arrival.stage is not None else None
        return left > DISPATCH_RESERVE_MS + (timeout or timedelta(0)) // timedelta(milliseconds=1)

    def _returned(self, envelope: Envelope, why: str) -> Ending:
        self._emitter.emit(EventType.RETURNED, None, record=envelope.message_id, why=why)
        return Ending(envelope=envelope, ack=False, why=why)

    @contextmanager
    def _warning(self) -> Iterator[None]:
        """Warn shortly before the invocation is cut off, naming the message that it is in the middle of."""
        left = self._budget.remaining()
        if left is None:
            yield
            return
        call_off = self._services.alarm(
            max(left - WARNING_MS, 0), lambda: self._emitter.emit(EventType.TIME_SHORT, self._now_at, ms=WARNING_MS)
        )
        try:
            yield
        finally:
            call_off()


def _field(error: Exception) -> dict[str, str]:
    return {"field": error.field} if isinstance(error, Untrusted) else {}


def _event_of(error: Exception) -> EventType:
    if isinstance(error, Unroutable):
        return EventType.UNROUTABLE
    if isinstance(error, Untrusted):
        return EventType.UNTRUSTED
    return EventType.UNREADABLE if isinstance(error, EnvelopeError) else EventType.BROKEN
