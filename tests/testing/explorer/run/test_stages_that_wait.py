"""Stages that use threads, event loops and the clock are explored as plain handlers are: sound ones are clean."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.testing.explorer import explore

pytestmark = pytest.mark.proof("explores flows")

dynamodb: Any = boto3.client("dynamodb", region_name="us-east-1")
POLLED = 5


class Order(BaseModel):
    order_id: str


def put(line: str) -> None:
    dynamodb.put_item(TableName="lines", Item={"line": {"S": line}})


class InThreads(Stage[Order], name="in-threads", inbox="lines"):
    def handle(self, order: Order, step: Step) -> Outcome:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(put, ("a", "b")))
        return Done()


class InALoop(Stage[Order], name="in-a-loop", inbox="lines"):
    def handle(self, order: Order, step: Step) -> Outcome:
        asyncio.run(self._both())
        return Done()

    async def _both(self) -> None:
        await asyncio.sleep(1)
        await asyncio.gather(asyncio.to_thread(put, "a"), asyncio.to_thread(put, "b"))


class ByTheClock(Stage[Order], name="by-the-clock", inbox="lines"):
    def handle(self, order: Order, step: Step) -> Outcome:
        end = time.time() + POLLED
        while time.time() < end:
            time.sleep(1)
        while time.time() < end + POLLED:
            pass
        put("a")
        return Done()


class Threaded(Flow, name="threaded", object_id="order_id"):
    stages = (InThreads,)


class Looped(Flow, name="looped", object_id="order_id"):
    stages = (InALoop,)


class Polled(Flow, name="polled", object_id="order_id"):
    stages = (ByTheClock,)


@pytest.mark.parametrize("flow", [Threaded, Looped, Polled])
def test_a_stage_may_wait_and_use_threads(flow: Any) -> None:
    report = explore(flow, [Order(order_id="o1")], tables={"lines": "line"}, bound=5, walks=5)
    assert report.ok, str(report)
    assert report.schedules > 50
