"""The verdicts on a claim, one word each. The words are the same in code, logs, docs and metrics."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """The answer of a claim."""

    CLAIMED = "CLAIMED"
    """This worker owns the hop now: handle it."""

    DONE = "DONE"
    """The hop, or the whole run, was committed before: send what its outbox still holds, then ack."""

    BUSY = "BUSY"
    """Another worker has the same attempt and its lease is alive: not acked, visible again when the lease ends."""

    DUPLICATE = "DUPLICATE"
    """A copy of a hop or attempt that the run has left behind, or of a request that was sent again later: ack."""

    STALE = "STALE"
    """A request older than the one the item holds: ack."""

    SUPERSEDED = "SUPERSEDED"
    """A later hop of a run that another request has replaced: ack."""

    IGNORED = "IGNORED"
    """A newer request, and the flow's ``on_conflict`` lets the first keep the object: ack."""

    GONE = "GONE"
    """A later hop whose run item has expired: to the dead letters, with that reason."""

    EARLY = "EARLY"
    """A hop whose predecessor is not committed. Cannot happen while DynamoDB keeps its promises: not acked."""
