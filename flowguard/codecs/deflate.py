"""Compression with a bound on what comes out again."""

from __future__ import annotations

import zlib
from typing import Final

from flowguard.errors import CannotOpen, DefinitionError, TooLarge
from flowguard.payload.codec import About

LARGEST: Final = 64 * 1024 * 1024
"""Bytes of a text at most, before it is sealed and once it is opened: more than any message or answer has."""

_LEVEL: Final = 6


def largest_problem(largest: object) -> str | None:
    """Return what is wrong with a bound. None for a good one."""
    if type(largest) is not int or largest < 1:
        return f"largest is {largest!r}; write how many bytes a text may have"
    return None


def check_largest(codec: str, largest: object) -> None:
    """Raise :class:`DefinitionError` for a bound that is none."""
    if problem := largest_problem(largest):
        raise DefinitionError(codec, (problem,))


def check_size(data: bytes, largest: int, about: About) -> None:
    """Raise :class:`TooLarge` for a text that nobody could open again."""
    if len(data) > largest:
        raise TooLarge(f"the {about.kind} to be sealed", {"text": len(data)}, largest)


def deflated(data: bytes) -> bytes:
    """Return the data compressed."""
    return zlib.compress(data, _LEVEL)


def inflated(data: bytes, largest: int, about: About) -> bytes:
    """Decompress the data. Raises :class:`CannotOpen` for damaged data and for more than ``largest`` bytes."""
    reader = zlib.decompressobj()
    try:
        text = reader.decompress(data, largest + 1)
    except zlib.error:
        raise CannotOpen(about.kind, "what was compressed is broken") from None
    if len(text) > largest:
        raise CannotOpen(about.kind, f"it has more than {largest:,} bytes, the most that its codec opens")
    if not reader.eof or reader.unused_data:
        raise CannotOpen(about.kind, "what was compressed is not whole")
    return text
