"""The Lambda function that starts runs for HTTP requests.

What it needs of HTTP and of keys is loaded with its first event: the functions of stages, which are often made in the
same module, start quicker without that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from flowguard.aws.clients import prepare_clients, prepared_clients
from flowguard.aws.services import services_of_environment
from flowguard.aws.transport.time_left import within
from flowguard.errors import DefinitionError, FlowguardError, shown
from flowguard.events import Event, EventType, Observer, log
from flowguard.flow import AnyFlow, is_flow
from flowguard.handler import budget_of
from flowguard.payload.call_keys import KeyRule
from flowguard.settings import Settings
from flowguard.start_request import StartRequest
from flowguard.startup.named_tuple import NamedTuple
from flowguard.worker.observed import checked_observers, invocation_span, observed
from flowguard.worker.ports import Services
from flowguard.worker.start_rule import ReadStart, ShowsResult, StartRule, usual_keep

if TYPE_CHECKING:
    from flowguard.worker.starts import Ledger


class _Tools(NamedTuple):
    services: Services
    ledger: Ledger
    pause: Callable[[float], None]


class StartHandler:
    """A Lambda function that starts runs of a flow for HTTP requests. :func:`start_handler` makes it."""

    def __init__(self, rule: StartRule, *, observers: Iterable[Observer] = (), tools: _Tools | None = None) -> None:
        self.rule = rule
        self._observers = checked_observers(observers)
        self._given = tools

    @property
    def flows(self) -> tuple[AnyFlow, ...]:
        """Return the one flow whose runs it starts."""
        return (self.rule.flow,)

    def using(self, services: Services, ledger: Ledger, pause: Callable[[float], None] = time.sleep) -> StartHandler:
        """Return the same handler on other services, such as an embedded engine or a clock that can be set."""
        return StartHandler(self.rule, observers=self._observers, tools=_Tools(services, ledger, pause))

    @cached_property
    def _tools(self) -> _Tools:
        tools = self._given if self._given is not None else _tools_of_environment()
        return tools._replace(services=observed(tools.services, self._observers))

    def __call__(self, event: Any, context: Any = None) -> dict[str, Any]:
        """Answer an HTTP request. Raises :class:`EnvelopeError` for an event that is none."""
        # the functions of stages start quicker
        from flowguard.worker.http_starts import respond, respond_unavailable
        from flowguard.worker.starts import Starts

        budget = budget_of(context)
        with within(budget.remaining):
            try:
                services, ledger, pause = self._tools
            except FlowguardError as error:
                log(Event(EventType.BROKEN, None, {"record": "HTTP", "why": f"{type(error).__name__}: {error}"}))
                return respond_unavailable(error, event)
            with invocation_span(services, self.flows, context):
                return respond(Starts(self.rule, services, ledger, budget, pause), services, self.rule.flow, event)


def _tools_of_environment() -> _Tools:
    from flowguard.aws.ledger import ledger_of  # the functions of stages start quicker

    ledger = ledger_of(Settings.from_environment(os.environ), prepared_clients())
    return _Tools(services_of_environment(), ledger, time.sleep)


def start_handler(  # noqa: PLR0913 - options, each with a default
    flow: AnyFlow,
    *,
    object_field: str | None = None,
    read: ReadStart | None = None,
    key_field: KeyRule | None = None,
    key_required: bool = True,
    caller: Callable[[StartRequest], str] | None = None,
    wait: timedelta = timedelta(0),
    keep: timedelta | None = None,
    shows_result: ShowsResult = False,
    observers: Iterable[Observer] = (),
) -> StartHandler:
    """Build the handler that starts runs of a flow for HTTP requests, one for each ``Idempotency-Key``.

    A POST starts a run, and a GET of the link in its answer watches it.

    ``object_field``    the field of the payload that names the flow's object: all who may send requests may then name
                        any object
    ``read``            in its place a function that makes ``(object id, payload)`` of a :class:`StartRequest`, such as
                        by its ``claims``; None refuses with a 403. It returns the same for the same request
    ``key_field``       what of the body names a request without the header: a path, several, or a function of the body
    ``key_required``    False takes requests without any key, each as a new one
    ``caller``          names who has sent a request: keys of two callers are two keys. Without it that is who the
                        gateway's authorizer says it is, or whom the client's certificate names; where these say no
                        name, requests with a key get a 500
    ``wait``            how long a request is held for its run's end, at most 25 s; ``Prefer: wait=N`` asks for less
    ``keep``            how long a key is known, and its link good; no longer than the flow remembers its runs, which is
                        twice its ``retention``, or its ``remember``. By default that, and 28 days at most
    ``shows_result``    whether a reader gets the result: True for all who have the link or repeat the request, or a
                        function of request and object id
    ``observers``       those of :func:`lambda_handler`

    Raises :class:`DefinitionError` with every mistake.
    """
    if not is_flow(flow):
        raise DefinitionError("start_handler", (f"{shown(flow)} is no flow; give the class of one",))
    kept = usual_keep(flow) if keep is None else keep
    rule = StartRule(flow, object_field, read, key_field, key_required, caller, wait, kept, shows_result)
    if problems := tuple(rule.problems()):
        raise DefinitionError("start_handler", problems)
    prepare_clients("dynamodb", "sqs")
    return StartHandler(rule, observers=observers)
