"""What the undisturbed invocations before a fault did, so that they are run once and not in every schedule.

::

    none   1 ─ 2 ─ 3 ─ 4 ─ 5        each is noted, with the state of the engine after it
    d9     1 ─ 2 ─ 3'               1 and 2 are repeated by what was noted; call 9 is in 3, which is run

An invocation is decided by its record, the time and what is there. So one that begins as it did in an earlier schedule,
after the same ones, ends as it did. Nothing is shared where something lies outside the engine: what modules and their
caches keep, plain functions, databases, parties outside.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from flowguard.events import EventType
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import (
    AT_CALLS,
    HOLDS,
    OF_ANSWERS,
    OF_DELIVERIES,
    OF_INSIDERS,
    FaultKind,
    Schedule,
)
from flowguard.testing.explorer.run.injector import FaultInjector
from flowguard.testing.explorer.run.known_prefix import Begun, Invoked, KnownPrefix
from flowguard.testing.explorer.run.sandbox import Sandbox
from flowguard.testing.explorer.run.worker import Worker

_OF_CALLS: Final = (AT_CALLS | HOLDS) - {FaultKind.STALE}
"""What begins at a call. A read that is behind needs the states before it, and what is refused for good is refused to
look-ups too, which a process makes once."""

_OF_NUMBERED: Final = OF_DELIVERIES | OF_INSIDERS
_AT_THE_END: Final = OF_ANSWERS | {FaultKind.REDRIVEN}
"""What changes which record comes next, and nothing in the invocations until then."""

_REMEMBERED_BY_NONE: Final = frozenset(
    {
        *(EventType.CLAIMED, EventType.DONE, EventType.BUSY, EventType.DUPLICATE, EventType.STALE, EventType.IGNORED),
        *(EventType.SUPERSEDED, EventType.ATTACHED, EventType.KEPT, EventType.GONE, EventType.EARLY, EventType.RESET),
        *(EventType.WAS_CANCELLED, EventType.WAS_RESET, EventType.TOOK_OVER, EventType.FLUSHED, EventType.COMMITTED),
        *(EventType.WAITING, EventType.ANSWERED, EventType.TIMED_OUT, EventType.COMPLETED, EventType.FAILED),
        *(EventType.UNDONE, EventType.RETRIED, EventType.IN_LINE, EventType.CALLED, EventType.CONTINUED),
        *(EventType.PUT_OFF, EventType.SENT, EventType.KEY_PAUSED, EventType.KEY_RESUMED),
    }
)
"""Events after which the process of the function knows no more than before. After others it may: since when it cannot
read a record, what it was denied, and which flow has weak ids."""

_LISTS: Final = ("calls", "versions", "posted", "places", "limited", "notes", "requests", "shortened", "removed")
"""Lists of a history that an invocation makes longer."""

_OF_ENTRY: Final = ("stage", "hop", "acked", "failures", "why", "raised_at", "settles")


class SharedPrefix:
    """The prefix of one schedule. It is over at the first invocation in which something goes wrong."""

    def __init__(self, sandbox: Sandbox, schedule: Schedule, faults: FaultInjector) -> None:
        self._sandbox, self._faults = sandbox, faults
        self._prefix: KnownPrefix = sandbox.prefix
        self._calls = _first(schedule, _OF_CALLS)
        self._deliveries = _first(schedule, _OF_NUMBERED)
        kinds = {choice.kind for choice in schedule.choices}
        self._is_over = not sandbox.shares or bool(kinds - _OF_CALLS - _OF_NUMBERED - _AT_THE_END)
        self._notes = not kinds & _AT_THE_END
        self._begun: Begun | None = None
        self._before: dict[str, int] = {}
        self._provided: Any = None

    def repeats(self, worker: Worker, history: History) -> bool:
        """Repeat what the invocation did in an earlier schedule. Answer whether that is known."""
        number, known = len(history.deliveries), self._prefix.known
        begun = Begun.of(worker.delivery, history, self._sandbox.now())
        self._is_over = self._is_over or history.before is not None or number >= self._deliveries
        if self._is_over:
            return False
        if number > len(known):
            self._begin(begun, history)
            return False
        invoked = known[number - 1]
        ends = begun.calls + len(invoked.added["calls"])
        if invoked.begun != begun or ends >= self._calls:
            self._is_over = True
            return False
        self._repeat(invoked, worker, history)
        return True

    def _begin(self, begun: Begun, history: History) -> None:
        self._begun = begun
        self._before = {name: len(getattr(history, name)) for name in _LISTS} | {"expired": history.expired}
        self._faults.of_records = []
        self._provided = self._sandbox.provisioner.provided()

    def note(self, worker: Worker, history: History) -> None:
        """Note what an invocation did that was the first to be run at its place."""
        begun, self._begun = self._begun, None
        if begun is None or self._is_over:
            return
        fast, entry = self._sandbox.fast, worker.entry
        is_plain = (
            self._sandbox.now() == begun.at
            and self._provided == self._sandbox.provisioner.provided()
            and not (entry.died or worker.killed or worker.is_abandoned or history.lacks)
            and not self._sandbox.keeps_elsewhere()
            and _REMEMBERED_BY_NONE.issuperset(event.type for event in entry.events)
        )
        if not (self._notes and is_plain and fast is not None) or len(history.calls) >= self._calls:
            self._is_over = True
            return
        self._prefix.known.append(
            Invoked(
                begun,
                entry,
                {name: getattr(history, name)[self._before[name] :] for name in _LISTS},
                dict(history.recorded),
                history.expired - self._before["expired"],
                self._faults.of_records,
                self._faults.state(),
                (fast.snapshot(), self._sandbox.drawn(), self._sandbox.made_tokens.texts),
            )
        )

    def _repeat(self, invoked: Invoked, worker: Worker, history: History) -> None:
        sandbox, entry = self._sandbox, worker.entry
        for name in _OF_ENTRY:
            setattr(entry, name, getattr(invoked.entry, name))
        entry.events, entry.calls = [*invoked.entry.events], [*invoked.entry.calls]
        for name in _LISTS:
            if name != "posted":
                getattr(history, name).extend(invoked.added[name])
        history.recorded.update(invoked.recorded)
        history.expired += invoked.expired
        for message in invoked.added["posted"]:
            self._faults.post(message, message.at)
        for call in invoked.of_records:
            self._faults.of_record(call)
        self._faults.put_back(invoked.injected)
        engine, drawn, tokens = invoked.state
        assert sandbox.fast is not None  # noqa: S101 - nothing is shared without one
        sandbox.fast.restore(engine)
        sandbox.draw_on(drawn)
        sandbox.made_tokens.add(tokens, entry.events)
        worker.over = True


def _first(schedule: Schedule, kinds: Iterable[FaultKind]) -> float:
    """Return the number at which the first of these goes wrong."""
    return min((choice.at for choice in schedule.choices if choice.kind in kinds), default=float("inf"))
