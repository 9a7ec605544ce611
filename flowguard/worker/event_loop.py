"""The event loop of one invocation, for handlers that are ``async``."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import copy_context
from typing import TypeVar

Result = TypeVar("Result")


class EventLoop:
    """Awaits the handlers of one invocation, one after another."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def result_of(self, handler: Coroutine[object, object, Result]) -> Result:
        """Await a handler. Tasks that it leaves behind are cancelled: they would run on within another record's.

        Raises RuntimeError where the invocation is itself within an event loop.
        """
        if _is_running():
            handler.close()
            fix = "call the function in a thread: await asyncio.to_thread(handler, event, context)"
            raise RuntimeError(f"an async handler cannot be awaited within a running event loop; {fix}")
        return self._runner.run(_alone(handler), context=copy_context())

    def close(self) -> None:
        """Close the loop."""
        self._runner.close()


def _is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _alone(handler: Coroutine[object, object, Result]) -> Result:
    """Await the handler, and end the tasks that it has begun and not awaited."""
    try:
        return await handler
    finally:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
