"""Metrics are what CloudWatch reads, say what happened, and have no dimension that a sender can choose."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from cfnlint.jsonschema import StandardValidator  # type: ignore[import-untyped]  # it has no types

from flowguard.errors import SettingsError
from flowguard.events import Event, EventType
from flowguard.handler import LambdaHandler, lambda_handler
from flowguard.observers import Metrics, Phase, Span
from flowguard.spans import open_span
from tests.scene import Orders, Scene, record, scene
from tests.test_handler import Context

SCHEMA: Final = json.loads((Path(__file__).parent / "emf.schema.json").read_text(encoding="utf-8"))
"""As the specification of the embedded metric format publishes it, without the ids of its parts."""

LONGEST_LINE: Final = 256 * 1024


class Lines:
    """Takes what the observer writes, and holds each line to the format."""

    def __init__(self) -> None:
        self.documents: list[dict[str, Any]] = []

    def __call__(self, line: str) -> None:
        assert "\n" not in line
        assert len(line.encode()) <= LONGEST_LINE
        self.documents.append(json.loads(line))
        assert list(problems(self.documents[-1])) == []

    def of(self, name: str, stage: str = "price-order") -> list[float]:
        """All values of a metric of a stage."""
        values = [one[name] for one in self.documents if one["stage"] == stage and name in one]
        return [value for some in values for value in (some if isinstance(some, list) else [some])]


def problems(document: dict[str, Any]) -> Iterator[str]:
    """Yield where a document is not what CloudWatch reads: by the schema, and by the words beside it."""
    against_schema = [error.message for error in StandardValidator(SCHEMA).iter_errors(document)]
    yield from against_schema
    for directive in document["_aws"]["CloudWatchMetrics"] if not against_schema else ():
        names = [metric["Name"] for metric in directive["Metrics"]]
        if len(names) > 100 or len(set(names)) < len(names):
            yield "a directive has at most 100 metrics, each once"
        for name in names:
            values = document.get(name)
            several = values if isinstance(values, list) else [values]
            if not 1 <= len(several) <= 100 or not all(isinstance(one, int | float) for one in several):
                yield f"{name} is no number, nor up to 100 of them"
        for dimension in (one for group in directive["Dimensions"] for one in group):
            if not isinstance(document.get(dimension), str) or not 1 <= len(document[dimension]) <= 1024:
                yield f"the dimension {dimension} is no text"


def watched(at: Scene, lines: Lines, **given: Any) -> LambdaHandler:
    metrics = Metrics(write=lines, now=at.clock.now, **given)
    return lambda_handler(at.flow, observers=[metrics]).using(at.handler._services)


def deliver(handler: LambdaHandler, *messages: Any) -> None:
    handler({"Records": [record(one, place) for place, one in enumerate(messages)]}, Context())


def test_a_document_that_cloudwatch_would_not_read_is_seen() -> None:
    good = Metrics(write=lambda line: found.append(json.loads(line)))
    found: list[dict[str, Any]] = []
    good(Event(EventType.DONE, None))
    [document] = found
    assert list(problems(document)) == []
    [directive] = document["_aws"]["CloudWatchMetrics"]
    wrong: list[dict[str, Any]] = [
        {**document, "_aws": {"CloudWatchMetrics": [directive]}},
        {**document, "_aws": {**document["_aws"], "Timestamp": "now"}},
        *({**document, "_aws": {**document["_aws"], "CloudWatchMetrics": [one]}} for one in spoilt(directive)),
        {**document, "duplicates": "1"},
        {**document, "duplicates": []},
        {**document, "flow": ""},
    ]
    assert [one for one in wrong if not list(problems(one))] == []


def spoilt(directive: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {**directive, "Namespace": ""}
    yield {**directive, "Dimensions": []}
    yield {**directive, "Dimensions": [[f"d{number}" for number in range(31)]]}
    yield {**directive, "Metrics": [{"Name": "duplicates", "Unit": "Events"}]}
    yield {**directive, "Metrics": [{"Unit": "Count"}]}


def test_an_invocation_writes_one_line_for_each_stage_when_it_ends() -> None:
    with scene() as at:
        lines = Lines()
        deliver(watched(at, lines), at.message(), at.order("o2"), at.message())
        [document] = lines.documents
        assert document["_aws"]["Timestamp"] == at.clock.now()
        [directive] = document["_aws"]["CloudWatchMetrics"]
        assert (directive["Namespace"], directive["Dimensions"]) == ("flowguard", [["flow", "stage"]])
        assert {name: document[name] for name in ("flow", "stage", "runs", "attempts", "committed", "duplicates")} == {
            "flow": "orders",
            "stage": "price-order",
            "runs": 2,
            "attempts": 2,
            "committed": 2,
            "duplicates": 1,
        }
        units = {metric["Name"]: metric["Unit"] for metric in directive["Metrics"]}
        assert (units["attempts"], units["claim_ms"]) == ("Count", "Milliseconds")
        assert len(document["claim_ms"]) == 3


def test_the_logic_is_executed_as_often_as_there_are_unique_messages() -> None:
    with scene() as at:
        lines = Lines()
        handler = watched(at, lines)
        orders = [at.order(f"o{number}") for number in range(5)]
        for _ in range(3):
            deliver(handler, *orders)
        assert len(lines.of("handle_ms")) == len(orders) == sum(lines.of("committed"))
        assert sum(lines.of("duplicates")) == 2 * len(orders)


def test_a_phase_is_measured_in_milliseconds_for_each_stage_that_it_is_for() -> None:
    with scene() as at:
        lines, ticks = Lines(), iter(range(1000))
        deliver(watched(at, lines, timer=lambda: next(ticks) / 100), at.message(), at.second())
        assert lines.of("claim_ms") == [10.0]
        assert lines.of("dispatch_ms") == [10.0, 10.0]
        assert lines.of("dispatch_ms", "close-order") == [10.0]
        assert lines.of("run_ms") == []
        assert lines.of("run_ms", "close-order") == [1_000]


@pytest.mark.parametrize(
    ("type_", "facts", "names"),
    [
        (EventType.CLAIMED, {}, {"attempts", "runs"}),
        (EventType.DONE, {}, {"duplicates"}),
        (EventType.DUPLICATE, {}, {"duplicates"}),
        (EventType.STALE, {}, {"superseded"}),
        (EventType.SUPERSEDED, {}, {"superseded"}),
        (EventType.FENCED, {}, {"fenced"}),
        (EventType.BUSY, {}, {"busy"}),
        (EventType.WAITING, {}, {"waits"}),
        (EventType.TIMED_OUT, {}, {"timed_out"}),
        (EventType.ANSWERED, {"verdict": "RESUMED"}, {"answers_resumed"}),
        (EventType.ANSWERED, {"verdict": "DUPLICATE"}, {"answers_duplicate"}),
        (EventType.REFUSED, {}, {"answers_refused"}),
        (EventType.SENT, {"kind": "side"}, {"sent"}),
        (EventType.SENT, {"kind": "dead"}, {"sent", "dead_letters"}),
        (EventType.NOT_SENT, {"kind": "dead"}, {"not_sent"}),
        (EventType.COMPLETED, {}, {"completed", "run_ms"}),
        (EventType.UNDONE, {}, {"undone", "run_ms"}),
        (EventType.FAILED, {}, {"failed", "run_ms"}),
        (EventType.FAILED, {"on_failed": "undo-order"}, {"failed"}),
    ],
)
def test_each_event_is_counted_under_its_name(type_: EventType, facts: dict[str, Any], names: set[str]) -> None:
    with scene() as at:
        lines = Lines()
        Metrics(write=lines)(Event(type_, at.message(), facts))
        [document] = lines.documents
        assert document.keys() - {"_aws", "flow", "stage"} == names


@pytest.mark.parametrize("later", [{"hop": 2}, {"retry": 1}, {"redrive": 1}])
def test_a_run_is_counted_when_it_begins(later: dict[str, int]) -> None:
    with scene() as at:
        lines = Lines()
        Metrics(write=lines)(Event(EventType.CLAIMED, at.message(**later)))
        assert "runs" not in lines.documents[0]


def test_a_run_of_a_clock_that_is_ahead_took_no_time() -> None:
    with scene() as at:
        lines = Lines()
        Metrics(write=lines, now=lambda: 0)(Event(EventType.COMPLETED, at.message()))
        assert lines.of("run_ms") == [0]


@pytest.mark.parametrize(
    ("flow", "stage", "place"),
    [
        ("orders", "close-order", ("orders", "close-order")),
        ("orders", "made-up-4711", ("orders", "unknown")),
        ("orders", "", ("orders", "unknown")),
        ("made-up", "price-order", ("unknown", "unknown")),
        ("x" * 100_000, "\x1b\ud800", ("unknown", "unknown")),
    ],
)
def test_no_sender_can_make_a_dimension(flow: str, stage: str, place: tuple[str, str]) -> None:
    with scene() as at:
        lines = Lines()
        metrics = Metrics(write=lines)
        served = {"orders": frozenset(one.name for one in Orders.stages)}
        with open_span(metrics, Span(Phase.INVOCATION, served=served)):
            metrics(Event(EventType.GONE, at.message(flow=flow, stage=stage)))
        [document] = lines.documents
        assert (document["flow"], document["stage"]) == place


def test_an_invocation_within_another_is_written_with_it() -> None:
    with scene() as at:
        lines = Lines()
        metrics = Metrics(write=lines)
        outer, inner = ({flow: frozenset({"price-order"})} for flow in ("orders", "others"))
        with open_span(metrics, Span(Phase.INVOCATION, served=outer)):
            with open_span(metrics, Span(Phase.INVOCATION, served=inner)):
                metrics(Event(EventType.DONE, at.message()))
                metrics(Event(EventType.DONE, at.message(flow="others")))
            assert lines.documents == []
        assert {(one["flow"], one["duplicates"]) for one in lines.documents} == {("orders", 1), ("others", 1)}


def test_outside_a_function_a_run_that_is_not_found_has_no_stage() -> None:
    with scene() as at:
        lines = Lines()
        Metrics(write=lines)(Event(EventType.ANSWERED, at.message(stage=""), {"verdict": "EXPIRED"}))
        assert [(one["flow"], one["stage"]) for one in lines.documents] == [("orders", "unknown")]


def test_a_message_of_an_unknown_stage_is_counted_without_its_words() -> None:
    with scene() as at:
        lines = Lines()
        deliver(watched(at, lines), at.message(stage="made-up-4711", hop=2))
        assert {one["stage"] for one in lines.documents} <= {"unknown", "price-order", "close-order"}
        assert "made-up" not in json.dumps(lines.documents)


def test_what_has_no_message_has_no_flow_and_once_has_its_function() -> None:
    lines = Lines()
    metrics = Metrics(write=lines)
    metrics(Event(EventType.UNREADABLE, None, {"record": "m-1"}))
    metrics(Event(EventType.CLAIMED, None, {"function": "charge-card", "key": "4711"}))
    assert [(one["flow"], one["stage"]) for one in lines.documents] == [("unknown", "unknown"), ("once", "charge-card")]
    assert lines.documents[1]["attempts"] == 1


def test_many_values_go_into_several_lines() -> None:
    with scene() as at:
        lines = Lines()
        metrics = Metrics(write=lines, timer=lambda: 0.0)
        with open_span(metrics, Span(Phase.INVOCATION, served={"orders": frozenset({"price-order"})})):
            for _ in range(250):
                with open_span(metrics, Span(Phase.CLAIM, (at.message(),))):
                    metrics(Event(EventType.BUSY, at.message()))
        assert [len(one["claim_ms"]) for one in lines.documents] == [100, 100, 50]
        assert lines.of("busy") == [250]


def test_what_was_counted_is_written_before_lambda_cuts_the_invocation_off() -> None:
    with scene() as at:
        lines = Lines()
        metrics = Metrics(write=lines)
        with open_span(metrics, Span(Phase.INVOCATION, served={"orders": frozenset({"price-order"})})):
            metrics(Event(EventType.CLAIMED, at.message()))
            assert lines.documents == []
            metrics(Event(EventType.TIME_SHORT, at.message(), {"ms": 1_000}))
            assert sum(lines.of("attempts")) == 1
        assert len(lines.documents) == 1, "nothing is written twice"


def test_an_invocation_that_fails_is_written_too() -> None:
    with scene() as at:
        lines = Lines()
        metrics = Metrics(write=lines)
        opened = open_span(metrics, Span(Phase.INVOCATION, served={"orders": frozenset({"price-order"})}))
        opened.__enter__()
        metrics(Event(EventType.CLAIMED, at.message()))
        assert not opened.__exit__(RuntimeError, RuntimeError("down"), None)
        assert sum(lines.of("attempts")) == 1


def test_lines_go_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    Metrics()(Event(EventType.DONE, None))
    written = capsys.readouterr().out
    assert written.endswith("\n")
    assert list(problems(json.loads(written))) == []


@pytest.mark.parametrize("namespace", ["", "x" * 256, "a b", ":x", "é", None, 7])
def test_a_namespace_that_cloudwatch_refuses_is_refused_when_it_is_given(namespace: Any) -> None:
    with pytest.raises(SettingsError, match="is no namespace of CloudWatch; write 1 to 255"):
        Metrics(namespace)


def test_the_names_of_metrics_are_few() -> None:
    """CloudWatch bills each name of each stage, so none comes from a message."""
    with scene() as at:
        lines = Lines()
        for type_ in EventType:
            Metrics(write=lines)(Event(type_, at.message(), {"kind": "dead", "verdict": "RECORDED"}))
        names = Counter(name for one in lines.documents for name in one)
        assert len(names) < 60
