"""Metrics of CloudWatch, written to standard output in its embedded metric format. No call to AWS is made for them."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from flowguard.errors import SettingsError, shown
from flowguard.events import Event, EventType
from flowguard.spans import Phase, Span
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.message import Message

NAMES: Final = {
    EventType.CLAIMED: "attempts",
    EventType.DONE: "duplicates",
    EventType.DUPLICATE: "duplicates",
    EventType.STALE: "superseded",
    EventType.WAITING: "waits",
    EventType.REFUSED: "answers_refused",
}
"""Events whose metric has another name. Each other event is counted under its own."""

UNKNOWN: Final = "unknown"
"""Where no flow and stage of this function are known: a sender's words must not become dimensions."""

MOST_VALUES: Final = 100
"""Of one metric in one line, which CloudWatch accepts."""

_NAMESPACE: Final = re.compile(r"[A-Za-z0-9_./#:-]{1,255}")


class Series(NamedTuple):
    """What was counted and measured of one stage."""

    counts: Counter[str]
    times: dict[str, list[float]]


class Metrics:
    """Counts events and measures phases, by flow and stage. It writes what an invocation gave when that ends.

    ``namespace`` is the metrics' own in CloudWatch. ``write`` takes a line; ``now`` is the time in ms and ``timer``
    counts seconds: a test hands in its own.
    """

    def __init__(
        self,
        namespace: str = "flowguard",
        *,
        write: Callable[[str], object] | None = None,
        now: Callable[[], int] | None = None,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        if not is_namespace(namespace):
            fix = "write 1 to 255 letters, digits and . - _ / # : as in shop/orders"
            raise SettingsError("Metrics(namespace=)", f"{shown(namespace)} is no namespace of CloudWatch; {fix}")
        self._namespace = namespace
        self._write = write if write is not None else _print
        self._now = now if now is not None else _now
        self._timer = timer
        self._lock = threading.Lock()
        self._depth = 0
        self._served: Mapping[str, frozenset[str]] = {}
        self._series: defaultdict[tuple[str, str], Series] = defaultdict(lambda: Series(Counter(), defaultdict(list)))

    def __call__(self, event: Event) -> None:
        """Count an event. Outside an invocation, and shortly before Lambda cuts one off, it is written at once."""
        with self._lock:
            series = self._series[self._place(event)]
            series.counts.update(_counted(event))
            if _ends_run(event) and event.message is not None:
                series.times["run_ms"].append(max(0, self._now() - event.message.requested_at))
        if not self._depth or event.type is EventType.TIME_SHORT:
            self.flush()

    @contextmanager
    def span(self, span: Span) -> Iterator[None]:
        """Measure a phase. What an invocation gave is written when it ends, however it ends."""
        if span.phase is Phase.INVOCATION:
            with self._invocation(span):
                yield
            return
        began = self._timer()
        try:
            yield
        finally:
            ms = round((self._timer() - began) * 1000, 3)
            with self._lock:
                for place in {self._place_of(message) for message in span.messages}:
                    self._series[place].times[f"{span.phase}_ms"].append(ms)

    def flush(self) -> None:
        """Write all that was counted and measured since the last time."""
        with self._lock:
            counted = dict(self._series)
            self._series.clear()
        for place, series in counted.items():
            for line in self._lines(place, series):
                self._write(json.dumps(line))

    @contextmanager
    def _invocation(self, span: Span) -> Iterator[None]:
        self._depth += 1
        self._served = {**self._served, **span.served}
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.flush()

    def _place(self, event: Event) -> tuple[str, str]:
        if (function := event.facts.get("function")) is not None:  # of @once, which has no flow
            return "once", str(function)
        return self._place_of(event.message)

    def _place_of(self, message: Message | None) -> tuple[str, str]:
        """Return the dimensions. In a function they are those that it serves: a message may name anything."""
        if message is None:
            return UNKNOWN, UNKNOWN
        if not self._depth:
            return message.flow, message.stage or UNKNOWN
        stages = self._served.get(message.flow)
        if stages is None:
            return UNKNOWN, UNKNOWN
        return message.flow, message.stage if message.stage in stages else UNKNOWN

    def _lines(self, place: tuple[str, str], series: Series) -> Iterator[dict[str, Any]]:
        """Yield the documents of a stage: the first with its counts, and more where a time has many values."""
        values: dict[str, Any] = dict(series.counts)
        rest: dict[str, list[float]] = {}
        for name, times in series.times.items():
            values[name], rest[name] = times[:MOST_VALUES], times[MOST_VALUES:]
        yield self._line(place, values)
        for name, times in rest.items():
            for first in range(0, len(times), MOST_VALUES):
                yield self._line(place, {name: times[first : first + MOST_VALUES]})

    def _line(self, place: tuple[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
        metrics = [{"Name": name, "Unit": "Milliseconds" if name.endswith("_ms") else "Count"} for name in values]
        about = {"Namespace": self._namespace, "Dimensions": [["flow", "stage"]], "Metrics": metrics}
        header = {"Timestamp": self._now(), "CloudWatchMetrics": [about]}
        return {"_aws": header, "flow": place[0], "stage": place[1], **values}


def _counted(event: Event) -> Iterator[str]:
    """Yield the metrics that an event counts for."""
    if event.type is EventType.ANSWERED:
        yield f"answers_{str(event.facts.get('verdict', UNKNOWN)).lower()}"
        return
    yield NAMES.get(event.type, event.type.value)
    m = event.message
    if event.type is EventType.CLAIMED and m is not None and (m.hop, m.retry, m.redrive) == (1, 0, 0):
        yield "runs"
    if event.type is EventType.SENT and event.facts.get("kind") == "dead":
        yield "dead_letters"


def _ends_run(event: Event) -> bool:
    if event.type is EventType.FAILED:
        return event.facts.get("on_failed") is None
    return event.type in (EventType.COMPLETED, EventType.UNDONE)


def is_namespace(value: object) -> bool:
    """Answer whether CloudWatch takes the text as a namespace."""
    return isinstance(value, str) and _NAMESPACE.fullmatch(value) is not None and value[0] != ":"


def _print(line: str) -> None:
    """Write one line at once. Lines of other threads do not come into it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _now() -> int:
    return time.time_ns() // 1_000_000
