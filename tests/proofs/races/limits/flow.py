"""What the processes race through: one hop whose handler is at work for a while, of which few may be for one key."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Final

from pydantic import BaseModel

from flowguard.errors import Retry
from flowguard.flow import AnyFlow, Flow
from flowguard.limit import PerKey
from flowguard.outcome import Done, Outcome
from flowguard.retry import MOST_ATTEMPTS, Fixed, RetryPolicy
from flowguard.stage import Stage
from flowguard.step import Step

CHARGES: Final = "race-charges"
"""A row for each order, with how often it was charged."""

AT_ONCE: Final = 2
KEYS: Final = 3
"""Few, so that of sixteen processes most find no place."""

LEASE: Final = 4_000
"""In ticks of the shared clock."""

PER: Final = 4_000
"""In ticks: so long is the time in which few may begin."""

COUNT: Final = 6

FAIL: Final = 0.05

Told = Callable[[str, str], AbstractContextManager[None]]
"""What notes that the handler of an order begins for a customer, and that it raises."""

WITNESSES: Final[list[Told]] = []
"""The one of this process."""


class Order(BaseModel):
    id: str
    customer: str


class Charge(
    Stage[Order],
    name="charge",
    retry=RetryPolicy(attempts=MOST_ATTEMPTS, backoff=Fixed(0), max_delay=timedelta(0)),
    timeout=timedelta(milliseconds=LEASE),
    limit=(
        PerKey("customer", at_once=AT_ONCE),
        PerKey("customer", per=timedelta(milliseconds=PER), count=COUNT, name="rate"),
    ),
):
    def handle(self, order: Order, step: Step) -> Outcome:
        with WITNESSES[-1](order.customer, order.id):
            step.update(CHARGES, {"id": order.id}, "ADD charged :one", values={":one": 1})
            if random.random() < FAIL:
                raise Retry("an attempt that fails")
        return Done()


class Orders(Flow, name="limited", object_id="id"):
    stages = (Charge,)


FLOWS: Final[tuple[AnyFlow, ...]] = (Orders,)
