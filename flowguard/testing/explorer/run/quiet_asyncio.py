"""The log of asyncio while workers are killed: their tasks are left as they are, and that is no news."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from flowguard.testing.explorer.run.fault_effects import Killed


@contextmanager
def quiet_asyncio() -> Iterator[None]:
    """Leave out for the block what asyncio logs of tasks whose worker was killed."""
    logger = logging.getLogger("asyncio")
    logger.addFilter(_is_news)
    try:
        yield
    finally:
        gc.collect()  # tasks say it when they go
        logger.removeFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, Killed) or "it is pending" in record.getMessage())
