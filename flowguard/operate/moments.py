"""Moments in UTC and as an age, and lengths of time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_NAMES: Final = {"s": "s", "m": "min", "h": "h", "d": "d"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def iso(ms: int) -> str:
    """Return a moment as ISO 8601 in UTC. One that no calendar has stays a number of milliseconds."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return f"{ms} ms"


def distance(ms: int, now: int) -> str:
    """Return how far a moment is from now: ``5 min ago``, or ``in 2 d``."""
    return f"{duration((now - ms) // 1000)} ago" if ms <= now else f"in {remaining((ms - now) // 1000)}"


def moment(ms: int, now: int) -> str:
    """Format a time with its distance from now, such as ``2026-03-04T10:00:00.000Z (in 2 d)``."""
    return f"{iso(ms)} ({distance(ms, now)})"


def duration(seconds: int) -> str:
    """Return the time in its largest unit: ``3 h``."""
    unit = _unit(seconds)
    return f"{seconds // _UNITS[unit]} {_NAMES[unit]}"


def remaining(seconds: int) -> str:
    """Round the time to its largest unit."""
    unit = _unit(seconds)
    return f"{(2 * seconds + _UNITS[unit]) // (2 * _UNITS[unit])} {_NAMES[unit]}"


def seconds_in(text: str) -> int | None:
    """Return the seconds of a time such as ``90s`` or ``2d``. None for another text."""
    match = re.fullmatch(r"(\d{1,9})([smhd])", text)
    return None if match is None else int(match[1]) * _UNITS[match[2]]


def _unit(seconds: int) -> str:
    """Return the largest unit that fits at least once."""
    return next((unit for unit in ("d", "h", "m") if seconds >= _UNITS[unit]), "s")
