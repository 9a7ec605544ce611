"""A function under ``@once`` works the records of a batch: only what failed goes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from flowguard import once
from flowguard.errors import (
    DefinitionError,
    NotABatch,
)
from flowguard.events import EventType
from flowguard.sim.calls import Recorder, intercept
from flowguard.testing import sqs_event
from tests.once_world import SECRET, World, once_world, writes


@pytest.fixture
def world() -> Iterator[World]:
    with once_world() as found:
        yield found


def event(*orders: str, queue: str = "orders", group: str | None = None) -> dict[str, Any]:
    """The SQS event of these orders; one that begins with ``bad`` is refused by the function."""
    parts = [
        sqs_event(queue, {"order_id": order, "card": SECRET}, message_id=f"m-{place}", group=group)["Records"]
        for place, order in enumerate(orders)
    ]
    return {"Records": [record for records in parts for record in records]}


def batch_in(world: World) -> Any:
    @once("charge", key="body.order_id")
    def charge(record: dict[str, Any]) -> str:
        order = json.loads(record["body"])["order_id"]
        world.called.append(order)
        if order.startswith("bad"):
            raise ValueError(SECRET)
        if order.startswith("slow"):
            world.clock.advance(seconds=29.5)
        return str(order)

    return charge.using(world.services)


def failed(answer: dict[str, Any]) -> list[str]:
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def test_of_a_batch_only_what_failed_goes_back(world: World) -> None:
    charge = batch_in(world)
    assert failed(charge.batch(event("o-1", "bad", "o-2", "o-1"), world.context())) == ["m-1"]
    assert world.called == ["o-1", "bad", "o-2"]


def test_a_record_that_no_call_is_made_for_goes_back_each_time(world: World) -> None:
    """Its queue gives it up in the end: it has no key, or its key was used with another payload."""

    @once("charge", key="body.order_id", payload="body.amount")
    def charge(record: dict[str, Any]) -> None:
        world.called.append(record["messageId"])

    def records(*payloads: dict[str, Any]) -> dict[str, Any]:
        parts = [sqs_event("orders", one, message_id=f"m-{place}")["Records"] for place, one in enumerate(payloads)]
        return {"Records": [record for part in parts for record in part]}

    several = records({"order_id": "o-1", "amount": 5}, {"amount": 5}, {"order_id": "o-1", "amount": 500})
    guarded = charge.using(world.services)
    for _ in range(2):
        assert failed(guarded.batch(several, world.context())) == ["m-1", "m-2"]
    assert world.called == ["m-0"]
    assert [world.told().count(event) for event in ("unreadable", "key_reused")] == [2, 2]


def test_a_record_whose_key_is_at_work_elsewhere_goes_back(world: World) -> None:
    def meanwhile() -> None:
        assert failed(charge.batch(event("o-1"), world.context())) == ["m-0"]

    @once("charge", key="body.order_id")
    def slow(record: dict[str, Any]) -> None:
        meanwhile()

    charge = slow.using(world.services)
    assert failed(charge.batch(event("o-1"), world.context())) == []
    assert world.tally.count(EventType.RAISED) == 0


def test_a_record_that_raises_costs_one_write_and_its_retry_is_not_kept_waiting(world: World) -> None:
    charge = batch_in(world)
    with intercept(Recorder()) as calls:
        assert failed(charge.batch(event("bad"), world.context(30))) == ["m-0"]
    assert writes(calls) == ["UpdateItem"]
    world.clock.advance(seconds=30)  # the least that a queue may hide a record of a function of 30 s
    with intercept(Recorder()) as calls:
        assert failed(charge.batch(event("bad"), world.context(30))) == ["m-0"]
    assert writes(calls) == ["UpdateItem"]
    assert world.called == ["bad", "bad"]


def test_a_record_that_raises_is_freed_at_once_where_no_context_says_how_long_it_is_hidden(world: World) -> None:
    charge = batch_in(world)
    for _ in range(2):
        assert failed(charge.batch(event("bad"))) == ["m-0"]
    assert world.called == ["bad", "bad"]


class Careless:
    @property
    def order_id(self) -> str:
        raise ZeroDivisionError


def test_an_argument_whose_own_property_raises_is_told_by_its_own_error(world: World) -> None:
    @once("careless", key="order_id")
    def charge(order: Careless) -> None: ...

    with pytest.raises(ZeroDivisionError):
        charge.using(world.services)(Careless())


def test_on_a_fifo_queue_the_rest_of_the_group_goes_back(world: World) -> None:
    charge = batch_in(world)
    batch = event("o-1", "bad", "o-2", queue="orders.fifo", group="g")
    batch["Records"] += event("o-3", queue="orders.fifo", group="h")["Records"]
    batch["Records"][3]["messageId"] = "m-3"
    assert failed(charge.batch(batch, world.context())) == ["m-1", "m-2"]
    assert world.called == ["o-1", "bad", "o-3"]


def test_a_fifo_record_without_its_group_is_one_of_none(world: World) -> None:
    batch = event("bad", "o-1", queue="orders.fifo")
    for record in batch["Records"]:
        del record["attributes"]
    assert failed(batch_in(world).batch(batch, world.context())) == ["m-0"]


def test_on_a_fair_queue_a_group_says_nothing_of_the_order(world: World) -> None:
    assert failed(batch_in(world).batch(event("bad", "o-1", group="g"), world.context())) == ["m-0"]


def test_what_there_is_no_time_for_is_not_begun(world: World) -> None:
    charge = batch_in(world)
    assert failed(charge.batch(event("slow", "o-1", "o-2"), world.context(30))) == ["m-1", "m-2"]
    assert world.called == ["slow"]
    told = [event.facts for event in world.tally.events if event.type is EventType.RETURNED]
    assert told == [{"function": "charge", "record": "m-1"}, {"function": "charge", "record": "m-2"}]


def test_a_second_is_enough_to_begin(world: World) -> None:
    assert failed(batch_in(world).batch(event("o-1"), world.context(1))) == []


def test_an_async_function_works_a_batch_in_one_loop(world: World) -> None:
    loops = set()

    @once("charge", key="body.order_id")
    async def charge(record: dict[str, Any]) -> None:
        loops.add(asyncio.get_running_loop())
        if "bad" in record["body"]:
            raise ValueError

    assert failed(charge.using(world.services).batch(event("o-1", "bad", "o-2"), world.context())) == ["m-1"]
    assert len(loops) == 1


@pytest.mark.parametrize(
    "wrong",
    [None, {}, "x", *({"Records": [one]} for one in ({}, "x", {"messageId": 5, "body": ""}, {"messageId": "m"}))],
)
def test_what_is_no_batch_is_refused(world: World, wrong: Any) -> None:
    with pytest.raises(NotABatch, match="has no Records of SQS"):
        batch_in(world).batch(wrong)


def test_a_mistake_of_the_definition_is_that_of_the_whole_batch(world: World) -> None:
    @once("wrong", key="order_id")
    def wrong(record: dict[str, Any]) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821 - that is the point
        ...

    with pytest.raises(DefinitionError):
        wrong.using(world.services).batch(event("o-1"))
