"""What all processes share beside the database: a logical clock, and the count of claims asked for."""

from __future__ import annotations

from multiprocessing.context import BaseContext
from typing import Any, Final

START: Final = 1_800_000_000_000


class Shared:
    """Passed to each process when it is started. Every look at the clock moves it on by one tick."""

    def __init__(self, context: BaseContext) -> None:
        self._numbers: Any = context.Array("q", [START, 0])

    def tick(self) -> int:
        return self._add(0)

    def now(self) -> int:
        """The clock as it stands, which this look does not move on."""
        found: int = self._numbers[0]
        return found

    def count(self) -> None:
        """One claim more, or one wait, whichever the race counts."""
        self._add(1)

    def asked(self) -> int:
        """How many so far, of all processes."""
        found: int = self._numbers[1]
        return found

    def elapsed(self) -> int:
        """Ticks since the race began."""
        return self.now() - START

    def _add(self, place: int) -> int:
        with self._numbers.get_lock():
            self._numbers[place] += 1
            found: int = self._numbers[place]
            return found


class ProcessClock:
    """The shared clock as one process reads it; ``ahead`` ticks are what its own clock is wrong by."""

    def __init__(self, shared: Shared) -> None:
        self.ahead = 0
        self._shared = shared

    def now(self) -> int:
        return self._shared.tick() + self.ahead
