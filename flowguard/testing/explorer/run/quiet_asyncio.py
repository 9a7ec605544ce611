"""What asyncio keeps of workers. It logs tasks that are left as they are, and a thread keeps its event loop."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

from flowguard.testing.explorer.run.fault_effects import Killed


@contextmanager
def quiet_asyncio() -> Iterator[None]:
    """Leave out for the block what asyncio logs of tasks whose worker was killed."""
    logger = logging.getLogger("asyncio")
    logger.addFilter(_is_news)
    try:
        with _new_tasks() as tasks:
            yield
    finally:
        if tasks:
            gc.collect()  # tasks say it when they go; to look for them where there are none takes long
        logger.removeFilter(_is_news)


@contextmanager
def _new_tasks() -> Iterator[WeakSet[asyncio.Task[Any]]]:
    """Collect the tasks that event loops create in the block and that are still there."""
    loops: Any = asyncio.BaseEventLoop
    tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
    create_task = loops.create_task

    def noted(*given: Any, **named: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = create_task(*given, **named)
        tasks.add(task)
        return task

    loops.create_task = noted
    try:
        yield tasks
    finally:
        loops.create_task = create_task


def _is_news(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, Killed) or "it is pending" in record.getMessage())


def close_left_loop() -> None:
    """Close the event loop that a worker has left in its thread, or its tasks would go on with the next worker's."""
    try:
        loop = asyncio.get_event_loop()
    except RuntimeError:  # it has left none
        return
    asyncio.set_event_loop(None)
    with suppress(RuntimeError):  # a worker that was given up may run in it
        loop.close()
