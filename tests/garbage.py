"""Python's garbage collector in a process that has loaded much and makes little garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

GENERATIONS: Final = (20_000, 20, 20)
"""How much is made before the collector looks at it; Python's own 700 suit a small process."""


def spare_what_is_there() -> None:
    """Keep the collector from passing over what lives as long as the process, here and in processes forked from it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GENERATIONS)


@contextmanager
def spared() -> Iterator[None]:
    """Spare what is there for a block. What was spared before it stays so: all later collections would pass over it."""
    gc.collect()
    before = gc.get_freeze_count()
    gc.freeze()
    try:
        yield
    finally:
        if not before:
            gc.unfreeze()


@contextmanager
def unlooked_for() -> Iterator[None]:
    """Look for no garbage in a block that makes much, none of which refers to itself."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
