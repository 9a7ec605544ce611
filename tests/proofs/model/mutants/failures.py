"""Failed attempts: how many there are, their retries and their dead letters."""

from __future__ import annotations

from typing import Any

from flowguard.failure import Again, Never, after_failure
from flowguard.wire.message import Message
from flowguard.worker import runtime
from tests.proofs.model.actions import Environment
from tests.proofs.model.mutants.mutant import Mutant


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


FAILURES = (
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
        "given-up-ends",
        "the dead-letter queue's function ends a run without asking",
        environment=Environment(given_up_asks=False),
        caught_by="killed-later",
    ),
)
