"""Attempts of FIFO records, which the item counts."""

from __future__ import annotations

from typing import Any

from flowguard.protocol.run import Claim, RunItem
from flowguard.worker import claim_phase
from flowguard.worker.asks import Claiming
from flowguard.worker.claimed_again import goes_on
from tests.proofs.model import actions
from tests.proofs.model.mutants.mutant import Mutant
from tests.proofs.model.written import released


def _asking_once_more(self: Any, arrival: Any, budget: Any) -> Any:
    claim = yield Claiming(self.request(arrival, budget))
    if arrival.envelope.is_fifo and (onward := goes_on(arrival, claim)) is not None:
        arrival = onward
        claim = yield Claiming(self.request(arrival, budget))
    return arrival, claim


def _released_at_zero(item: RunItem, claim: Claim, now: int, *, failed: bool) -> RunItem:
    return released(item, claim, now, failed=failed)._replace(lease_until=0)


FIFO = (
    Mutant(
        "release-lost",
        "a failed attempt of a FIFO record is not counted",
        ((actions, "released", lambda item, claim, now, failed: item._replace(lease_until=now)),),
        caught_by="fifo-used-up",
    ),
    Mutant(
        "release-at-zero",
        "a release ends the lease at the beginning of time, so that the run looks abandoned",
        ((actions, "released", _released_at_zero),),
        caught_by="fifo-ignore",
    ),
    Mutant(
        "fifo-duplicate",
        "a FIFO record does not ask as the attempt that the item has come to",
        ((claim_phase, "goes_on", lambda arrival, claim: None),),
        caught_by="fifo",
    ),
    Mutant(
        "fifo-once-more",
        "a FIFO record asks only once more, whatever fails meanwhile",
        ((claim_phase.ClaimPhase, "claim", _asking_once_more),),
        caught_by="fifo-again",
    ),
)
