"""The event loop that the async handlers of one invocation share."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from flowguard.worker.event_loop import EventLoop

RECORD: ContextVar[str] = ContextVar("record", default="none")


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    found = EventLoop()
    yield found
    found.close()


async def where() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_handlers_share_one_loop_which_is_closed_in_the_end(loop: EventLoop) -> None:
    first, second = loop.result_of(where()), loop.result_of(where())
    assert first is second
    assert not first.is_closed()
    loop.close()
    assert first.is_closed()


def test_a_handler_has_the_context_of_its_own_record(loop: EventLoop) -> None:
    async def read() -> str:
        return RECORD.get()

    found = []
    for record in ("first", "second"):
        token = RECORD.set(record)
        found.append(loop.result_of(read()))
        RECORD.reset(token)
    assert found == ["first", "second"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_task_that_is_left_behind_ends_with_its_handler(loop: EventLoop, fails: bool) -> None:
    ended: list[str] = []

    async def goes_on() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    tasks: list[asyncio.Task[None]] = []

    async def handler() -> None:
        tasks.append(asyncio.create_task(goes_on()))
        await asyncio.sleep(0)
        if fails:
            raise LookupError("of the handler")

    if fails:
        with pytest.raises(LookupError, match="of the handler"):
            loop.result_of(handler())
    else:
        loop.result_of(handler())
    assert ended == ["cancelled"]
    assert tasks[0].cancelled()


def test_an_error_of_a_task_that_was_left_behind_is_not_the_handlers(loop: EventLoop) -> None:
    async def fails_when_cancelled() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise LookupError("of the task")

    tasks: list[asyncio.Task[None]] = []

    async def handler() -> str:
        tasks.append(asyncio.create_task(fails_when_cancelled()))
        await asyncio.sleep(0)
        return "done"

    assert loop.result_of(handler()) == "done"
    assert isinstance(tasks[0].exception(), LookupError)


def test_within_a_running_loop_nothing_is_called_and_the_fix_is_named(loop: EventLoop) -> None:
    called: list[str] = []

    async def handler() -> None:
        called.append("handler")

    awaited = handler()

    async def invocation() -> None:
        loop.result_of(awaited)

    with pytest.raises(RuntimeError, match=r"await asyncio\.to_thread\(handler, event, context\)"):
        asyncio.run(invocation())
    assert called == []
    assert inspect.getcoroutinestate(awaited) == inspect.CORO_CLOSED
