"""Shorten long time lines. They keep the beginning, the part where something went wrong, and the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MOST_LINES: Final = 60
"""Of a longer time line a report shows so many lines and a few. All of it is on the page, and with ``--schedule``."""

_AT_AN_END: Final = 15
_BEFORE: Final = 5
_AFTER: Final = 10
_MOST_PLACES: Final = 2
_STRUCK: Final = "╳"


def folded(timeline: Sequence[str], schedule: str) -> list[str]:
    """Return the time line of a schedule, with a line in place of those that are left out."""
    if len(timeline) <= MOST_LINES:
        return [*timeline]
    shown = {*range(_AT_AN_END), *range(len(timeline) - _AT_AN_END, len(timeline))}
    for place in [number for number, line in enumerate(timeline) if _STRUCK in line][:_MOST_PLACES]:
        shown.update(range(max(0, place - _BEFORE), min(len(timeline), place + _AFTER)))
    lines, after = [], 0
    for number in sorted(shown):
        if number > after:
            lines.append(f"      … {number - after} lines more: --schedule {schedule} or a page (--html) shows them")
        lines.append(timeline[number])
        after = number + 1
    return lines
