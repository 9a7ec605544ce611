"""Hops without a lease: what their commits ask, and what is done when that does not hold."""

from __future__ import annotations

from typing import Any

from flowguard.protocol import claims
from flowguard.protocol.run import Claim, ClaimRequest, Commit, Refused, RunItem
from flowguard.verdicts import Verdict
from flowguard.worker import claim_phase, commit_phase
from tests.proofs.model.actions import Environment
from tests.proofs.model.mutants.mutant import Mutant

_WRITE = commit_phase.CommitPhase.write
_TAKEN = claims.taken


def _compares(*parts: str) -> Environment:
    return Environment(read_fence=frozenset(parts))


def _acks_moved(self: Any, arrival: Any, claim: Claim, commit: Any) -> Any:
    written = yield from _WRITE(self, arrival, claim, commit)
    return Refused(Verdict.DUPLICATE, None) if written is None else written


def _is_seen(claim: Claim, commit: Commit) -> bool:
    return False


def _never_too_late(claim: Claim, now: int, retention: int) -> bool:
    return False


def _never_claims(claim: Claim) -> bool:
    return False


def _keeps_epoch(item: RunItem | None, request: ClaimRequest) -> RunItem:
    after = _TAKEN(item, request)
    return after if item is None else after._replace(epoch=item.epoch)


UNLEASED = (
    Mutant(
        "unleased-blind",
        "a commit overwrites whatever the item has become since it was read",
        environment=_compares(),
        caught_by="unleased-chain",
    ),
    Mutant(
        "unleased-done",
        "a commit compares only the run and whether its hop is committed",
        environment=_compares("request_id", "done"),
        caught_by="unleased-chain",
    ),
    Mutant(
        "unleased-creates",
        "a commit that found no item overwrites one",
        environment=Environment(creates_only=False),
        caught_by="unleased-chain",
    ),
    Mutant(
        "unleased-stalls",
        "a worker that found no item commits however late it is",
        ((commit_phase, "outlived", _never_too_late),),
        caught_by="unleased-expiry",
    ),
    Mutant(
        "unleased-acked",
        "a record is acked although its hop is still open, and the item another",
        ((commit_phase.CommitPhase, "write", _acks_moved),),
        caught_by="unleased-cancel-late",
    ),
    Mutant(
        "unleased-epoch",
        "a commit that takes its hop leaves the epoch as it is",
        ((claims, "taken", _keeps_epoch),),
        caught_by="unleased-chain",
    ),
    Mutant(
        "unleased-takeover",
        "a run at work is taken over by the commit alone",
        ((claim_phase, "needs_lease", _never_claims),),
        harmless="nobody here waits for the end of a run that is taken over; the old run stops a commit later",
    ),
    Mutant(
        "unleased-waits",
        "rows are saved for a hop of which the table says nothing",
        ((commit_phase, "waits_unseen", _is_seen),),
        caught_by="unleased-wait-direct",
    ),
    Mutant(
        "unleased-no-epoch",
        "a commit does not compare the epoch",
        environment=_compares("request_id", "owner", "done"),
        caught_by="unleased-cancel-late",
    ),
    Mutant(
        "unleased-no-done",
        "a commit does not compare whether the hop is committed",
        environment=_compares("request_id", "owner", "epoch"),
        caught_by="unleased-cancel-late",
    ),
    Mutant(
        "unleased-no-owner",
        "a commit does not compare the owner",
        environment=_compares("request_id", "epoch", "done"),
        caught_by="unleased-expiry-later",
    ),
    Mutant(
        "unleased-no-id",
        "a commit does not compare the request",
        environment=_compares("owner", "epoch", "done"),
        harmless="no two claims or commits have one owner, and those of another request are none of this one's",
    ),
)
