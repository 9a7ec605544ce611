"""The runs of a search, with what their calls met."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from flowguard.project.declared import declared_by_name
from flowguard.sim.functions import ONE_BY_ONE
from flowguard.testing.explorer.checks.compared import is_compared
from flowguard.testing.explorer.checks.either import Either, checked_either
from flowguard.testing.explorer.checks.equivalence import End, Free, end_of
from flowguard.testing.explorer.checks.unplayed import Unplayed, unplayed
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import ALONE_WITH_TWIN, FaultKind, Schedule
from flowguard.testing.explorer.record.touched import Touched, is_reading
from flowguard.testing.explorer.record.view import Same
from flowguard.testing.explorer.run.driver import run
from flowguard.testing.explorer.run.inbox import Coming
from flowguard.testing.explorer.run.sandbox import Sandbox
from flowguard.testing.explorer.search.known_runs import KnownRuns
from flowguard.testing.explorer.search.pairs import call_names

LATER: Final = 90_061_001
"""By how much a run is moved to see what depends on the time, ms: another day, hour, minute, second and millisecond."""

Messages: TypeAlias = tuple[int, ...]
"""The numbers of first messages, from 1. None of them stands for all."""


def _with_times(free: Free, ttl: Mapping[str, str]) -> Free:
    """Add the TTL attributes to what no end is compared by: they depend on when an item was written."""
    return {**free, **{table: (*free.get(table, ()), attribute) for table, attribute in ttl.items()}}


class Lacking(Exception):
    """The engine cannot answer calls of these services, which the search needs."""

    def __init__(self, services: frozenset[str]) -> None:
        super().__init__(services)
        self.services = services


@dataclass(slots=True)
class Met:
    """The names of a run's calls with the faults that each met, and what they touched.

    ``uncounted`` are calls whose effect no comparison sees, ``has_kept`` says that a module kept something.
    """

    calls: list[tuple[str, frozenset[FaultKind]]] = field(default_factory=list)
    uncounted: frozenset[str] = frozenset()
    has_kept: bool = False
    touched: Touched = field(default_factory=Touched)

    @classmethod
    def of(cls, history: History) -> Met:
        """Return what was met in a history."""
        met, uncounted = cls(has_kept=bool(history.kept)), set[str]()
        for made, name in zip(history.calls, call_names(history), strict=True):
            met.touched.add(made.places, is_read=is_reading(made.operation, is_read=made.is_read))
            met.calls.append((name, frozenset({*made.held, *([made.fault] if made.fault is not None else ())})))
            if made.site.is_users and made.applied and not is_compared(made):
                uncounted.add(f"{made.service} {made.operation}")
        met.uncounted = frozenset(uncounted)
        return met


class Runs:
    """Runs and counts schedules in a sandbox and notes which faults each call met.

    ``free`` and ``same`` are what the ends of runs are compared without and by, ``either`` forms of which each has to
    have one; those of ``EITHER`` in the flows' modules where none are given. Without ``may_lack`` a service that
    the engine does not have raises :class:`Lacking`. ``known`` are the runs of an earlier search. ``all`` are the first
    messages, ``touched`` is by the messages that came what calls have read and written. ``has_kept`` says that a module
    kept something from one record for the next. ``left_out`` are the numbers of first messages that never come.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        free: Free | None = None,
        same: Same | None = None,
        either: Either | None = None,
        *,
        may_lack: bool = True,
        known: KnownRuns | None = None,
    ) -> None:
        self.sandbox = sandbox
        self.free = _with_times(free or {}, sandbox.ttl)
        forms = declared_by_name("EITHER", sandbox.modules) if either is None else either
        self.either = checked_either(forms, self.free)
        self.same = same or {}
        self.count = 0
        self.known = known
        self.has_kept = False
        self.touched: dict[Messages, Touched] = {}
        self.all: Sequence[Coming] = sandbox.coming
        self.left_out: frozenset[int] = frozenset()
        self._only: Messages = ()
        self._may_lack = may_lack
        self._uncounted: set[str] = set()
        self._coverage: dict[str, set[FaultKind]] = {}
        self._unplayed: dict[tuple[str, str], Unplayed] = {}

    @property
    def coverage(self) -> dict[str, str]:
        """Return the letters of the faults that each call met."""
        return {name: "".join(sorted(kinds)) for name, kinds in sorted(self._coverage.items())}

    def has_met(self, call: str, kind: FaultKind) -> bool:
        """Answer whether a call of the coverage has met a fault of this kind."""
        return kind in self._coverage.get(call, ())

    @property
    def uncounted(self) -> tuple[str, ...]:
        """Return the calls whose effect no comparison of ends sees."""
        return tuple(sorted(self._uncounted))

    @property
    def unplayed(self) -> tuple[Unplayed, ...]:
        """Return where handlers met a driver that is not played."""
        return tuple(self._unplayed.values())

    def end(self, history: History) -> End:
        """Return the end of a history."""
        return end_of(history, self.sandbox.keys, self.free, self.same, self.either)

    @property
    def has_all(self) -> bool:
        """Answer whether all first messages come now."""
        return not self._only

    @property
    def numbers(self) -> Messages:
        """Return the numbers of the first messages that may come."""
        return tuple(number for number in range(1, len(self.all) + 1) if number not in self.left_out)

    def leave_out(self, numbers: Iterable[int]) -> None:
        """Let these first messages not come any more."""
        self.left_out |= frozenset(numbers)
        self.sandbox.coming = self._coming()

    @contextmanager
    def only(self, messages: Messages) -> Iterator[None]:
        """Let none but these first messages come in a block."""
        before, self._only = self._only, messages
        self.sandbox.coming = self._coming()
        try:
            yield
        finally:
            self._only = before
            self.sandbox.coming = self._coming()

    def _coming(self) -> list[Coming]:
        messages = [self.all[number - 1] for number in self.numbers if number in self._only or not self._only]
        twin = self.sandbox.twin if self._only == ALONE_WITH_TWIN else None
        return messages if twin is None else [*messages, twin]

    def run(self, schedule: Schedule) -> History:
        """Run a schedule. Raises :class:`Lacking`."""
        self.count += 1
        history = run(self.sandbox, schedule.of(self._only))
        lacking = frozenset(lack.service for lack in history.lacks if lack.service)
        if lacking and not self._may_lack:
            raise Lacking(lacking)
        for place in unplayed(history):
            self._unplayed.setdefault((place.stage, place.line), place)
        self._cover(Met.of(history))
        return history

    def take(self, met: Met) -> None:
        """Count a run that was made before."""
        self.count += 1
        self._cover(met)

    def name_of(self, schedule: Schedule) -> str:
        """Return what tells the run of a schedule from all others with the same arguments."""
        return "@".join([schedule.of(self._only).id, *sorted(self.sandbox.elsewhere)])

    def run_later(self) -> History:
        """Run the undisturbed schedule at another time. What differs then depends on the time, and not on an order."""
        before = self.sandbox.start
        self.sandbox.start = before + LATER
        try:
            return self.run(Schedule())
        finally:
            self.sandbox.start = before

    @property
    def is_batched(self) -> bool:
        """Answer whether the flows' functions get several records at once."""
        return self.sandbox.batching.size > 1

    def run_one_by_one(self, schedule: Schedule, without: frozenset[str] = frozenset()) -> History:
        """Run a schedule in which each function of flows gets one record at once.

        The first messages with the ids ``without`` do not come.
        """
        sandbox = self.sandbox
        before = sandbox.batching, sandbox.coming
        sandbox.batching = ONE_BY_ONE
        sandbox.coming = [first for first in sandbox.coming if first.recorded.envelope.message_id not in without]
        try:
            return self.run(schedule)
        finally:
            sandbox.batching, sandbox.coming = before

    def run_without_memory(self, schedule: Schedule) -> History:
        """Run a schedule in which each record finds a new process."""
        self.sandbox.memory.is_lost = True
        try:
            return self.run(schedule)
        finally:
            self.sandbox.memory.is_lost = False

    def _cover(self, met: Met) -> None:
        self.has_kept |= met.has_kept
        self.touched.setdefault(self._only, Touched()).join(met.touched)
        for name, kinds in met.calls:
            self._coverage.setdefault(name, set()).update(kinds)
        self._uncounted |= met.uncounted
