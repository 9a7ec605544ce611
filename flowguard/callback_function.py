"""The Lambda function for answers from outside.

What it needs of HTTP and of answers is loaded with its first event: the functions of stages, which are often made in
the same module, start quicker without that.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from flowguard.aws.clients import prepare_clients
from flowguard.aws.services import services_of_environment
from flowguard.aws.transport.time_left import within
from flowguard.errors import FlowguardError
from flowguard.events import Event, EventType, Observer, log
from flowguard.flow import AnyFlow
from flowguard.handler import budget_of, lambda_answer, tell_unreadable
from flowguard.payload.http_source import http_source
from flowguard.wire.envelope import BadRecord, Envelope, normalize
from flowguard.worker.observed import checked_observers, invocation_span, observed
from flowguard.worker.ports import Services
from flowguard.worker.routing import Routes

if TYPE_CHECKING:
    from flowguard.worker.callbacks import Callbacks


class CallbackHandler:
    """A Lambda function for answers from outside flowguard, made by :func:`callback_handler`."""

    def __init__(
        self, flows: tuple[AnyFlow, ...], services: Services | None = None, *, observers: Iterable[Observer] = ()
    ) -> None:
        self.flows = flows
        self._given = services
        self._observers = checked_observers(observers)

    def using(self, services: Services) -> CallbackHandler:
        """Return the same handler on other services, such as an embedded engine or a clock that can be set."""
        return CallbackHandler(self.flows, services, observers=self._observers)

    @cached_property
    def _services(self) -> Services:
        return observed(self._given if self._given is not None else services_of_environment(), self._observers)

    def __call__(self, event: Any, context: Any = None) -> Any:
        """Settle the answers of one event.

        An HTTP request gets a response, with the verdict in it. A queue gets ``batchItemFailures``, a direct invocation
        the verdicts. Raises :class:`NotProcessed` as :class:`LambdaHandler` does.
        """
        with within(budget_of(context).remaining):
            if http_source(event) is not None:
                return self._respond(event, context)
            with invocation_span(self._services, self.flows, context):
                return self._answer(event, context)

    def _answer(self, event: Any, context: Any) -> Any:
        invocation = getattr(context, "aws_request_id", None)
        callbacks = self._callbacks(self._services, context)
        function_arn = getattr(context, "invoked_function_arn", None)
        names = self._services.names
        records = normalize(event, invocation_id=invocation, function_arn=function_arn, names=names)
        bad = [record for record in records if isinstance(record, BadRecord)]
        for record in bad:
            tell_unreadable(self._services, record)
        return lambda_answer(callbacks.take_all(record for record in records if isinstance(record, Envelope)), bad)

    def _respond(self, event: Any, context: Any) -> Any:
        """Answer an HTTP request. A setting that is missing is logged, and its sender gets a status like any other."""
        try:
            services = self._services
        except FlowguardError as error:
            log(Event(EventType.BROKEN, None, {"record": "HTTP", "why": f"{type(error).__name__}: {error}"}))
            from flowguard.worker.callbacks import respond_unavailable  # the functions of stages start quicker

            return respond_unavailable(error, event)
        with invocation_span(services, self.flows, context):
            return self._callbacks(services, context).respond(event)

    def _callbacks(self, services: Services, context: Any) -> Callbacks:
        from flowguard.worker.callbacks import Callbacks  # the functions of stages start quicker

        return Callbacks(self.flows, services, budget_of(context))


def callback_handler(*flows: AnyFlow, observers: Iterable[Observer] = ()) -> CallbackHandler:
    """Build the handler for answers from outside flowguard.

    They come over HTTP, or through the queues, topics and buses that the flows' ``callbacks`` declare. An HTTP request
    names what it answers by a token at the end of its path; see ``step.token``. Answers of other flows, and deadlines,
    are taken from the flow's own ``answers`` queue only: elsewhere an address in a message is not believed. Settings
    are read from the environment with the first event. ``observers`` are those of :func:`lambda_handler`.
    """
    Routes(flows)  # refuses what is no flow
    prepare_clients("dynamodb", "sqs")
    return CallbackHandler(flows, observers=observers)
