"""The picture of a flow's graph, with the numbers of runs at its stages and on the ways between them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from flowguard.deploy.flow_graph import EdgeKind, FlowGraph, GraphEdge, GraphNode, Shape
from flowguard.ui.graph_layout import Middle, Size, laid_out
from flowguard.ui.traffic import AT_WORK, DONE, FAILED, LATE, LEFT, ON_THE_WAY, WAITING, Traffic

_LETTER, _LINE = 8, 17
"""The room of a letter and of a line, in pixels."""

_NARROWEST: Final = 110
_LONGEST: Final = 40
"""Characters of a name. Longer ones are cut."""

_LABEL: Final = 24
"""Characters in a line of a label."""

_DRAWN: Final = frozenset(
    {EdgeKind.ENTERS, EdgeKind.THEN, EdgeKind.WAITS, EdgeKind.TIMES_OUT, EdgeKind.FAILS, EdgeKind.STARTS}
)
_ON_BOX: Final = (AT_WORK, LEFT, ON_THE_WAY, WAITING, LATE, FAILED)
"""The numbers that stand in the box of a stage, in their order."""


class Number(NamedTuple):
    """How many runs do something."""

    what: str
    runs: int

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.runs:,} {self.what}"


class Box(NamedTuple):
    """A node and what its box says. ``numbers`` are what runs do there, a line for each."""

    node: GraphNode
    name: str
    numbers: list[Number]

    @property
    def size(self) -> Size:
        """Return its size."""
        longest = max(len(line) for line in (self.name, *map(str, self.numbers)))
        return Size(max(_NARROWEST, _LETTER * (longest + 3)), _LINE * (1 + len(self.numbers)) + 13)


class Way(NamedTuple):
    """An edge and the lines of its label. ``runs`` are on it, where that is known, and are its first line then."""

    edge: GraphEdge
    lines: list[str]
    runs: int

    @property
    def size(self) -> Size:
        """Return the size of its label."""
        return Size(_LETTER * (max(map(len, self.lines), default=0) + 1), max(_LETTER, _LINE * len(self.lines)))


class GraphPicture(NamedTuple):
    """A laid-out picture in pixels."""

    size: Size
    boxes: list[tuple[Box, Middle]]
    ways: list[tuple[Way, str, Middle]]
    line: int = _LINE


def graph_picture(graph: FlowGraph, traffic: Traffic) -> GraphPicture:
    """Draw the graph, from where requests enter down to the end.

    Dead letters and the destinations of messages are left out: each stage would have a line to them.
    """
    edges = [edge for edge in graph.edges if edge.line in _DRAWN and graph.node(edge.target).shape is not Shape.DEAD]
    ends = {key for edge in edges for key in (edge.source, edge.target)}
    nodes = [node for node in graph.nodes if node.shape is Shape.STAGE or node.key in ends]
    boxes = [Box(node, _cut(node.name), _numbers(node, traffic)) for node in nodes]
    ways = [_way(edge, _runs_on(edge, edges, graph, traffic)) for edge in edges]
    order = {node.key: place for place, node in enumerate(nodes)}
    laid = laid_out(
        [box.size for box in boxes],
        [(order[way.edge.source], order[way.edge.target], way.size) for way in ways],
    )
    return GraphPicture(
        laid.size,
        list(zip(boxes, laid.boxes, strict=True)),
        list(zip(ways, laid.paths, laid.labels, strict=True)),
    )


def _way(edge: GraphEdge, runs: int) -> Way:
    return Way(edge, [f"{runs:,}"] * bool(runs) + textwrap.wrap(edge.label, _LABEL), runs)


def _numbers(node: GraphNode, traffic: Traffic) -> list[Number]:
    if node.shape is not Shape.STAGE:
        return []
    numbers = traffic.of_stage(node.name)
    return [Number(state, numbers[state]) for state in _ON_BOX if numbers.get(state)]


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
    onward = [other for other in edges if other.source == edge.source and graph.node(other.target).shape is Shape.STAGE]
    return traffic.at[source.name, ON_THE_WAY] if edge.line is EdgeKind.THEN and len(onward) == 1 else 0


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def described(picture: GraphPicture) -> Iterator[str]:
    """Yield the picture's content as sentences, for those who do not see it."""
    for box, _ in picture.boxes:
        numbers = ", ".join(map(str, box.numbers))
        yield f"{box.node.name}: {numbers or 'no run'}"
