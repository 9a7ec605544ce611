"""Traces of OpenTelemetry, as its SDK exports them: one span for each phase, linked to where the request was made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from flowguard.events import Event, EventType
from flowguard.handler import LambdaHandler, lambda_handler
from flowguard.observers import OpenTelemetry, Phase, Span
from flowguard.observers.named import named_observers
from flowguard.observers.opentelemetry import LONGEST_FLUSH_MS, _links
from flowguard.spans import open_span, opens_spans
from flowguard.wire.attributes import Attribute
from tests.scene import Scene, message_id, record, scene
from tests.test_handler import Context

TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
MADE_IN: Final = "00f067aa0ba902b7"
TRACEPARENT: Final = {"traceparent": Attribute("String", f"00-{TRACE}-{MADE_IN}-01")}


class Exported:
    """What the SDK exports, kept in memory."""

    def __init__(self) -> None:
        self.memory = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.memory))
        self.observer = OpenTelemetry(self.provider.get_tracer("tests"), flush=False)

    def spans(self) -> list[ReadableSpan]:
        """All of them in the order in which they began."""
        return sorted(self.memory.get_finished_spans(), key=lambda one: one.start_time or 0)

    def by_name(self) -> dict[str, ReadableSpan]:
        return {one.name: one for one in self.spans()}


@pytest.fixture
def exported() -> Iterator[Exported]:
    made = Exported()
    yield made
    made.provider.shutdown()


def traced(at: Scene, exported: Exported) -> LambdaHandler:
    return lambda_handler(at.flow, observers=[exported.observer]).using(at.handler._services)


def deliver(handler: LambdaHandler, *messages: Any) -> None:
    handler({"Records": [record(one, place) for place, one in enumerate(messages)]}, Context())


def said(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def parent(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent is not None else None


def id_of(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return int(context.span_id)


def test_each_phase_has_a_span_of_its_kind_below_its_own(exported: Exported) -> None:
    with scene() as at:
        deliver(traced(at, exported), at.message())
    invocation, message, claim, handle, commit, *dispatched = exported.spans()
    assert [(one.name, one.kind) for one in (invocation, message, claim, handle, commit)] == [
        ("invocation", SpanKind.INTERNAL),
        ("process price-order", SpanKind.CONSUMER),
        ("claim", SpanKind.CLIENT),
        ("handle", SpanKind.INTERNAL),
        ("commit", SpanKind.CLIENT),
    ]
    assert [(one.name, one.kind) for one in dispatched] == [("send", SpanKind.PRODUCER)] * 2
    assert [parent(one) for one in (claim, handle, commit)] == [id_of(message)] * 3
    assert [parent(one) for one in (message, *dispatched)] == [id_of(invocation)] * 3
    assert {one.status.status_code for one in exported.spans()} == {StatusCode.UNSET}


def test_a_message_is_described_in_the_words_of_the_conventions(exported: Exported) -> None:
    with scene() as at:
        deliver(traced(at, exported), at.message())
    found = exported.by_name()
    assert said(found["process price-order"]) == {
        "messaging.system": "aws_sqs",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.id": message_id(0),
        "messaging.message.conversation_id": "run-1",
        "flowguard.phase": "message",
        "flowguard.flow": "orders",
        "flowguard.stage": "price-order",
        "flowguard.hop": 1,
        "flowguard.attempt": 1,
        "flowguard.redrive": 0,
        "flowguard.outcome": "committed",
    }
    assert said(found["claim"]).items() >= {"db.system.name": "aws.dynamodb", "flowguard.verdict": "CLAIMED"}.items()
    assert said(found["commit"])["flowguard.verdict"] == "COMMITTED"
    assert said(found["send"])["messaging.batch.message_count"] == 1
    assert said(found["invocation"])["faas.invocation_id"] == Context.aws_request_id


def test_a_span_is_linked_to_the_one_that_the_request_was_made_in(exported: Exported) -> None:
    with scene() as at:
        message = at.message(carried=TRACEPARENT)
        with open_span(exported.observer, Span(Phase.MESSAGE, (message,))):
            exported.observer(Event(EventType.ANSWERED, message, {"verdict": "RESUMED"}))
    for one in exported.spans():
        [link] = one.links
        assert (f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") == (TRACE, MADE_IN)
    assert said(exported.by_name()["settle answer"])["flowguard.verdict"] == "RESUMED"


@pytest.mark.parametrize(
    "trace", [f"00-{TRACE}-{MADE_IN}-01", f"Root=1-{TRACE[:8]}-{TRACE[8:]};Parent={MADE_IN};Sampled=1"]
)
def test_a_trace_that_travels_with_the_run_is_linked_in_either_form(trace: str) -> None:
    with scene() as at:
        [link] = _links(at.message(trace=trace))
        assert (f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") == (TRACE, MADE_IN)
        [own] = _links(at.message(trace=f"00-{MADE_IN * 2}-{MADE_IN}-01", carried=TRACEPARENT))
        assert f"{own.context.trace_id:032x}" == TRACE, "what the flow carries says more of it"
        assert not list(_links(at.message(trace=f"Root=1-{TRACE[:8]}-{TRACE[8:]}"))), "no parent is named"


@pytest.mark.parametrize("text", ["", "00-0-0-00", "x" * 250_000, "\x1b\ud800", f"00-{'0' * 32}-{MADE_IN}-01"])
def test_a_context_that_is_none_is_passed_over(text: str, exported: Exported) -> None:
    with scene() as at:
        message = at.message(carried={"traceparent": Attribute("String", text)})
        with open_span(exported.observer, Span(Phase.MESSAGE, (message,))):
            pass
        assert list(_links(message)) == []
    [found] = exported.spans()
    assert found.links == ()


def test_an_attempt_that_fails_is_an_error_without_its_text(exported: Exported) -> None:
    def fail(step: object) -> None:
        raise RuntimeError("card 4111-1111")

    with scene() as at:
        at.script.pricing = fail
        deliver(traced(at, exported), at.message())
    found = exported.by_name()
    assert found["handle"].status.status_code is StatusCode.ERROR
    assert said(found["handle"])["error.type"] == "RuntimeError"
    assert found["handle"].events == ()
    assert said(found["process price-order"])["flowguard.outcome"] == "retried"
    assert "4111" not in "".join(one.to_json() for one in exported.spans())


def test_a_message_within_another_keeps_its_outcome_to_itself(exported: Exported) -> None:
    with scene() as at:
        handler, other = traced(at, exported), at.order("o2", request_id="run-2")
        at.script.pricing = lambda step: deliver(handler, other) if step.request_id == "run-1" else None
        deliver(handler, at.message())
    worked = [one for one in exported.spans() if one.name.startswith("process")]
    assert [said(one)["flowguard.outcome"] for one in worked] == ["committed", "committed"]


def test_the_handlers_own_spans_lie_within_its_span(exported: Exported) -> None:
    def work(step: object) -> None:
        with exported.provider.get_tracer("shop").start_as_current_span("price"):
            pass

    with scene() as at:
        at.script.pricing = work
        deliver(traced(at, exported), at.message())
    found = exported.by_name()
    assert parent(found["price"]) == id_of(found["handle"])


def test_what_a_sender_writes_is_cut_and_printable(exported: Exported) -> None:
    with scene() as at:
        message = at.message(stage="\x1b\ud800" + "x" * 250_000)
        with open_span(exported.observer, Span(Phase.MESSAGE, (message,))):
            pass
    [found] = exported.spans()
    assert found.name.isprintable()
    assert len(found.name) < 600
    found.to_json().encode()


def test_the_end_of_an_invocation_waits_for_the_export(monkeypatch: pytest.MonkeyPatch, exported: Exported) -> None:
    waited: list[int] = []

    class Provider:
        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            waited.append(timeout_millis)
            return True

    monkeypatch.setattr(trace, "get_tracer_provider", Provider)
    for observer in (OpenTelemetry(exported.provider.get_tracer("tests")), exported.observer):
        with open_span(observer, Span(Phase.INVOCATION)), open_span(observer, Span(Phase.CLAIM)):
            pass
    assert waited == [LONGEST_FLUSH_MS]
    with (
        pytest.raises(OSError, match="gone"),
        open_span(OpenTelemetry(exported.provider.get_tracer("tests")), Span(Phase.INVOCATION)),
    ):
        raise OSError("the table is gone")
    assert waited == [LONGEST_FLUSH_MS] * 2, "one that raises has its spans exported, too"


def test_without_an_sdk_nothing_is_traced_and_nothing_is_harmed() -> None:
    observer = named_observers("opentelemetry")
    assert opens_spans(observer)
    with scene() as at:
        lambda_handler(at.flow, observers=[observer]).using(at.handler._services)({"Records": [record(at.message())]})
        assert at.priced() == 1
