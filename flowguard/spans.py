"""Spans: the phases of an invocation that an observer may open something around."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from typing import Any, Protocol

from flowguard.events import Event, Observer, shown_fields
from flowguard.wire.message import Message


class Phase(StrEnum):
    """What a span is around. The others lie within the invocation; claim, handle and commit within their message."""

    INVOCATION = "invocation"
    """All that one call of a Lambda function does."""
    MESSAGE = "message"
    """One message's way through its stage. What it has committed to send is dispatched after it."""
    CLAIM = "claim"
    """One call to the store. The fact ``verdict`` is its answer."""
    HANDLE = "handle"
    """One call of a stage's handler. An exception that it raises goes through the span."""
    COMMIT = "commit"
    """One call to the store. The fact ``verdict`` is COMMITTED, or by whom the worker is fenced."""
    DISPATCH = "dispatch"
    """One hand-over of messages to their services. The fact ``sends`` is how many they are."""


class Span:
    """A phase that begins, and the messages that it is for.

    ``facts`` are ids and counts, no payload. Some are there only when the span ends. ``served`` has the stages of each
    flow that the function serves: on an invocation alone.
    """

    phase: Phase
    messages: tuple[Message, ...]
    facts: dict[str, Any]
    served: Mapping[str, frozenset[str]]

    __slots__ = ("facts", "messages", "phase", "served")

    def __init__(
        self,
        phase: Phase,
        messages: tuple[Message, ...] = (),
        facts: dict[str, Any] | None = None,
        served: Mapping[str, frozenset[str]] = {},
    ) -> None:
        self.phase, self.messages, self.served = phase, messages, served
        self.facts = {} if facts is None else facts

    @property
    def message(self) -> Message | None:
        """Return the message that the span is for. None for none, and for several."""
        return self.messages[0] if len(self.messages) == 1 else None

    def fields(self) -> dict[str, Any]:
        """Return what a trace or a log line may show. Each text is printable, and cut where it is long."""
        return shown_fields({"phase": self.phase.value}, self.message, self.facts)


class SpanObserver(Protocol):
    """An observer that also opens something around each phase."""

    def __call__(self, event: Event) -> None: ...

    def span(self, span: Span) -> AbstractContextManager[object]:
        """Return what is entered when the phase begins, and exited when it ends, with the error that ended it."""
        ...


def opens_spans(observer: Observer) -> bool:
    """Answer whether the observer has a use for spans."""
    return getattr(observer, "span", None) is not None


def open_span(observer: Observer, span: Span) -> AbstractContextManager[object]:
    """Open the span of an observer. Of one that has no use for spans nothing is opened."""
    opener = getattr(observer, "span", None)
    return nullcontext() if opener is None else opener(span)
