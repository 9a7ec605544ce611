"""The choice a flow makes for a request that meets a run of another."""

from __future__ import annotations

from enum import StrEnum


class OnConflict(StrEnum):
    """What happens when a request meets a run of another request for the same object."""

    SUPERSEDE = "supersede"
    """The newest wins; the old run is fenced from that instant."""
    IGNORE = "ignore"
    """The first keeps the object until it has ended; what is asked for meanwhile is turned away for good."""
    ATTACH = "attach"
    """The first keeps the object, and who asks meanwhile is answered with its end."""
