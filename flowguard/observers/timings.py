"""How long the phases of each message took, as one line of the structured logs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from flowguard.events import Event, log_fields, logger
from flowguard.spans import Phase, Span

_WHOLE = (Phase.INVOCATION, Phase.MESSAGE)

_around: ContextVar[dict[str, Any] | None] = ContextVar("_around", default=None)
"""The line of the message or the invocation that is at work."""


class Timings:
    """Logs one line for each message, and one for each invocation.

    The first has the time of claim, handle and commit, and the verdicts; the second that of the dispatch. ``timer``
    counts seconds: a test hands in its own.
    """

    def __init__(self, *, timer: Callable[[], float] = time.perf_counter) -> None:
        self._timer = timer

    def __call__(self, event: Event) -> None:
        """Events have lines of their own, from ``logs``."""

    @contextmanager
    def span(self, span: Span) -> Iterator[None]:
        """Measure a phase."""
        if not logger.isEnabledFor(logging.INFO):
            yield
            return
        line = _around.get()
        mine: dict[str, Any] = {}
        token = _around.set(mine) if span.phase in _WHOLE else None
        began = self._timer()
        try:
            yield
        finally:
            ms = (self._timer() - began) * 1000
            if token is not None:
                _around.reset(token)
                mine[f"{span.phase}_ms"] = round(ms, 1)
                log_fields(logging.INFO, "timed", {"event": "timed", **span.fields(), **mine})
            elif line is not None:
                name = f"{span.phase}_ms"
                line[name] = round(line.get(name, 0) + ms, 1)
                if "verdict" in span.facts:
                    line[f"{span.phase}_verdict"] = span.facts["verdict"]
