"""The protocol with one thing broken at a time, in the library's own code. Each is caught by some scenario, or says why
it can do no harm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from flowguard import batch, claims, dispatch, plan, runtime
from flowguard.ending import Ending, acked
from flowguard.errors import SendFailed
from flowguard.failure import Again, Never, after_failure
from flowguard.flow import OnConflict
from flowguard.message import Message
from flowguard.outbox import Kind, Outbox
from flowguard.run import ENDED, Claim, ClaimRequest, Committed, Fenced, FencedBy, RunItem, Status
from flowguard.verdicts import Verdict
from tests.model import actions
from tests.model.actions import Environment

Patch = tuple[Any, str, Any]
_DECIDE, _TAKEN, _REFUSED = claims.decide, claims.taken, claims.refused_commit
_LEFT, _REFUSAL = Outbox.left_by_another, runtime.Runtime._refused
_FLUSH = runtime.Runtime._flush


@dataclass(frozen=True)
class Mutant:
    """``caught_by`` names the scenario that shows the fault soonest; a mutant without one says in ``harmless`` why."""

    name: str
    about: str
    patches: tuple[Patch, ...] = ()
    environment: Environment = field(default_factory=Environment)
    caught_by: str = ""
    harmless: str = ""

    @contextmanager
    def at_work(self) -> Iterator[Environment]:
        with ExitStack() as stack:
            for target, name, broken in self.patches:
                stack.enter_context(patch.object(target, name, broken))
            yield self.environment


# -- the claim: verdicts --------------------------------------------------------------------------------------------

When = Callable[[RunItem, ClaimRequest], bool]


def _told(old: Verdict, new: Verdict, when: When = lambda item, request: True) -> Patch:
    """``decide`` with one answer in place of another."""

    def decide(item: RunItem | None, request: ClaimRequest) -> Verdict:
        verdict = _DECIDE(item, request)
        return new if verdict is old and item is not None and when(item, request) else verdict

    return claims, "decide", decide


def _gone_begins(item: RunItem | None, request: ClaimRequest) -> Verdict:
    return Verdict.CLAIMED if item is None else _DECIDE(item, request)


def _is_redriven(item: RunItem, request: ClaimRequest) -> bool:
    return item.status is Status.FAILED and item.done and item.request_id == request.message.request_id


def _same_redrive(item: RunItem, request: ClaimRequest) -> bool:
    return item.status is Status.FAILED and request.message.redrive == item.redrive


def _is_mine(item: RunItem, request: ClaimRequest) -> bool:
    return item.owner == request.owner


def _is_new_attempt(item: RunItem, request: ClaimRequest) -> bool:
    m = request.message
    return (m.request_id, m.hop) == (item.request_id, item.hop) and m.attempt > (item.redrive, item.retry)


def _is_another(item: RunItem, request: ClaimRequest) -> bool:
    return item.request_id != request.message.request_id


def _is_at_work(item: RunItem, request: ClaimRequest) -> bool:
    return _is_another(item, request) and item.status not in ENDED


def _has_ended(item: RunItem, request: ClaimRequest) -> bool:
    return _is_another(item, request) and item.status in ENDED


_IGNORES: When = lambda item, request: request.on_conflict is OnConflict.IGNORE  # noqa: E731


def _both(one: When, other: When) -> When:
    return lambda item, request: one(item, request) and other(item, request)


def _same_attempt(item: RunItem, request: ClaimRequest) -> bool:
    m = request.message
    return m.attempt == (item.redrive, item.retry) and (m.request_id, m.hop) == (item.request_id, item.hop)


# -- the claim: the new item ----------------------------------------------------------------------------------------


def _left_as(change: Callable[[RunItem | None, ClaimRequest, RunItem], RunItem]) -> Patch:
    """``taken`` with a change of what it answers."""

    def taken(item: RunItem | None, request: ClaimRequest) -> RunItem:
        return change(item, request, _TAKEN(item, request))

    return claims, "taken", taken


def _old_outbox(item: RunItem | None, request: ClaimRequest, after: RunItem) -> RunItem:
    return after._replace(outbox=item.outbox if item is not None else None)


def _old_state(item: RunItem | None, request: ClaimRequest, after: RunItem) -> RunItem:
    return after._replace(state=item.state if item is not None else None)


# -- the commit -----------------------------------------------------------------------------------------------------


def _fenced_as(old: FencedBy, new: FencedBy) -> Patch:
    def refused_commit(claim: Claim, wanted: Status, item: RunItem | None) -> Committed | Fenced:
        answer = _REFUSED(claim, wanted, item)
        return Fenced(new, item) if isinstance(answer, Fenced) and answer.by is old else answer

    return claims, "refused_commit", refused_commit


def _unknown_own(claim: Claim, wanted: Status, item: RunItem | None) -> Committed | Fenced:
    answer = _REFUSED(claim, wanted, item)
    return Fenced(FencedBy.OTHER_ATTEMPT, item) if isinstance(answer, Committed) else answer


def _any_own(claim: Claim, wanted: Status, item: RunItem | None) -> Committed | Fenced:
    return _REFUSED(claim, item.status if item is not None else wanted, item)


def _fence(*parts: str) -> Environment:
    return Environment(fence=frozenset(parts))


# -- failure and the outbox -----------------------------------------------------------------------------------------


def _once_more(error: BaseException, policy: Any, attempt: Any, draw: Any) -> Again | Never:
    return after_failure(error, policy, attempt._replace(retry=attempt.retry - 1), draw)


def _once_less(error: BaseException, policy: Any, attempt: Any, draw: Any) -> Again | Never:
    return after_failure(error, policy, attempt._replace(retry=attempt.retry + 1), draw)


def _rejects_again(error: BaseException, policy: Any, attempt: Any, draw: Any) -> Again | Never:
    return after_failure(ValueError("like any other"), policy, attempt, draw)


def _same_retry(self: Message, error: Any) -> Message:
    return self._replace(first_error=error)


def _same_redrive_letter(self: Message, error: Any) -> Message:
    return self._replace(retry=0, first_error=error)


def _own_too(self: Outbox, request_id: Any, not_before: int) -> Any:
    return tuple(send for send in self.sends if send.kind is not Kind.NEXT)


def _no_dead_letter(self: Outbox, request_id: Any, not_before: int) -> Any:
    return tuple(send for send in _LEFT(self, request_id, not_before) if send.kind is not Kind.DEAD)


def _next_too(self: Outbox, request_id: Any, not_before: int) -> Any:
    return () if self.request_id == request_id or self.committed_at < not_before else self.sends


def _however_old(self: Outbox, request_id: Any, not_before: int) -> Any:
    return _LEFT(self, request_id, 0)


def _flush_or_not(self: runtime.Runtime, arrival: Any, claim: Claim) -> None:
    try:
        _FLUSH(self, arrival, claim)
    except SendFailed:
        return


def _acks(verdict: Verdict) -> Patch:
    def refused(self: runtime.Runtime, arrival: Any, answer: Any) -> Ending:
        return acked(arrival, verdict) if answer.verdict is verdict else _REFUSAL(self, arrival, answer)

    return runtime.Runtime, "_refused", refused


def _dispatch_all(sender: Any, endings: list[Ending], told: Any) -> list[Ending]:
    """The last sends go whether or not those before them were taken."""
    after = dispatch._send(sender, endings, told, last=False)
    last = dispatch._send(sender, endings, told, last=True)
    return [one if not one.ack else other for one, other in zip(after, last, strict=True)]


def _dispatch_deaf(sender: Any, endings: list[Ending], told: Any) -> list[Ending]:
    """What was refused is not sent again."""
    dispatch.dispatch(sender, endings, told)
    return endings


def _one_retention(flow: Any, moment: int) -> int:
    return moment + int(flow.retention.total_seconds() * 1000)


def _asking_once_more(self: Any, arrival: Any, budget: Any) -> Any:
    claim = self.services.store.claim(self._claim_request(arrival, budget))
    if arrival.envelope.is_fifo and (retry := runtime._retry_in_item(arrival, claim)) is not None:
        arrival = arrival._replace(message=arrival.message.at_retry(retry))
        claim = self.services.store.claim(self._claim_request(arrival, budget))
    return arrival, claim


_RUNTIME = runtime.Runtime
MUTANTS = (
    Mutant(
        "release-lost",
        "a failed attempt of a FIFO record is not counted",
        ((actions, "released", lambda item, claim, now: item._replace(lease_until=now)),),
        caught_by="fifo-used-up",
    ),
    Mutant(
        "release-at-zero",
        "a release ends the lease at the beginning of time, so that the run looks abandoned",
        ((actions, "released", lambda item, claim, now: item._replace(retry=claim.item.retry + 1, lease_until=0)),),
        caught_by="fifo-ignore",
    ),
    Mutant(
        "fifo-duplicate",
        "a FIFO record does not ask as the attempt that the item has come to",
        ((runtime, "_retry_in_item", lambda arrival, claim: None),),
        caught_by="fifo",
    ),
    Mutant(
        "fifo-once-more",
        "a FIFO record asks only once more, whatever fails meanwhile",
        ((_RUNTIME, "_claim", _asking_once_more),),
        caught_by="fifo-again",
    ),
    Mutant(
        "older-wins",
        "an older request takes the object",
        (_told(Verdict.STALE, Verdict.CLAIMED),),
        caught_by="newer-fails",
    ),
    Mutant(
        "no-lease",
        "an attempt is given to a second worker at once",
        (_told(Verdict.BUSY, Verdict.CLAIMED),),
        caught_by="exhausted",
    ),
    Mutant(
        "lease-for-ever",
        "a dead worker's attempt is never given away",
        (_told(Verdict.CLAIMED, Verdict.BUSY, _same_attempt),),
        caught_by="sends",
    ),
    Mutant(
        "own-claim",
        "a worker does not recognise its own claim",
        (_told(Verdict.CLAIMED, Verdict.BUSY, _is_mine),),
        caught_by="lost",
    ),
    Mutant(
        "old-attempt",
        "an attempt that was left behind begins",
        (_told(Verdict.DUPLICATE, Verdict.CLAIMED),),
        caught_by="exhausted",
    ),
    Mutant(
        "no-retry",
        "a later attempt is taken for a copy",
        (_told(Verdict.CLAIMED, Verdict.DUPLICATE, _is_new_attempt),),
        caught_by="used-up",
    ),
    Mutant("done-again", "a committed hop begins again", (_told(Verdict.DONE, Verdict.CLAIMED),), caught_by="chain"),
    Mutant(
        "failed-again",
        "a FAILED run is opened by a copy of what failed",
        (_told(Verdict.DONE, Verdict.CLAIMED, _same_redrive),),
        caught_by="exhausted",
    ),
    Mutant(
        "no-redrive",
        "a FAILED run is never opened again",
        (_told(Verdict.CLAIMED, Verdict.DONE, _is_redriven),),
        caught_by="calm",
    ),
    Mutant(
        "early-begins",
        "a hop need not wait for the one before it",
        (_told(Verdict.EARLY, Verdict.CLAIMED),),
        caught_by="expiry-later",
    ),
    Mutant(
        "gone-begins",
        "a later hop begins without its item",
        ((claims, "decide", _gone_begins),),
        caught_by="expiry-later",
    ),
    Mutant("gone-acked", "a later hop without its item is dropped", (_acks(Verdict.GONE),), caught_by="expiry-alone"),
    Mutant(
        "ignore-never",
        "with IGNORE a newer request takes a run at work",
        (_told(Verdict.IGNORED, Verdict.CLAIMED),),
        caught_by="ignore",
    ),
    Mutant(
        "ignore-ended",
        "with IGNORE a run that has ended keeps the object",
        (_told(Verdict.CLAIMED, Verdict.IGNORED, _both(_IGNORES, _has_ended)),),
        caught_by="ignore-later",
    ),
    Mutant(
        "ignore-abandoned",
        "with IGNORE a dead run keeps the object",
        (_told(Verdict.CLAIMED, Verdict.IGNORED, _both(_IGNORES, _is_at_work)),),
        caught_by="ignore",
    ),
    Mutant(
        "ignore-ended-abandoned",
        "with IGNORE a run that has ended long ago is taken for abandoned",
        ((claims, "is_abandoned", lambda item, request: item.lease_until < request.abandoned_before),),
        caught_by="ignore",
    ),
    Mutant(
        "no-supersede",
        "a newer request is dropped",
        (_told(Verdict.CLAIMED, Verdict.STALE, _is_another),),
        caught_by="newer-fails",
    ),
    Mutant(
        "busy-acked",
        "a record whose attempt is at work elsewhere is acked",
        (_acks(Verdict.BUSY),),
        caught_by="exhausted",
    ),
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
    Mutant(
        "one-more",
        "one attempt more than the policy has",
        ((runtime, "after_failure", _once_more),),
        caught_by="used-up",
    ),
    Mutant(
        "one-less",
        "one attempt less than the policy has",
        ((runtime, "after_failure", _once_less),),
        caught_by="used-up",
    ),
    Mutant(
        "reject-again",
        "what can never work is tried again",
        ((runtime, "after_failure", _rejects_again),),
        caught_by="calm",
    ),
    Mutant("retry-same", "a retry does not count itself", ((Message, "again", _same_retry),), caught_by="used-up"),
    Mutant(
        "redrive-same",
        "a dead letter does not say the next redrive",
        ((Message, "redriven", _same_redrive_letter),),
        caught_by="calm",
    ),
    Mutant(
        "redrive-ids",
        "what is sent after a redrive has the ids of before",
        ((Message, "hop_id", property(lambda self: f"{self.request_id}.{self.hop}")),),
        caught_by="used-up",
    ),
    Mutant(
        "flush-own",
        "a redriven hop sends its own old outbox",
        ((Outbox, "left_by_another", _own_too),),
        caught_by="used-up",
    ),
    Mutant(
        "flush-no-letter",
        "a takeover drops the old run's dead letter",
        ((Outbox, "left_by_another", _no_dead_letter),),
        caught_by="newer-fails",
    ),
    Mutant(
        "flush-next",
        "a takeover sends the old run's next hop too",
        ((Outbox, "left_by_another", _next_too),),
        harmless="it is told SUPERSEDED: one message that nobody needs",
    ),
    Mutant(
        "flush-old",
        "a takeover sends what was committed however long ago",
        ((Outbox, "left_by_another", _however_old),),
        caught_by="retention",
    ),
    Mutant(
        "flush-deaf",
        "a takeover goes on although its sends were refused",
        ((_RUNTIME, "_flush", _flush_or_not),),
        caught_by="newer-fails",
    ),
    Mutant(
        "no-resend",
        "a committed hop's outbox is not sent again",
        ((RunItem, "unsent_at", lambda self, hop: ()),),
        caught_by="chain",
    ),
    Mutant(
        "resend-any",
        "an outbox is sent again whichever hop asks",
        ((RunItem, "unsent_at", lambda self, hop: self.outbox.sends if self.outbox else ()),),
        harmless="copies of what the later hop's own record sends",
    ),
    Mutant(
        "next-first",
        "the next hop goes with the rest",
        ((Kind, "is_last", property(lambda self: False)),),
        caught_by="sends",
    ),
    Mutant(
        "letter-first",
        "the dead letter goes with the rest",
        ((Kind, "is_last", property(lambda self: self is Kind.NEXT)),),
        caught_by="newer-fails",
    ),
    Mutant(
        "dispatch-on",
        "the next hop is sent although a side message was refused",
        ((batch, "dispatch", _dispatch_all),),
        caught_by="sends",
    ),
    Mutant(
        "dispatch-deaf",
        "a record is acked although its sends were refused",
        ((batch, "dispatch", _dispatch_deaf),),
        caught_by="sends",
    ),
    Mutant(
        "ack-first",
        "a record is acked before its messages are sent",
        environment=Environment(acks_before_sending=True),
        caught_by="chain",
    ),
    Mutant(
        "given-up-ends",
        "the dead-letter queue's function ends a run without asking",
        environment=Environment(given_up_asks=False),
        caught_by="killed-later",
    ),
    Mutant(
        "one-retention",
        "an item lives for one retention",
        ((plan, "expires_at", _one_retention),),
        caught_by="retention",
    ),
)
