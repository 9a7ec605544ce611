"""Claims by messages of the same request: its hops, attempts and redrives."""

from __future__ import annotations

from flowguard.protocol import claims
from flowguard.protocol.run import ClaimRequest, RunItem, Status
from flowguard.verdicts import Verdict
from tests.proofs.model.mutants.mutant import Mutant
from tests.proofs.model.mutants.told import acks, told

_DECIDE = claims.decide
_TAKEN = claims.taken


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


def _same_attempt(item: RunItem, request: ClaimRequest) -> bool:
    m = request.message
    return m.attempt == (item.redrive, item.retry) and (m.request_id, m.hop) == (item.request_id, item.hop)


def _has_another_text(item: RunItem, request: ClaimRequest) -> bool:
    m = request.message
    is_attempt = (m.request_id, m.hop, m.attempt) == (item.request_id, 1, (item.redrive, item.retry))
    return is_attempt and not item.done and item.lease_until <= request.now and item.first_text != m.text_digest


def _is_older_copy(item: RunItem, request: ClaimRequest) -> bool:
    m = request.message
    is_copy = (m.request_id, m.hop) == (item.request_id, 1) and m.attempt >= (item.redrive, item.retry)
    return is_copy and m.requested_at < item.requested_at


ATTEMPTS = (
    Mutant(
        "older-copy",
        "a request's time goes back to that of an earlier copy",
        (told(Verdict.DUPLICATE, Verdict.CLAIMED, _is_older_copy),),
        caught_by="repeated",
    ),
    Mutant(
        "any-text",
        "an attempt of a first hop is given to another payload",
        (told(Verdict.DUPLICATE, Verdict.CLAIMED, _has_another_text),),
        caught_by="forged",
    ),
    Mutant(
        "text-forgotten",
        "a claim does not note whose text it is",
        ((claims, "taken", lambda item, request: _TAKEN(item, request)._replace(first_text=None)),),
        caught_by="forged-lost",
    ),
    Mutant(
        "no-lease",
        "an attempt is given to a second worker at once",
        (told(Verdict.BUSY, Verdict.CLAIMED),),
        caught_by="exhausted",
    ),
    Mutant(
        "lease-for-ever",
        "a dead worker's attempt is never given away",
        (told(Verdict.CLAIMED, Verdict.BUSY, _same_attempt),),
        caught_by="sends",
    ),
    Mutant(
        "own-claim",
        "a worker does not recognise its own claim",
        (told(Verdict.CLAIMED, Verdict.BUSY, _is_mine),),
        caught_by="lost",
    ),
    Mutant(
        "old-attempt",
        "an attempt that was left behind begins",
        (told(Verdict.DUPLICATE, Verdict.CLAIMED),),
        caught_by="exhausted",
    ),
    Mutant(
        "no-retry",
        "a later attempt is taken for a copy",
        (told(Verdict.CLAIMED, Verdict.DUPLICATE, _is_new_attempt),),
        caught_by="used-up",
    ),
    Mutant("done-again", "a committed hop begins again", (told(Verdict.DONE, Verdict.CLAIMED),), caught_by="chain"),
    Mutant(
        "failed-again",
        "a FAILED run is opened by a copy of what failed",
        (told(Verdict.DONE, Verdict.CLAIMED, _same_redrive),),
        caught_by="exhausted",
    ),
    Mutant(
        "no-redrive",
        "a FAILED run is never opened again",
        (told(Verdict.CLAIMED, Verdict.DONE, _is_redriven),),
        caught_by="calm",
    ),
    Mutant(
        "early-begins",
        "a hop need not wait for the one before it",
        (told(Verdict.EARLY, Verdict.CLAIMED),),
        caught_by="expiry-later",
    ),
    Mutant(
        "gone-begins",
        "a later hop begins without its item",
        ((claims, "decide", _gone_begins),),
        caught_by="expiry-later",
    ),
    Mutant("gone-acked", "a later hop without its item is dropped", (acks(Verdict.GONE),), caught_by="expiry-alone"),
    Mutant(
        "busy-acked",
        "a record whose attempt is at work elsewhere is acked",
        (acks(Verdict.BUSY),),
        caught_by="exhausted",
    ),
)
