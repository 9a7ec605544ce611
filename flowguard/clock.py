"""Clocks, handed in so that a replayed flow gives the same records."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time as whole milliseconds since 1970, UTC."""

    def now(self) -> int: ...


def no_pause(seconds: float) -> None:
    """Return at once. Where the time is virtual, nothing else is at work meanwhile."""


class SystemClock:
    """The machine's clock. A wrong one can cause work to be done twice, never an effect: the epoch decides."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock for tests that moves only when it is advanced."""

    def __init__(self, now: int = 1_767_225_600_000) -> None:
        self._now = now

    def now(self) -> int:
        """Return the time in ms since 1970."""
        return self._now

    def advance(self, *, seconds: float = 0, ms: int = 0) -> None:
        """Move the clock by ``seconds`` and ``ms`` together."""
        self._now += int(seconds * 1000) + ms
