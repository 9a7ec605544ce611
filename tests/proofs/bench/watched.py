"""CPU that each observer adds to a message, against the same message with nobody who watches.

::

    silent      normalise, route ─ claim ─ validate, handle ─ commit ─ answer        ┐ on one botocore stub,
    watched     the same, and each event and phase is written where the observer     ┘ in rounds that take turns
                writes: a line to /dev/null, a span to a processor that drops it
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

from flowguard import Settings, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.events import log
from flowguard.observers import Metrics, Observer, OpenTelemetry, Timings, XRay
from tests.lambda_runtime import lambda_logging
from tests.proofs.bench.cpu import Work, ratio
from tests.proofs.bench.figure import Figure
from tests.proofs.bench.flow import Context, OneStage, a_cart, a_request
from tests.proofs.bench.stub import a_session, answer

ROUNDS = 100
OF_LOGS = 1.03
NOISE_OF_LOGS = 0.01


def figures(rounds: int = ROUNDS) -> list[Figure]:
    silent = message(lambda event: None)
    found = []
    for name, (watching, says) in OBSERVERS.items():
        with watching() as observer:
            took = ratio(message(observer), silent, rounds=rounds)
        found.append(Figure(f"CPU with {name}, of a message without", took, None, "×", says))
    with _logged() as observer:
        elsewhere = ratio(message(observer), silent, rounds=rounds)
    logs, *others = found
    through = Figure("  through Python's logging", elsewhere, None, "×", "as in all that is no such function")
    return [replace(logs, mark=OF_LOGS, noise=NOISE_OF_LOGS), through, *others]


def message(observer: Observer) -> Work:
    """One message through a handler that this observer watches, and no other."""
    clients = Clients(a_session())
    answer(clients.dynamodb, lambda _: {})  # no item was there; the commit has nothing to answer
    is_of_services = not hasattr(observer, "span")
    services = aws_services(Settings(), clients, observer=observer if is_of_services else lambda event: None)
    handler = lambda_handler(OneStage, observers=() if is_of_services else (observer,)).using(services)
    event, _ = a_request(OneStage, a_cart(), request_id="6c8c7d52-20f5-4b1c", requested_at=int(time.time() * 1000))
    context = Context()

    def one() -> object:
        return handler(event, context)

    if one() != {"batchItemFailures": []}:
        raise AssertionError("the message was not handled")
    return one


@contextmanager
def _in_function(observer: Observer = log) -> Iterator[Observer]:
    """Log as a function does that logs JSON."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere), lambda_logging():
        yield observer


@contextmanager
def _logged() -> Iterator[Observer]:
    """Let the lines of flowguard's logger be formatted, and written to no file."""
    logger = logging.getLogger("flowguard")
    before = logger.level, logger.propagate
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        handler = logging.StreamHandler(nowhere)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        try:
            yield log
        finally:
            logger.removeHandler(handler)
            logger.level, logger.propagate = before


@contextmanager
def _metrics() -> Iterator[Observer]:
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        yield Metrics(write=nowhere.write)


@contextmanager
def _xray() -> Iterator[Observer]:
    from aws_xray_sdk.core.recorder import AWSXRayRecorder

    recorder = AWSXRayRecorder()
    recorder.configure(service="bench", sampling=False, context_missing="IGNORE_ERROR")
    recorder.emitter._socket.close()  # the SDK never closes it
    recorder.emitter = _Dropped()
    recorder.begin_segment("bench")
    yield XRay(recorder)
    recorder.end_segment()


class _Dropped:
    """An emitter that makes the document of each segment, and sends it nowhere."""

    def send_entity(self, entity: Any) -> None:
        entity.serialize()

    def set_daemon_address(self, address: str | None) -> None:
        return None


@contextmanager
def _opentelemetry() -> Iterator[Observer]:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

    provider = TracerProvider()
    provider.add_span_processor(SpanProcessor())
    yield OpenTelemetry(provider.get_tracer("bench"), flush=False)


Watching = Callable[[], AbstractContextManager[Observer]]

OBSERVERS: dict[str, tuple[Watching, str]] = {
    "logs": (_in_function, "a line to /dev/null, in a function that logs JSON"),
    "timings": (lambda: _in_function(Timings()), "such a line"),
    "metrics": (_metrics, "a line an invocation to /dev/null"),
    "xray": (_xray, "documents are made, and dropped"),
    "opentelemetry": (_opentelemetry, "spans are made, and dropped"),
}
