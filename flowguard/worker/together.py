"""The records of one invocation that go at once, and the commits that wait for each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final, TypeAlias, TypeGuard

from flowguard.clock import Clock
from flowguard.errors import OtherRelease
from flowguard.names.ids import ObjectId
from flowguard.protocol.claims import goes_on_as, kills_before, outlived
from flowguard.protocol.run import Claim, Refused
from flowguard.stage import MOST_AT_ONCE, AnyStage
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.envelope import Envelope
from flowguard.worker.asks import Answer, Ask, Committing, Way
from flowguard.worker.driving import Driver
from flowguard.worker.ending import Ending
from flowguard.worker.limits import is_limited
from flowguard.worker.ports import Budget
from flowguard.worker.routing import Arrival

LONGEST_WAIT_MS: Final = 250
"""How long a commit waits for others after its handler has ended, if the next handler takes no longer than before."""

LITTLE_TIME_MS: Final = 2_000
"""When less of the invocation is left, no commit waits."""

MOST_IN_A_WAVE: Final = 100
"""So many records are claimed together. More would cost no call less, and what no time is left for is given back."""

Key: TypeAlias = tuple[str, str | None, str | None]


class Turn(NamedTuple):
    """One record of an invocation. ``arrival`` is None for what is no stage's message, or cannot be read.

    ``about`` is the flow and the object that it is for, where it names them.
    """

    place: int
    envelope: Envelope
    arrival: Arrival | None = None
    about: tuple[str, ObjectId] | None = None

    @property
    def group(self) -> tuple[str | None, str | None] | None:
        """Return the FIFO queue and group that hold the record in its order. None for a standard queue."""
        return (self.envelope.queue_arn, self.envelope.group_id) if self.envelope.is_fifo else None

    @property
    def keys(self) -> frozenset[Key]:
        """Return what no two records that go at once may share."""
        about = {("object", *self.about)} if self.about is not None else set[Key]()
        return frozenset(about | ({("group", *self.group)} if self.group is not None else set()))

    @property
    def stage(self) -> AnyStage | None:
        return self.arrival.stage if self.arrival is not None else None

    @property
    def parallel(self) -> int:
        """Return how many records of its stage may be handled at once."""
        return self.stage.parallel if self.stage is not None else 1

    @property
    def may_share(self) -> bool:
        """Answer whether the record is claimed and committed with others."""
        envelope, arrival = self.envelope, self.arrival
        if arrival is None or arrival.too_deep is not None or isinstance(arrival.problem, OtherRelease):
            return False
        named = envelope.source.takes_names and envelope.source_arn is not None
        return named and bool(arrival.message.object_id) and not is_limited(arrival)


class Shared(NamedTuple):
    """A way whose first ask was made with others. ``answer`` is None where it has to be made alone."""

    arrival: Arrival
    way: Way[Ending]
    answer: Answer

    @property
    def may_kill(self) -> bool:
        """Answer whether a worker had the same attempt before, and did not come back.

        It may have been killed by it, and whatever waits for a common commit would be killed too. The item tells, not
        how often the record was received: that also counts outages, and returns for want of time. Only where no lease
        is taken, or the item is not known, nothing else tells.
        """
        claim = self.answer
        if isinstance(claim, Refused):
            is_in_place = self.arrival.envelope.retried_in_place
            return goes_on_as(claim.item, self.arrival.message, is_in_place=is_in_place) is not None
        if not isinstance(claim, Claim) or claim.unwritten is not None:
            return self.arrival.envelope.receive_count > 1
        return kills_before(claim.before, claim.message) > 0

    @property
    def leases(self) -> list[Claim]:
        """Return the claim that holds a lease, if it is one."""
        return [self.answer] if isinstance(self.answer, Claim) and self.answer.unwritten is None else []

    def in_time(self, now: int, lease_until: int) -> Answer:
        """Return the answer. None where less than half is left of the lease that is to be had at ``now`` (ms)."""
        if not isinstance(self.answer, Claim):
            return self.answer
        left, whole = self.answer.item.lease_until - now, lease_until - now
        return self.answer if 2 * left >= whole else None


class Waiting(NamedTuple):
    """A way that waits for its commit, which may be made with others."""

    arrival: Arrival
    way: Way[Ending]
    ask: Committing

    def is_outlived(self, now: int) -> bool:
        """Answer whether what was read at its begin is too old at ``now`` (ms) to commit it with others."""
        return outlived(self.ask.claim, now, self.arrival.flow.retention // timedelta(milliseconds=1))


def can_wait(ask: Ask) -> TypeGuard[Committing]:
    """Answer whether a way may stop at what it asks, for others to ask the same."""
    return isinstance(ask, Committing) and ask.can_wait


def waves(turns: Sequence[Turn]) -> Iterator[list[Turn]]:
    """Yield the records that go at once. Those of one object or one FIFO group are in different waves, in order.

    A wave has no more than ``MOST_IN_A_WAVE``. ::

        records     a1 b1 a2 c1 a3
        wave 1      a1 b1    c1
        wave 2            a2
        wave 3                  a3
    """
    left = list(turns)
    while left:
        met: set[Key] = set()
        wave: list[Turn] = []
        later: list[Turn] = []
        for turn in left:
            keys = turn.keys
            (wave if met.isdisjoint(keys) and len(wave) < MOST_IN_A_WAVE else later).append(turn)
            met |= keys  # one that has to wait lets none of its own go before it
        yield wave
        left = later


def at_once(turns: Sequence[Turn], *, in_threads: bool) -> Iterator[list[Turn]]:
    """Yield the records of a wave in order. Those of one stage come together, as many as may be handled at once."""
    several: list[Turn] = []
    for turn in turns:
        if several and (not in_threads or len(several) == turn.parallel or several[0].stage is not turn.stage):
            yield several
            several = []
        several.append(turn)
    if several:
        yield several


class PendingCommits:
    """The commits of one wave that wait to be made together."""

    def __init__(self, driver: Driver, clock: Clock, budget: Budget) -> None:
        self._driver = driver
        self._clock = clock
        self._budget = budget
        self._waiting: dict[int, Waiting] = {}
        self._transactions = 0
        self._since = 0
        self._longest = 0

    def add(self, place: int, left: Waiting, began_at: int) -> None:
        """Let the commit wait whose handler has just ended. ``began_at`` is when its record was begun, ms."""
        now = self._clock.now()
        if not self._waiting:
            self._since = now
        self._longest = max(self._longest, now - began_at)
        self._waiting[place] = left
        self._transactions += left.ask.commit.is_transaction

    def is_due(self, *, at_work: bool = False) -> bool:
        """Answer whether they must be made before another record is begun, or has ended that is ``at_work``."""
        if not self._waiting:
            return False
        left = self._budget.remaining()
        waited = self._clock.now() - self._since
        longest = 0 if at_work else self._longest
        is_late = waited + longest > LONGEST_WAIT_MS or (left is not None and left < LITTLE_TIME_MS)
        return is_late or self._transactions >= MOST_AT_ONCE

    def flush(self) -> Iterator[tuple[int, Waiting, Answer]]:
        """Make the commits. Yield each by the place of its record with its answer; None has to be asked for alone.

        A single one is left to its own call, as is one whose read is too old.
        """
        waiting, self._waiting, self._transactions = self._waiting, {}, 0
        now = self._clock.now()
        answers = self._driver.ask_together(
            {place: left.ask for place, left in waiting.items() if not left.is_outlived(now)}
        )
        for place, left in waiting.items():
            yield place, left, answers.get(place)
