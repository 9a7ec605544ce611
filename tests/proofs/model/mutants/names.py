"""Requests that are named by their payload: the id that each message gets."""

from __future__ import annotations

from typing import Any

from flowguard.names.ids import RequestId
from flowguard.wire.envelope import Envelope
from flowguard.worker import routing
from tests.proofs.model.mutants.mutant import Mutant


def _by_the_message(rule: Any, stage: Any, envelope: Envelope) -> Any:
    return routing._Named(RequestId(envelope.message_id))


NAMES = (
    Mutant(
        "rule-not-asked",
        "an order without an id is named by its message, whatever its flow says",
        ((routing, "_named_by", _by_the_message),),
        caught_by="once-per-key",
    ),
)
