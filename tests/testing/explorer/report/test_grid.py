"""A time line as a table: which lane is drawn how, beside which moment."""

from __future__ import annotations

import pytest

from flowguard.testing.explorer.record.site import Site
from flowguard.testing.explorer.report.grid import Cell, Grid, Line, Wire, grid, span
from flowguard.testing.explorer.report.lanes import (
    Called,
    Came,
    Lane,
    LaneDelivery,
    LaneEnding,
    Lanes,
    Moment,
    Origin,
    Said,
)


def came(worker: int, at: int = 0, origin: Origin | None = None) -> LaneDelivery:
    return LaneDelivery(at, worker, 1, "orders", "count", 1, 1, from_dlq=False, origin=origin, letter=None)


def called(worker: int, number: int, at: int = 0) -> Called:
    return Called(at, worker, number, "PutItem", "orders", Site("", 0, "claim"), (), None, 1, (), (), ())


def drawn(*moments: Moment, workers: int = 3, most: int = 400) -> Grid:
    lanes = tuple(Lane(worker, LaneEnding.ACKED, None, ()) for worker in range(1, workers + 1))
    return grid(Lanes(lanes, moments), most)


def column(one: Grid, place: int) -> list[Cell]:
    return [row.cells[place] for row in one.rows]


def test_a_lane_goes_from_its_first_moment_to_its_last() -> None:
    one = drawn(came(1), called(1, 1), came(2), called(2, 2), workers=2)
    first, second = column(one, 0), column(one, 1)
    assert [(cell.above, cell.below) for cell in first] == [
        (Line.NONE, Line.ALIVE),
        (Line.ALIVE, Line.NONE),
        (Line.NONE, Line.NONE),
        (Line.NONE, Line.NONE),
    ]
    assert [cell.end is not None for cell in first] == [False, True, False, False]
    assert [cell.moment is not None for cell in second] == [False, False, True, True]


def test_whoever_does_nothing_while_another_does_is_held_up() -> None:
    one = drawn(came(1), Said(0, 1, "held up"), came(2), called(2, 1), Said(0, 1, "goes on"), called(1, 2), workers=2)
    assert [cell.below for cell in column(one, 0)] == [
        Line.ALIVE, Line.HELD, Line.HELD, Line.HELD, Line.ALIVE, Line.NONE,
    ]  # fmt: skip


def test_time_that_passes_is_a_gap() -> None:
    one = drawn(came(1), Said(0, 1, "held up"), Said(30_000, 1, "goes on"), workers=1)
    assert [row.gap for row in one.rows] == [None, None, "30 s", None]
    assert [row.at for row in one.rows] == ["0.000 s", "0.000 s", "", "30.000 s"]
    assert one.rows[2].cells == (Cell(Line.HELD, Line.HELD),)
    assert [row.gap for row in drawn(came(1), called(1, 1, 999), workers=1).rows] == [None, None]


def test_an_arrow_crosses_the_lanes_between() -> None:
    again = drawn(came(1), came(2), came(3, origin=Origin(Came.AGAIN, 1)))
    assert [(cell.wire, cell.again) for cell in again.rows[2].cells] == [
        (Wire.FROM, True),
        (Wire.ACROSS, True),
        (Wire.INTO, True),
    ]
    sent = drawn(came(1), came(2), came(3, origin=Origin(Came.SENT, 2, 7)))
    assert [(cell.wire, cell.again) for cell in sent.rows[2].cells] == [
        (None, False),
        (Wire.FROM, False),
        (Wire.INTO, False),
    ]


def test_what_concerns_no_worker_is_said_over_all() -> None:
    one = drawn(came(1), Said(0, None, "delivery 1 happens twice"), called(1, 1), workers=1)
    assert [row.text for row in one.rows] == [None, "delivery 1 happens twice", None]
    assert one.rows[1].cells == ()
    assert one.rows[0].cells[0].below is Line.ALIVE


def test_too_much_is_cut_and_counted() -> None:
    one = drawn(came(1), called(1, 1), came(2), called(2, 2), workers=2, most=2)
    assert ([lane.worker for lane in one.lanes], len(one.rows), one.left) == ([1], 2, 2)
    assert one.rows[1].cells[0].end is None, "it may have gone on"
    assert one.rows[1].cells[0].below is Line.ALIVE


@pytest.mark.parametrize(
    ("ms", "text"), [(1000, "1 s"), (29_980, "30 s"), (59_999, "60 s"), (90_000, "1.5 min"), (3_600_000, "1 h")]
)
def test_a_length_of_time_is_short(ms: int, text: str) -> None:
    assert span(ms) == text
