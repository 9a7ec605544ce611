"""One row of the table: what was measured, and the mark it is held to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class State(StrEnum):
    OK = "ok"
    NEAR = "near"
    """The mark is missed by no more than the figure's noise."""
    OUT_OF_REACH = "out of reach"
    """The mark is missed, since the least that the figure can be is above it. The figure is near that."""
    MISSED = "missed"
    SKIPPED = "skipped"
    COMPARED = "-"
    """There is no mark: a number to compare with."""


@dataclass(frozen=True)
class Figure:
    """``measured`` is None where it could not be; ``note`` says why, or what the number is made of.

    ``noise`` is the share by which runs of one version differ. ``is_least`` says that the mark is the least. ``floor``
    is the least that the figure can be by construction. Where that is above the mark, the figure is held to it.
    """

    name: str
    measured: float | None
    mark: float | None
    unit: str = ""
    note: str = ""
    noise: float = 0.0
    is_least: bool = False
    floor: float | None = None

    @property
    def state(self) -> State:
        if self.measured is None:
            return State.SKIPPED
        if self.mark is None:
            return State.COMPARED
        if self._keeps(self.mark):
            return State.OK
        if self._keeps(self.mark * (1 - self.noise if self.is_least else 1 + self.noise)):
            return State.NEAR
        if self.floor is not None and self.floor > self.mark and self._keeps(self.floor * (1 + self.noise)):
            return State.OUT_OF_REACH
        return State.MISSED

    def _keeps(self, mark: float) -> bool:
        measured = round(self.measured or 0, 2)
        return measured >= round(mark, 2) if self.is_least else measured <= round(mark, 2)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "state": self.state.value}


def table(figures: list[Figure]) -> str:
    """The figures in columns, with a heading."""
    rows = [("figure", "measured", "mark", "noise", "", "")]
    for figure in figures:
        measured, mark = (_number(value, figure.unit) for value in (figure.measured, figure.mark))
        noise = f"{figure.noise:.0%}" if figure.noise else ""
        rows.append((figure.name, measured, mark, noise, figure.state.value, figure.note))
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    """The numbers stand to the right."""
    cells = [
        f"{cell:{'>' if 1 <= at <= 3 else '<'}{width}}"
        for at, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:,.2f}{unit}" if unit else f"{value:,g}"
