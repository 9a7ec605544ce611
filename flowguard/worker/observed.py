"""Invocations and services as observers see them, with a span around each claim and commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from flowguard import lambda_log
from flowguard.errors import DefinitionError, shown
from flowguard.events import Observer
from flowguard.flow import AnyFlow
from flowguard.observers.combined import combined
from flowguard.protocol.run import Claim, ClaimRequest, Commit, Committed, Fenced, Refused
from flowguard.protocol.verdicts import Verdict
from flowguard.spans import Phase, Span, open_span, opens_spans
from flowguard.worker.ports import Batches, CommitAnswer, Services, Store
from flowguard.worker.wrapped_store import WrappedStore


class ObservedStore(WrappedStore):
    """A store that reports how long its two writes of a hop take, and what they answer."""

    def __init__(self, store: Store, observer: Observer) -> None:
        super().__init__(store)
        self._observer = observer

    @property
    def batches(self) -> Batches | None:
        batches = self._store.batches
        return None if batches is None else ObservedBatches(batches, self._observer)

    def claim(self, request: ClaimRequest) -> Claim | Refused:
        return self._timed(super().claim, request)

    def judge(self, request: ClaimRequest) -> Claim | Refused:
        return self._timed(super().judge, request)

    def _timed(self, ask: Callable[[ClaimRequest], Claim | Refused], request: ClaimRequest) -> Claim | Refused:
        span = Span(Phase.CLAIM, (request.message,))
        with open_span(self._observer, span):
            answer = ask(request)
            verdict = answer.verdict if isinstance(answer, Refused) else Verdict.CLAIMED
            span.facts["verdict"] = verdict.value
        return answer

    def commit(self, claim: Claim, commit: Commit) -> Committed | Fenced | Refused:
        span = Span(Phase.COMMIT, (claim.message,), {"writes": len(commit.writes)})
        with open_span(self._observer, span):
            answer = super().commit(claim, commit)
            span.facts["verdict"] = _verdict(answer)
        return answer


class ObservedBatches:
    """Common calls with one span around each. The span has the messages and the verdicts of all runs."""

    def __init__(self, batches: Batches, observer: Observer) -> None:
        self._batches = batches
        self._observer = observer

    def claim(self, requests: Sequence[ClaimRequest]) -> list[Claim | Refused | None]:
        return self._timed(self._batches.claim, requests)

    def judge(self, requests: Sequence[ClaimRequest]) -> list[Claim | Refused | None]:
        return self._timed(self._batches.judge, requests)

    def _timed(
        self, ask: Callable[[Sequence[ClaimRequest]], list[Claim | Refused | None]], requests: Sequence[ClaimRequest]
    ) -> list[Claim | Refused | None]:
        span = Span(Phase.CLAIM, tuple(request.message for request in requests))
        with open_span(self._observer, span):
            answers = ask(requests)
            span.facts["verdict"] = ", ".join(_verdict(answer) for answer in answers)
        return answers

    def commit(self, commits: Sequence[tuple[Claim, Commit]], *, in_threads: bool = False) -> list[CommitAnswer]:
        writes = sum(len(commit.writes) for _, commit in commits)
        span = Span(Phase.COMMIT, tuple(claim.message for claim, _ in commits), {"writes": writes})
        with open_span(self._observer, span):
            answers = self._batches.commit(commits, in_threads=in_threads)
            span.facts["verdict"] = ", ".join(_verdict(answer) for answer in answers)
        return answers

    def release(self, claims: Sequence[Claim], now: int) -> None:
        self._batches.release(claims, now)

    def refusals(self) -> list[str]:
        return self._batches.refusals()


def _verdict(answer: Claim | CommitAnswer) -> str:
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
        services = replace(services, observer=combined((services.observer, *observers)))
    if not opens_spans(services.observer):
        return services
    return replace(services, store=ObservedStore(services.store, services.observer))


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
    found = tuple(observers)
    fix = "an observer is called with each event, as Observer() or a function"
    wrong = (one for one in found if isinstance(one, type | str) or not callable(one))
    if problems := tuple(f"{shown(one)} is no observer; {fix}" for one in wrong):
        raise DefinitionError("observers=", problems)
    return found
