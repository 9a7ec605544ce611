"""Several observers as one. An observer that raises breaks no message."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any

from flowguard.events import Event, Observer
from flowguard.spans import Span, open_span, opens_spans
from flowguard.text.printable import bounded, printable

logger = logging.getLogger("flowguard")

_Error = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]
_NO_ERROR: _Error = (None, None, None)


class Observers:
    """Calls several observers in their order. One that raises is reported once, and left out from then on."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._observers = tuple(observers)
        self._left_out: set[int] = set()
        for observer in self._observers:
            if iscoroutinefunction(observer) or iscoroutinefunction(type(observer).__call__):
                self._leave_out(observer, TypeError("it is asynchronous, and nobody awaits it"))

    def __call__(self, event: Event) -> None:
        for observer in self._working():
            try:
                observer(event)
            except BaseException as error:
                self._leave_out(observer, error)

    def _working(self) -> tuple[Observer, ...]:
        if not self._left_out:
            return self._observers
        return tuple(observer for observer in self._observers if id(observer) not in self._left_out)

    def _leave_out(self, observer: Observer, error: BaseException) -> None:
        """Report an observer that raised, once. A process that is being stopped is stopped all the same."""
        if isinstance(error, KeyboardInterrupt):
            raise error
        if id(observer) in self._left_out:
            return
        self._left_out.add(id(observer))
        logger.error(
            "the observer %s raised %s: %s; it is left out until this process ends, and no message was harmed",
            name_of(observer),
            type(error).__name__,
            text_of(error),
        )


class _SpanObservers(Observers):
    """Several observers as one, where some open spans."""

    @contextmanager
    def span(self, span: Span) -> Iterator[None]:
        """Enter the spans in their order, and exit them in the other. What they answer to an error has no effect."""
        entered = [
            (observer, opened) for observer in self._working() if (opened := self._enter(observer, span)) is not None
        ]
        error = _NO_ERROR
        try:
            yield
        except BaseException:
            error = sys.exc_info()
            raise
        finally:
            for observer, opened in reversed(entered):
                self._exit(observer, opened, error)

    def _enter(self, observer: Observer, span: Span) -> AbstractContextManager[object] | None:
        if not opens_spans(observer):
            return None
        try:
            opened = open_span(observer, span)
            opened.__enter__()
        except BaseException as error:
            self._leave_out(observer, error)
            return None
        return opened

    def _exit(self, observer: Observer, opened: AbstractContextManager[object], error: _Error) -> None:
        try:
            opened.__exit__(*error)
        except BaseException as raised:
            if raised is not error[1]:
                self._leave_out(observer, raised)


def combined(observers: Iterable[Observer]) -> Observers:
    """Return the observers as one, which opens spans if one of them does."""
    several = tuple(observers)
    return _SpanObservers(several) if any(opens_spans(observer) for observer in several) else Observers(several)


def name_of(observer: Any) -> str:
    """Return the name of an observer, for a report of it."""
    of = observer if hasattr(observer, "__qualname__") else type(observer)
    return printable(bounded(f"{of.__module__}.{of.__qualname__}"))


def text_of(error: BaseException) -> str:
    """Return an error's text, whatever it says and even if it cannot say it."""
    try:
        return printable(bounded(str(error)))
    except Exception:
        return "an error without a text"
