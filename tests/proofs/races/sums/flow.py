"""What the processes race through: one hop that adds an amount, in one of the ways in which a stage can add."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel

from flowguard.errors import Retry
from flowguard.flow import AnyFlow, Flow
from flowguard.outcome import Done, Outcome
from flowguard.retry import MOST_ATTEMPTS, Fixed, RetryPolicy
from flowguard.stage import Stage
from flowguard.step import Step

SUMS: Final = "race-sums"
"""Rows ``sum-0`` and so on that everybody adds to, one for each way of adding, and one for each object."""

LEASE: Final = 200
"""In ticks of the shared clock."""

FAIL: Final = 0.05
SPREAD: Final = 8
"""Rows that the sum is spread over: so that eight processes meet at each, and do not all wait for one."""

EARLY, COMPUTED = "applied-at-once", "computed"


class Added(BaseModel):
    """A request. ``early`` adds in a block of its own too, ``computes`` by what it has read."""

    id: str
    amount: int
    early: bool = False
    computes: bool = False


class Counted(BaseModel):
    """The run's state: what it has added. The next request for the object takes that back."""

    amount: int = 0


class Add(
    Stage[Added, Counted],
    name="add",
    retry=RetryPolicy(attempts=MOST_ATTEMPTS, backoff=Fixed(0), max_delay=timedelta(0)),
    timeout=timedelta(milliseconds=LEASE),
):
    def handle(self, added: Added, step: Step[Counted]) -> Outcome:
        if added.early:
            with step.apply("early"):
                step.update(SUMS, {"id": EARLY}, "ADD applied :one", values={":one": 1})
        if added.computes:
            step.modify(SUMS, {"id": COMPUTED}, one_more)
        before = step.superseded.amount if step.superseded is not None else 0
        step.state.amount = added.amount
        more = {":more": added.amount - before, ":one": 1}
        step.update(SUMS, {"id": sum_of(added.id)}, "ADD amount :more, applied :one", values=more)
        step.update(SUMS, {"id": added.id}, "ADD amount :more, applied :one", values=more)
        if random.random() < FAIL:
            raise Retry("an attempt that fails")
        return Done()


class Adds(Flow, name="adds", object_id="id"):
    """The newest request for an object counts, and it alone."""

    stages = (Add,)


FLOWS: Final[tuple[AnyFlow, ...]] = (Adds,)


def sum_of(object_id: str) -> str:
    return f"sum-{int(object_id[1:]) % SPREAD}"


def one_more(row: dict[str, Any] | None) -> dict[str, Any]:
    return {"applied": 1 if row is None else row["applied"] + 1}
