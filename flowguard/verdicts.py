"""The verdicts on a claim and on an answer, one word each. Code, logs, docs and metrics use the same words."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """The answer of a claim."""

    CLAIMED = "CLAIMED"
    """This worker owns the hop now: handle it."""

    DONE = "DONE"
    """The hop, or the whole run, was committed before: send what its outbox still holds, then ack."""

    BUSY = "BUSY"
    """Another worker has the same attempt and its lease is alive: not acked, visible again when the lease ends.

    So is an attempt whose record of a FIFO queue comes before its delay is over, until that is.
    """

    DUPLICATE = "DUPLICATE"
    """A copy of a hop or attempt that the run has left behind, or of a request that was sent again later: ack."""

    STALE = "STALE"
    """A request older than the one the item holds, or of the same time: ack."""

    SUPERSEDED = "SUPERSEDED"
    """A later hop of a run that another request has replaced: ack."""

    IGNORED = "IGNORED"
    """A newer request, and the flow's ``on_conflict`` lets the first keep the object: ack."""

    RESET = "RESET"
    """A later hop of a run that was reset: another message restarts the run. Ack."""

    GIVEN_UP = "GIVEN_UP"
    """A redriven message of a hop that failed for good, after which the run went on at its flow's ``on_failed`` stage:
    back to the dead letters, with that reason."""
    ATTACHED = "ATTACHED"
    """Another request, which is answered with the end of the run at work: noted as its caller, ack."""

    KEPT = "KEPT"
    """Another request, and the end that is stored is good for it: answered with that, ack."""

    GONE = "GONE"
    """A later hop whose run item has expired: to the dead letters, with that reason."""

    EARLY = "EARLY"
    """A hop whose predecessor is not committed, or still waits for answers. Nothing sends one so early: not acked."""


class ResetVerdict(StrEnum):
    """What a reset has changed."""

    RESTARTED = "RESTARTED"
    """A run was at work. It is fenced and restarted for all its callers."""

    DROPPED = "DROPPED"
    """A stored end is good for no newer request any more. The next one is carried out."""

    NOTHING = "NOTHING"
    """There was nothing to reset: no run, one that has failed (and may be undone yet), one that was cancelled, one that
    was asked for later, or this reset came before."""


class AnswerVerdict(StrEnum):
    """The verdict on an answer, as its sender gets it back."""

    RESUMED = "RESUMED"
    """It was the last that the run waited for: the run goes on."""

    RECORDED = "RECORDED"
    """It is kept; the run waits for more."""

    DUPLICATE = "DUPLICATE"
    """This was answered before, or the run went on without it. Nothing changed."""

    SUPERSEDED = "SUPERSEDED"
    """A newer request has the object, so nobody waits for this answer any more."""

    EXPIRED = "EXPIRED"
    """The wait timed out before, its run ended without it, or the time of the token is over."""

    UNKNOWN = "UNKNOWN"
    """Nothing waits for this id."""

    EARLY = "EARLY"
    """The hop that waits is not committed yet. Send the answer again later; a queue does so by itself.

    With a token it may also be that the hop never will be: nothing is known of that before the token's time is over.
    """
