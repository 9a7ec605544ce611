"""A run's result as whoever waits for it reads it: its type says what becomes of values that JSON has not."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from flowguard import ATTACH, Done, Flow, Outcome, Stage, Step
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.recording import RecordedRecord, read_recording
from flowguard.sim.world import START, World
from flowguard.testing import sqs_event

PRICE = {
    "net": Decimal("19.90"),
    "share": 0.1,
    "day": date(2026, 11, 23),
    "at": datetime(2026, 11, 23, 8, tzinfo=UTC),
    "within": timedelta(seconds=90),
    "id": UUID(int=7),
}


class Order(BaseModel):
    order_id: str


class Price(BaseModel):
    net: Decimal
    share: float
    day: date
    at: datetime
    within: timedelta
    id: UUID


class Priced(BaseModel):
    price: Price


class Find(Stage[Order], name="find"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done(PRICE)


class Prices(Flow, name="prices", object_id="order_id", on_conflict=ATTACH, keep_result=timedelta(hours=1)):
    stages = (Find,)


class Ask(Stage[Order], name="ask", then="show"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Show.when_all(price=step.ask(Prices, order), within=timedelta(hours=1))


class Show(Stage[Priced], name="show"):
    seen: list[Any]

    def handle(self, priced: Priced, step: Step) -> Outcome:
        self.seen.append(priced.price.model_dump())
        return Done()


class Shop(Flow, name="shop", object_id="order_id"):
    stages = (Ask, Show)


def test_a_result_comes_back_as_it_was_to_who_declares_its_type_also_where_it_was_kept() -> None:
    Show.seen = []
    with MemoryAWS() as aws, World([Shop, Prices], aws=aws) as world:
        for number in range(2):
            event = sqs_event("shop", Order(order_id="o-1"), message_id=f"m-{number}", sent_at=START + number)
            [request] = read_recording(event)
            assert isinstance(request, RecordedRecord)
            world.put(request.envelope, request.raw)
            for _ in world.run():
                pass
    assert Show.seen == [PRICE, PRICE]
    assert [str(price["net"]) for price in Show.seen] == ["19.90", "19.90"]
