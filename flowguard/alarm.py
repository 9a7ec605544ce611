"""Something to be done at a moment, unless called off before: how a function hears that its time is running out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol


class Alarm(Protocol):
    """Calls ``ring`` after ``ms``; what it returns calls that off."""

    def __call__(self, ms: int, ring: Callable[[], None]) -> Callable[[], None]: ...


def thread_alarm(ms: int, ring: Callable[[], None]) -> Callable[[], None]:
    """Rings in a thread of its own, so that it is heard while a handler is stuck in a call."""
    timer = threading.Timer(ms / 1000, ring)
    timer.daemon = True
    timer.start()
    return timer.cancel
