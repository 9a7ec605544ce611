"""Does the same to many runs, and knows where it can go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from flowguard.aws.dead_letter_queue import Unusable, explained, spares_none
from flowguard.aws.run_reader import RunReader, SeenRun
from flowguard.clock import Clock
from flowguard.errors import Reject, RunTooBusy, SendFailed
from flowguard.names.ids import RequestId
from flowguard.operate.selection import Selection
from flowguard.startup.named_tuple import NamedTuple

FAILED: Final = "FAILED"
"""The word for a run for which it did not work."""

LEFT: Final = "LEFT"
"""The word for a run that is no more as it was selected, or for which there is nothing to do."""

MOST_IN_A_ROW: Final = 10
"""So many runs in a row that fail have one cause, which is mended before it goes on."""

CHANGED: Final = "it is no more as it was selected"

_SECOND: Final = 1_000  # ms


class Chosen(NamedTuple):
    """A run that was selected. It has names alone, since there may be a hundred thousand."""

    flow: str
    object_id: str
    request_id: RequestId
    requested_at: int


def chosen_of(seen: SeenRun) -> Chosen:
    """Return the names of a run."""
    return Chosen(seen.flow, seen.object_id, seen.item.request_id, seen.item.requested_at)


class End(NamedTuple):
    """The outcome for a run. ``word`` is one such as CANCELLED."""

    word: str
    why: str


class Chooser(NamedTuple):
    """Chooses the runs that pass the filters and for which there is something to do, as of ``now``."""

    selection: Selection
    runs: RunReader
    fits: Callable[[SeenRun], bool]
    now: int

    def takes(self, seen: SeenRun) -> bool:
        return self.selection.has(seen, self.runs, self.now) and self.fits(seen)

    def again(self, chosen: Chosen) -> SeenRun | None:
        """Read a run that was chosen, consistently. None where another run has the object, or it passes no more."""
        seen = self.runs.read(chosen.flow, chosen.object_id)
        return seen if seen is not None and chosen_of(seen) == chosen and self.takes(seen) else None


class Pace:
    """Spreads steps over time, so many in a second."""

    def __init__(self, per_second: float, clock: Clock, pause: Callable[[float], None]) -> None:
        self._per_second = per_second
        self._every = _SECOND / per_second
        self._clock = clock
        self._pause = pause
        self._next = float(clock.now())
        self._turn = 0.0

    @property
    def at_once(self) -> int:
        """Return how many steps may be begun together: those of a second, and at least one."""
        return max(1, int(self._per_second))

    def wait(self, steps: int = 1) -> None:
        """Wait until the steps may begin. Time that was not used is not made up for.

        That is never longer than the steps before take, however far back the clock was set meanwhile.
        """
        now = float(self._clock.now())
        begin = min(self._next, now + self._turn)
        if now < begin:
            self._pause((begin - now) / _SECOND)
        self._turn = steps * self._every
        self._next = max(begin, now) + self._turn


class FailureStreak:
    """Counts runs that fail one after the other. As many as ``most`` have one cause, which is to be mended first."""

    def __init__(self, most: int = MOST_IN_A_ROW) -> None:
        self.length = 0
        self._most = most

    def add(self, end: End) -> None:
        """Count the end of a run. Raises :class:`Unusable` where too many in a row have failed."""
        self.length = self.length + 1 if end.word == FAILED else 0
        if self.length >= self._most:
            raise Unusable(f"{self.length} runs in a row", f"the last one said: {end.why}", "mend that, and go on")


@dataclass
class Bulk:
    """Does the same to many runs in order and counts the outcomes.

    ``place`` is where the same command goes on: behind the last run that was done, has failed, or was left alone.
    ``before_failures`` is the place in front of those that have failed just now, one after the other. ``in_hand`` is
    the run to which it may have been done while its outcome is not known yet.
    """

    act: Callable[[SeenRun], End]
    chooser: Chooser
    pace: Pace
    tell: Callable[[Chosen, End], None]
    place_of: Callable[[Chosen], str]
    place: str | None
    streak: FailureStreak = field(default_factory=FailureStreak)
    counts: Counter[str] = field(default_factory=Counter)

    in_hand: Chosen | None = None

    def __post_init__(self) -> None:
        self.before_failures = self.place

    def work(self, chosen: Iterable[Chosen]) -> None:
        """Do it to each run in order. Each is read first, and left alone where it changed meanwhile.

        Raises :class:`Unusable` for what no other run would be spared, such as credentials that have expired, and
        where many in a row fail.
        """
        for run in chosen:
            self.pace.wait()
            end = self._end(run)
            self.counts[end.word] += 1
            self.in_hand = None
            self.tell(run, end)
            self.place = self.place_of(run)
            if end.word != FAILED:
                self.before_failures = self.place
            self.streak.add(end)

    def _end(self, run: Chosen) -> End:
        try:
            with explained(f"{run.flow} of {run.object_id}"):
                seen = self.chooser.again(run)
                if seen is None:
                    return End(LEFT, CHANGED)
                self.in_hand = run
                return self.act(seen)
        except Unusable as error:
            if spares_none(error):
                raise
            return End(FAILED, str(error))
        except (Reject, RunTooBusy, SendFailed) as error:
            return End(FAILED, str(error))
