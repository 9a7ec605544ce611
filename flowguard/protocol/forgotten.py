"""The trace that a forgotten run leaves in its item. It keeps late messages of the run from doing anything.

::

    request r1 ── … ── COMPLETED ── forgotten: FAILED with the error ``Forgotten``, and its redrive is the last there is
    a copy of r1, of a hop, or a dead letter that is sent back ──▶ DONE
    an older request of the object                             ──▶ STALE
    a newer one                                                ──▶ CLAIMED

No claim knows of it: the verdicts follow from the request, its time and the redrive.
"""

from __future__ import annotations

from typing import Final

from flowguard.protocol.run import RunItem
from flowguard.wire.message import ErrorNote

LAST_REDRIVE: Final = 10**38 - 1
"""No message has a later redrive than a forgotten run: DynamoDB has no greater number of 38 digits."""

WHY: Final = "what the run had left was removed"

KEPT: Final = frozenset(
    {
        *("pk", "sk", "request_id", "requested_at", "version", "status", "stage", "hop", "retry", "redrive"),
        *("epoch", "owner", "lease_until", "done", "committed_at", "ttl", "error"),
    }
)
"""The attributes of the item that stay. The error is another one then."""


NOW: Final = "it is forgotten: what it had left was removed"
"""What is said of a forgotten run."""


def is_forgotten(item: RunItem) -> bool:
    """Answer whether what the run had left was removed."""
    return item.redrive == LAST_REDRIVE


def forgotten_error(at: int) -> ErrorNote:
    """Return the error with which a forgotten run stands there since ``at`` (ms)."""
    return ErrorNote("Forgotten", WHY, at)
