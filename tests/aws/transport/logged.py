"""What a logger is given, from DEBUG on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def logged(name: str) -> Iterator[list[str]]:
    """The texts of the lines that the logger of this name gets while the block runs."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    kept, logger = Kept(logging.DEBUG), logging.getLogger(name)
    level = logger.level
    logger.addHandler(kept)
    logger.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        logger.removeHandler(kept)
        logger.setLevel(level)
