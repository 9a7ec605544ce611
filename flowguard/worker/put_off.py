"""Put a run off for newer requests of its object. Its own request is sent once more with a delay.

::

    request ─ claim ─ release, with the burst ─ the same message, delayed ─ ack
                                                   └ claim ─ handle ─ commit, or a newer request has the object
"""

from __future__ import annotations

from datetime import timedelta

from flowguard.debounce import Debounce
from flowguard.protocol.run import Burst, Claim, RunItem
from flowguard.worker.routing import Arrival

_MS = timedelta(milliseconds=1)


def burst_of(debounce: Debounce, arrival: Arrival, claim: Claim, now: int) -> Burst | None:
    """Return the burst for whose end the claimed hop waits, ``now`` in ms. None for a hop that begins.

    What has no queue is not put off. Clocks differ: nothing rests longer than the flow says from now on.
    """
    message, before = arrival.message, claim.before
    if message.hop > 1 or message.attempt != (0, 0) or arrival.envelope.retried_in_place:
        return None
    if message.cancelled is not None or claim.item.cancelled_because is not None or arrival.problem is not None:
        return None
    burst = None if before is None or has_begun(before) else before.burst
    since = now if burst is None else min(burst.since, now)
    until = min(now + debounce.quiet // _MS, since + debounce.most // _MS)
    if burst is not None and burst.requested_at == message.requested_at:
        until = min(until, burst.until)
    return Burst(since, until, message.requested_at) if now < until else None


def has_begun(item: RunItem) -> bool:
    """Answer whether the first hop of a run was tried. An earlier release leaves the burst in such an item."""
    return item.retry > 0 or item.hop > 1 or item.done
