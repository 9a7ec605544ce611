"""The progress of a long command on standard error.

A terminal shows one line that changes. Elsewhere a line is printed every half minute.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, Self

from rich.console import Console
from rich.status import Status

from flowguard.cli.printing import complain

EVERY: Final = 30.0
"""The seconds between two lines where standard error is no terminal."""


class Progress:
    """Shows the numbers of schedules and violations until now. Open it as a block; standard output is left alone."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = clock() + EVERY
        self._status: Status | None = None
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            console = Console(file=sys.stderr, highlight=False, emoji=False)
            self._status = self._exit.enter_context(console.status("exploring"))
        return self

    def __exit__(self, *of_error: object) -> None:
        self._exit.close()

    def hint(self, text: str) -> None:
        """Print a line that stays."""
        complain(text)

    def __call__(self, schedules: int, violations: int) -> None:
        text = f"exploring: {schedules:,} schedules, {violations:,} violations"
        if self._status is not None:
            self._status.update(text)
        elif (now := self._clock()) >= self._next:
            self._next = now + EVERY
            complain(text)
