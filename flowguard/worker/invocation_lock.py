"""The lock of an invocation: its handlers run at once, and all else of it is done by one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from typing import TypeVar

Key = TypeVar("Key")
Result = TypeVar("Result")


class InvocationLock:
    """The lock of the invocation: one thread at a time claims, plans, commits and reports. Handlers run without it.

    ::

        main      claims ───┐ waits                          ┌ commits
        record 1            └ flush ┐ handles …… ┌ plan ┐    │
        record 2                    └ flush ┐ …… handles └ plan ┘

    The thread that makes it has it at first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    @contextmanager
    def handed_on(self) -> Iterator[None]:
        """Let others have it meanwhile."""
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()

    def at_once(self, work: Mapping[Key, Callable[[], Result]], longest_wait: float) -> Iterator[Mapping[Key, Result]]:
        """Do the work of each key in a thread of its own. Yield the results of those that have ended, in turn.

        Nothing is yielded where none has ended for ``longest_wait`` seconds. Each runs in a copy of the context, and
        holds the lock but where it hands that on. What one raises is raised here when all have ended.
        """
        with self.handed_on(), ThreadPoolExecutor(len(work)) as pool:
            futures = {pool.submit(copy_context().run, self._held, begin): key for key, begin in work.items()}
            left = set(futures)
            while left:
                done, left = wait(left, longest_wait, FIRST_COMPLETED)
                with self._lock:
                    yield {key: future.result() for future, key in futures.items() if future in done}

    def _held(self, work: Callable[[], Result]) -> Result:
        with self._lock:
            return work()
