"""Stages whose handlers are ``async``: they end like any others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from flowguard.events import EventType
from flowguard.flow import AnyFlow, Flow
from flowguard.names.ids import RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.run import Status
from flowguard.retry import Fixed, RetryPolicy
from flowguard.stage import Stage
from flowguard.step import Step
from tests.scene import Order, OrderState, Priced, Scene, Script, scene


def awaiting(script: Script) -> AnyFlow:
    """A flow whose first stage is async, and its second is not."""

    class PriceOrder(
        Stage[Order, OrderState],
        name="price-order",
        then="close-order",
        inbox="price-order",
        retry=RetryPolicy(attempts=3, backoff=Fixed(20), jitter=0),
    ):
        async def handle(self, order: Order, step: Step[OrderState]) -> Outcome:
            await asyncio.sleep(0)
            script.handled.append((order.order_id, step.request_id, step.attempt))
            step.state.total = sum(await asyncio.gather(_price(3), _price(4)))
            step.put("orders", {"id": order.order_id, "total": step.state.total})
            found = script.pricing(step)
            if asyncio.iscoroutine(found):
                await found
            return CloseOrder.message(Priced(total=step.state.total))

    class CloseOrder(Stage[Priced, OrderState], name="close-order", inbox="close-order"):
        def handle(self, priced: Priced, step: Step[OrderState]) -> Outcome:
            return Done({"total": step.state.total})

    class Orders(Flow, name="orders", object_id="order_id", complete_to="completed", dead_letters="dead"):
        stages = (PriceOrder, CloseOrder)

    return Orders


async def _price(of: int) -> int:
    await asyncio.sleep(0)
    return of


def _made(call: Callable[[], Any]) -> Any:
    return call()


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene(awaiting) as found:
        yield found


def test_an_async_stage_is_committed_with_two_writes_and_a_plain_one_follows_it(at: Scene) -> None:
    assert at.deliver(at.message()) == [True]
    assert at.calls == ["UpdateItem", "TransactWriteItems"]
    assert at.deliver(at.second()) == [True]
    item = at.item("o1")
    assert item is not None
    assert (item.status, item.result) == (Status.COMPLETED, '{"total":7}')


def test_an_async_stage_that_fails_is_retried_and_what_it_recorded_is_not_there(at: Scene) -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("sold out")

    at.script.pricing = lambda step: fail()
    assert at.deliver(at.message()) == [True]
    assert at.tally.count(EventType.RETRIED) == 1
    found: Any = at.aws.client("dynamodb").scan(TableName="orders")
    assert found["Items"] == []


def test_records_of_one_invocation_share_a_loop_and_another_invocation_has_its_own(at: Scene) -> None:
    loops: list[asyncio.AbstractEventLoop] = []
    at.script.pricing = lambda step: loops.append(asyncio.get_running_loop())
    first, second = at.message(), at.order("o2", request_id=RequestId("run-2"))
    assert at.deliver(first, second) == [True, True]
    assert at.deliver(at.order("o3", request_id=RequestId("run-3"))) == [True]
    one, same, other = loops
    assert one is same
    assert one is not other
    assert all(loop.is_closed() for loop in loops)


def test_what_an_async_call_has_brought_is_remembered(at: Scene) -> None:
    asked: list[str] = []
    got: list[Any] = []

    async def charge() -> dict[str, int]:
        await asyncio.sleep(0)
        asked.append("charge")
        return {"charge": len(asked)}

    async def charging(step: Step[OrderState]) -> None:
        got.append(await step.once("charge", charge))
        if not got[1:]:
            raise LookupError("after the charge")

    at.script.pricing = charging
    at.deliver(at.message())
    assert at.deliver(at.message(retry=1)) == [True]
    assert (asked, got) == (["charge"], [{"charge": 1}, {"charge": 1}])


def test_a_remembered_call_may_have_a_type(at: Scene) -> None:
    got: list[Any] = []

    async def pause() -> timedelta:
        return timedelta(minutes=2)

    async def asking(step: Step[OrderState]) -> None:
        got.append(await step.once("pause", pause, timedelta))

    at.script.pricing = asking
    at.deliver(at.message())
    assert got == [timedelta(minutes=2)]


def test_a_call_that_only_makes_a_coroutine_is_refused_by_name_and_not_made(at: Scene) -> None:
    asked: list[str] = []

    async def charge() -> None:
        asked.append("charge")

    at.script.pricing = lambda step: step.once("charge", partial(_made, charge))
    assert at.deliver(at.message()) == [True]
    item = at.item("o1")
    assert item is not None
    assert item.status is Status.FAILED
    assert "step.once('charge', …) got a coroutine" in str(item.error)
    assert "give the async function itself" in str(item.error)
    assert asked == []
