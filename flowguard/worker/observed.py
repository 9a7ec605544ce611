"""Invocations and services as observers see them, with a span around each call that claims or commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from flowguard.errors import DefinitionError, shown
from flowguard.events import Observer
from flowguard.flow import AnyFlow
from flowguard.observers.combined import combined
from flowguard.protocol.run import Claim, Committed, Fenced, Refused
from flowguard.spans import Phase, Span, open_span, opens_spans
from flowguard.text import lambda_log
from flowguard.verdicts import Verdict
from flowguard.worker.asks import Answer, Ask, Calls, Committing
from flowguard.worker.ports import Services


class ObservedCalls:
    """Calls with a span around each, that says how long it took and what it answered. It has the messages of all."""

    def __init__(self, calls: Calls, observer: Observer) -> None:
        self._calls = calls
        self._observer = observer

    def __call__(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        writes = [len(ask.commit.writes) for ask in asks if isinstance(ask, Committing)]
        phase, facts = (Phase.COMMIT, {"writes": sum(writes)}) if writes else (Phase.CLAIM, {})
        span = Span(phase, tuple(ask.message for ask in asks), dict(facts))
        with open_span(self._observer, span):
            answers = self._calls(asks)
            span.facts["verdict"] = ", ".join(_verdict(answer) for answer in answers)
        return answers


def _verdict(answer: Answer) -> str:
    match answer:
        case Claim():
            return Verdict.CLAIMED.value
        case Refused(verdict):
            return verdict.value
        case Committed():
            return "COMMITTED"
        case Fenced(by):
            return by.value
        case None:
            return "NOT_ANSWERED"
        case error:
            return type(error).__name__


def observed(services: Services, observers: tuple[Observer, ...] = ()) -> Services:
    """Return the services with these observers beside their own, and with spans around what they call."""
    if observers:
        services = services._replace(observer=combined((services.observer, *observers)))
    if not opens_spans(services.observer):
        return services
    watched, observer = services.watched, services.observer
    return services._replace(watched=lambda calls: ObservedCalls(watched(calls), observer))


def invocation_span(services: Services, flows: tuple[AnyFlow, ...], context: Any) -> AbstractContextManager[object]:
    """Return what the observer opens around all that one call of a function does. Name the call in Lambda's log."""
    lambda_log.begin(context)
    if not opens_spans(services.observer):
        return nullcontext()
    served = {flow.name: frozenset(stage.name for stage in flow.stages) for flow in flows}
    request = getattr(context, "aws_request_id", None)
    facts = {} if request is None else {"invocation": str(request)}
    return open_span(services.observer, Span(Phase.INVOCATION, facts=facts, served=served))


def checked_observers(observers: Iterable[Observer]) -> tuple[Observer, ...]:
    """Return what a function is given as its observers. Raises :class:`DefinitionError` for what cannot be one."""
    if callable(observers):
        raise DefinitionError("observers=", (f"{shown(observers)} stands alone; write observers=[…]",))
    given = tuple(observers)
    fix = "an observer is called with each event, as Observer() or a function"
    wrong = (observer for observer in given if isinstance(observer, type | str) or not callable(observer))
    if problems := tuple(f"{shown(observer)} is no observer; {fix}" for observer in wrong):
        raise DefinitionError("observers=", problems)
    return given
