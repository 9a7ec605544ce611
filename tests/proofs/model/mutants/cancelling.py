"""Runs that are cancelled and go on, and cancellations that are forgotten or meet another run."""

from __future__ import annotations

from typing import Any

from flowguard.protocol.run import RunItem
from flowguard.worker import cancelling
from flowguard.worker.ending import Ending, acked
from tests.proofs.model.actions import Environment
from tests.proofs.model.mutants.mutant import Mutant


def _acked(arrival: Any, verdict: Any, why: str) -> Ending:
    return acked(arrival, verdict)


CANCELLING = (
    Mutant(
        "cancel-without-fence",
        "a cancellation leaves the epoch as it is",
        environment=Environment(cancel_fences=False),
        caught_by="cancel",
    ),
    Mutant(
        "cancel-unread",
        "a claim does not look whether its run is cancelled",
        ((RunItem, "cancelled_because", None),),
        caught_by="cancel-wait",
    ),
    Mutant(
        "cancel-any-run",
        "a cancelled request cancels whatever run it meets",
        ((cancelling, "is_for_its_run", lambda message, refused: message.cancelled is not None),),
        Environment(cancel_asks=False),
        caught_by="cancel-child-first",
    ),
    Mutant(
        "cancel-dropped",
        "a cancelled request that meets its run is acked",
        ((cancelling, "is_for_its_run", lambda message, refused: False),),
        caught_by="cancel-child-hops",
    ),
    Mutant(
        "cancel-busy-acked",
        "a cancelled request is acked where a worker has its first hop, and nobody may end that",
        ((cancelling, "kept", _acked),),
        caught_by="cancel-child-alone",
    ),
)
