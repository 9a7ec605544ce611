"""The invocation that has the turn: whose thread it is, how its time passes, and what it lacks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, NoReturn

from flowguard.testing.explorer.record.history import History, Lack
from flowguard.testing.explorer.record.outside_call import OutsideCall
from flowguard.testing.explorer.record.site import Site, calling_site
from flowguard.testing.explorer.run.debugger import Debugger
from flowguard.testing.explorer.run.fault_effects import Killed
from flowguard.testing.explorer.run.worker import Worker

LONGEST_INVOCATION: Final = 900_000
"""Lambda ends an invocation that takes longer, ms."""

READS: Final = 1_000
"""How often an invocation may ask for the time before asking moves it."""

PER_READ: Final = 10
"""How far each further question moves the time, ms."""


class Invocation:
    """The worker that has the turn, and the history that notes what it does.

    ``now`` and ``move_to`` are the virtual time. ``point`` makes a call of a party outside AWS, at which something may
    go wrong.
    """

    history: History
    point: Callable[[OutsideCall, Callable[[], dict[str, Any]]], dict[str, Any]]

    def __init__(self, now: Callable[[], int], move_to: Callable[[int], None]) -> None:
        self.worker: Worker | None = None
        self.debugger: Debugger | None = None
        self._now = now
        self._move_to = move_to

    def is_inside(self) -> bool:
        """Answer whether the calling thread is that of the invocation."""
        return self.worker is not None and self.worker.thread == threading.get_ident()

    def meets_insider(self) -> bool:
        """Answer whether its record is a forged one. It is judged as by functions that have keys."""
        return self.worker is not None and self.worker.delivery.number in self.history.forged

    def pass_time(self, ms: int) -> None:
        """Move the virtual time. Raises :class:`Killed` where the function's time is over."""
        worker = self.worker
        if worker is None:
            return
        if worker.killed:
            raise Killed
        limit = _limit(worker)
        moment, end = self._now() + ms, worker.entry.at + limit
        worker.reads = 0
        self._move_to(min(moment, end))
        if moment > end:
            worker.killed = worker.entry.died = True
            worker.entry.why = f"it was still waiting when its function's time, {limit // 1000} s, was over"
            raise Killed

    def exits(self, how: str) -> NoReturn:
        """End the worker as the end of its process does. Raises :class:`Killed`."""
        if (worker := self.worker) is not None:
            worker.killed = worker.entry.died = True
            worker.entry.why = f"it ended its process by {how}"
            worker.entry.raised_at = calling_site(until="_work")
        raise Killed

    def ends_if_over(self, worker: object) -> bool:
        """End a worker that is held up beyond its function's time. Answer whether it was."""
        if not isinstance(worker, Worker) or worker is self.worker or worker.held is None:
            return False
        is_over = self._now() - worker.entry.at >= _limit(worker)
        worker.killed = worker.killed or is_over
        return is_over

    def elapsed(self) -> int:
        """Return the virtual time since the schedule began, in ms, and note that somebody asked for it."""
        self.asked()
        return self._now() - self.history.start

    def asked(self) -> None:
        """Note that somebody asked for the time. A loop that does nothing else moves it."""
        if (worker := self.worker) is None or worker.thread != threading.get_ident():
            return
        worker.reads += 1
        if worker.reads > READS:
            reads = worker.reads
            self.pass_time(PER_READ)
            worker.reads = reads

    def stuck(self, site: Site, problem: str) -> None:
        """Note a wait that cannot end."""
        self.lack(site, problem, "let it wait for no longer than a time, or give it what it waits for")

    def lack(self, site: Site, problem: str, fix: str, service: str = "", driver: str = "") -> None:
        """Note what the worker needs and there is not."""
        if self.worker is not None:
            self.history.lacks.append(Lack(site, self.worker.entry.worker, problem, fix, service, driver))


def _limit(worker: Worker) -> int:
    """Return how long an invocation may take, in ms."""
    return min(worker.function.timeout or worker.function.visibility, LONGEST_INVOCATION)
