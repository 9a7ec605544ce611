"""Copies of a stream's record. A stream brings it again for as long as one before it stays, whatever became of it.

::

    stream   head, which stays ── record ── claim ── its message goes to the queue, as the same attempt ── ack
             head, which stays ── record ── claim: the item says so ── ack
"""

from __future__ import annotations

from flowguard.events import EventType
from flowguard.protocol.claims import found_note, queued_key
from flowguard.protocol.run import Claim
from flowguard.verdicts import Verdict
from flowguard.worker.claim_phase import release
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending, acked
from flowguard.worker.failure import Again
from flowguard.worker.hop_memory import NoPlace, Unsent
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival


def turn_away(services: Services, emitter: Emitter, arrival: Arrival, claim: Claim) -> None:
    """Raise :class:`NoPlace` for a copy of a record whose message a queue has.

    Raises :class:`Unsent` where no queue has taken the next attempt's: the handler was called, and is not called again.
    """
    if claim.item.called_attempt == queued_key(claim.item):
        raise NoPlace(lambda: _copy(services, emitter, arrival, claim))
    note = found_note(claim)
    if note is not None and note.has_failed:
        raise Unsent(note.error, Again(max(0, -((services.clock.now() - note.until) // 1000))))


def _copy(services: Services, emitter: Emitter, arrival: Arrival, claim: Claim) -> Ending:
    """Acknowledge a copy. What the item says of the hop goes back there."""
    release(services, claim, found_note(claim))
    emitter.emit(EventType.DUPLICATE, arrival)
    return acked(arrival, Verdict.DUPLICATE)
