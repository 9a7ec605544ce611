"""Invocations, each in its thread. Only one of them runs at a time.

The turn is given, never raced for.

::

    driver ── go_on() ──▶ worker A … wait() ──┐
       ▲                                      │ the turn goes back
       └──────────────────────────────────────┘

An invocation that does not give the turn back in time, by the CPU that it takes, is given up: its thread can change
nothing any more.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from flowguard.sim.functions import ServedFunction
from flowguard.sim.waiting_records import Delivery
from flowguard.testing.explorer.record.history import DeliveryRecord
from flowguard.testing.explorer.record.schedule import Choice
from flowguard.testing.explorer.record.site import Site, site_of
from flowguard.testing.explorer.run.async_errors import raise_in
from flowguard.testing.explorer.run.fault_effects import Killed
from flowguard.testing.explorer.run.patience import LOOK, Patience
from flowguard.testing.explorer.run.quiet_asyncio import close_left_loop


class Worker:
    """One invocation of a function. ``entry`` is its place in the history, ``others`` what came with the delivery.

    ``entries`` are the places of all records that it tells of one by one, ``turn`` is which of them is at work.

    ``held`` is why it is held up while it is. ``until`` is the number of calls after which it goes on. ``hung`` is the
    line in which it stayed when it was given up, ``given_up`` why. ``reads`` counts how often it asked for the time
    since that moved, ``keeps`` is what its process has in memory while it is held up.
    """

    def __init__(
        self,
        function: ServedFunction,
        delivery: Delivery,
        entry: DeliveryRecord,
        patience: float,
        others: Sequence[Delivery] = (),
        entries: Sequence[DeliveryRecord] = (),
    ) -> None:
        self.function = function
        self.delivery = delivery
        self.others = tuple(others)
        self.entry = entry
        self.entries = tuple(entries) or (entry,)
        self.turn = 0
        self.killed = False
        self.held: Choice | None = None
        self.until = 0
        self.over = False
        self.is_abandoned = False
        self.hung: Site | None = None
        self.given_up: str | None = None
        self.thread = 0
        self.reads = 0
        self.keeps: list[list[Any]] = []
        self._patience = patience
        self._error: BaseException | None = None
        self._turn = _thread.allocate_lock()  # not of threading, whose waits are those of user code
        self._back = _thread.allocate_lock()
        self._turn.acquire()
        self._back.acquire()

    @property
    def work(self) -> tuple[str | None, str]:
        """Return the work that is the same in each copy and attempt of the message that has its turn."""
        delivery = (self.delivery, *self.others)[self.turn]
        return delivery.queue, delivery.envelope.message

    def event(self) -> Any:
        """Build the event of all its records."""
        event = self.delivery.event()
        if self.others:
            event = {
                "Records": [record for other in (self.delivery, *self.others) for record in other.event()["Records"]]
            }
        return event

    def has_one_of(self, other: Worker) -> bool:
        """Answer whether it has a record that the other worker has, too."""
        return not {id(delivery) for delivery in (self.delivery, *self.others)}.isdisjoint(
            id(delivery) for delivery in (other.delivery, *other.others)
        )

    def start(self, threads: Threads, work: Callable[[], None]) -> None:
        """Begin and return when the worker is held up or has ended."""
        threads.run(lambda: self._run(work))
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
        try:
            patience = None if self._back.acquire(timeout=LOOK) else Patience(self._patience)
            while patience is not None and not self._back.acquire(timeout=LOOK):
                if (why := patience.is_over()) is not None:
                    self._give_up(why)
                    return
        except BaseException:
            self._give_up("it was interrupted")
            raise
        if self._error is not None:
            raise self._error

    def _give_up(self, why: str) -> None:
        """End the thread as far as that can be done from outside."""
        self.given_up = why
        self.is_abandoned = self.killed = self.over = True
        frame = sys._current_frames().get(self.thread)
        self.hung = site_of(frame, until="_work") if frame is not None else None
        raise_in(self.thread, Killed)

    def _run(self, work: Callable[[], None]) -> bool:
        self.thread = threading.get_ident()
        try:
            work()
        except BaseException as error:  # raised again in the thread that waits
            self._error = error
        finally:
            self.over = True
            self._back.release()
        return not self.is_abandoned


class Threads:
    """The threads of workers. One that is free is used again: to start one costs as much as some calls."""

    def __init__(self) -> None:
        self._free: list[_Thread] = []

    def run(self, work: Callable[[], bool]) -> None:
        """Run the work in a thread. It must not raise, and answers whether the thread may be used again."""
        (self._free.pop() if self._free else _Thread(self._free)).run(work)

    def end(self) -> None:
        """Let the free threads end."""
        while self._free:
            self._free.pop().run(None)


class _Thread:
    """A thread that takes one piece of work after the other."""

    def __init__(self, free: list[_Thread]) -> None:
        self._free = free
        self._work: Callable[[], bool] | None = None
        self._given = _thread.allocate_lock()
        self._given.acquire()
        _thread.start_new_thread(self._loop, ())

    def run(self, work: Callable[[], bool] | None) -> None:
        self._work = work
        self._given.release()

    def _loop(self) -> None:
        try:
            while True:
                self._given.acquire()
                if (work := self._work) is None:
                    return
                may_go_on = work()
                close_left_loop()
                if may_go_on:
                    self._free.append(self)
        except Killed:  # the work was given up
            close_left_loop()
