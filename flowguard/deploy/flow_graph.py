"""The graph of a flow. Its nodes are stages, queues and ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from flowguard.deploy.time_spans import spoken
from flowguard.deploy.used import Uses, WaitUse
from flowguard.deploy.uses import uses_of
from flowguard.destinations import Bus, Destination, Function, Queue, Topic
from flowguard.flow import AnyFlow
from flowguard.stage import AnyStage
from flowguard.text.printable import one_line


class Shape(Enum):
    """The kind of a node."""

    STAGE = "stage"
    PLACE = "place"
    """A queue, topic, bus or function."""
    FLOW = "flow"
    END = "end"
    DEAD = "dead letters"


class EdgeKind(Enum):
    """The kind of an edge."""

    ENTERS = "enters"
    THEN = "then"
    WAITS = "waits"
    TIMES_OUT = "times out"
    FAILS = "fails"
    SENDS = "sends"
    STARTS = "starts"


@dataclass(frozen=True)
class GraphNode:
    """A node. ``details`` are lines below its name."""

    key: str
    shape: Shape
    name: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class GraphEdge:
    """An edge between two nodes, by their keys."""

    source: str
    target: str
    line: EdgeKind
    label: str = ""


@dataclass(frozen=True)
class FlowGraph:
    """The graph of one flow. ``notes`` say what of its handlers could not be read."""

    name: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    notes: tuple[str, ...] = ()

    def node(self, key: str) -> GraphNode:
        """Return the node of that key."""
        return next(node for node in self.nodes if node.key == key)


def graph_of(flow: AnyFlow) -> FlowGraph:
    """Return the graph of a flow, from its class and the source of its handlers."""
    drawn = _Drawing(flow)
    return FlowGraph(flow.name, tuple(drawn.nodes.values()), tuple(dict.fromkeys(drawn.edges)), tuple(drawn.notes))


class _Drawing:
    """Collects the nodes and edges of a flow."""

    def __init__(self, flow: AnyFlow) -> None:
        self._flow = flow
        self.nodes: dict[str, GraphNode] = {}
        self.edges: list[GraphEdge] = []
        self.notes: list[str] = []
        self._before_failure = _reached(flow)
        for stage in flow.stages:
            self._add(GraphNode(_key(stage.name), Shape.STAGE, stage.name, tuple(_details(flow, stage))))
        for stage in flow.stages:
            self._stage(stage, uses_of(stage))
        if flow.complete_to is not None:
            self._send("end", flow.complete_to, "how it ended")

    def _stage(self, stage: AnyStage, uses: Uses) -> None:
        key = _key(stage.name)
        if stage.name in self._flow.entries:
            for inbox in reversed(self._flow.inboxes_of(stage)):
                self.edges.insert(0, GraphEdge(self._place(inbox), key, EdgeKind.ENTERS, "requests"))
        self._onward(stage, uses)
        if uses.ends or not stage.then:
            self._add(GraphNode("end", Shape.END, "done"))
            self.edges.append(GraphEdge(key, "end", EdgeKind.THEN))
        for to in sorted(uses.sends | uses.asks, key=str):
            self._send(key, to)
        for flow in sorted(uses.starts, key=lambda start: start.name):
            self._flow_node(key, flow, "starts")
        for flow in sorted(uses.asks_flows, key=lambda ask: ask.name):
            self._flow_node(key, flow, "asks")
        for flow in sorted(uses.resets, key=lambda reset: reset.name):
            self._flow_node(key, flow, "resets")
        for flow in sorted(uses.cancels, key=lambda cancel: cancel.name):
            self._flow_node(key, flow, "cancels")
        self._add(GraphNode("dead", Shape.DEAD, _name(self._flow.dead_letters)))
        self.edges.append(GraphEdge(key, "dead", EdgeKind.FAILS, _failure(stage)))
        if self._flow.on_failed is not None and stage.name in self._before_failure:
            self.edges.append(GraphEdge(key, _key(self._flow.on_failed), EdgeKind.FAILS, "then undone"))
        self.notes += map(str, uses.unread)

    def _onward(self, stage: AnyStage, uses: Uses) -> None:
        source, waited = _key(stage.name), set()
        for wait in uses.waits:
            for edge in _of_wait(source, wait):
                waited.add(edge.target)
                self.edges.append(edge)
        self.edges += [GraphEdge(source, _key(name), EdgeKind.THEN) for name in stage.then if _key(name) not in waited]

    def _send(self, source: str, to: Destination, label: str = "") -> None:
        self.edges.append(GraphEdge(source, self._place(to), EdgeKind.SENDS, label))

    def _flow_node(self, source: str, flow: AnyFlow, label: str) -> None:
        key = f"flow {flow.name}"
        self._add(GraphNode(key, Shape.FLOW, flow.name))
        self.edges.append(GraphEdge(source, key, EdgeKind.STARTS, label))

    def _place(self, to: Destination) -> str:
        key = str(to)
        self._add(GraphNode(key, Shape.PLACE, _name(to)))
        return key

    def _add(self, node: GraphNode) -> None:
        self.nodes.setdefault(node.key, node)


def _reached(flow: AnyFlow) -> set[str]:
    """Return the stages that a run can reach without failing."""
    reached: set[str] = set()
    ahead = [*flow.entries]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead.extend(flow.stage(name).then)
    return reached


def _key(stage: str) -> str:
    return f"stage {stage}"


def _name(to: Destination) -> str:
    match to:
        case Queue():
            return to.short_name
        case Topic(arn):
            return f"topic {arn.rpartition(':')[2]}"
        case Function(name):
            return f"function {name}"
        case Bus(name, source, detail_type):
            return one_line(f"bus {name}: {source}, {detail_type}")


def _details(flow: AnyFlow, stage: AnyStage) -> Iterator[str]:
    yield f"reads {', '.join(map(_name, flow.inboxes_of(stage)))}"
    if stage is flow.entry():
        for stream in flow.streams:
            yield f"begins with {stream}"
    if stage.timeout is not None:
        yield f"takes {spoken(stage.timeout)} at most"


def _failure(stage: AnyStage) -> str:
    attempts = {stage.retry.attempts, *(policy.attempts for policy in stage.retry.for_errors.values())}
    times = f" {stage.retry.attempts} times" if len(attempts) == 1 else " too often"
    return f"rejected, or failed{'' if attempts == {1} else times}"


def _of_wait(source: str, wait: WaitUse) -> Iterator[GraphEdge]:
    names = f"{', '.join(wait.names)} answered" if wait.names else "answered"
    within = "its deadline" if wait.within is None else spoken(wait.within)
    late = "" if wait.on_timeout else f", or after {within}"
    yield GraphEdge(source, _key(wait.stage), EdgeKind.WAITS, f"{names}{late}")
    for name in wait.on_timeout:
        yield GraphEdge(source, _key(name), EdgeKind.TIMES_OUT, f"after {within}")
    for name in wait.on_error:
        yield GraphEdge(source, _key(name), EdgeKind.FAILS, "one of them failed")
