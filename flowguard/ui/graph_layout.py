"""The layout of a graph, by Graphviz. It is given sizes alone, so that no text has to be escaped for it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from importlib.metadata import files
from typing import Final, NamedTuple

_PROGRAM: Final = next(str(file.locate()) for file in files("graphviz-pure") or () if file.stem == "graphviz-pure")
_LONGEST: Final = 20
"""Seconds. It takes some hundredths."""

_POINTS: Final = 72
"""Graphviz counts in points, and boxes in inches. A point is a pixel here."""


class Size(NamedTuple):
    """The size of a box, a label or the whole, in pixels."""

    width: int
    height: int


class Middle(NamedTuple):
    """The middle of a box or of a label, in pixels from the upper left corner."""

    x: int
    y: int


class Layout(NamedTuple):
    """The places of boxes and labels, and the edges' paths in SVG's language, all in the order in which they came."""

    size: Size
    boxes: list[Middle]
    paths: list[str]
    labels: list[Middle]


def laid_out(boxes: Sequence[Size], edges: Sequence[tuple[int, int, Size]]) -> Layout:
    """Lay out boxes and the edges between them, from above to below.

    An edge has the numbers of its two boxes, and the size of its label.
    """
    text = "\n".join(_dot(boxes, edges))
    made = subprocess.check_output([_PROGRAM, "-Tjson0"], input=text, text=True, timeout=_LONGEST)  # noqa: S603 - sizes
    laid = json.loads(made)
    _, _, width, height = map(float, laid["bb"].split(","))
    lines = laid.get("edges", ())

    def place(at: str) -> Middle:
        x, y = map(float, at.split(","))
        return Middle(round(x), round(height - y))

    return Layout(
        Size(round(width), round(height)),
        [place(node["pos"]) for node in laid["objects"]],
        [_path([place(point) for point in line["pos"].split()]) for line in lines],
        [place(line["lp"]) for line in lines],
    )


def _dot(boxes: Sequence[Size], edges: Sequence[tuple[int, int, Size]]) -> Iterator[str]:
    yield "digraph { node [shape=box, fixedsize=true]; edge [arrowhead=none]; ranksep=0.35; nodesep=0.3;"
    for number, (width, height) in enumerate(boxes):
        yield f"{number} [width={width / _POINTS}, height={height / _POINTS}]"
    for source, target, (width, height) in edges:
        room = f'<table border="0" fixedsize="true" width="{width}" height="{height}"><tr><td></td></tr></table>'
        yield f"{source} -> {target} [label=<{room}>]"
    yield "}"


def _path(points: Sequence[Middle]) -> str:
    """Return the path of a line that bends through a first point and three more for each curve."""
    first, *others = (f"{x} {y}" for x, y in points)
    return f"M{first}C{' '.join(others)}"
