"""Waiting for another process: the one place in the tests that sleeps, and never longer than it has to."""

from __future__ import annotations

import time
from collections.abc import Callable


def comes_true(condition: Callable[[], bool], seconds: float = 10, every: float = 0.02) -> bool:
    """Asks again and again until the condition holds; False when it has not within the time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True
