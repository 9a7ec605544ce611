"""Work that anyio hands to threads. It is done at once in the thread of the invocation, as that of asyncio is.

anyio starts a thread and hands it the work afterwards, so a thread that runs at its start would wait for ever.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from flowguard.testing.explorer.run.late_imports import Change, replaced

BACKEND: Final = "anyio._backends._asyncio"
"""The module of anyio that has the threads. Those who import its functions for users have copies of their names."""


class Inside(Protocol):
    """The invocation that runs in the calling thread."""

    def is_inside(self) -> bool:
        """Answer whether the calling thread is that of an invocation."""
        ...


def without_threads(inside: Inside) -> Change:
    """Return the change with which an invocation does by itself what it hands to a thread."""

    @contextmanager
    def change(backend: Any) -> Iterator[None]:
        owner = backend.AsyncIOBackend
        real = owner.run_sync_in_worker_thread

        async def at_once(cls: Any, /, func: Callable[..., Any], args: tuple[Any, ...], **named: Any) -> Any:
            if not inside.is_inside():
                return await real(func, args, **named)
            await cls.checkpoint()
            return contextvars.copy_context().run(func, *args)

        with replaced(owner, "run_sync_in_worker_thread", classmethod(at_once)):
            yield

    return change
