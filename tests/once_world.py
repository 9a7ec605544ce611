"""A world for functions under ``@once``: an empty table, a clock, and functions that count their calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from flowguard import once
from flowguard.aws.ledger import ledger_of
from flowguard.clock import ManualClock
from flowguard.events import Tally
from flowguard.names.ids import SeededIds
from flowguard.once_function import OnceServices
from flowguard.settings import Settings
from flowguard.sim.calls import Recorder
from flowguard.testing.context import FakeContext
from tests.aws.engines import on_memory

SECRET = "4111-1111"


class Receipt(BaseModel):
    order_id: str
    amount: Decimal


@dataclass
class World:
    """An empty table, a clock that stands still, and how often functions were called."""

    clock: ManualClock
    tally: Tally
    services: OnceServices
    called: list[Any] = field(default_factory=list)

    def context(self, seconds: float = 30) -> FakeContext:
        return FakeContext(clock=self.clock, timeout=timedelta(seconds=seconds))

    def told(self) -> list[str]:
        return [event.type.value for event in self.tally.events]


@contextmanager
def once_world() -> Iterator[World]:
    with on_memory() as clients:
        clock, tally = ManualClock(1_800_000_000_000), Tally()
        ledger = ledger_of(Settings(), clients)
        yield World(clock, tally, OnceServices(ledger, clock, SeededIds(), tally))


def charge_in(world: World, act: Callable[[], None] = lambda: None, **options: Any) -> Any:
    """The function of most tests."""

    @once("charge", **{"key": "order_id", **options})
    def charge(order: dict[str, Any], context: Any = None) -> Receipt:
        world.called.append(order["order_id"])
        act()
        return Receipt(order_id=order["order_id"], amount=Decimal("1.10"))

    return charge.using(world.services)


ORDER = {"order_id": "o-1", "card": SECRET}


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def writes(calls: Recorder) -> list[str]:
    return [call.operation for call in calls.calls if call.service == "dynamodb"]


def async_in(world: World) -> Any:
    @once("charge", key="order_id")
    async def charge(order: dict[str, Any]) -> Receipt:
        world.called.append(order["order_id"])
        await asyncio.sleep(0)
        if order.get("wrong"):
            raise ValueError("no")
        return Receipt(order_id=order["order_id"], amount=Decimal(1))

    return charge.using(world.services)
