"""The pictures of the inspector: a run's time line and a flow's graph, as numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import combinations
from typing import Any, Final, NamedTuple

import pytest

from flowguard.aws.run_reader import RunReader
from flowguard.deploy.flow_graph import EdgeKind, graph_of
from flowguard.flow import Flow
from flowguard.outcome import Done, Outcome
from flowguard.settings import Settings
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.ui.graph_layout import Middle, Size, _dot, laid_out
from flowguard.ui.graph_picture import GraphPicture, graph_picture
from flowguard.ui.timeline import TimeLine, _length, time_line
from flowguard.ui.traffic import DONE, FAILED, LATE, ON_THE_WAY, WAITING, Traffic
from tests.aws.engines import same_clients
from tests.cli.test_list import played
from tests.cli.test_show import undoing
from tests.scene import Order, Orders, Scene, Script, scene
from tests.ui.shop import ShopOrders
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
    return [mark.moment.text for mark in line.marks]


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
    return {box.node.key: middle.y for box, middle in picture.boxes}


def test_stages_stand_below_those_before_them_and_the_end_last() -> None:
    picture = graph_picture(graph_of(Orders), Traffic())
    rows = names_of(picture)
    assert rows["stage price-order"] < rows["stage close-order"] < rows["end"]
    assert "dead" not in rows, "each stage would have a line to it"


class Room(NamedTuple):
    """What a box or a label covers."""

    what: str
    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def of(cls, what: str, size: Size, middle: Middle) -> Room:
        width, height = size.width / 2, size.height / 2
        return cls(what, middle.x - width, middle.y - height, middle.x + width, middle.y + height)

    def meets(self, other: Room) -> bool:
        apart = self.right <= other.left or other.right <= self.left
        return not (apart or self.bottom <= other.top or other.bottom <= self.top)


def rooms(picture: GraphPicture) -> list[Room]:
    boxes = [Room.of(box.node.name, box.size, middle) for box, middle in picture.boxes]
    return boxes + [Room.of(" ".join(way.lines), way.size, middle) for way, _, middle in picture.ways if way.lines]


def test_numbers_stand_where_the_runs_are() -> None:
    traffic = Traffic()
    traffic.at.update({("price-order", ON_THE_WAY): 3, ("price-order", FAILED): 2, ("close-order", DONE): 70_000})
    picture = graph_picture(graph_of(Orders), traffic)
    numbers = {box.node.key: [(one.runs, one.what) for one in box.numbers] for box, _ in picture.boxes}
    assert numbers["stage price-order"] == [(3, ON_THE_WAY), (2, FAILED)]
    assert numbers["stage close-order"] == []
    assert sorted(way.runs for way, _, _ in picture.ways if way.runs) == [3, 70_000]
    assert ["70,000"] in [way.lines for way, _, _ in picture.ways]


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
    assert [(way.edge.line, way.runs) for way, _, _ in picture.ways if way.runs] == [(EdgeKind.WAITS, 5)]
    [asked] = [box for box, _ in picture.boxes if box.node.name == "asked"]
    assert [(one.what, one.runs) for one in asked.numbers] == [(ON_THE_WAY, 4), (WAITING, 5), (LATE, 1)]


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


FLOWS: Final = (Orders, Carts, undoing(Script()), Asking, Parting, ShopOrders)


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_no_box_and_no_label_covers_another_and_all_are_in_the_picture(flow: type[Flow]) -> None:
    picture = graph_picture(graph_of(flow), Traffic())
    all_rooms = rooms(picture)
    assert [(one.what, other.what) for one, other in combinations(all_rooms, 2) if one.meets(other)] == []
    assert min(min(room.left, room.top) for room in all_rooms) >= -1
    assert max(room.right for room in all_rooms) <= picture.size.width + 1
    assert max(room.bottom for room in all_rooms) <= picture.size.height + 1


def test_each_edge_leads_from_its_box_to_its_other_one() -> None:
    picture = graph_picture(graph_of(Parting), Traffic())
    covered = {box.node.key: Room.of("", box.size, middle) for box, middle in picture.boxes}
    for way, path, _ in picture.ways:
        numbers = [int(number) for number in re.findall(r"-?\d+", path)]
        start, end = numbers[:2], numbers[-2:]
        for (x, y), key in ((start, way.edge.source), (end, way.edge.target)):
            assert covered[key].meets(Room("", x - 3, y - 3, x + 3, y + 3)), f"{way.edge} begins or ends elsewhere"


def test_a_long_name_is_cut_and_a_long_label_has_several_lines() -> None:
    graph = graph_of(Asking)
    first = graph.nodes[0]
    edges = tuple(replace(edge, label="one answered, or two of the others did") for edge in graph.edges)
    picture = graph_picture(
        replace(graph, nodes=(replace(first, name="x" * 500), *graph.nodes[1:]), edges=edges), Traffic()
    )
    box = next(box for box, _ in picture.boxes if box.node.key == first.key)
    assert (len(box.name), box.name[-1]) == (40, "…")
    assert box.size.width >= 40 * 8
    assert {tuple(way.lines) for way, _, _ in picture.ways} == {("one answered, or two of", "the others did")}


def test_a_graph_of_one_box_is_drawn() -> None:
    laid = laid_out([Size(110, 30)], [])
    assert (laid.size, laid.boxes, laid.paths) == (Size(110, 30), [Middle(55, 15)], [])


def test_no_text_goes_to_the_program_that_lays_out() -> None:
    assert list(_dot([Size(72, 36)], [(0, 0, Size(8, 8))]))[1:3] == [
        "0 [width=1.0, height=0.5]",
        '0 -> 0 [label=<<table border="0" fixedsize="true" width="8" height="8"><tr><td></td></tr></table>>]',
    ]
