"""A run's result as whoever waits for it reads it: its type says what becomes of values that JSON has not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from botocore.exceptions import ClientError
from pydantic import BaseModel

from flowguard import ATTACH, Done, Flow, Outcome, Stage, Step
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.client import FlowClient
from flowguard.events import EventType, Tally
from flowguard.payload.encoding import encode_json
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.recording import RecordedRecord, read_recording
from flowguard.sim.world import START, World
from flowguard.testing import sqs_event

PRICE = {
    "net": Decimal("19.90"),
    "exact": Decimal("-12345678901234567890.1234567890123456789"),
    "large": Decimal("1E+30"),
    "by_day": {date(2026, 11, 23): [Decimal("0.10"), Decimal("1.00")]},
    "share": 0.1,
    "day": date(2026, 11, 23),
    "at": datetime(2026, 11, 23, 8, tzinfo=UTC),
    "within": timedelta(seconds=90),
    "id": UUID(int=7),
}


class Order(BaseModel):
    order_id: str
    shop: str = "s-1"


class Price(BaseModel):
    net: Decimal
    exact: Decimal
    large: Decimal
    by_day: dict[date, list[Decimal]]
    share: float
    day: date
    at: datetime
    within: timedelta
    id: UUID


class Priced(BaseModel):
    price: Price


class Find(Stage[Order], name="find", then="tell"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Tell.message(order)


class Tell(Stage[Order], name="tell"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done(PRICE)


class Prices(Flow, name="prices", object_id="order_id", on_conflict=ATTACH, keep_result=timedelta(hours=1)):
    stages = (Find, Tell)


class Ask(Stage[Order], name="ask", then="show"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Show.when_all(price=step.ask(Prices, order), within=timedelta(hours=1))


class Show(Stage[Priced], name="show"):
    seen: list[Any]

    def handle(self, priced: Priced, step: Step) -> Outcome:
        self.seen.append(priced.price.model_dump())
        return Done()


class Shop(Flow, name="shop", object_id="shop"):
    stages = (Ask, Show)


@pytest.fixture
def told() -> Tally:
    Show.seen = []
    return Tally()


@pytest.fixture
def world(told: Tally) -> Iterator[World]:
    with MemoryAWS() as aws, World([Shop, Prices], aws=aws, observer=told) as made:
        yield made


def ask(world: World, number: int, shop: str) -> None:
    """A shop asks for the price."""
    event = sqs_event("shop", Order(order_id="o-1", shop=shop), message_id=f"m-{number}", sent_at=START + number)
    [request] = read_recording(event)
    assert isinstance(request, RecordedRecord)
    world.put(request.envelope, request.raw)


def work_off(world: World) -> None:
    for _ in world.run():
        pass


def assert_seen(times: int) -> None:
    assert Show.seen == [PRICE] * times
    assert [str(price["net"]) for price in Show.seen] == ["19.90"] * times


def test_a_result_comes_back_as_it_was_to_who_declares_its_type_also_where_it_was_kept(world: World) -> None:
    for number in range(2):
        ask(world, number, "s-1")
        work_off(world)
    assert_seen(2)


def test_a_result_comes_back_as_it_was_to_each_who_has_attached_to_its_run(world: World, told: Tally) -> None:
    for number in range(3):
        ask(world, number, f"s-{number}")
    work_off(world)
    assert told.count(EventType.ATTACHED) == 2
    assert_seen(3)


def test_a_result_comes_back_as_it_was_where_it_is_sent_later_from_what_is_written(world: World) -> None:
    ask(world, 0, "s-1")
    down = [True]

    def interceptor(call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation == "SendMessageBatch" and "COMPLETED" in str(call.params) and down:
            down.clear()
            raise ClientError({"Error": {"Code": "Down", "Message": ""}}, call.operation)
        return proceed()

    with intercept(interceptor):
        work_off(world)
    assert not down
    assert_seen(1)


def test_a_result_is_read_as_it_was_by_who_is_no_flow(world: World) -> None:
    ask(world, 0, "s-1")
    work_off(world)
    found = FlowClient.of(aws_services(world.settings, Clients(), clock=world.clock)).result(Prices, "o-1")
    assert found is not None
    assert Price.model_validate(found.value).model_dump() == PRICE


def test_without_a_type_a_result_is_what_json_has() -> None:
    assert json.loads(encode_json(PRICE)) == {
        "net": "19.90",
        "exact": "-12345678901234567890.1234567890123456789",
        "large": "1E+30",
        "by_day": {"2026-11-23": ["0.10", "1.00"]},
        "share": 0.1,
        "day": "2026-11-23",
        "at": "2026-11-23T08:00:00Z",
        "within": "PT1M30S",
        "id": "00000000-0000-0000-0000-000000000007",
    }
