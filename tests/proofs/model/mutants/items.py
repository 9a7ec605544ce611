"""What a claim leaves in the item, and how long the item lives."""

from __future__ import annotations

from collections.abc import Callable

from flowguard.protocol import claims
from flowguard.protocol.run import ClaimRequest, RunItem
from flowguard.worker.lifetimes import Lifetimes
from tests.proofs.model.mutants.mutant import Mutant, Patch

_TAKEN = claims.taken


def _left_as(change: Callable[[RunItem | None, ClaimRequest, RunItem], RunItem]) -> Patch:
    """``taken`` with a change of what it answers."""

    def taken(item: RunItem | None, request: ClaimRequest) -> RunItem:
        return change(item, request, _TAKEN(item, request))

    return claims, "taken", taken


def _old_outbox(item: RunItem | None, request: ClaimRequest, after: RunItem) -> RunItem:
    return after._replace(outbox=item.outbox if item is not None else None)


def _old_state(item: RunItem | None, request: ClaimRequest, after: RunItem) -> RunItem:
    return after._replace(state=item.state if item is not None else None)


ITEMS = (
    Mutant(
        "outbox-kept",
        "the claim of a later hop keeps the outbox",
        (_left_as(_old_outbox),),
        harmless="what carried the run on came last, so these were copies: clearing them saves their bytes",
    ),
    Mutant(
        "outbox-dropped",
        "a takeover drops the outbox",
        (_left_as(lambda item, request, after: after._replace(outbox=None)),),
        caught_by="newer-fails",
    ),
    Mutant(
        "epoch-back",
        "a claim begins the epoch anew",
        (_left_as(lambda item, request, after: after._replace(epoch=1)),),
        caught_by="chain",
    ),
    Mutant(
        "state-kept", "a takeover begins with the old run's state", (_left_as(_old_state),), caught_by="newer-fails"
    ),
    Mutant(
        "state-lost",
        "a later hop begins with an empty state",
        (_left_as(lambda item, request, after: after._replace(state=None)),),
        caught_by="calm",
    ),
    Mutant(
        "done-kept",
        "a later hop begins as done",
        (_left_as(lambda item, request, after: after._replace(done=bool(item and item.done))),),
        caught_by="calm",
    ),
    Mutant(
        "one-retention",
        "an item lives for one retention",
        ((Lifetimes, "of_run", lambda lifetimes, moment: moment + lifetimes.retention),),
        caught_by="retention",
    ),
)
