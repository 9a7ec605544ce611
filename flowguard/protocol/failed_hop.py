"""The hop at which a run failed for good, as its run item keeps it."""

from __future__ import annotations

from flowguard.names.ids import RequestId
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.message import ErrorNote


class FailedHop(NamedTuple):
    """Where and why a run failed for good, in a flow with ``on_failed``. Only a newer run's first commit removes it.

    The request id and time name the run. ``at`` of the error is in ms, as is ``requested_at``.
    ``undone`` says that the ``on_failed`` stage, and what came after it, has ended the run.
    """

    request_id: RequestId
    requested_at: int
    hop: int
    redrive: int
    error: ErrorNote
    undone: bool = False
