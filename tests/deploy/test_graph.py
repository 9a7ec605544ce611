"""The graph of a flow: in each README as the flow is, and in every language readable."""

from __future__ import annotations

import json
import types
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pydantic import BaseModel

from flowguard import Bus, Done, Failure, Flow, Function, Outcome, RetryPolicy, Stage, Step, Topic
from flowguard.cli import main
from flowguard.deploy.flow_graph import EdgeKind, FlowGraph, GraphEdge, Shape, graph_of
from flowguard.deploy.graph_texts import FORMATS, ascii_text, dot, mermaid
from flowguard.deploy.time_spans import spoken
from flowguard.project.loading import SHIPPED
from tests.deploy.readmes import brought_up_to_date, graphs_in, pages

AnyStep = Step[Any]


class Order(BaseModel):
    order_id: str
    paid: str | None = None


class Late(Stage[Order], name="late", retry=RetryPolicy(attempts=1)):
    def handle(self, order: Order, step: AnyStep) -> Outcome:
        step.send(Topic("arn:aws:sns:us-east-1:123456789012:news"), order)
        step.send(Function("printer"), order)
        step.send(Bus("default", source='a "b" <c>\n&', detail_type="d`e#"), order)
        return Done()


class Go(
    Stage[Order],
    name="go",
    timeout=timedelta(seconds=90),
    retry=RetryPolicy(attempts=4, for_errors={OSError: RetryPolicy(attempts=2)}),
):
    def handle(self, order: Order, step: AnyStep) -> Outcome:
        return Done()


class Wait(Stage[Order], name="wait", then=("go", "late", "wait"), inbox="waiting"):
    def handle(self, order: Order, step: AnyStep) -> Outcome:
        if order.paid is None:
            return Wait.message(order)
        return Go.when_all(
            paid=step.ask("banks", order), within=timedelta(hours=36), on_timeout="late", on_error="late"
        )


class Shop(Flow, name="shop", object_id="order_id", complete_to="ends", entries=("go",)):
    stages = (Wait, Go, Late)


GRAPH = graph_of(Shop)


def edges(of: FlowGraph, source: str) -> set[tuple[str, EdgeKind, str]]:
    found = [edge for edge in of.edges if of.node(edge.source).name == source]
    return {(of.node(edge.target).name, edge.line, edge.label) for edge in found}


def test_a_wait_leads_where_it_goes_on_times_out_and_fails() -> None:
    assert edges(GRAPH, "wait") == {
        ("go", EdgeKind.WAITS, "paid answered"),
        ("late", EdgeKind.TIMES_OUT, "after 36 h"),
        ("late", EdgeKind.FAILS, "one of them failed"),
        ("wait", EdgeKind.THEN, ""),
        ("banks", EdgeKind.SENDS, ""),
        ("shop-dead-letters", EdgeKind.FAILS, "rejected, or failed 5 times"),
    }


def test_the_rest_of_a_flow_is_drawn() -> None:
    assert edges(GRAPH, "waiting") == {("wait", EdgeKind.ENTERS, "requests")}
    assert edges(GRAPH, "shop") == {("go", EdgeKind.ENTERS, "requests")}
    assert edges(GRAPH, "go") == {
        ("done", EdgeKind.THEN, ""),
        ("shop-dead-letters", EdgeKind.FAILS, "rejected, or failed too often"),
    }
    assert edges(GRAPH, "done") == {("ends", EdgeKind.SENDS, "how it ended")}
    assert GRAPH.node("stage go").details == ("reads shop", "takes 90 s at most")
    names = {name for name, line, _ in edges(GRAPH, "late") if line is EdgeKind.SENDS}
    assert names == {"topic news", "function printer", 'bus default: a "b" <c>\\n&, d`e#'}


class Undo(Stage[Failure], name="undo", then="late"):
    def handle(self, failure: Failure, step: AnyStep) -> Outcome:
        return Done()


class Undoing(Flow, name="undoing", object_id="order_id", on_failed=Undo):
    stages = (Go, Undo, Late)


def test_a_failed_run_goes_on_where_it_is_undone_but_not_twice() -> None:
    drawn = graph_of(Undoing)
    assert ("undo", EdgeKind.FAILS, "then undone") in edges(drawn, "go")
    for after in ("undo", "late"):
        assert not any(name == "undo" for name, _, _ in edges(drawn, after))


def test_each_language_names_every_node() -> None:
    for form in FORMATS.values():
        text = form(GRAPH)
        for node in GRAPH.nodes:
            if node.shape in (Shape.STAGE, Shape.DEAD):
                assert node.name in text


def test_hostile_texts_break_no_language() -> None:
    drawn = mermaid(GRAPH)
    [line] = [line for line in drawn.splitlines() if "bus default" in line]
    assert line.count('"') == 2
    assert not set("<>&`") & set(line.replace("<br/>", ""))
    [line] = [line for line in dot(GRAPH).splitlines() if "bus default" in line]
    assert line.count('"') - line.count('\\"') == 2
    assert [line for line in ascii_text(GRAPH).splitlines() if "bus" in line] == [
        '    ... bus default: a "b" <c>\\n&, d`e#'
    ]


def test_a_graph_of_nothing_but_text_is_plain_ascii() -> None:
    assert ascii_text(GRAPH).isascii()


def test_equal_flows_give_equal_graphs() -> None:
    assert [form(graph_of(Shop)) for form in FORMATS.values()] == [form(GRAPH) for form in FORMATS.values()]


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(days=3), "3 d"),
        (timedelta(hours=36), "36 h"),
        (timedelta(minutes=30), "30 min"),
        (timedelta(seconds=90), "90 s"),
        (timedelta(milliseconds=1500), "1.5 s"),
    ],
)
def test_spans_are_exact(span: timedelta, text: str) -> None:
    assert spoken(span) == text


# -- in the READMEs


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.parent.name)
def test_the_graphs_of_a_readme_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == brought_up_to_date(text), "run: python -m tests.deploy.readmes"


def test_every_shipped_flow_has_its_graph() -> None:
    found = {flow for page in pages() for flow in graphs_in(page.read_text(encoding="utf-8"))}
    assert found == {*SHIPPED, "flows.answer_ticket.flow:AnswerTicket"}, "the last needs an extra"


# -- the command


def graph(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["graph", *arguments])


def test_the_command_draws_a_flow() -> None:
    shown = graph("tests.deploy.test_graph:Shop")
    assert (shown.exit_code, shown.stdout.rstrip(), shown.stderr) == (0, ascii_text(GRAPH), "")
    assert graph("tests.deploy.test_graph:Shop", "--format", "dot").stdout.rstrip() == dot(GRAPH)


def test_json_is_one_line() -> None:
    [line] = graph("tests.deploy.test_graph:Shop", "--json").stdout.splitlines()
    drawn = json.loads(line)
    assert drawn["flow"] == "shop"
    assert {edge["kind"] for edge in drawn["edges"]} == {line.value for line in EdgeKind} - {"starts"}


def test_what_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Vague(Stage[Order], name="vague"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            step.send(order.order_id, order)
            return Done()

    flow = types.new_class(
        "Vaguely", (Flow,), {"name": "vaguely", "object_id": "order_id"}, lambda body: body.update(stages=(Vague,))
    )
    monkeypatch.setitem(globals(), "Vaguely", flow)
    shown = graph("tests.deploy.test_graph:Vaguely")
    assert shown.exit_code == 0
    assert "where step.send(…) sends is not known" in shown.stderr


@pytest.mark.parametrize("name", ["nowhere", "nowhere:Flow", "tests.deploy.test_graph:Order"])
def test_a_flow_that_is_not_there_is_exit_code_2(name: str) -> None:
    shown = graph(name)
    assert shown.exit_code == 2
    assert name in shown.stderr


def test_an_edge_is_a_value() -> None:
    assert len(set(GRAPH.edges)) == len(GRAPH.edges)
    assert isinstance(GRAPH.edges[0], GraphEdge)
