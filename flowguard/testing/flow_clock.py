"""The clock of a test. It stands still until the test or the runner moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from flowguard.sim.virtual import VirtualTime
from flowguard.sim.world import START


class FlowClock(VirtualTime):
    """The clock of the whole process, ``time.time()`` and ``datetime.now()`` included.

    It begins at 2026-01-01T00:00:00Z and moves forward only. Times are ms since 1970 where they are numbers.
    """

    def __init__(self, start: int = START) -> None:
        super().__init__(start)

    @property
    def moment(self) -> datetime:
        """Return the present moment with its time zone, UTC."""
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=self.now())

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Move the clock forward by ``days``, ``hours``, ``minutes`` and ``seconds`` together.

        Raises ValueError for a time that is negative.

        What becomes due meanwhile is delivered by the next ``run()``, late as it then is.
        """
        by = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        if by < timedelta(0):
            raise ValueError(f"the clock would go back by {-by}; it goes forward only")
        self.move_to(self.now() + by // timedelta(milliseconds=1))
