"""What the processes race through: three hops of one kind of work, under three sets of rules, and two quiet hops.

Each of the three hops adds 1 to a row of its own and 1 to its object's row, in the transaction of its commit.
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel

from flowguard.errors import Reject, Retry
from flowguard.flow import IGNORE, AnyFlow, Flow
from flowguard.outcome import Done, Outcome
from flowguard.retry import Fixed, RetryPolicy
from flowguard.stage import Stage
from flowguard.step import Step

EFFECTS, TOTALS = "race-effects", "race-totals"
TABLES: Final = (EFFECTS, TOTALS)

LEASE: Final = 150
"""In ticks of the shared clock: about twice what a hop takes while sixteen processes tick it."""

ABANDONED: Final = 10 * LEASE
FAIL, REJECT = 0.15, 0.08
HOPS: Final = 3

_POLICY = RetryPolicy(attempts=3, backoff=Fixed(0), max_delay=timedelta(0))
_LEASE = timedelta(milliseconds=LEASE)
_LONGER = 6 * _LEASE
"""For hops whose commits wait for others."""


class Passed(BaseModel):
    """The run's state: which hop was committed last."""

    hop: int = 0


class _Hop(Stage[dict[str, Any], Passed], abstract=True, retry=_POLICY, timeout=_LEASE):
    """The work that all hops do. Which attempts fail is drawn by each process for itself."""

    def work(self, step: Step[Passed]) -> None:
        step.update(
            EFFECTS,
            {"id": f"{step.request_id}.{step.hop}"},
            "ADD applied :one SET came_from = :before",
            values={":one": 1, ":before": step.state.hop},
        )
        step.update(TOTALS, {"id": step.object_id}, "ADD applied :one", values={":one": 1})
        self.fail_or_pass(step)

    def fail_or_pass(self, step: Step[Passed]) -> None:
        step.state.hop = step.hop
        luck = random.random()
        if luck < FAIL:
            raise Retry("an attempt that fails")
        if luck < FAIL + REJECT:
            raise Reject("a request that can never work")


class First(_Hop, name="first", then="second"):
    def handle(self, payload: dict[str, Any], step: Step[Passed]) -> Outcome:
        self.work(step)
        return Second.message(payload)


class Second(_Hop, name="second", then="third"):
    def handle(self, payload: dict[str, Any], step: Step[Passed]) -> Outcome:
        self.work(step)
        return Third.message(payload)


class Third(_Hop, name="third"):
    def handle(self, payload: dict[str, Any], step: Step[Passed]) -> Outcome:
        self.work(step)
        return Done({"hops": step.hop})


class Newest(Flow, name="newest", object_id="id", complete_to="told"):
    """The newest request takes over."""

    stages = (First, Second, Third)


class Keeps(
    Flow,
    name="keeps",
    object_id="id",
    on_conflict=IGNORE,
    abandoned_after=timedelta(milliseconds=ABANDONED),
    complete_to="told",
):
    """The first request keeps the object."""

    stages = (First, Second, Third)


class Ordered(Flow, name="ordered", object_id="id", inbox="ordered.fifo", dead_letters="dead.fifo", complete_to="told"):
    """From a FIFO queue: a failed attempt writes a release, and its record stays."""

    stages = (First, Second, Third)


class Quiet(_Hop, name="quiet", then="quiet-end", timeout=_LONGER):
    """It records no writes, so that its commits may be made with others."""

    def handle(self, payload: dict[str, Any], step: Step[Passed]) -> Outcome:
        self.fail_or_pass(step)
        return QuietEnd.message(payload)


class QuietEnd(_Hop, name="quiet-end", timeout=_LONGER):
    def handle(self, payload: dict[str, Any], step: Step[Passed]) -> Outcome:
        self.fail_or_pass(step)
        return Done({"hops": step.hop})


class Silent(Flow, name="silent", object_id="id", complete_to="told"):
    """No hop records a write."""

    stages = (Quiet, QuietEnd)


class Read(Quiet, name="quiet", then="quiet-end", lease=False):
    """The same without a lease."""


class ReadEnd(QuietEnd, name="quiet-end", lease=False):
    """The same without a lease."""


class Unleased(Flow, name="unleased", object_id="id", complete_to="told"):
    """No hop records a write, and none is claimed unless it must be."""

    stages = (Read, ReadEnd)


FLOWS: Final[tuple[AnyFlow, ...]] = (Newest, Silent, Keeps, Unleased, Newest, Silent, Ordered, Unleased)
"""Object number n belongs to the flow at n modulo their number."""

QUIET: Final = frozenset({Silent.name, Unleased.name})
"""The flows without effects."""
