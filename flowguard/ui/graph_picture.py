"""The picture of a flow's graph, with the numbers of runs at its stages and on the ways between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from flowguard.deploy.flow_graph import EdgeKind, FlowGraph, GraphEdge, GraphNode, Shape
from flowguard.ui.traffic import AT_WORK, DONE, FAILED, LATE, LEFT, ON_THE_WAY, WAITING, Traffic

_WIDTH, _GAP, _ROW_GAP, _MARGIN, _LANE = 200, 30, 76, 16, 26
_HEAD, _LINE = 30, 18
_LONGEST: Final = 24
"""Characters that fit into a box."""

_LONGEST_LABEL: Final = 30
_LETTER: Final = 8
"""The room of a letter, in pixels."""

_DRAWN: Final = frozenset(
    {EdgeKind.ENTERS, EdgeKind.THEN, EdgeKind.WAITS, EdgeKind.TIMES_OUT, EdgeKind.FAILS, EdgeKind.STARTS}
)
_ON_BOX: Final = (AT_WORK, LEFT, ON_THE_WAY, WAITING, LATE, FAILED)
"""The numbers that stand in the box of a stage, in their order."""


class Number(NamedTuple):
    """How many runs do something."""

    what: str
    runs: int


class Box(NamedTuple):
    """A node where it is drawn, in pixels. ``numbers`` say what runs do there, a line for each."""

    x: int
    y: int
    width: int
    height: int
    node: GraphNode
    name: str
    numbers: list[Number]

    @property
    def middle(self) -> int:
        """Return the middle of its width."""
        return self.x + self.width // 2

    @property
    def bottom(self) -> int:
        """Return its lower edge."""
        return self.y + self.height


class Way(NamedTuple):
    """An edge where it is drawn, and the place of its label.

    ``path`` is in SVG's language; ``runs`` are on it, where that is known. ``is_around`` says that it goes beside the
    boxes, where its label begins; that of another is centred.
    """

    path: str
    line: EdgeKind
    label: str
    runs: int
    x: int
    y: int
    is_around: bool


class GraphPicture(NamedTuple):
    """A picture in pixels."""

    width: int
    height: int
    boxes: list[Box]
    ways: list[Way]


def graph_picture(graph: FlowGraph, traffic: Traffic) -> GraphPicture:
    """Draw the graph, from where requests enter down to the end.

    Dead letters and the destinations of messages are left out: each stage would have a line to them.
    """
    edges = [one for one in graph.edges if one.line in _DRAWN and graph.node(one.target).shape is not Shape.DEAD]
    drawn = {key for one in edges for key in (one.source, one.target)}
    nodes = [one for one in graph.nodes if one.shape is Shape.STAGE or one.key in drawn]
    ranks = _ranks(nodes, edges)
    boxes = _boxes(nodes, ranks, traffic)
    right, lanes = max(one.x + one.width for one in boxes.values()), 0
    ways = []
    for edge in edges:
        source, target = boxes[edge.source], boxes[edge.target]
        label, runs = _cut(edge.label, _LONGEST_LABEL), _runs_on(edge, edges, graph, traffic)
        beside = ranks[edge.target] != ranks[edge.source] + 1
        if beside:
            path, x, y = _around(source, target, right + _LANE, lanes)
            lanes, right = lanes + 1, right + _LANE + _width_of(label, runs)
        else:
            path, x, y = _down(source, target, _shift(edge))
        ways.append(Way(path, edge.line, label, runs, x, y, beside))
    height = max(one.bottom for one in boxes.values()) + (_ROW_GAP // 2 if lanes else 0) + _MARGIN
    return GraphPicture(right + _MARGIN, height, list(boxes.values()), ways)


def _ranks(nodes: Sequence[GraphNode], edges: Sequence[GraphEdge]) -> Mapping[str, int]:
    """Return the row of each node: one below what leads to it, without the edges that lead back."""
    ranks = {one.key: 0 for one in nodes}
    order = {one.key: place for place, one in enumerate(nodes)}
    entries = {one.source for one in edges if one.line is EdgeKind.ENTERS}
    onward = [one for one in edges if one.source in entries or order[one.source] < order[one.target]]
    for _ in nodes:
        for one in onward:
            ranks[one.target] = max(ranks[one.target], ranks[one.source] + 1)
    return ranks


def _boxes(nodes: Sequence[GraphNode], ranks: Mapping[str, int], traffic: Traffic) -> dict[str, Box]:
    rows = [[one for one in nodes if ranks[one.key] == rank] for rank in range(max(ranks.values()) + 1)]
    widest = max(len(row) * (_WIDTH + _GAP) - _GAP for row in rows)
    boxes, y = {}, _MARGIN
    for row in rows:
        x = _MARGIN + (widest - len(row) * (_WIDTH + _GAP) + _GAP) // 2
        for node in row:
            numbers = _numbers(node, traffic)
            boxes[node.key] = Box(x, y, _WIDTH, _HEAD + _LINE * len(numbers), node, _cut(node.name), numbers)
            x += _WIDTH + _GAP
        y = max((boxes[node.key].bottom for node in row), default=y) + _ROW_GAP
    return boxes


def _numbers(node: GraphNode, traffic: Traffic) -> list[Number]:
    if node.shape is not Shape.STAGE:
        return []
    found = traffic.of_stage(node.name)
    return [Number(what, found[what]) for what in _ON_BOX if found.get(what)]


def _runs_on(edge: GraphEdge, edges: Sequence[GraphEdge], graph: FlowGraph, traffic: Traffic) -> int:
    """Return the runs that are on an edge, or have ended by it.

    A message on its way from a stage with several next ones is on one of them, and nobody knows on which.
    """
    source, target = graph.node(edge.source), graph.node(edge.target)
    if source.shape is not Shape.STAGE:
        return 0
    if target.shape is Shape.END:
        return traffic.at[source.name, DONE]
    if edge.line is EdgeKind.WAITS:
        return traffic.between[source.name, target.name]
    onward = [one for one in edges if one.source == edge.source and graph.node(one.target).shape is Shape.STAGE]
    return traffic.at[source.name, ON_THE_WAY] if edge.line is EdgeKind.THEN and len(onward) == 1 else 0


def _shift(edge: GraphEdge) -> int:
    """Return how far from the middle an edge begins and ends: two between the same boxes lie side by side."""
    return {EdgeKind.FAILS: 50, EdgeKind.TIMES_OUT: 25}.get(edge.line, 0)


def _down(source: Box, target: Box, shift: int) -> tuple[str, int, int]:
    """Draw an edge to the next row. Its label is nearer to its end: those of edges that part there do not meet."""
    start, end, y, below = source.middle + shift, target.middle + shift, source.bottom, target.y - 6
    bend = (y + below) // 2
    path = f"M{start} {y}C{start} {bend} {end} {bend} {end} {below}"
    return path, round(start + 0.65 * (end - start)), round(y + 0.62 * (below - y))


def _around(source: Box, target: Box, lane: int, number: int) -> tuple[str, int, int]:
    """Draw an edge beside the boxes, through a lane of its own. It crosses rows only in the gaps between them.

    ``number`` is of its lane: edges of the same boxes lie side by side.
    """
    beside = 6 * (number % 5)
    start, end = source.middle + 60 + beside, target.middle + 60 + beside
    below, above = source.bottom + 14 + beside, max(4, target.y - 20 - beside)
    turn = 10 if above > below else -10
    path = (
        f"M{start} {source.bottom}V{below}H{lane - 10}q10 0 10 {turn}V{above - turn}q0 {turn} -10 {turn}"
        f"H{end}V{target.y - 6}"
    )
    return path, lane + 6, (below + above) // 2


def _width_of(label: str, runs: int) -> int:
    """Return the room that a label needs beside its edge, in pixels."""
    return _LETTER * (len(label) + (len(f"{runs:,} ") if runs else 0)) + _LETTER


def _cut(name: str, longest: int = _LONGEST) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def described(graph: FlowGraph, picture: GraphPicture) -> Iterator[str]:
    """Yield the picture's content as sentences, for those who do not see it."""
    for box in picture.boxes:
        numbers = ", ".join(f"{one.runs:,} {one.what}" for one in box.numbers)
        yield f"{box.node.name}: {numbers or 'no run'}"
