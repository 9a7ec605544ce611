"""The pictures of the inspector: a run's time line and a flow's graph, as numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from flowguard.aws.run_reader import RunReader
from flowguard.deploy.flow_graph import EdgeKind, graph_of
from flowguard.flow import Flow
from flowguard.outcome import Done, Outcome
from flowguard.settings import Settings
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.ui.graph_picture import GraphPicture, graph_picture
from flowguard.ui.timeline import TimeLine, _length, time_line
from flowguard.ui.traffic import DONE, FAILED, LATE, ON_THE_WAY, WAITING, Traffic
from tests.aws.engines import same_clients
from tests.cli.test_list import played
from tests.cli.test_show import undoing
from tests.scene import Order, Orders, Scene, Script, scene
from tests.waits import Carts

PRICED = "hop 1 at price-order (epoch 1)"
CLOSED = "hop 2 at close-order (epoch 2)"
AT_ONCE = "0 ms after its claim"


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        played(found)
        yield found


def line_of(at: Scene, object_id: str) -> TimeLine:
    seen = RunReader.of(Settings(), same_clients()).read("orders", object_id)
    assert seen is not None
    return time_line(seen, at.clock.now())


def said(line: TimeLine) -> list[str]:
    return [mark.moment.said for mark in line.marks]


@pytest.mark.parametrize(
    ("object_id", "moments"),
    [
        ("o1", ["requested", f"{PRICED}: committed, {AT_ONCE}", f"{CLOSED}: completed, {AT_ONCE}"]),
        ("o2", ["requested", f"{PRICED}: committed, {AT_ONCE}", "now"]),
        ("bad", ["requested", f"{PRICED}: failed for good, {AT_ONCE}"]),
        ("left", ["requested", "the lease of its worker ended", "now"]),
    ],
)
def test_a_time_line_has_what_is_known_in_its_order(at: Scene, object_id: str, moments: list[str]) -> None:
    line = line_of(at, object_id)
    assert said(line) == moments
    assert [mark.number for mark in line.marks] == [*range(1, len(moments) + 1)]
    assert [mark.x for mark in line.marks] == sorted(mark.x for mark in line.marks)
    assert (line.marks[0].x, line.marks[-1].x) == (3.0, 97.0)


@pytest.mark.parametrize(
    ("object_id", "moments"),
    [
        ("o1", ["requested", "completed at close-order, hop 2"]),
        ("o2", ["requested", "committed hop 1 at price-order", "now"]),
        ("bad", ["requested", "failed for good at price-order, hop 1"]),
    ],
)
def test_a_run_without_a_history_has_its_last_commit(at: Scene, object_id: str, moments: list[str]) -> None:
    seen = RunReader.of(Settings(), same_clients()).read("orders", object_id)
    assert seen is not None
    assert said(time_line(seen._replace(item=seen.item._replace(history="")), at.clock.now())) == moments


def test_marks_that_are_close_stand_above_each_other(at: Scene) -> None:
    seen = RunReader.of(Settings(), same_clients()).read("orders", "o2")
    assert seen is not None
    item = seen.item._replace(history="", committed_at=seen.item.requested_at + 5)
    line = time_line(seen._replace(item=item), at.clock.now())
    first, second, last = line.marks
    assert second.x - first.x < 1
    assert (first.y, second.y, last.y) == (line.y, line.y - 26, line.y)
    assert line.height == line.y + 40


def test_a_line_has_all_its_time_and_what_is_to_come_is_another_colour(at: Scene) -> None:
    at.deliver(at.order("new", requested_at=at.clock.now()))
    at.script.pricing = lambda step: at.clock.advance(seconds=0)
    assert [bar.kind for bar in line_of(at, "o1").bars] == ["over"]
    [over, ahead] = line_of(at, "left").bars
    assert (over.x, over.width, ahead.width) == (3.0, 94.0, 0.0)


def test_a_second_of_work_can_be_seen_beside_two_days_of_waiting(at: Scene) -> None:
    seen = RunReader.of(Settings(), same_clients()).read("orders", "o2")
    assert seen is not None
    now = seen.item.requested_at + 2 * 24 * 3_600_000
    item = seen.item._replace(history="", committed_at=seen.item.requested_at + 1_000)
    line = time_line(seen._replace(item=item), now)
    requested, committed, last = (mark.x for mark in line.marks)
    assert 10 < committed - requested < (last - committed) / 4
    assert [gap.length for gap in line.gaps] == ["1 s", "47 h 59 min"]
    assert [requested < line.gaps[0].x < committed, committed < line.gaps[1].x < last] == [True, True]


@pytest.mark.parametrize(
    ("ms", "length"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_500, "1.5 s"),
        (59_000, "59 s"),
        (60_000, "1 min"),
        (3_600_000, "1 h"),
        (5_400_000, "1 h 30 min"),
        (172_800_000, "2 d"),
        (183_600_000, "2 d 3 h"),
    ],
)
def test_a_gap_says_how_long_it_is(ms: int, length: str) -> None:
    assert _length(ms) == length


def test_a_run_of_one_moment_has_a_line(at: Scene) -> None:
    seen = RunReader.of(Settings(), same_clients()).read("orders", "o1")
    assert seen is not None
    item = seen.item._replace(requested_at=seen.item.committed_at)
    line = time_line(seen._replace(item=item), at.clock.now())
    assert [mark.x for mark in line.marks] == [3.0, 3.0]
    assert line.marks[0].y != line.marks[1].y


def test_moments_that_no_calendar_has_are_drawn(at: Scene) -> None:
    seen = RunReader.of(Settings(), same_clients()).read("orders", "o2")
    assert seen is not None
    line = time_line(seen._replace(item=seen.item._replace(requested_at=10**30)), at.clock.now())
    assert line.marks[-1].when == f"{10**30} ms"
    assert all(3 <= mark.x <= 97 for mark in line.marks)
    assert all(bar.width >= 0 for bar in line.bars)


# -- graphs


def names_of(picture: GraphPicture) -> dict[str, int]:
    return {box.node.name: box.y for box in picture.boxes}


def test_stages_stand_below_those_before_them_and_the_end_last() -> None:
    picture = graph_picture(graph_of(Orders), Traffic())
    rows = names_of(picture)
    assert rows["price-order"] < rows["close-order"] < rows["done"]
    assert "dead" not in rows, "each stage would have a line to it"
    assert max(box.x + box.width for box in picture.boxes) < picture.width
    assert max(box.bottom for box in picture.boxes) < picture.height


def test_boxes_do_not_overlap() -> None:
    for flow in (Orders, Carts, undoing(Script())):
        picture = graph_picture(graph_of(flow), Traffic())
        for one in picture.boxes:
            for other in picture.boxes:
                apart = one.x + one.width <= other.x or other.x + other.width <= one.x
                assert one is other or apart or one.bottom <= other.y or other.bottom <= one.y


def test_numbers_stand_where_the_runs_are() -> None:
    traffic = Traffic()
    traffic.at.update({("price-order", ON_THE_WAY): 3, ("price-order", FAILED): 2, ("close-order", DONE): 70_000})
    picture = graph_picture(graph_of(Orders), traffic)
    numbers = {box.node.name: [(one.runs, one.what) for one in box.numbers] for box in picture.boxes}
    assert numbers["price-order"] == [(3, ON_THE_WAY), (2, FAILED)]
    assert numbers["close-order"] == []
    assert sorted(way.runs for way in picture.ways if way.runs) == [3, 70_000]


class Asked(Stage[Order], name="asked", then=("told", "late")):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Told.when_all(price=step.event("price"), within=timedelta(days=1), on_timeout="late")


class Told(Stage[dict[str, Any]], name="told", then="late"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Late.message({})


class Late(Stage[dict[str, Any]], name="late"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Asking(Flow, name="asking", object_id="order_id"):
    stages = (Asked, Told, Late)


def test_a_wait_is_counted_on_the_way_that_its_answers_take() -> None:
    traffic = Traffic()
    traffic.at.update({("asked", WAITING): 5, ("asked", LATE): 1, ("asked", ON_THE_WAY): 4})
    traffic.between["asked", "told"] = 5
    picture = graph_picture(graph_of(Asking), traffic)
    assert [(way.line, way.runs) for way in picture.ways if way.runs] == [(EdgeKind.WAITS, 5)]
    [asked] = [box for box in picture.boxes if box.node.name == "asked"]
    assert [(one.what, one.runs) for one in asked.numbers] == [(ON_THE_WAY, 4), (WAITING, 5), (LATE, 1)]


def test_what_skips_a_row_goes_around_the_boxes() -> None:
    picture = graph_picture(graph_of(Asking), Traffic())
    right = max(box.x + box.width for box in picture.boxes)
    around = [way for way in picture.ways if way.x > right]
    assert [way.line for way in around] == [EdgeKind.TIMES_OUT]
    assert all(way.x < picture.width for way in picture.ways)


class Refused(Stage[dict[str, Any]], name="refused", then="late"):
    def handle(self, answers: dict[str, Any], step: Step) -> Outcome:
        return Late.message({})


class Parting(Flow, name="parting", object_id="order_id"):
    """Three stages of one row, each of which another one of that row leads on to."""

    stages = (
        type("Part", (Asked,), {}, name="asked", then=("told", "refused", "late")),
        type("Onward", (Told,), {}, name="told", then=("refused", "late")),
        Refused,
        Late,
    )


def crossed(path: str, picture: GraphPicture) -> list[str]:
    """The boxes that an edge beside them runs through."""
    x, y, through = 0, 0, []
    for step, rest in re.findall(r"([MHVq])([-0-9 ]+)", path):
        before, numbers = (x, y), [int(number) for number in rest.split()]
        match step:
            case "M":
                x, y = numbers
                continue
            case "H":
                x = numbers[0]
            case "V":
                y = numbers[0]
            case _:
                x, y = x + numbers[2], y + numbers[3]
        low, high = sorted((before[0], x)), sorted((before[1], y))
        through += [
            box.node.name
            for box in picture.boxes
            if low[0] < box.x + box.width and low[1] > box.x and high[0] < box.bottom and high[1] > box.y
        ]
    return through


@pytest.mark.parametrize("flow", [Asking, Parting])
def test_no_edge_that_goes_around_runs_behind_a_box_and_each_label_has_its_room(flow: type[Flow]) -> None:
    picture = graph_picture(graph_of(flow), Traffic())
    around = [way for way in picture.ways if way.is_around]
    assert around
    assert [crossed(way.path, picture) for way in around] == [[]] * len(around)
    assert all(way.x + 7 * len(way.label) <= picture.width for way in around)


def test_a_long_name_is_cut_to_its_box() -> None:
    graph = graph_of(Orders)
    first = graph.nodes[0]
    long = replace(graph, nodes=(replace(first, name="x" * 500), *graph.nodes[1:]))
    box = next(one for one in graph_picture(long, Traffic()).boxes if one.node.key == first.key)
    assert (len(box.name), box.name[-1]) == (24, "…")
