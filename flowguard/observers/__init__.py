"""Observers of flows: logs, metrics, traces, and your own.

An observer is called with each event. One that also has a method ``span`` opens something around each phase of a
message. Hand observers to ``lambda_handler(…, observers=…)``, or name them in ``FLOWGUARD_OBSERVERS``. A name loads its
module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowguard.names.public import loader

if TYPE_CHECKING:
    from flowguard.events import Observer as Observer
    from flowguard.observers.metrics import Metrics as Metrics
    from flowguard.observers.opentelemetry import OpenTelemetry as OpenTelemetry
    from flowguard.observers.timings import Timings as Timings
    from flowguard.observers.xray import XRay as XRay
    from flowguard.spans import Phase as Phase
    from flowguard.spans import Span as Span
    from flowguard.spans import SpanObserver as SpanObserver

_HOME = {
    # write one
    "Observer": "events",
    "SpanObserver": "spans",
    "Span": "spans",
    "Phase": "spans",
    # those that are shipped
    "Timings": "observers.timings",
    "Metrics": "observers.metrics",
    "XRay": "observers.xray",
    "OpenTelemetry": "observers.opentelemetry",
}

__all__ = list(_HOME)


if not TYPE_CHECKING:  # to a type checker, a name that is not above is a mistake
    __getattr__ = loader(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
