"""Workers: invocations in threads of their own of which only ever one runs.

The turn is given, never raced for.

::

    driver ── go_on() ──▶ worker A … wait() ──┐
       ▲                                      │ the turn goes back
       └──────────────────────────────────────┘
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from flowguard.sim.functions import ServedFunction
from flowguard.sim.waiting_records import Delivery
from flowguard.testing.explorer.record.history import DeliveryRecord
from flowguard.testing.explorer.record.schedule import Choice


class Worker:
    """One invocation of a function. ``entry`` is its place in the history.

    ``held`` is why it is held up while it is. ``until`` is the number of calls after which it goes on.
    """

    def __init__(self, function: ServedFunction, delivery: Delivery, entry: DeliveryRecord) -> None:
        self.function = function
        self.delivery = delivery
        self.entry = entry
        self.killed = False
        self.held: Choice | None = None
        self.until = 0
        self.over = False
        self._error: BaseException | None = None
        self._turn = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._thread: threading.Thread | None = None

    @property
    def work(self) -> tuple[str | None, str]:
        """Return the work that is the same in each copy and attempt of a message."""
        return self.delivery.queue, self.delivery.envelope.message

    def start(self, work: Callable[[], None]) -> None:
        """Begin and return when the worker is held up or has ended."""
        self._thread = threading.Thread(target=self._run, args=(work,), name=f"worker-{self.entry.worker}", daemon=True)
        self._thread.start()
        self._await()

    def go_on(self) -> None:
        """Give it the turn and return when it is held up again or has ended."""
        self._turn.release()
        self._await()

    def wait(self) -> None:
        """Give the turn back and wait for it. Runs in the worker's own thread."""
        self._back.release()
        self._turn.acquire()

    def _await(self) -> None:
        self._back.acquire()
        if self.over and self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # raised again in the thread that waits
            self._error = error
        finally:
            self.over = True
            self._back.release()
