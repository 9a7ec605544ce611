"""Runs that have failed for good, and go on at the stage that undoes them."""

from __future__ import annotations

from typing import Any

from flowguard.protocol import claims
from flowguard.protocol.outbox import Kind
from flowguard.protocol.run import Claim, Commit, Committed, Fenced, RunItem
from flowguard.verdicts import Verdict
from flowguard.worker import plan
from tests.proofs.model.mutants.mutant import Mutant, Patch
from tests.proofs.model.mutants.told import acks, told

_TAKEN, _REFUSED, _GIVING_UP = claims.taken, claims.refused_commit, plan.Planner.giving_up
_UNDONE = plan.Planner._undone


def _forgets(item: RunItem | None, request: Any) -> RunItem:
    return _TAKEN(item, request)._replace(failed=None)


def _without(kind: Kind) -> Patch:
    """The commit of the hop that failed, without one of its two messages."""

    def giving_up(self: plan.Planner, *about: Any) -> Commit:
        commit = _GIVING_UP(self, *about)
        assert commit.outbox is not None
        sends = tuple(send for send in commit.outbox.sends if send.kind is not kind)
        return commit._replace(outbox=commit.outbox._replace(sends=sends))

    return plan.Planner, "giving_up", giving_up


def _told_too_soon(self: plan.Planner, to: Any, failure: Any, error: Any, letter: Any) -> Commit:
    told_, _ = self._notices_of(error)
    commit = _GIVING_UP(self, to, failure, error, letter)
    assert commit.outbox is not None
    return commit._replace(outbox=commit.outbox._replace(sends=(*told_, *commit.outbox.sends)))


def _not_marked(self: plan.Planner, failed: Any, step: Any, result: Any) -> Commit:
    return _UNDONE(self, failed, step, result)._replace(undone=False)


def _any_end(claim: Claim, wanted: Commit, item: RunItem | None) -> Committed | Fenced:
    is_same = item is not None and claims.is_claimed_by(claim, item) and item.status is wanted.status
    return Committed() if is_same else _REFUSED(claim, wanted, item)


UNDOING = (
    Mutant(
        "undo-with-letter",
        "the dead letter goes with the message of the stage that undoes, whose claim clears the outbox",
        ((Kind, "phase", property(lambda self: int(self.is_last))),),
        caught_by="undo-sends",
    ),
    Mutant("undo-unsent", "the stage that undoes gets no message", (_without(Kind.NEXT),), caught_by="undo-calm"),
    Mutant("undo-letterless", "the hop that failed has no dead letter", (_without(Kind.DEAD),), caught_by="undo-calm"),
    Mutant(
        "undo-again",
        "a stage that undoes and fails is followed by itself",
        ((RunItem, "own_failure", None),),
        caught_by="undo-calm",
    ),
    Mutant(
        "undo-forgotten", "a claim forgets where its run failed", ((claims, "taken", _forgets),), caught_by="undo-calm"
    ),
    Mutant(
        "undo-letter-acked",
        "a letter that is moved back after that is dropped",
        (acks(Verdict.GIVEN_UP),),
        caught_by="undo-calm",
    ),
    Mutant(
        "undo-reopened",
        "a letter that is moved back after that opens the hop that failed",
        (told(Verdict.GIVEN_UP, Verdict.CLAIMED),),
        caught_by="undo-calm",
    ),
    Mutant(
        "undo-not-marked",
        "the end of a run that was undone looks like a failure of the stage that undoes",
        ((plan.Planner, "_undone", _not_marked),),
        caught_by="undo-calm",
    ),
    Mutant(
        "undo-told-soon",
        "its requester is told before it is undone",
        ((plan.Planner, "giving_up", _told_too_soon),),
        caught_by="undo-calm",
    ),
    Mutant(
        "undo-any-end",
        "a worker takes its own commit of another ending for the hop's failure",
        ((claims, "refused_commit", _any_end),),
        harmless="an unanswered commit is never followed by one of another ending",
    ),
)
