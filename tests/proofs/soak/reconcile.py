"""The sums of a soak: every line that must hold. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tests.proofs.soak.check import Check, none, same
from tests.proofs.soak.orders.sums import order_sums
from tests.proofs.soak.outcome import Outcome
from tests.proofs.soak.pages.sums import page_sums
from tests.proofs.soak.places import POLICY
from tests.proofs.soak.waits.sums import wait_sums

TICK = 1
"""ms. ElasticMQ reads its clock twice: for when a message was sent, and for when its delay is over. Of 44,317 retries
three came after 999 ms instead of 1,000 by its own account."""


def reconcile(outcome: Outcome) -> list[Check]:
    return [*order_sums(outcome), *page_sums(outcome), *wait_sums(outcome), *_all(outcome)]


def _all(outcome: Outcome) -> Iterator[Check]:
    failed = outcome.failed()
    doomed = {
        request for request in (*outcome.orders, *outcome.waits) if outcome.trouble(request).ends_at is not None
    } | outcome.dead_lettered()
    yield same(
        "orders and waits that failed: refused, out of attempts, or given up by SQS",
        doomed - outcome.pages.keys(),
        failed.keys() - outcome.pages.keys(),
    )
    yield none(
        "no page request failed but by its own trouble, or by SQS's giving up",
        (
            request
            for request in failed.keys() & outcome.pages.keys()
            if outcome.trouble(request).ends_at is None and request not in outcome.dead_lettered()
        ),
    )
    yield same("each failed request has its dead letter", failed, outcome.mail.letters)
    yield from _attempts(outcome)


def _attempts(outcome: Outcome) -> Iterator[Check]:
    told = outcome.chronicle
    yield none(
        "no attempt beyond the policy's",
        (f"{hop} {attempt}" for hop, attempt in told.attempts if attempt > POLICY.attempts),
    )
    yield none(
        "no retry asked for outside the policy",
        (
            f"{request} {attempt}: {delay} s"
            for request, attempt, delay in told.retries
            if not shortest(attempt) <= delay <= longest(attempt)
        ),
    )
    yield none(
        "no retry came early",
        (
            f"{request} retry {retry}: {waited} ms"
            for request, retry, waited in told.waits
            if waited < shortest(retry) * 1000 - TICK
        ),
    )


def shortest(retry: int) -> int:
    return round(POLICY.backoff.seconds(retry) * (1 - POLICY.jitter))


def longest(retry: int) -> int:
    return round(POLICY.backoff.seconds(retry))
