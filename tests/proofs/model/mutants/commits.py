"""Commits: the words for a refused one, and the fence."""

from __future__ import annotations

from flowguard.protocol import claims
from flowguard.protocol.run import Claim, Commit, Committed, Fenced, FencedBy, RunItem
from flowguard.worker import runtime
from tests.proofs.model.actions import Environment
from tests.proofs.model.mutants.mutant import Mutant, Patch

_REFUSED = claims.refused_commit


def _fenced_as(old: FencedBy, new: FencedBy) -> Patch:
    def refused_commit(claim: Claim, wanted: Commit, item: RunItem | None) -> Committed | Fenced:
        answer = _REFUSED(claim, wanted, item)
        return Fenced(new, item) if isinstance(answer, Fenced) and answer.by is old else answer

    return claims, "refused_commit", refused_commit


def _unknown_own(claim: Claim, wanted: Commit, item: RunItem | None) -> Committed | Fenced:
    answer = _REFUSED(claim, wanted, item)
    return Fenced(FencedBy.OTHER_ATTEMPT, item) if isinstance(answer, Committed) else answer


def _any_own(claim: Claim, wanted: Commit, item: RunItem | None) -> Committed | Fenced:
    is_own = item is not None and claims.is_claimed_by(claim, item)
    return Committed() if is_own else _REFUSED(claim, wanted, item)


def _fence(*parts: str) -> Environment:
    return Environment(fence=frozenset(parts))


COMMITS = (
    Mutant(
        "fenced-acks",
        "fenced by an attempt at work, the record is acked",
        (_fenced_as(FencedBy.OTHER_ATTEMPT, FencedBy.FINISHED),),
        caught_by="chain",
    ),
    Mutant(
        "finished-waits",
        "fenced by a finished attempt, the record stays",
        (_fenced_as(FencedBy.FINISHED, FencedBy.OTHER_ATTEMPT),),
        harmless="delivered again it is told DONE, and sends the same outbox: one delivery more",
    ),
    Mutant(
        "finished-silent",
        "fenced by a finished attempt, its outbox is not sent",
        (_fenced_as(FencedBy.FINISHED, FencedBy.NEWER_RUN),),
        caught_by="chain",
    ),
    Mutant(
        "expired-acks",
        "fenced by nobody, for the item is gone, the record is acked",
        (_fenced_as(FencedBy.EXPIRED, FencedBy.NEWER_RUN),),
        caught_by="expiry-alone",
    ),
    Mutant(
        "own-commit",
        "a worker does not recognise its own commit",
        ((claims, "refused_commit", _unknown_own),),
        caught_by="lost",
    ),
    Mutant(
        "unanswered-fails",
        "a commit without an answer counts as a failed attempt",
        ((runtime, "ConditionFailed", Exception),),
        harmless="a worker that finds its own commit of another ending sends that one's outbox",
    ),
    Mutant(
        "any-own-commit",
        "a worker takes any commit of its own for the one it repeats",
        ((claims, "refused_commit", _any_own),),
        harmless="an unanswered commit is never followed by one of another ending",
    ),
    Mutant(
        "unanswered-any",
        "both: an unanswered commit fails the stage, and is then taken for the failure's",
        ((runtime, "ConditionFailed", Exception), (claims, "refused_commit", _any_own)),
        caught_by="lost",
    ),
    Mutant("fence-open", "a commit without conditions", environment=_fence(), caught_by="chain"),
    Mutant(
        "fence-run",
        "a commit that compares the request alone",
        environment=_fence("request_id", "done"),
        caught_by="chain",
    ),
    Mutant(
        "fence-epoch", "a commit that compares the epoch alone", environment=_fence("epoch", "done"), caught_by="expiry"
    ),
    Mutant(
        "fence-no-owner",
        "a commit that does not compare the owner",
        environment=_fence("request_id", "epoch", "done"),
        caught_by="expiry",
    ),
    Mutant(
        "fence-no-done",
        "a commit that may be written over its own",
        ((runtime, "ConditionFailed", Exception),),
        _fence("request_id", "epoch", "owner"),
        caught_by="lost",
    ),
    Mutant(
        "fence-no-epoch",
        "a commit that does not compare the epoch",
        environment=_fence("request_id", "owner", "done"),
        harmless="no two claims have one owner",
    ),
    Mutant(
        "fence-no-run",
        "a commit that does not compare the request",
        environment=_fence("epoch", "owner", "done"),
        harmless="no two claims have one owner",
    ),
)
