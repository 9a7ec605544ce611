"""The lanes laid out as a table. It has a row for each moment, a column for each worker and a drawing in each cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from flowguard.testing.explorer.report.lanes import Lane, LaneDelivery, Lanes, Moment, Said

MOST: Final = 400
"""The most moments that a time line shows. One of a run that never ends would have thousands."""

JUMP: Final = 1000
"""Time that passes between two moments and is shown as a gap, ms."""


class Line(StrEnum):
    """How a lane is drawn in a cell where nothing happens."""

    NONE = "none"
    ALIVE = "alive"
    HELD = "held"


class Wire(StrEnum):
    """The part of an arrow that crosses a cell. The arrow leads from where a record was sent to where it goes."""

    FROM = "from"
    ACROSS = "across"
    INTO = "into"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the grid. ``above`` and ``below`` are the lane before and after the moment.

    They are the same where there is no moment. ``end`` is the lane where this moment is its last. ``again`` tells the
    arrow of a redelivery from that of a message.
    """

    above: Line = Line.NONE
    below: Line = Line.NONE
    moment: Moment | None = None
    end: Lane | None = None
    wire: Wire | None = None
    again: bool = False


@dataclass(frozen=True, slots=True)
class GridRow:
    """One row of the grid. ``at`` is its time as text.

    ``text`` is what concerns no worker and goes over the whole width; then ``cells`` are empty. ``gap`` says how much
    time passes in a row in which nothing else happens.
    """

    at: str
    cells: tuple[Cell, ...] = ()
    text: str | None = None
    gap: str | None = None


@dataclass(frozen=True, slots=True)
class Grid:
    """The whole table. ``left`` is how many moments were too many to be shown."""

    lanes: tuple[Lane, ...]
    rows: tuple[GridRow, ...]
    left: int


def grid(lanes: Lanes, most: int = MOST) -> Grid:
    shown = lanes.moments[:most]
    workers = {moment.worker for moment in shown}
    columns = tuple(lane for lane in lanes.lanes if lane.worker in workers)
    layout = _Layout(columns, shown, whole=len(shown) == len(lanes.moments))
    return Grid(columns, tuple(layout.rows()), len(lanes.moments) - len(shown))


def span(ms: int) -> str:
    """Format a length of time for people, such as ``30 s`` or ``5 min`` or ``1 h``."""
    for unit, size in (("h", 3_600_000), ("min", 60_000)):
        if ms >= size:
            return f"{ms / size:.3g} {unit}"
    return f"{ms / 1000:.3g} s"


class _Layout:
    """The layout of moments in columns. ``whole`` says that the last moments of the lanes are among those shown."""

    def __init__(self, columns: Sequence[Lane], moments: Sequence[Moment], *, whole: bool) -> None:
        self._columns = columns
        self._moments = moments
        self._place = {lane.worker: place for place, lane in enumerate(columns)}
        self._whole = whole
        self._own: dict[int, list[int]] = {lane.worker: [] for lane in columns}
        for number, moment in enumerate(moments):
            if moment.worker is not None:
                self._own[moment.worker].append(number)

    def rows(self) -> Iterator[GridRow]:
        before = 0
        for number, moment in enumerate(self._moments):
            if moment.at - before >= JUMP:
                between = tuple(self._cell(lane, number, None) for lane in self._columns)
                yield GridRow("", between, gap=span(moment.at - before))
            before = moment.at
            yield self._row(number, moment)

    def _row(self, number: int, moment: Moment) -> GridRow:
        at = f"{moment.at / 1000:.3f} s"
        if isinstance(moment, Said) and moment.worker is None:
            return GridRow(at, text=moment.text)
        return GridRow(at, tuple(self._cell(lane, number, moment) for lane in self._columns))

    def _cell(self, lane: Lane, number: int, moment: Moment | None) -> Cell:
        above, below = self._line(lane, number - 1), self._line(lane, number)
        if moment is None:
            return Cell(above, above)
        wire, again = self._wire(lane, moment)
        if moment.worker != lane.worker:
            return Cell(below, below, wire=wire, again=again)
        last = self._whole and number == self._own[lane.worker][-1]
        return Cell(above, below, moment, lane if last else None, wire, again)

    def _line(self, lane: Lane, after: int) -> Line:
        """Return how the lane is drawn between the moment ``after`` and the next."""
        calls = self._own[lane.worker]
        earlier = [number for number in calls if number <= after]
        later = [number for number in calls if number > after]
        if not earlier or (not later and self._whole):
            return Line.NONE
        if not later:
            return Line.ALIVE
        return Line.HELD if self._waited(earlier[-1], later[0]) else Line.ALIVE

    def _waited(self, before: int, then: int) -> bool:
        """Answer whether a worker was held up between two of its moments.

        Only one worker runs at a time. A worker that does nothing while another one works or while time passes is held
        up.
        """
        passed = self._moments[then].at - self._moments[before].at
        return passed >= JUMP or any(self._moments[number].worker is not None for number in range(before + 1, then))

    def _wire(self, lane: Lane, moment: Moment) -> tuple[Wire | None, bool]:
        if not isinstance(moment, LaneDelivery) or moment.origin is None:
            return None, False
        begins, ends = self._place[moment.origin.worker], self._place[moment.worker]
        place, again = self._place[lane.worker], moment.origin.call is None
        if begins < place < ends:
            return Wire.ACROSS, again
        return {begins: Wire.FROM, ends: Wire.INTO}.get(place), again
