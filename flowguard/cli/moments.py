"""Moments as a command shows them, in UTC and as an age."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from flowguard.cli.letter_rows import duration

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def iso(ms: int) -> str:
    """Return a moment as ISO 8601 in UTC. One that no calendar has stays a number of milliseconds."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return f"{ms} ms"


def distance(ms: int, now: int) -> str:
    """Return how far a moment is from now: ``5 min ago``, or ``in 2 d``."""
    seconds = (now - ms) // 1000 if ms <= now else (ms - now) // 1000
    return f"{duration(seconds)} ago" if ms <= now else f"in {duration(seconds)}"


def moment(ms: int, now: int) -> str:
    """Format a time with its distance from now, such as ``2026-03-04T10:00:00.000Z (in 2 d)``."""
    return f"{iso(ms)} ({distance(ms, now)})"
