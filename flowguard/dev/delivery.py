"""The record of one delivery: what the live view prints."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from flowguard.errors import Reject, Retry
from flowguard.events import Event, EventType
from flowguard.protocol.waiting import DEADLINE
from flowguard.sim.delivery_trace import DeliveryTrace
from flowguard.spans import Phase, Span

LONGEST_TRACE: Final = 20_000
"""Characters of a traceback that are shown; its end is kept."""
_OWN: Final = str(Path(__file__).parents[1])


@dataclass
class Listener:
    """An observer of one function. It has the trace of the delivery that is under way.

    A handler's exception is kept too, and its traceback unless the handler means it: events have its type alone, for
    its text may be a secret of production's.
    """

    trace: DeliveryTrace = field(default_factory=DeliveryTrace)
    raised: str | None = None
    error: str | None = None

    def begin(self) -> None:
        """Forget the delivery before."""
        self.trace, self.raised, self.error = DeliveryTrace(), None, None

    def __call__(self, event: Event) -> None:
        self.trace.add(event)

    @contextmanager
    def span(self, span: Span) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if span.phase is Phase.HANDLE:
                self.error = f"{type(error).__name__}: {error}"
                self.raised = None if isinstance(error, Retry | Reject) else traceback_of(error)
            raise

    def facts(self) -> dict[str, Any]:
        """Return what happened in the delivery. There are ids and counts in it, and no payload."""
        trace, message = self.trace, self.trace.message
        sent = [event.facts for event in trace.events if event.type is EventType.SENT]
        why = self.error or trace.why
        is_silent = trace.verdict is None and trace.outcome is None and why is None
        return {
            "flow": message.flow or None if message else None,
            "stage": message.stage or None if message else None,
            "object_id": message.object_id or None if message else None,
            "request_id": message.request_id if message else None,
            "hop": message.hop if message else None,
            "attempt": message.retry + 1 if message else None,
            "verdict": trace.verdict,
            "outcome": trace.outcome,
            "not_due": is_silent and [str(entry["id"]).rpartition(".")[2] for entry in sent] == [DEADLINE],
            "sent": [str(entry["to"]) for entry in sent],
            "why": why,
            "raised": self.raised,
        }


def traceback_of(error: BaseException) -> str:
    """Return the traceback of an exception, from the user's first frame on."""
    report = traceback.TracebackException.from_exception(error)
    while report.stack and report.stack[0].filename.startswith(_OWN):
        report.stack.pop(0)
    return "".join(report.format())[-LONGEST_TRACE:]
