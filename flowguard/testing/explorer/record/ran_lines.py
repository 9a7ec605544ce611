"""Which lines of handlers the schedules of an exploration ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from flowguard.text.printable import bounded

_LONGEST: Final = 500
"""So many characters name the lines that did not run. ``--json`` has all."""


class RanLines(NamedTuple):
    """How many lines of ``all`` ran, and by file which did not. ``wanted`` is the percentage that was asked for."""

    ran: int
    all: int
    left: Mapping[str, Sequence[int]]
    wanted: float

    @property
    def percent(self) -> float:
        """Return how many of 100 lines ran. Where there is no line of user code none did."""
        return 100 * self.ran / self.all if self.all else 0.0

    @property
    def are_enough(self) -> bool:
        """Answer whether as many ran as were asked for."""
        return self.percent >= self.wanted

    def __str__(self) -> str:
        """Format it as a report shows it."""
        text = f"lines of the handlers: {self.ran} of {self.all} ran, {self.percent:.1f} %"
        if not self.are_enough:
            text += f"; {self.wanted:g} % are asked for, so this is no verdict"
        left = "; ".join(f"{file}:{','.join(_ranges(lines))}" for file, lines in self.left.items())
        return f"{text}; no schedule ran {bounded(left, _LONGEST)}" if left else text

    def as_json(self) -> dict[str, Any]:
        """Return it as a report for programs has it."""
        left = {file: list(lines) for file, lines in self.left.items()}
        return {
            "ran": self.ran,
            "all": self.all,
            "percent": round(self.percent, 2),
            "wanted": self.wanted,
            "left": left,
        }


def _ranges(lines: Sequence[int]) -> list[str]:
    """Return the lines as text, those that follow one another as one range."""
    parts: list[list[int]] = []
    for line in lines:
        if parts and parts[-1][1] == line - 1:
            parts[-1][1] = line
        else:
            parts.append([line, line])
    return [str(first) if first == last else f"{first}-{last}" for first, last in parts]
