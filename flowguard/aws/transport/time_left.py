"""The time that an invocation has left: a call that waits for longer would end with its function."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from math import inf
from typing import Final

KEPT_MS: Final = 800
"""What is kept for the worker, which says of its records how they ended.

After a wait that has ended at its limit it gives the claim back, which takes ``LEAST_SECONDS`` where that hangs too,
and begins to hand its records back while 300 ms are left (``HAND_BACK_RESERVE_MS``). With the errors to load, the name
of the queue to look up and a connection to open that takes 25 ms of CPU, and so a third of a second with 128 MB.
"""

LEAST_SECONDS: Final = 0.2
"""What a call gets in any case. It mostly takes a twentieth of that."""


def _without_end() -> int | None:
    return None


_remaining: ContextVar[Callable[[], int | None]] = ContextVar("_remaining", default=_without_end)


class within:  # noqa: N801 - it is used as a function
    """Let the calls of a block wait no longer than an invocation lasts. ``remaining`` returns ms, or None for no end.

    Threads that copy the context of the block are within it too.
    """

    def __init__(self, remaining: Callable[[], int | None]) -> None:
        self._of_block = remaining

    def __enter__(self) -> None:
        self._token = _remaining.set(self._of_block)

    def __exit__(self, *error: object) -> None:
        _remaining.reset(self._token)


def seconds_left() -> float:
    """Return for how long (s) a call may wait."""
    left = _remaining.get()()
    return inf if left is None else max((left - KEPT_MS) / 1_000, LEAST_SECONDS)
