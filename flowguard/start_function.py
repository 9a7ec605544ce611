"""The Lambda function that starts runs for HTTP requests."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import cached_property
from hashlib import sha256
from typing import Any, Final, Protocol

from flowguard.aws.clients import prepare_clients, prepared_clients
from flowguard.aws.ledger import ledger_of
from flowguard.aws.services import services_of_environment
from flowguard.aws.transport.time_left import within
from flowguard.client import FlowClient, Started
from flowguard.errors import (
    DefinitionError,
    EnvelopeError,
    FlowguardError,
    InProgress,
    KeyReused,
    shown,
    span_problem,
)
from flowguard.events import Event, EventType, Observer, log
from flowguard.flow import AnyFlow
from flowguard.handler import budget_of
from flowguard.names.ids import Owner, name_problem
from flowguard.payload.encoding import decode, encode
from flowguard.protocol.entry import Completion, EntryStatus, KeyAsk, KeyClaim, KeyVerdict, Met
from flowguard.settings import Settings
from flowguard.wire.http_request import HttpRequest
from flowguard.wire.http_response import lambda_response
from flowguard.wire.watch_link import WatchLink, read_watch_link
from flowguard.worker.http_starts import Accepted, HttpStarts, Start, request_id_of, unavailable
from flowguard.worker.observed import checked_observers, invocation_span, observed
from flowguard.worker.ports import Budget, Services
from flowguard.worker.routing import Routes
from flowguard.worker.watched_runs import Progress, Watched, watched

Caller = Callable[[HttpRequest], str]
"""Names who has sent a request: keys of one caller are not those of another."""

_MS: Final = timedelta(milliseconds=1)
_LONGEST_WAIT: Final = timedelta(minutes=14)
_LEASE: Final = 30_000
"""How long a request keeps others of its key off, where it dies before it has said that it is done. In ms."""

_MARGIN: Final = 1_000
"""What a request that waits leaves of its invocation, to be answered in. In ms."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
"""Seconds between two looks at a run: the first, doubled up to the longest."""


class KeyLedger(Protocol):
    """The entries of keys, as ``@once`` keeps them."""

    def claim(self, ask: KeyAsk) -> KeyClaim | Met: ...

    def finish(self, claim: KeyClaim, end: Completion) -> Met | None: ...

    def free(self, claim: KeyClaim, failure: str, now: int) -> None: ...


class StartHandler:
    """A Lambda function that starts runs of a flow, made by :func:`start_handler`."""

    def __init__(
        self,
        flow: AnyFlow,
        *,
        wait: timedelta,
        key_required: bool,
        caller: Caller | None,
        keep: timedelta,
        observers: Iterable[Observer] = (),
    ) -> None:
        self.flow = flow
        self.wait = wait
        self.key_required = key_required
        self.caller = caller
        self.keep = keep
        self._observers = checked_observers(observers)
        self._given: tuple[Services, KeyLedger, Callable[[float], None]] | None = None

    @property
    def flows(self) -> tuple[AnyFlow, ...]:
        return (self.flow,)

    def using(self, services: Services, ledger: KeyLedger, pause: Callable[[float], None] = time.sleep) -> StartHandler:
        """Return the same handler on other services, such as an embedded engine or a clock that can be set."""
        made = StartHandler(
            self.flow,
            wait=self.wait,
            key_required=self.key_required,
            caller=self.caller,
            keep=self.keep,
            observers=self._observers,
        )
        made._given = (services, ledger, pause)
        return made

    @cached_property
    def _tools(self) -> tuple[Services, KeyLedger, Callable[[float], None]]:
        if self._given is not None:
            services, ledger, pause = self._given
        else:
            services, pause = services_of_environment(), time.sleep
            ledger = ledger_of(Settings.from_environment(os.environ), prepared_clients())
        return observed(services, self._observers), ledger, pause

    def __call__(self, event: Any, context: Any = None) -> dict[str, Any]:
        """Answer an HTTP request. Raises :class:`EnvelopeError` for an event that is none."""
        budget = budget_of(context)
        with within(budget.remaining):
            try:
                services, ledger, pause = self._tools
            except FlowguardError as error:
                log(Event(EventType.BROKEN, None, {"record": "HTTP", "why": f"{type(error).__name__}: {error}"}))
                return lambda_response(unavailable(error), event)
            with invocation_span(services, self.flows, context):
                starts = _Starts(self, services, ledger, pause, budget)
                response = HttpStarts(starts.start, starts.look, self.key_required).respond_to(event)
                if response.cause is not None:
                    kind = EventType.BROKEN if response.status == 503 else EventType.REFUSED
                    why = f"{type(response.cause).__name__}: {response.cause}"
                    services.observer(Event(kind, None, {"record": "HTTP", "why": why}))
                return lambda_response(response, event)


class _Starts:
    """What one invocation starts and looks at."""

    def __init__(
        self,
        handler: StartHandler,
        services: Services,
        ledger: KeyLedger,
        pause: Callable[[float], None],
        budget: Budget,
    ) -> None:
        self._handler = handler
        self._flow = handler.flow
        self._services = services
        self._ledger = ledger
        self._pause = pause
        self._budget = budget

    def start(self, start: Start, request: HttpRequest) -> Accepted:
        """Start the run of a request, and wait for its end as long as is wanted."""
        payload = decode(self._flow.entry().payload, start.body, what="the payload")
        if start.key is None:
            started = self._sent(payload, self._services.ids.new(), self._services.clock.now())
        else:
            started = self._once(payload, request_id_of(self._flow.name, self._caller(request), start.key))
        link = self._link(started)
        seen = self._awaited(link, start.wait)
        ring = self._services.tokens.ring
        return Accepted(started.request_id, started.object_id, None if ring is None else link.sealed(ring), seen)

    def look(self, text: str) -> Watched | None:
        """Read where the run of a link stands. None for a link that is not good."""
        ring = self._services.tokens.ring
        now = self._services.clock.now()
        link = None if ring is None else read_watch_link(ring, text, self._flow.name, now)
        return None if link is None else watched(self._services.store, self._flow, link)

    def _caller(self, request: HttpRequest) -> str:
        if self._handler.caller is None:
            return ""
        name = self._handler.caller(request)
        if problem := name_problem(name):
            raise EnvelopeError("the request", "caller", problem)
        return name

    # -- once for each key

    def _once(self, payload: Any, request_id: str) -> Started:
        """Send the request, or return what was sent for its key before. The time of the first one stands for all."""
        digest = sha256(encode(payload).encode("utf-8", "surrogatepass")).hexdigest()
        name, now = f"start/{self._flow.name}", self._services.clock.now()
        until = now + _LEASE
        owner = Owner(self._services.ids.new())
        answer = self._ledger.claim(
            KeyAsk(name, request_id, owner, now, until, until + self._handler.keep // _MS, digest)
        )
        if isinstance(answer, Met):
            return self._met(answer, request_id)
        try:
            started = self._sent(payload, request_id, _first_time(answer))
        except Exception as error:
            self._ledger.free(answer, type(error).__name__, self._services.clock.now())
            raise
        self._finish(answer, started)
        return started

    def _met(self, met: Met, request_id: str) -> Started:
        name = f"start/{self._flow.name}"
        match met.verdict:
            case KeyVerdict.DONE:
                object_id, requested_at = decode(dict, met.entry.result or "{}", what="the entry")["started"]
                return Started(request_id, requested_at, object_id)  # type: ignore[arg-type]  # as it was stored
            case KeyVerdict.REUSED:
                raise KeyReused(name, request_id)
            case _:
                seconds = max(1, -((self._services.clock.now() - met.entry.lease_until) // 1000))
                raise InProgress(name, request_id, seconds)

    def _finish(self, claim: KeyClaim, started: Started) -> None:
        """Note that the key's request is sent. Where that fails, a repeat sends the same request again."""
        now = self._services.clock.now()
        text = encode({"started": [started.object_id, started.requested_at]})
        try:
            self._ledger.finish(claim, Completion(text, None, now, now + self._handler.keep // _MS))
        except Exception as error:
            facts = {"record": "HTTP", "why": f"{type(error).__name__}: the key is not noted as done"}
            self._services.observer(Event(EventType.BROKEN, None, facts))

    def _sent(self, payload: Any, request_id: str, requested_at: int) -> Started:
        client = FlowClient.of(self._services)
        return client.start(self._flow, payload, request_id=request_id, requested_at=requested_at)

    # -- until its end

    def _link(self, started: Started) -> WatchLink:
        expires_at = started.requested_at + self._flow.retention // _MS
        return WatchLink(self._flow.name, started.object_id, started.request_id, started.requested_at, expires_at)

    def _awaited(self, link: WatchLink, wanted: int | None) -> Watched:
        """Look at the run with growing pauses, until it has ended or the time is over."""
        left = self._handler.wait / timedelta(seconds=1)
        left = left if wanted is None else min(left, wanted)
        seen, pause = Watched(Progress.ACCEPTED), _FIRST_PAUSE
        while left > 0 and not seen.is_over and self._has_time(pause):
            pause = min(pause, left)
            self._pause(pause)
            left -= pause
            seen = self._seen(link)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return seen

    def _seen(self, link: WatchLink) -> Watched:
        """Read where the run stands. It is started, so that a read that fails is no reason to say otherwise."""
        try:
            return watched(self._services.store, self._flow, link)
        except Exception as error:
            facts = {"record": "HTTP", "why": f"{type(error).__name__}: the run is started, and was not read"}
            self._services.observer(Event(EventType.BROKEN, None, facts))
            return Watched(Progress.ACCEPTED)

    def _has_time(self, pause: float) -> bool:
        remaining = self._budget.remaining()
        return remaining is None or remaining - pause * 1000 >= _MARGIN


def _first_time(claim: KeyClaim) -> int:
    """Return when the key was first asked for: a repeat must not become a newer request."""
    before = claim.before
    return before.begun_at if before is not None and before.status is not EntryStatus.COMPLETED else claim.ask.now


def start_handler(
    flow: AnyFlow,
    *,
    wait: timedelta = timedelta(0),
    key_required: bool = True,
    caller: Caller | None = None,
    keep: timedelta = timedelta(days=28),
    observers: Iterable[Observer] = (),
) -> StartHandler:
    """Build the handler that starts runs of a flow for HTTP requests.

    A POST is the payload of the first stage, as JSON. Its header ``Idempotency-Key`` names the request: a repeat starts
    nothing, and gets the same answer. ``key_required=False`` takes requests without one, each as a new one. ``caller``
    names who has sent a request, such as by the claims of an authorizer: keys of two callers are two keys. Without it
    all callers share them. ``keep`` is how long a key is known.

    The answer is a 202 with a link at which a GET watches the run, where keys are set. ``wait`` is how long the request
    is held for the run's end, which is a 200 with the result; ``Prefer: wait=N`` asks for less. ``observers`` are those
    of :func:`lambda_handler`. Raises :class:`DefinitionError` for a time that is none.
    """
    Routes((flow,))  # refuses what is no flow
    problems = [
        f"{name}={shown(span)} {problem}"
        for name, span in (("wait", wait), ("keep", keep))
        if (problem := span_problem(span) or _range_problem(name, span))
    ]
    if problems:
        raise DefinitionError("start_handler", tuple(problems))
    prepare_clients("dynamodb", "sqs")
    return StartHandler(flow, wait=wait, key_required=key_required, caller=caller, keep=keep, observers=observers)


def _range_problem(name: str, span: timedelta) -> str | None:
    if name == "keep":
        return None if span >= timedelta(minutes=1) else "is less than a minute"
    return None if timedelta(0) <= span <= _LONGEST_WAIT else f"is not between 0 and {_LONGEST_WAIT}"
