"""The workers that a schedule holds up: before which call and until what has happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from flowguard.sim.event_source import EventSource
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import HOLDS, Choice, FaultKind, Schedule
from flowguard.testing.explorer.run.fault_effects import Killed
from flowguard.testing.explorer.run.invocation import LONGEST_INVOCATION
from flowguard.testing.explorer.run.sandbox import Sandbox
from flowguard.testing.explorer.run.worker import Worker


class Turns(Protocol):
    """Who gives the turn to workers and notes what they do."""

    @property
    def history(self) -> History: ...

    def turn_to(self, worker: Worker, step: Callable[[], None], /) -> None: ...

    def note(self, worker: Worker | None, text: str, /) -> None: ...


class HeldWorkers:
    """The workers that are held up now, and the choices that will still hold one up."""

    def __init__(self, schedule: Schedule, sandbox: Sandbox, source: EventSource, turns: Turns) -> None:
        self._sandbox = sandbox
        self._source = source
        self._turns = turns
        self._ahead = [choice for choice in schedule.choices if choice.kind in HOLDS]
        self._held: list[Worker] = []

    def before(self, worker: Worker) -> tuple[FaultKind, ...]:
        """Decide which workers go on before a call and return how this one was held up.

        A dead worker does not go on, nor does one that the schedule holds up. Raises :class:`Killed` in a dead one.
        """
        kinds: tuple[FaultKind, ...] = ()
        while True:
            if worker.killed:
                raise Killed
            calls = self._calls()
            for held in list(self._held):
                if held.until and calls >= held.until:
                    self._let_go(held)
            due = [choice for choice in self._ahead if choice.at == self._calls() + 1]
            if not due:
                return kinds
            kinds += (due[0].kind,)
            self._ahead.remove(due[0])
            self._hold(worker, due[0])

    def after(self, ended: Worker) -> None:
        """Resume the held workers that have waited long enough, after this worker has ended or is held too."""
        for held in list(self._held):
            if held in self._held and self._has_waited(held, ended):
                self._let_go(held)

    def one_goes_on(self, moments: list[int]) -> bool:
        """Let the first go on unless they all stay until the next of these moments. Answer whether it did."""
        early = any(worker.held and worker.held.kind is FaultKind.SEEN_EARLY for worker in self._held)
        soon = bool(moments) and min(moments) - self._sandbox.now() <= LONGEST_INVOCATION
        if not self._held or (soon and not early):
            return False
        self._turns.history.waited_for_all |= bool(self._held[0].until)
        self._let_go(self._held[0])
        return True

    def end(self) -> None:
        """End every worker that still waits, even after an error."""
        while self._held:
            worker = self._held.pop()
            worker.killed = True
            if not worker.is_abandoned:
                worker.go_on()

    def _has_waited(self, held: Worker, ended: Worker) -> bool:
        """Answer whether what a worker is held up for has happened.

        That is a number of calls by others, or the end of the worker that received its record.
        """
        if held.until:
            return self._calls() >= held.until
        return held is not ended and held.has_one_of(ended) and ended.over

    def _hold(self, worker: Worker, choice: Choice) -> None:
        """Hold up a worker before a call so that the others go on. Runs in the worker's thread."""
        worker.held = choice
        worker.until = self._calls() + choice.more if choice.more else 0
        self._held.append(worker)
        early = choice.kind is FaultKind.SEEN_EARLY
        if early:
            for other in (worker.delivery, *worker.others):
                self._source.show_early(other, self._sandbox.now())
        self._turns.note(worker, "held up" + (", and its record seen early" if early else ""))
        worker.keeps = self._sandbox.memory.take()
        worker.wait()

    def _let_go(self, worker: Worker) -> None:
        self._held.remove(worker)
        worker.held = None
        timeout = worker.function.timeout
        if timeout is not None and self._sandbox.now() - worker.entry.at >= timeout:
            worker.killed = True
        self._turns.note(worker, "is dead: its function's time is over" if worker.killed else "goes on")
        others = self._sandbox.memory.take()
        self._sandbox.memory.give(worker.keeps)
        self._turns.turn_to(worker, worker.go_on)
        self._sandbox.memory.give(others)

    def _calls(self) -> int:
        return len(self._turns.history.calls)
