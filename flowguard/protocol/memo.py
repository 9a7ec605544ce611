"""What a hop remembers before its commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flowguard.names.ids import RequestId
from flowguard.startup.named_tuple import NamedTuple


class Memo(NamedTuple):
    """The results that one hop of a run remembers, by their names.

    Each is JSON text, read when it is asked for. ``size`` is the bytes of the item that they take.
    """

    request_id: RequestId
    hop: int
    results: Mapping[str, Callable[[], str]]
    size: int

    def is_of(self, request_id: RequestId, hop: int) -> bool:
        """Answer whether it is of this hop of the request's run."""
        return (self.request_id, self.hop) == (request_id, hop)
