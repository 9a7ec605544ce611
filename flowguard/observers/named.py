"""The observers that ``FLOWGUARD_OBSERVERS`` names. Each is loaded with the first event of the function."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from typing import Any, Final

from flowguard.errors import shown
from flowguard.events import Observer, log
from flowguard.names.at_aws import AS_IN_CODE, Names
from flowguard.observers.combined import combined, text_of

logger = logging.getLogger("flowguard")

BUILT_IN: Final[dict[str, str]] = {
    "timings": "flowguard.observers.timings:Timings",
    "metrics": "flowguard.observers.metrics:Metrics",
    "xray": "flowguard.observers.xray:XRay",
    "opentelemetry": "flowguard.observers.opentelemetry:OpenTelemetry",
}
"""Where the class of each name is. ``logs`` needs none."""


def named_observers(names: str, at_aws: Names = AS_IN_CODE) -> Observer:
    """Load the observers of these names, which commas separate. Metrics get a namespace of the names at AWS.

    One that cannot be loaded is reported and left out: what only watches must not stop the messages.
    """
    observers = tuple(_loaded(names, at_aws))
    return log if observers == (log,) else combined(observers)


def _loaded(names: str, at_aws: Names) -> Iterator[Observer]:
    for name in dict.fromkeys(part.strip() for part in names.split(",")):
        if not name:
            continue
        try:
            yield _load(name, at_aws)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            logger.error(
                "FLOWGUARD_OBSERVERS names %s, which is left out: %s: %s%s",
                shown(name),
                type(error).__name__,
                text_of(error),
                _fix(name, error),
            )


def _load(name: str, at_aws: Names) -> Observer:
    if name == "logs":
        return log
    module, colon, attribute = BUILT_IN.get(name, name).partition(":")
    if not colon:
        known = ", ".join(["logs", *BUILT_IN])
        raise LookupError(f"there is no such observer; there are {known}, or name one of your own as module:attribute")
    target: Any = importlib.import_module(module)
    for part in attribute.split("."):
        target = getattr(target, part)
    made = target(*_given(name, at_aws)) if isinstance(target, type) else target
    if not callable(made):
        raise TypeError("it cannot be called, so it is no observer")
    return made  # type: ignore[no-any-return]  # whether it takes an event is seen when it gets one


def _given(name: str, at_aws: Names) -> tuple[str, ...]:
    """Return what the class of an observer is made with: of metrics their namespace."""
    return (at_aws.by_rule("flowguard"),) if name == "metrics" else ()


def _fix(name: str, error: BaseException) -> str:
    """Return how to get what is missing, where an extra has it."""
    needs_extra = isinstance(error, ModuleNotFoundError) and name in BUILT_IN
    return f"; pip install 'flowguard-aws[{name}]'" if needs_extra else ""
