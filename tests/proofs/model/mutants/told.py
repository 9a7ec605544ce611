"""A claim that is told another word, and a record that is acked because of the word that it was told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowguard.protocol import claims
from flowguard.protocol.run import ClaimRequest, RunItem
from flowguard.verdicts import Verdict
from flowguard.worker.ending import Ending, acked
from flowguard.worker.turned_away import TurnedAway
from tests.proofs.model.mutants.mutant import Patch

_DECIDE, _REFUSAL = claims.decide, TurnedAway._refused
When = Callable[[RunItem, ClaimRequest], bool]


def told(old: Verdict, new: Verdict, when: When = lambda item, request: True) -> Patch:
    """``decide`` with one answer in place of another."""

    def decide(item: RunItem | None, request: ClaimRequest) -> Verdict:
        verdict = _DECIDE(item, request)
        return new if verdict is old and item is not None and when(item, request) else verdict

    return claims, "decide", decide


def acks(verdict: Verdict) -> Patch:
    def refused(self: TurnedAway, arrival: Any, answer: Any) -> Ending:
        return acked(arrival, verdict) if answer.verdict is verdict else _REFUSAL(self, arrival, answer)

    return TurnedAway, "_refused", refused
