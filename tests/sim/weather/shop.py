"""A shop whose orders are priced by another flow, and undone where they fail: what a bad day is played with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from flowguard.failed import Failure
from flowguard.flow import AnyFlow, Flow
from flowguard.outcome import Done, Outcome
from flowguard.sim.engine import Engine
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.moto import EmbeddedAWS
from flowguard.sim.recording import RecordedRecord, read_recording
from flowguard.sim.virtual import VirtualTime
from flowguard.sim.world import START, World
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.testing import sqs_event
from tests.aws.engines import kept

TABLES = {"orders": "id", "undone": "id"}
"""``orders`` is what the shop's own stages write, ``undone`` what its ``on_failed`` does."""

MOST_RECEIVES = 100
"""Of the redrive policy that templates have."""


class Order(BaseModel):
    id: str


class Priced(BaseModel):
    price: dict[str, Any]


class Take(Stage[Order], name="take", then="ship"):
    def handle(self, order: Order, step: Step[Any]) -> Outcome:
        step.update("orders", {"id": order.id}, "ADD taken :one", values={":one": 1})
        return Ship.when_all(price=step.ask(Prices, order), within=timedelta(days=3))


class Ship(Stage[Priced], name="ship"):
    def handle(self, priced: Priced, step: Step[Any]) -> Outcome:
        step.update("orders", {"id": step.object_id}, "ADD shipped :one", values={":one": 1})
        return Done(priced.price)


class Undo(Stage[Failure], name="undo"):
    def handle(self, failure: Failure, step: Step[Any]) -> Outcome:
        step.update("undone", {"id": step.object_id}, "ADD times :one", values={":one": 1})
        return Done()


class Orders(Flow, name="orders", object_id="id", on_failed=Undo):
    stages = (Take, Ship, Undo)


class Hurried(Flow, name="orders", object_id="id", on_failed=Undo, retention=timedelta(hours=1)):
    """The same, but whose queues keep messages for an hour in all."""

    stages = (Take, Ship, Undo)


class Price(Stage[Order], name="price"):
    def handle(self, order: Order, step: Step[Any]) -> Outcome:
        return Done({"total": 7})


class Prices(Flow, name="prices", object_id="id"):
    stages = (Price,)


@contextmanager
def world(
    weather: str, *, engine: type[Engine] = MemoryAWS, seed: int = 0, orders: AnyFlow = Orders, **options: Any
) -> Iterator[World]:
    """The shop on an engine, under this weather."""
    with (
        VirtualTime(START) as clock,
        MemoryAWS(clock, seed=seed) if engine is MemoryAWS else EmbeddedAWS(seed=seed) as aws,
        kept(),
        World(
            [orders, Prices],
            tables=TABLES,
            aws=aws,
            clock=clock,
            seed=seed,
            weather=weather,
            **{"most_receives": MOST_RECEIVES, **options},
        ) as opened,
    ):
        yield opened


def put_orders(into: World, count: int) -> None:
    """Let so many orders arrive within a second."""
    for number in range(count):
        at = START + number * 1000 // count
        event = sqs_event("orders", {"id": f"o{number}"}, message_id=f"m{number}", sent_at=at)
        for one in read_recording(event):
            assert isinstance(one, RecordedRecord)
            into.put(one.envelope, one.raw, at=at)
