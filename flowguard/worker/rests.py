"""What the run item says of a hop that rests until its next attempt, once the message of that one has gone."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

from flowguard.protocol.run import BackOff, Claim
from flowguard.wire.message import ErrorNote
from flowguard.worker.failure_note import veiled
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival

NOTED_FROM = timedelta(minutes=1)
"""How long a failed attempt's hop must rest for its item to say so."""


def note_rest(services: Services, arrival: Arrival, claim: Claim, note: ErrorNote, delay: int) -> None:
    """Note in the run item why the run rests, for ``delay`` seconds.

    A stream brings the record of the failed attempt again for as long as one before it stays, so the item counts the
    attempt: the record is a duplicate from now on. For all others it is a note for those who look, on which nothing
    depends. It costs a write, so a short rest is not noted. A hop that stood in line has left a look, which begins
    nothing where it finds the note.
    """
    store, now = services.store, services.clock.now()
    back_off = BackOff(veiled(arrival.flow, note), now + delay * 1000)
    is_noted = delay >= NOTED_FROM.total_seconds() or arrival.message.turn is not None
    with suppress(Exception):
        if arrival.envelope.source.is_stream:
            store.release(claim, now, failed=True, rest=back_off)
        elif is_noted and claim.unwritten is None:
            store.back_off(claim, back_off)
