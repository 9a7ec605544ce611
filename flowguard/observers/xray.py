"""Traces of X-Ray with a subsegment for each phase, so that DynamoDB's time stands beside that of the business."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from aws_xray_sdk.core import xray_recorder

from flowguard.events import Event, EventType
from flowguard.spans import Phase, Span
from flowguard.wire.trace_context import xray_header

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,90}/[A-Za-z0-9._-]{1,90}")
"""Flows and stages of flowguard. A sender's other words become annotations alone."""

_ARRIVED: Final = {EventType.ANSWERED: "answer", EventType.TIMED_OUT: "deadline"}
"""What comes for a run that waits. It has a subsegment of its own, for it is no message of a stage."""

_outcome: ContextVar[list[str] | None] = ContextVar("_outcome", default=None)
"""What has happened to the message that is at work."""


class XRay:
    """Opens a subsegment around each phase, below Lambda's own segment of the function.

    Its annotations are request id, flow, stage, hop, attempt and verdict. ``recorder`` is that of the X-Ray SDK: a
    test hands in its own.
    """

    def __init__(self, recorder: Any = None) -> None:
        self._recorder = xray_recorder if recorder is None else recorder

    def __call__(self, event: Event) -> None:
        """Record the outcome of a message, or the arrival of an answer."""
        if (name := _ARRIVED.get(event.type)) is not None:
            with self._subsegment(name) as subsegment:
                _annotate(subsegment, event.fields())
        elif (outcome := _outcome.get()) is not None:
            outcome.append(event.type.value)

    @contextmanager
    def span(self, span: Span) -> Iterator[None]:
        """Trace a phase. Of an invocation Lambda has a segment already."""
        if span.phase is Phase.INVOCATION:
            yield
        elif span.phase is Phase.MESSAGE:
            with self._message(span):
                yield
        else:
            with self._traced(span.phase.value, span):
                yield

    @contextmanager
    def _message(self, span: Span) -> Iterator[None]:
        outcomes: list[str] = []
        token = _outcome.set(outcomes)
        try:
            with self._traced(_name_of(span), span):
                try:
                    yield
                finally:
                    if outcomes:
                        span.facts["outcome"] = outcomes[-1]
        finally:
            _outcome.reset(token)

    @contextmanager
    def _traced(self, name: str, span: Span) -> Iterator[None]:
        """Open a subsegment. An error is noted by its type alone, for its text may have more than ids."""
        with self._subsegment(name) as subsegment:
            try:
                yield
            except BaseException as error:
                if _is_open(subsegment):
                    subsegment.add_fault_flag()
                    subsegment.put_annotation("error", type(error).__name__)
                raise
            finally:
                _annotate(subsegment, {**span.fields(), **_made_in(span)})

    @contextmanager
    def _subsegment(self, name: str) -> Iterator[Any]:
        """Open a subsegment, if there is a segment for it. What a handler has left open in it is closed with it."""
        mine = self._recorder.begin_subsegment(name)
        if mine is None:  # there is no segment
            yield None
            return
        try:
            yield mine
        finally:
            while mine.in_progress and self._recorder.current_subsegment() is not None:
                self._recorder.end_subsegment()


def _name_of(span: Span) -> str:
    fields = span.fields()
    name = f"{fields.get('flow')}/{fields.get('stage')}"
    return name if _NAME.fullmatch(name) else span.phase.value


def _made_in(span: Span) -> dict[str, str]:
    """Return the id of the trace that the request was made in, where a message alone has it."""
    trace = None if span.message is None else span.message.trace
    return {} if trace is None else {"request_trace": xray_header(trace).partition(";")[0].removeprefix("Root=")}


def _is_open(subsegment: Any) -> bool:
    """Answer whether it can be changed. A handler may have ended more than it began."""
    return subsegment is not None and subsegment.in_progress


def _annotate(subsegment: Any, fields: Mapping[str, Any]) -> None:
    if not _is_open(subsegment):
        return
    for name, value in fields.items():
        if isinstance(value, str | int | float):
            subsegment.put_annotation(name, value)
