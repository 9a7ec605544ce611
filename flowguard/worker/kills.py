"""Functions that were killed at a hop, counted where they are seen: by the claim that finds a lease of its own attempt.

::

    worker 1   claim ── killed ─✗
    worker 2   the lease is over ── claim: one was killed, noted in the item ── killed ─✗
    worker 3   the lease is over ── claim: two were killed ── an outage: it gives the claim back
    worker 4   claim: two were killed, for worker 3 was not
"""

from __future__ import annotations

from typing import Final

from flowguard.errors import RunFailed
from flowguard.protocol.claims import kills_before
from flowguard.protocol.run import Claim
from flowguard.worker.ports import Store
from flowguard.worker.routing import Arrival

MOST_KILLS: Final = 5
"""After so many the hop has failed for good."""

ENOUGH_KILLS: Final = 2
"""So many are enough for a record that SQS has given up: all its receives are used up."""


def counted(claim: Claim) -> Claim:
    """Return the claim with the workers of its attempt that were killed before. A hop that was only read has none."""
    kills = 0 if claim.unwritten is not None else kills_before(claim.before, claim.message, claim.item.owner)
    return claim if kills == claim.item.kills else claim._replace(item=claim.item._replace(kills=kills))


def with_kills(store: Store, arrival: Arrival, claim: Claim) -> Arrival:
    """Note the workers that were killed at this hop before. After too many of them it has failed.

    No code of the user runs before: an observer that kills its process is counted as a handler that does.
    """
    if not (kills := claim.item.kills):
        return arrival
    store.note_kills(claim)
    return arrival if kills < MOST_KILLS else arrival._replace(problem=killed(kills))


def killed(kills: int) -> RunFailed:
    """Return why a hop has failed whose function was killed so often."""
    why = "it ran out of time or memory, or its process died; its log says more"
    return RunFailed(f"the function was killed {kills} times while it handled this message: {why}")
