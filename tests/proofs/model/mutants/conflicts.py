"""Claims by another request than that which has the object."""

from __future__ import annotations

from flowguard.protocol import claims
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import ENDED, ClaimRequest, RunItem
from flowguard.verdicts import Verdict
from tests.proofs.model.mutants.mutant import Mutant
from tests.proofs.model.mutants.told import When, told


def _is_another(item: RunItem, request: ClaimRequest) -> bool:
    return item.request_id != request.message.request_id


def _is_at_work(item: RunItem, request: ClaimRequest) -> bool:
    return _is_another(item, request) and item.status not in ENDED


def _has_ended(item: RunItem, request: ClaimRequest) -> bool:
    return _is_another(item, request) and item.status in ENDED


_IGNORES: When = lambda item, request: request.on_conflict is OnConflict.IGNORE  # noqa: E731


def _both(one: When, other: When) -> When:
    return lambda item, request: one(item, request) and other(item, request)


CONFLICTS = (
    Mutant(
        "older-wins",
        "an older request takes the object",
        (told(Verdict.STALE, Verdict.CLAIMED),),
        caught_by="newer-fails",
    ),
    Mutant(
        "no-supersede",
        "a newer request is dropped",
        (told(Verdict.CLAIMED, Verdict.STALE, _is_another),),
        caught_by="newer-fails",
    ),
    Mutant(
        "ignore-never",
        "with IGNORE a newer request takes a run at work",
        (told(Verdict.IGNORED, Verdict.CLAIMED),),
        caught_by="ignore",
    ),
    Mutant(
        "ignore-ended",
        "with IGNORE a run that has ended keeps the object",
        (told(Verdict.CLAIMED, Verdict.IGNORED, _both(_IGNORES, _has_ended)),),
        caught_by="ignore-later",
    ),
    Mutant(
        "ignore-abandoned",
        "with IGNORE a dead run keeps the object",
        (told(Verdict.CLAIMED, Verdict.IGNORED, _both(_IGNORES, _is_at_work)),),
        caught_by="ignore",
    ),
    Mutant(
        "ignore-ended-abandoned",
        "with IGNORE a run that has ended long ago is taken for abandoned",
        ((claims, "is_abandoned", lambda item, request: item.lease_until < request.abandoned_before),),
        caught_by="ignore",
    ),
)
