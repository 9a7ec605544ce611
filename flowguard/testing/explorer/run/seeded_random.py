"""Randomness of user code that is the same in each run.

It covers ``random``, ``uuid4``, ``secrets`` and ``os.urandom``.
"""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class SeededRandom:
    """A source seeded anew for each attempt so that an attempt draws the same whatever happened before it."""

    def __init__(self) -> None:
        self._source = random.Random(0)  # noqa: S311 - repeatable on purpose
        self._spare = random.Random(0)  # noqa: S311 - what is drawn from it goes nowhere

    def seed(self, *facts: object) -> None:
        text = repr(facts)
        self._source.seed(text)
        random.seed(text)

    @contextmanager
    def aside(self, *, with_random: bool = True) -> Iterator[None]:
        """Keep boto3's draws within the block from changing later draws.

        Without ``with_random`` nothing in the block draws from ``random``, whose state takes long to save.
        """
        source, shared = self._source, random.getstate() if with_random else None
        self._source = self._spare
        try:
            yield
        finally:
            self._source = source
            if shared is not None:
                random.setstate(shared)

    def urandom(self, size: int) -> bytes:
        return self._source.randbytes(size)


@contextmanager
def repeatable(randomness: SeededRandom) -> Iterator[None]:
    """Draw the process's randomness from ``randomness`` while the block runs.

    Where modules keep ``urandom`` under a name of their own that name is replaced.
    """
    places: list[tuple[Any, str]] = [(os, "urandom"), (random, "_urandom")]
    if getattr(uuid, "_generate_time_safe", None) is not None:  # libuuid's own, which reads no Python
        places.append((uuid, "_generate_time_safe"))
    before = [getattr(module, name) for module, name in places]
    state = random.getstate()
    try:
        for module, name in places:
            setattr(module, name, randomness.urandom if "urandom" in name else None)
        yield
    finally:
        for (module, name), value in zip(places, before, strict=True):
            setattr(module, name, value)
        random.setstate(state)
