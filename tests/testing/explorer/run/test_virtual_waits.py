"""Handlers that wait, use threads or an event loop: their time is virtual, and none of them can hang the explorer."""

from __future__ import annotations

import asyncio
import gc
import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import anyio.to_thread
import boto3
import pytest

from flowguard.testing.explorer import PlainFunction, Report, explore, replay
from flowguard.testing.explorer.run.anyio_threads import BACKEND, without_threads
from flowguard.testing.explorer.run.late_imports import changed_when_imported
from tests.testing.explorer.handlers import TABLES

ORDER = {"order_id": "o1"}
BEGAN = time.perf_counter


def explored(handler: Any, **about: Any) -> Report:
    few = {
        "bound": 0,
        "walks": 0,
        "tables": TABLES,
    }
    return explore(PlainFunction("orders", handler), [ORDER], **{**few, **about})


def put(name: str = "o1", **more: int) -> None:
    item = {"order_id": {"S": name}, **{attribute: {"N": str(value)} for attribute, value in more.items()}}
    boto3.client("dynamodb", region_name="us-east-1").put_item(TableName="orders", Item=item)


def add(name: str = "monday") -> None:
    boto3.client("dynamodb", region_name="us-east-1").update_item(
        TableName="totals",
        Key={"day": {"S": name}},
        UpdateExpression="ADD amount :n",
        ExpressionAttributeValues={":n": {"N": "1"}},
    )


def waited(wait: Any) -> int:
    """How far the virtual time goes in a handler that waits, in ms, by every clock that it may ask."""
    found: list[int] = []

    def handler(event: Any, context: Any) -> None:
        clocks: tuple[Callable[[], float], ...] = (
            time.time,
            time.monotonic,
            time.perf_counter,
            lambda: datetime.now(UTC).timestamp(),
        )
        began = [clock() for clock in clocks]
        wait()
        found.extend(round((clock() - start) * 1000) for clock, start in zip(clocks, began, strict=True))

    began = BEGAN()
    replay(PlainFunction("orders", handler), [ORDER], "none", tables=TABLES)
    assert BEGAN() - began < 60, "by the clock on the wall it takes no time, but a busy machine needs some"
    assert max(found) - min(found) <= 50, found
    return found[0]


def of_a_queue() -> None:
    with pytest.raises(queue.Empty):
        queue.Queue[str]().get(timeout=3)


async def of_a_task() -> None:
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), timeout=3)


def turning() -> None:
    end = time.time() + 3
    while time.time() < end:
        pass


@pytest.mark.parametrize(
    "wait",
    [
        lambda: time.sleep(3),
        lambda: threading.Event().wait(3),
        of_a_queue,
        lambda: asyncio.run(asyncio.sleep(3)),
        lambda: asyncio.run(of_a_task()),
    ],
    ids=["sleep", "event", "queue", "loop", "task"],
)
def test_a_wait_moves_the_virtual_time(wait: Any) -> None:
    assert waited(wait) == pytest.approx(3000, abs=5)


def test_a_loop_that_asks_for_the_time_until_it_has_come_ends() -> None:
    assert waited(turning) >= 3000


def test_a_worker_that_waits_beyond_its_functions_time_is_killed() -> None:
    def handler(event: Any, context: Any) -> None:
        time.sleep(31)

    (violation,) = explored(handler).violations
    assert violation.rule == "undisturbed"
    assert "still waiting when its function's time, 30 s, was over" in violation.problems[0].text


# -- threads -----------------------------------------------------------------------------------------------------------


def in_a_pool(work: Any) -> Any:
    def handler(event: Any, context: Any) -> None:
        with ThreadPoolExecutor(max_workers=3) as pool:
            for done in as_completed([pool.submit(work, f"o{number}") for number in range(3)]):
                done.result()

    return handler


def in_a_loop(work: Any) -> Any:
    async def all_of_them() -> None:
        await asyncio.gather(*(asyncio.to_thread(work, f"o{number}") for number in range(3)))

    return lambda event, context: asyncio.run(all_of_them())


def in_threads(work: Any) -> Any:
    def handler(event: Any, context: Any) -> None:
        errors: list[Exception] = []

        def tried(name: str) -> None:
            try:
                work(name)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=tried, args=(f"o{number}",)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
            assert not thread.is_alive()
        if errors:
            raise errors[0]

    return handler


@pytest.mark.slow("explores flows and handlers")
@pytest.mark.parametrize(
    "how", [in_a_pool, pytest.param(in_a_loop, marks=pytest.mark.proof("makes hundreds of event loops")), in_threads]
)
def test_calls_of_threads_are_points_of_fault_in_one_order(how: Any) -> None:
    report = explored(how(put), bound=20, walks=20)
    assert report.ok, str(report)
    report = explored(how(add), bound=20, walks=20)
    assert not report.ok
    assert explored(how(add), bound=20, walks=20) == report
    site = report.violations[0].site
    assert site is not None
    assert site.function == "add"


def test_a_worker_may_be_held_up_in_a_thread() -> None:
    trace = replay(PlainFunction("orders", in_a_pool(put)), [ORDER], "z2", tables=TABLES)
    assert trace.ok, str(trace)
    assert "w1  … goes on" in "\n".join(trace.timeline)


@pytest.mark.proof("explores flows")
def test_tasks_whose_worker_is_killed_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    gc.disable()  # none of them goes before the end
    try:
        with caplog.at_level(logging.ERROR, "asyncio"):
            explored(in_a_loop(put))
            gc.collect()
    finally:
        gc.enable()
    assert caplog.records == []


def test_where_there_are_no_tasks_nobody_looks_for_them() -> None:
    collections: list[str] = []

    def noted(phase: str, about: dict[str, int]) -> None:
        collections.append(phase)

    gc.disable()
    gc.callbacks.append(noted)
    try:
        explored(in_a_pool(put))
    finally:
        gc.callbacks.remove(noted)
        gc.enable()
    assert collections == []


# -- what does not end -------------------------------------------------------------------------------------------------


def test_a_wait_for_what_nobody_brings_is_named_at_once() -> None:
    def handler(event: Any, context: Any) -> None:
        put()
        queue.Queue[str]().get()

    (violation,) = explored(handler, patience=60).violations
    assert "waits for what nobody brings" in violation.problems[0].text
    assert violation.site is not None
    assert violation.site.text == "queue.Queue[str]().get()"


@pytest.mark.slow("explores flows and handlers")
def test_an_invocation_that_does_not_end_is_given_up_and_named() -> None:
    def handler(event: Any, context: Any) -> None:
        put()
        while event:
            event["turns"] = 1

    (violation,) = explored(handler, patience=0.5).violations
    assert "it did not end within 0.5 s" in violation.problems[0].text
    assert violation.site is not None
    assert violation.site.function == "handler"


def test_one_that_does_not_end_only_after_a_fault_is_found_too() -> None:
    def handler(event: Any, context: Any) -> None:
        try:
            put()
        except Exception:
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()

    report = explored(handler, patience=0.5)
    (violation,) = [one for one in report.violations if one.rule == "does not end"]
    assert violation.schedule in {"e1", "u1"}
    assert violation.timeline


@pytest.mark.slow("explores flows and handlers")
def test_what_anyio_hands_to_threads_is_done_at_once_and_meets_faults() -> None:
    number = ContextVar("number", default=0)

    def put_it(name: str) -> int:
        put(name)
        seen = number.get()
        number.set(9)
        return seen

    def handler(event: Any, context: Any) -> None:
        async def all_of_it() -> None:
            number.set(7)
            assert await anyio.to_thread.run_sync(put_it, "o1") == 7
            assert number.get() == 7, "a thread has a context of its own"
            with pytest.raises(ZeroDivisionError):
                await anyio.to_thread.run_sync(lambda: 1 // 0)

        asyncio.run(all_of_it())

    report = explored(handler)
    assert report.ok, str(report)
    assert set("au") <= set("".join(report.coverage.values()))


def test_a_thread_of_anyio_beside_an_exploration_is_real() -> None:
    async def beside() -> int:
        return await anyio.to_thread.run_sync(threading.get_ident)

    class Nobody:
        def is_inside(self) -> bool:
            return False

    with changed_when_imported({BACKEND: without_threads(Nobody())}):
        assert asyncio.run(beside()) != threading.get_ident()


def test_a_handler_without_a_call_is_explored() -> None:
    report = explored(lambda event, context: None, walks=5)
    assert report.violations == ()
    assert str(report).splitlines()[0].endswith("COMPLETED")
    assert (report.verdict, report.ok) == ("not looked at", False), "nothing could go wrong"
    assert "no call was met: nothing could go wrong, so this says nothing" in report.summary()


@pytest.mark.slow("explores flows and handlers")
def test_a_loop_that_a_killed_worker_leaves_does_not_go_on_with_the_next() -> None:
    """As ``run_sync`` of Pydantic AI does: it takes the loop of its thread, and leaves it there."""
    loops: list[asyncio.AbstractEventLoop] = []

    def kept_loop() -> asyncio.AbstractEventLoop:
        try:
            return asyncio.get_event_loop()
        except RuntimeError:
            asyncio.set_event_loop(asyncio.new_event_loop())
            return asyncio.get_event_loop()

    def handler(event: Any, context: Any) -> None:
        async def beside() -> None:
            await asyncio.sleep(1)
            add()

        async def both() -> None:
            task = asyncio.ensure_future(beside())
            await asyncio.sleep(0)
            put()
            task.cancel()

        loops.append(kept_loop())
        loops[-1].run_until_complete(both())

    report = explored(handler)
    assert report.ok, str(report)
    assert len(loops) > 3
    assert all(loop.is_closed() for loop in loops)
