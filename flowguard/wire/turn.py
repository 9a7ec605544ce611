"""The turn of a message that stands in the line of a limit. It travels in the ``flowguard`` attribute, as ``turn``."""

from __future__ import annotations

from typing import Any, Final

from flowguard.startup.named_tuple import NamedTuple

TURN: Final = "turn"
"""The key of the place that says since when the message waits for a place of a limit."""

_LONGEST_PLACE: Final = 256
_LATEST: Final = 10**15 - 1
"""The highest time and number that is read, as of every time in a message."""


class Turn(NamedTuple):
    """Since when a hop waits (ms), and for a place of which limit and key. The hop keeps its turn by it.

    ``look`` numbers the looks of a hop: the one with the highest number sends itself again, every other ends. A message
    that calls the hop has no number.
    """

    arrival: int
    place: str
    look: int = 0

    @property
    def is_call(self) -> bool:
        return not self.look

    def as_json(self) -> list[Any]:
        return [self.arrival, self.place, self.look]


def read_turn(value: object) -> Turn | None:
    """Read what :meth:`Turn.as_json` wrote. None where there is none. Raises ValueError for anything else."""
    if value is None:
        return None
    match value:
        case [int(arrival), str(place), int(look)]:
            if all(0 <= count <= _LATEST for count in (arrival, look)) and len(place) <= _LONGEST_PLACE:
                return Turn(arrival, place, look)
        case _:
            pass
    raise ValueError(f"has a {TURN!r} that is not [ms, limit and key, number of the look]")
