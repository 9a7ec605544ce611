"""Time spans in words."""

from __future__ import annotations

from datetime import timedelta


def spoken(span: timedelta) -> str:
    """Return a time span in words, such as ``90 min``."""
    seconds = span.total_seconds()
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:g} s"
