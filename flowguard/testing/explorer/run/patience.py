"""Gives up an invocation that has used much CPU time and does not end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

LOOK: Final = 0.1
"""How long is waited for an invocation before its time is looked at again, in seconds."""

LEAST: Final = 0.000_5
"""Seconds of CPU by which a process moves on that does anything between two looks. Looking takes less."""


class Patience:
    """Counts what one invocation takes: the CPU of its process, and the looks in a row in which that stood still.

    On a busy machine a second by the clock on the wall may be a tenth of one of CPU, so that clock says nothing. A
    process that was stopped, or had no turn, makes no look either. ``cpu`` is its CPU time.
    """

    def __init__(self, seconds: float, cpu: Callable[[], float] = time.process_time) -> None:
        self._seconds, self._cpu = seconds, cpu
        self._began = self._last = cpu()
        self._still = 0

    def is_over(self) -> str | None:
        """Return why the invocation is given up, or None. To be called at each look."""
        now = self._cpu()
        self._still = 0 if now - self._last >= LEAST else self._still + 1
        self._last = now
        if now - self._began >= self._seconds:
            return f"it did not end within {self._seconds:g} s of CPU time"
        if self._still * LOOK >= self._seconds:
            return f"it did not end, and did nothing for {self._seconds:g} s"
        return None
