"""The graph of a flow as text, in several languages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from flowguard.deploy.flow_graph import EdgeKind, FlowGraph, GraphEdge, GraphNode, Shape
from flowguard.text.printable import one_line

_MERMAID: Final[Mapping[Shape, tuple[str, str]]] = {
    Shape.STAGE: ("[", "]"),
    Shape.PLACE: ("[(", ")]"),
    Shape.FLOW: ("[[", "]]"),
    Shape.END: ("((", "))"),
    Shape.DEAD: ("[(", ")]"),
}
_MERMAID_LINES: Final[Mapping[EdgeKind, str]] = {
    EdgeKind.ENTERS: "-->",
    EdgeKind.THEN: "-->",
    EdgeKind.WAITS: "==>",
    EdgeKind.TIMES_OUT: "-->",
    EdgeKind.FAILS: "-.->",
    EdgeKind.SENDS: "-.->",
    EdgeKind.STARTS: "-.->",
}
_DOT: Final[Mapping[Shape, str]] = {
    Shape.STAGE: "box",
    Shape.PLACE: "cylinder",
    Shape.FLOW: "component",
    Shape.END: "circle",
    Shape.DEAD: "cylinder",
}
_DOT_LINES: Final[Mapping[EdgeKind, str]] = {
    EdgeKind.ENTERS: "solid",
    EdgeKind.THEN: "solid",
    EdgeKind.WAITS: "bold",
    EdgeKind.TIMES_OUT: "solid",
    EdgeKind.FAILS: "dashed",
    EdgeKind.SENDS: "dotted",
    EdgeKind.STARTS: "dotted",
}
_ASCII: Final[Mapping[EdgeKind, str]] = {
    EdgeKind.ENTERS: "-->",
    EdgeKind.THEN: "-->",
    EdgeKind.WAITS: "==>",
    EdgeKind.TIMES_OUT: "-->",
    EdgeKind.FAILS: "x->",
    EdgeKind.SENDS: "...",
    EdgeKind.STARTS: "...",
}


def mermaid(graph: FlowGraph) -> str:
    """Return the graph in the language of Mermaid."""
    ids = _ids(graph)
    lines = ["flowchart TD"]
    for node in graph.nodes:
        opening, closing = _MERMAID[node.shape]
        text = "<br/>".join(map(_mermaid_text, _label(node)))
        lines.append(f'    {ids[node.key]}{opening}"{text}"{closing}')
    for edge in graph.edges:
        label = f'|"{_mermaid_text(edge.label)}"|' if edge.label else ""
        lines.append(f"    {ids[edge.source]} {_MERMAID_LINES[edge.line]}{label} {ids[edge.target]}")
    return "\n".join(lines)


def dot(graph: FlowGraph) -> str:
    """Return the graph in the language of Graphviz."""
    ids = _ids(graph)
    lines = [f"digraph {_quoted(graph.name)} {{"]
    for node in graph.nodes:
        label = "\\n".join(_escaped(line) for line in _label(node))
        lines.append(f'    {ids[node.key]} [shape={_DOT[node.shape]}, label="{label}"];')
    for edge in graph.edges:
        label = f", label={_quoted(edge.label)}" if edge.label else ""
        lines.append(f"    {ids[edge.source]} -> {ids[edge.target]} [style={_DOT_LINES[edge.line]}{label}];")
    return "\n".join([*lines, "}"])


def ascii_text(graph: FlowGraph) -> str:
    """Return the graph as a list of its stages and their edges."""
    lines = [graph.name]
    for node in graph.nodes:
        edges = [edge for edge in graph.edges if edge.source == node.key]
        if node.shape is Shape.STAGE or (node.shape is Shape.END and edges):
            lines.append(f"  {_ascii_name(node)}")
            lines += [f"    {_ascii_edge(graph, edge)}" for edge in edges]
    return "\n".join(lines)


def json_text(graph: FlowGraph) -> str:
    """Return the graph as one line of JSON."""
    return json.dumps(
        {
            "flow": graph.name,
            "nodes": [
                {"id": node.key, "kind": node.shape.value, "name": node.name, "details": node.details}
                for node in graph.nodes
            ],
            "edges": [
                {"from": edge.source, "to": edge.target, "kind": edge.line.value, "label": edge.label}
                for edge in graph.edges
            ],
            "notes": graph.notes,
        },
        ensure_ascii=False,
    )


FORMATS: Final[Mapping[str, Callable[[FlowGraph], str]]] = {
    "mermaid": mermaid,
    "dot": dot,
    "ascii": ascii_text,
    "json": json_text,
}


def _ids(graph: FlowGraph) -> Mapping[str, str]:
    """Return a short id for each node. It is no keyword of a graph language."""
    return {node.key: f"n{number}" for number, node in enumerate(graph.nodes, 1)}


def _label(node: GraphNode) -> Iterable[str]:
    return (node.name, *node.details)


def _mermaid_text(text: str) -> str:
    """Escape a text for Mermaid and for HTML."""
    signs = {"#": "#35;", '"': "#quot;", "&": "#amp;", "<": "#lt;", ">": "#gt;", "`": "#96;"}
    return "".join(signs.get(sign, sign) for sign in one_line(text))


def _escaped(text: str) -> str:
    return one_line(text).replace("\\", "\\\\").replace('"', '\\"')


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _ascii_name(node: GraphNode) -> str:
    return f"{node.name} ({', '.join(node.details)})" if node.details else node.name


def _ascii_edge(graph: FlowGraph, edge: GraphEdge) -> str:
    label = f" ({edge.label})" if edge.label else ""
    return one_line(f"{_ASCII[edge.line]} {graph.node(edge.target).name}{label}")
