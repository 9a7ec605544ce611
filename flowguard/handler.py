"""The handlers that a Lambda points at. They read the event, run the flows and answer what the invoker understands."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from flowguard.aws.clients import prepare_clients
from flowguard.aws.services import services_of_environment
from flowguard.aws.transport.time_left import within
from flowguard.errors import NotProcessed
from flowguard.events import Event, EventType, Observer
from flowguard.flow import AnyFlow
from flowguard.stage import AnyStage
from flowguard.text.printable import bounded, printable
from flowguard.wire.envelope import BadRecord, normalize
from flowguard.wire.kafka_records import is_kafka_record, named_for_lambda
from flowguard.worker.batch import Batch
from flowguard.worker.ending import Ending
from flowguard.worker.observed import checked_observers, invocation_span, observed
from flowguard.worker.ports import Budget, Services, Unlimited
from flowguard.worker.routing import Routes
from flowguard.worker.sending import may_send
from flowguard.worker.unread import begun_and_held


class LambdaBudget:
    """Asks Lambda's context how long the invocation has."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def remaining(self) -> int | None:
        return int(self._context.get_remaining_time_in_millis())


def budget_of(context: Any) -> Budget:
    """Return the budget of an invocation. Without Lambda's context nothing limits it."""
    return LambdaBudget(context) if hasattr(context, "get_remaining_time_in_millis") else Unlimited()


class LambdaHandler:
    """The function that Lambda invokes, made by :func:`lambda_handler` or :func:`dlq_handler`.

    ``from_dlq`` says that its records come from the dead-letter queue of SQS. ``observers`` come beside that of the
    services. ``together`` is that of :func:`lambda_handler`.
    """

    def __init__(
        self,
        routes: Routes,
        services: Services | None = None,
        *,
        from_dlq: bool = False,
        observers: Iterable[Observer] = (),
        together: bool = False,
    ) -> None:
        self.together = together
        self.routes = routes
        self._given = services
        self.from_dlq = from_dlq
        self._observers = checked_observers(observers)
        self._weak_flows: set[str] = set()

    def using(self, services: Services) -> LambdaHandler:
        """Return the same handler on other services, such as an embedded engine or a clock that can be set."""
        return LambdaHandler(
            self.routes, services, from_dlq=self.from_dlq, observers=self._observers, together=self.together
        )

    @cached_property
    def _services(self) -> Services:
        return observed(self._given if self._given is not None else services_of_environment(), self._observers)

    def __call__(self, event: Any, context: Any = None) -> Any:
        """Answer ``batchItemFailures`` to a queue or a stream.

        A direct invocation gets the verdict and the result of its run. Raises :class:`NotProcessed` where the
        invoker has no partial answers (SNS, direct) and something is left over.
        """
        budget = budget_of(context)
        with invocation_span(self._services, self.routes.flows, context), within(budget.remaining):
            function_arn = getattr(context, "invoked_function_arn", None)
            records = normalize(
                event,
                invocation_id=getattr(context, "aws_request_id", None),
                function_arn=function_arn,
                names=self._services.names,
            )
            bad = [record for record in records if isinstance(record, BadRecord)]
            for record in bad:
                tell_unreadable(self._services, record)
            batch = Batch(
                self.routes,
                self._services,
                budget,
                from_dlq=self.from_dlq,
                function_arn=function_arn,
                weak_flows=self._weak_flows,
                together=self.together,
            )
            left = batch.unopened(bad) if bad else bad
            return lambda_answer(batch.run(*begun_and_held(records, left)), left)


def tell_unreadable(services: Services, bad: BadRecord) -> None:
    """Report a record that cannot be read."""
    facts = {"record": bad.record_id or f"[{bad.index}]", "field": bad.error.field, "why": bad.error.problem}
    services.observer(Event(EventType.UNREADABLE, None, facts))


def lambda_handler(
    *targets: AnyFlow | AnyStage, observers: Iterable[Observer] = (), together: bool = False
) -> LambdaHandler:
    """Build the handler of a flow or of some of its stages: ``lambda_handler(ValidateCart, PriceCart)``.

    Several flows may share a function: list each, with the stages served here after it. Settings are read from the
    environment with the first event; the function's event source mapping must have ``ReportBatchItemFailures``.

    ``observers`` watch what happens, beside those that ``FLOWGUARD_OBSERVERS`` names: see ``flowguard.observers``.

    With ``together`` it claims and commits the records of a batch in common requests to DynamoDB, two or three
    instead of twenty for ten records. The function's role needs ``dynamodb:PartiQLUpdate`` and
    ``dynamodb:PartiQLInsert`` for that, and ``dynamodb:BatchGetItem`` for stages without a lease.
    Then stages with ``parallel`` handle several records at once.
    """
    routes = Routes(targets)
    prepare_clients("dynamodb", "sqs", unconnected=() if may_send(routes) else ("sqs",))
    return LambdaHandler(routes, observers=observers, together=together)


def dlq_handler(*flows: AnyFlow, observers: Iterable[Observer] = ()) -> LambdaHandler:
    """Build the handler for the dead-letter queue of SQS.

    SQS moves a record there that was received too often, be it that its function was killed, throttled or met an
    outage. The handler asks the run item, and calls no stage. A record whose hop may be begun, or begun again, goes
    back to its queue as the same attempt, after a delay. A run has failed for good only where at least two workers of
    its hop were killed, where the record is older than the flow's ``retention``, or where the record has no room for
    its way back: the run ends FAILED, or goes on at ``on_failed``, and the message becomes a dead letter, where a
    redrive finds it. Anything else is as in any function. ``observers`` are those of :func:`lambda_handler`.
    """
    prepare_clients("dynamodb", "sqs")
    return LambdaHandler(Routes(flows), from_dlq=True, observers=observers)


def lambda_answer(endings: Sequence[Ending], bad: Sequence[BadRecord]) -> Any:
    """Return what the invoker of a function understands. Raises :class:`NotProcessed` where that is nothing."""
    left = {ending.envelope.message_id: ending.why for ending in endings if not ending.ack}
    unnamed: dict[str, str] = {}
    for record in bad:
        (unnamed if record.record_id is None else left)[record.record_id or f"[{record.index}]"] = str(record.error)
    if unnamed or not all(ending.envelope.source.takes_names for ending in endings):
        if left or unnamed:
            raise NotProcessed({_short(record): _short(why) for record, why in {**left, **unnamed}.items()})
        return _result(endings)
    if not left:
        return {"batchItemFailures": []}
    records = [*(ending.envelope.received for ending in endings), *(record.raw for record in bad)]
    names = named_for_lambda(left) if any(map(is_kafka_record, records)) else left
    return {"batchItemFailures": [{"itemIdentifier": name} for name in names]}


def _short(text: str) -> str:
    """Cut a sender's text and make it printable, for Lambda's log and for a caller."""
    return printable(bounded(text))


def _result(endings: Sequence[Ending]) -> Any:
    """Return the answer to a direct caller. It is one object for one message, a list for several."""
    answers = [
        {
            "request_id": ending.arrival.message.request_id if ending.arrival else None,
            "verdict": ending.verdict.value if ending.verdict else None,
            "result": json.loads(ending.result) if ending.result is not None else None,
            **({"problem": _short(ending.why)} if ending.why else {}),
        }
        for ending in endings
    ]
    return answers[0] if len(answers) == 1 else answers
