"""What the records of one invocation meet outside their stages: a service that fails, a network, a setting.

::

    record 1   claim ✗ no answer      comes again after a pause
    record 2   (not begun)            comes again after a pause
    record 3   (not begun)            comes again after a pause
"""

from __future__ import annotations

from collections.abc import Sequence

from flowguard.errors import EnvelopeError, OtherRelease, SendFailed, TooEarly, WriteDenied
from flowguard.events import EventType
from flowguard.flow import AnyFlow
from flowguard.wire.envelope import Envelope
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.patience import minutes, pause
from flowguard.worker.ports import Services
from flowguard.worker.routing import Unroutable

_FOR_MINUTES = (EnvelopeError, OtherRelease, Unroutable, WriteDenied)
"""What may pass with a deployment. Of these, a message that is too early passes with time."""


class Outages:
    """Keeps the records of an invocation from asking again what has failed, and says when they are to come again."""

    def __init__(self, services: Services, emitter: Emitter, flows: Sequence[AnyFlow]) -> None:
        self._services = services
        self._emitter = emitter
        self._flows = flows
        self._why: str | None = None

    def ending(self, envelope: Envelope, error: Exception) -> Ending:
        """Return the ending of a record that has met the error outside a stage."""
        why = f"{type(error).__name__}: {error}"
        if self._services.is_outage(error):
            self._why = why
        for_minutes = isinstance(error, _FOR_MINUTES) and not isinstance(error, TooEarly)
        for_minutes |= isinstance(error, SendFailed) and error.for_minutes
        return Ending(envelope, ack=False, why=why, backs_off=True, for_minutes=for_minutes)

    def left_alone(self, envelope: Envelope) -> Ending | None:
        """Return a record untouched after one that has met an outage. None where nothing has failed."""
        if self._why is None:
            return None
        why = f"what the records need has failed for one before it: {self._why}"
        self._emitter.emit(EventType.RETURNED, None, record=envelope.message_id, why=why)
        return Ending(envelope, ack=False, why=why, backs_off=True)

    def again_in(self, ending: Ending) -> int | None:
        """Return after how many seconds a record is to be seen again. None leaves that to its queue, if it stays."""
        if ending.ack:
            return None
        if not ending.backs_off:
            return ending.again_in
        drawn = minutes if ending.for_minutes else pause
        flows = self._flows if ending.arrival is None else [ending.arrival.flow]
        retention = min(flow.retention for flow in flows)
        return drawn(ending.envelope.receive_count, retention, self._services.draw)
