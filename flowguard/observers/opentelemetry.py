"""Traces of OpenTelemetry, in its words for messaging. The SDK that the function is set up with exports them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from flowguard.events import Event, EventType
from flowguard.spans import Phase, Span
from flowguard.wire.message import Message
from flowguard.wire.trace_context import TRACEPARENT, traceparent

LONGEST_FLUSH_MS: Final = 1_000
"""How long the end of an invocation waits until its spans are exported, before Lambda freezes the process."""

_KINDS: Final = {
    Phase.INVOCATION: SpanKind.INTERNAL,
    Phase.MESSAGE: SpanKind.CONSUMER,
    Phase.CLAIM: SpanKind.CLIENT,
    Phase.HANDLE: SpanKind.INTERNAL,
    Phase.COMMIT: SpanKind.CLIENT,
    Phase.DISPATCH: SpanKind.PRODUCER,
}

_SAID: Final = {
    Phase.MESSAGE: {"messaging.operation.name": "process", "messaging.operation.type": "process"},
    Phase.CLAIM: {"db.system.name": "aws.dynamodb"},
    Phase.COMMIT: {"db.system.name": "aws.dynamodb"},
    Phase.DISPATCH: {"messaging.operation.name": "send", "messaging.operation.type": "send"},
}
"""What the conventions say of a phase."""

_SYSTEMS: Final = {"sqs": "aws_sqs", "sns-sqs": "aws_sqs", "sns-lambda": "aws_sns", "lambda": "aws_lambda"}

_NAMES: Final = {
    "request_id": "messaging.message.conversation_id",
    "record": "messaging.message.id",
    "sends": "messaging.batch.message_count",
    "invocation": "faas.invocation_id",
}
"""Fields for which the conventions have a name. Each other field is one of flowguard's own."""

_ARRIVED: Final = {EventType.ANSWERED: "settle answer", EventType.TIMED_OUT: "settle deadline"}

_message: ContextVar[trace.Span | None] = ContextVar("_message", default=None)
"""The span of the message that is at work."""


class OpenTelemetry:
    """Opens a span around each phase.

    A message's span has a link to the span that its request was made in, where that was sent with an attribute
    ``traceparent``, or traced by X-Ray. ``tracer`` is that of the SDK. With ``flush`` the end of an invocation waits
    for the export.
    """

    def __init__(self, tracer: Tracer | None = None, *, flush: bool = True) -> None:
        self._tracer = tracer if tracer is not None else trace.get_tracer("flowguard")
        self._flush = flush

    def __call__(self, event: Event) -> None:
        """Record the outcome of a message, or the arrival of an answer."""
        if (name := _ARRIVED.get(event.type)) is not None:
            links = [] if event.message is None else list(_links(event.message))
            operation = {"messaging.operation.name": "settle", "messaging.operation.type": "settle"}
            attributes = {**operation, **_attributes(event.fields())}
            with self._tracer.start_as_current_span(name, kind=SpanKind.CONSUMER, attributes=attributes, links=links):
                pass
        elif (span := _message.get()) is not None:
            span.set_attribute("flowguard.outcome", event.type.value)

    @contextmanager
    def span(self, span: Span) -> Iterator[None]:
        """Trace a phase. The spans of an invocation are exported at its end, also where it raises."""
        try:
            with self._traced(span):
                yield
        finally:
            if span.phase is Phase.INVOCATION and self._flush:
                _export()

    @contextmanager
    def _traced(self, span: Span) -> Iterator[None]:
        """Trace a phase. An error is noted by its type alone, for its text may have more than ids."""
        links = [link for message in span.messages for link in _links(message)]
        with self._tracer.start_as_current_span(
            _name_of(span),
            kind=_KINDS[span.phase],
            attributes={**_SAID.get(span.phase, {}), **_attributes(span.fields())},
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as opened:
            token = _message.set(opened) if span.phase is Phase.MESSAGE else None
            try:
                yield
            except BaseException as error:
                opened.set_attribute("error.type", type(error).__name__)
                opened.set_status(Status(StatusCode.ERROR))
                raise
            finally:
                if token is not None:
                    _message.reset(token)
                opened.set_attributes(_attributes(span.fields()))


def _name_of(span: Span) -> str:
    """Return the operation, and the stage of a message. That of another flow or version may be any text."""
    if span.phase is Phase.MESSAGE:
        return f"process {span.fields().get('stage', '')}".strip()
    return "send" if span.phase is Phase.DISPATCH else span.phase.value


def _attributes(fields: Mapping[str, Any]) -> dict[str, str | int | float]:
    attributes = {
        _NAMES.get(name, f"flowguard.{name}"): value
        for name, value in fields.items()
        if isinstance(value, str | int | float) and name != "source"
    }
    if (source := fields.get("source")) is not None:
        attributes["messaging.system"] = _SYSTEMS.get(source, source)
    return attributes


def _links(message: Message) -> Iterator[Link]:
    """Yield the link to the span that the request was made in. A text that is no context is passed over."""
    carried = {name: attribute.value for name, attribute in message.carried.items() if name.startswith("trace")}
    if TRACEPARENT not in carried and message.trace is not None:
        carried = {TRACEPARENT: traceparent(message.trace) or ""}
    if TRACEPARENT in carried:
        made_in = trace.get_current_span(TraceContextTextMapPropagator().extract(carried)).get_span_context()
        if made_in.is_valid:
            yield Link(made_in)


def _export() -> None:
    flush = getattr(trace.get_tracer_provider(), "force_flush", None)
    if flush is not None:
        flush(LONGEST_FLUSH_MS)
