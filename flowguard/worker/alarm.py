"""Alarms that ring at a moment unless called off before. By them a function hears that its time is running out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol


class Alarm(Protocol):
    """Calls ``ring`` after ``ms``; what it returns calls that off."""

    def __call__(self, ms: int, ring: Callable[[], None]) -> Callable[[], None]: ...


class ThreadAlarm:
    """Rings in a thread of its own, so that it is heard while a handler is stuck in a call.

    There is one thread for all its alarms: starting one with each message would cost a quarter of the
    message's CPU. Setting and calling off touch a dictionary; the thread looks into it when the next alarm it knows of
    is due, and is woken only for one that is due sooner.
    """

    def __init__(self) -> None:
        self._set: dict[object, tuple[float, Callable[[], None]]] = {}
        self._wake = threading.Event()
        self._looks_at: float | None = None  # None while there is no thread
        self._lock = threading.Lock()

    def __call__(self, ms: int, ring: Callable[[], None]) -> Callable[[], None]:
        key, due = object(), time.monotonic() + ms / 1000
        with self._lock:
            self._set[key] = due, ring
            if self._looks_at is None:
                self._looks_at = due
                threading.Thread(target=self._watch, args=(due,), name="flowguard-alarm", daemon=True).start()
            elif due < self._looks_at:
                self._wake.set()

        def call_off() -> None:
            self._set.pop(key, None)

        return call_off

    def _watch(self, first: float) -> None:
        """Ring the alarms when they are due.

        Sleeps until the first alarm's time even when that is called off: else each message would start a thread.
        """
        until: float | None = first
        while until is not None:
            self._wake.wait(max(until - time.monotonic(), 0))
            self._wake.clear()
            now = time.monotonic()
            for key, (due, ring) in list(self._set.items()):
                if due <= now and self._set.pop(key, None) is not None:
                    with suppress(Exception):  # an alarm that raises must not end the thread that rings the others
                        ring()
            until = self._next()

    def _next(self) -> float | None:
        """Return when to look again. The thread ends when nothing is set."""
        with self._lock:
            self._looks_at = min((due for due, _ in tuple(self._set.values())), default=None)
            return self._looks_at
