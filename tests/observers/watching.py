"""Observers for tests: one that notes what it sees, and some that are broken in each way there is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from flowguard.events import Event
from flowguard.spans import Span


class Watching:
    """Notes events by their names, and spans as ``<phase`` and ``phase>``, in one list."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.spans: list[Span] = []
        self.errors: list[BaseException] = []

    def __call__(self, event: Event) -> None:
        self.seen.append(event.type.value)

    @contextmanager
    def span(self, span: Span) -> Iterator[None]:
        self.spans.append(span)
        self.seen.append(f"<{span.phase}")
        try:
            yield
        except BaseException as error:
            self.errors.append(error)
            raise
        finally:
            self.seen.append(f"{span.phase}>")


class Broken:
    """An observer that raises at each event."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.calls = 0

    def __call__(self, event: Event) -> None:
        self.calls += 1
        raise self.error


class BrokenSpans:
    """An observer whose spans raise: when they are made, entered or exited."""

    def __init__(self, where: str, error: BaseException) -> None:
        self.where = where
        self.error = error
        self.calls = 0

    def __call__(self, event: Event) -> None:
        self._at("event")

    def span(self, span: Span) -> AbstractContextManager[object]:
        self._at("made")
        return self._opened()

    @contextmanager
    def _opened(self) -> Iterator[None]:
        self._at("entered")
        try:
            yield
        finally:
            self._at("exited")

    def _at(self, where: str) -> None:
        if where == self.where:
            self.calls += 1
            raise self.error


class Swallowing:
    """An observer whose spans try to hide the errors that end them."""

    def __call__(self, event: Event) -> None: ...

    @contextmanager
    def span(self, span: Span) -> Iterator[None]:
        try:
            yield
        except Exception:
            return
