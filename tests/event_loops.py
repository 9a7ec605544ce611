"""An event loop for code that takes the one of its thread, and leaves it there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator


def closed_loop() -> Iterator[None]:
    """Give the thread a loop, and close it afterwards."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()
