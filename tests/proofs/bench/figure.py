"""One row of the table: what was measured, and the mark it is held to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class State(StrEnum):
    OK = "ok"
    OVER = "over"
    SKIPPED = "skipped"
    COMPARED = "-"
    """There is no mark: a number to compare with."""


@dataclass(frozen=True)
class Figure:
    """``measured`` is None where it could not be; ``note`` says why, or what the number is made of."""

    name: str
    measured: float | None
    mark: float | None
    unit: str = ""
    note: str = ""

    @property
    def state(self) -> State:
        if self.measured is None:
            return State.SKIPPED
        if self.mark is None:
            return State.COMPARED
        return State.OK if round(self.measured, 2) <= self.mark else State.OVER

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "state": self.state.value}


def table(figures: list[Figure]) -> str:
    """The figures in columns, with a heading."""
    rows = [("figure", "measured", "mark", "", "")]
    for figure in figures:
        measured, mark = (_number(value, figure.unit) for value in (figure.measured, figure.mark))
        rows.append((figure.name, measured, mark, figure.state.value, figure.note))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        f"{row[0]:{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:{widths[3]}}  {row[4]}".rstrip()
        for row in rows
    )


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}{unit}" if unit else f"{value:g}"
