"""Put a run off for newer requests of its object. Its own request is sent once more with a delay.

::

    request ─ claim ─ release, with the burst ─ the same message, delayed ─ ack
                                                   └ claim ─ handle ─ commit, or a newer request has the object
"""

from __future__ import annotations

from datetime import timedelta

from flowguard.debounce import Debounce
from flowguard.errors import TooLarge
from flowguard.protocol.run import Burst, Claim, RunItem
from flowguard.wire.signing import Signer
from flowguard.worker.plan import retried
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
    quiet, most = debounce.quiet // _MS, debounce.most // _MS
    since, until = now, now + quiet
    if before is not None and (burst := before.burst) is not None:
        if burst.requested_at == message.requested_at:
            since, until = burst.since, min(until, burst.until)
        elif not is_over(before, burst, now - quiet):
            since = min(since, burst.since)
            until = min(until, since + most)
    return Burst(since, until, message.requested_at) if now < until else None


def comes_back(arrival: Arrival, signer: Signer) -> bool:
    """Answer whether the record can be sent once more. One of a stream may be larger than any queue takes.

    It begins at once: left where it is, it would keep its shard waiting.
    """
    if arrival.envelope.queue_arn is not None:
        return True
    (_, inbox), message = arrival.flow.entrance(), arrival.message
    try:
        retried(message, arrival.envelope, 0, signer, continued=0, inbox=inbox)
    except TooLarge:
        return False
    return True


def is_over(item: RunItem, burst: Burst, quiet_since: int) -> bool:
    """Answer whether another request's burst is over.

    Its run has begun, or nothing came for long after its end.

    An earlier release, which knows of no burst, leaves it in the item of a run that has gone on.
    """
    has_begun = item.lease_until >= burst.until or item.retry > 0 or item.hop > 1 or item.done
    return has_begun or burst.until <= quiet_since
