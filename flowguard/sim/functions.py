"""The Lambda functions of some flows, one for each queue that their stages read. Other functions may be added."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NamedTuple

from flowguard.callback_function import callback_handler
from flowguard.clock import no_pause
from flowguard.destinations import Queue
from flowguard.errors import RunFailed, SettingsError
from flowguard.flow import AnyFlow
from flowguard.handler import LambdaHandler
from flowguard.payload.encoding import decode
from flowguard.project.queues import callback_queues, queue_of, queues_of
from flowguard.sim.issued_tokens import means_token
from flowguard.stage import AnyStage
from flowguard.start_function import StartHandler
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import FLOW_STAGE
from flowguard.worker.claim_phase import LEASE_WITHOUT_LAMBDA
from flowguard.worker.ports import Services
from flowguard.worker.record_sources import comes_through
from flowguard.worker.routing import Routes
from flowguard.worker.starts import Ledger


@dataclass(frozen=True, slots=True)
class ServedFunction:
    """A Lambda function.

    ``handler`` is called with an event. ``visibility`` is its queue's visibility timeout, ms: as long as the function
    may run, and so its lease. ``timeout`` is how long it may run where that is shorter, ms. It gets up to ``batch``
    records at once. A ``plain`` one knows nothing of flowguard.
    """

    name: str
    handler: Callable[[Any], Any]
    visibility: int
    timeout: int | None = None
    plain: bool = False
    batch: int = 1


class Batching(NamedTuple):
    """How many records the flows' functions get at once. ``together`` is that of ``lambda_handler``."""

    size: int = 1
    together: bool = False


ONE_BY_ONE: Final = Batching()


class Functions:
    """The functions of some flows, by the queues that they read.

    Stages that share a queue share a function, those of several flows too, as with an event source mapping. So do the
    stages of a flow that share a topic. ``others`` are functions of no flow, by their queues. ``read`` are the queues
    that a mapping reads, without ``more_queues``.
    """

    def __init__(
        self,
        flows: Sequence[AnyFlow],
        services: Services,
        others: Mapping[str, ServedFunction] | None = None,
        *,
        batching: Batching = ONE_BY_ONE,
        more_queues: Iterable[str] = (),
        ledger: Ledger | None = None,
    ) -> None:
        self._flows = flows
        self._services = services
        self._batching = batching
        self._ledger = ledger
        self.by_queue = {
            queue: self._function(queue, _targets(served), _visibility(served))
            for queue, served in _served(flows).items()
        }
        self.by_queue |= self._answering()
        for queue in self.by_queue.keys() & (others or {}).keys():
            raise SettingsError(queue, "two functions read this queue; give one of them another")
        self.by_queue |= others or {}
        self.read = frozenset(self.by_queue)
        if not flows:
            self.any = self.dead = self.answers = ServedFunction("nobody", _unread, _visibility([]))
            self._dead_of: Mapping[str, ServedFunction] = {}
            return
        everything = [(flow, stage) for flow in flows for stage in flow.stages]
        self.any = self._function("any", flows, _visibility(everything))
        self.answers = ServedFunction("answers", callback_handler(*flows).using(services), _visibility([]))
        for queue in more_queues:
            self.by_queue.setdefault(queue, self.any)
        self.dead = self._dead(flows)
        self._dead_of = {queue: self._dead(_flows(served)) for queue, served in _served(flows).items()}

    def _function(self, name: str, targets: Iterable[object], visibility: int) -> ServedFunction:
        handler = LambdaHandler(_routes(tuple(targets)), self._services, together=self._batching.together)
        return ServedFunction(name, handler, visibility, batch=self._batching.size)

    def _dead(self, flows: Sequence[AnyFlow]) -> ServedFunction:
        handler = LambdaHandler(_routes(tuple(flows)), self._services, from_dlq=True)
        return ServedFunction("dead-letters", handler, self.any.visibility, batch=self._batching.size)

    def _answering(self) -> dict[str, ServedFunction]:
        """Return the functions for the queues that bring nothing but answers."""
        functions: dict[str, ServedFunction] = {}
        visibility = _visibility([])
        for flow in self._flows:
            if isinstance(flow.answers, Queue) and flow.answers.short_name not in self.by_queue:
                name = flow.answers.short_name
                sharing = [other for other in self._flows if other.answers == flow.answers]
                functions[name] = self._function(name, sharing, visibility)
        for queue, declaring in callback_queues(self._flows).items():
            if queue not in self.by_queue:
                handler = callback_handler(*declaring).using(self._services)
                functions[queue] = ServedFunction(queue, handler, visibility, batch=self._batching.size)
        return functions

    def dlq_function(self, queue: str | None) -> ServedFunction:
        """Return the function for a record that SQS moves to the dead-letter queue.

        That is the function for dead letters of the flows that read the queue. A record of a plain function goes back
        to it, as a redrive sends it.
        """
        function = self.by_queue.get(queue or "")
        return function if function is not None and function.plain else self._dead_of.get(queue or "", self.dead)

    def serving(self, queue: str | None, envelope: Envelope) -> ServedFunction:
        """Return the function that reads the record's queue.

        Without one, a record from where a flow declares a callback goes to the function of answers, and any other to
        that of the first stage of the one flow that it fits. A message that does not fit exactly one flow goes to a
        function with every stage, which reports that.
        """
        if (function := self.by_queue.get(queue or "")) is not None:
            return function
        if any(comes_through(envelope, callback) for flow in self._flows for callback in flow.callbacks):
            return self.answers
        if queue is not None or FLOW_STAGE in envelope.attributes:
            return self.any
        return self._of_only_flow(envelope) or self.any

    def answering(self, envelope: Envelope, request: Any) -> ServedFunction:
        """Return the function that gets a recorded HTTP request.

        A request that means a token goes to the function of answers, and any other to the function that starts runs.
        Where there is none, it goes to the flow that can begin with it, or else to that of answers.
        """
        if means_token(request):
            return self.answers
        if (starts := self._starts()) is not None:
            return starts
        return self._of_only_flow(envelope) or self.answers

    def _starts(self) -> ServedFunction | None:
        """Return the function that starts runs of these flows over HTTP, the first one where there are several."""
        handler = next(start_handlers(self._flows), None)
        if self._ledger is None or handler is None:
            return None
        return ServedFunction("starts", handler.using(self._services, self._ledger, no_pause), _visibility([]))

    def _of_only_flow(self, envelope: Envelope) -> ServedFunction | None:
        """Return the function of the first stage of the flow that the message fits. None where that is not one flow."""
        fitting = [flow for flow in self._flows if _fits(flow, envelope)]
        return self.by_queue[queue_of(fitting[0], fitting[0].entry())] if len(fitting) == 1 else None


@functools.lru_cache(maxsize=256)
def _routes(targets: tuple[object, ...]) -> Routes:
    """Return what a function serves. An exploration asks for the same in each of its schedules."""
    return Routes(targets)


def _unread(event: Any) -> Any:
    raise SettingsError("functions", "the message is in no queue that one of them reads")


Served = list[tuple[AnyFlow, AnyStage]]


def _served(flows: Iterable[AnyFlow]) -> Mapping[str, Served]:
    served: dict[str, Served] = {}
    for flow in flows:
        for stage in flow.stages:
            for queue in queues_of(flow, stage):
                served.setdefault(queue, []).append((flow, stage))
    return served


def _targets(served: Served) -> list[AnyFlow | AnyStage]:
    targets: list[AnyFlow | AnyStage] = []
    for flow, stage in served:
        targets += [stage] if flow in targets else [flow, stage]
    return targets


def _flows(served: Served) -> list[AnyFlow]:
    return list(dict.fromkeys(flow for flow, _ in served))


def _visibility(served: Served) -> int:
    longest = max((stage.timeout or LEASE_WITHOUT_LAMBDA for _, stage in served), default=LEASE_WITHOUT_LAMBDA)
    return longest // timedelta(milliseconds=1)


def start_handlers(flows: Iterable[AnyFlow]) -> Iterator[StartHandler]:
    """Yield what starts runs of the flows, of the imported modules that are in a package with one of them."""
    packages = {flow.__module__.partition(".")[0] for flow in flows}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in packages:
            made = [value for value in vars(module).values() if isinstance(value, StartHandler)]
            yield from (handler for handler in made if handler.rule.flow in flows)


def _fits(flow: AnyFlow, envelope: Envelope) -> bool:
    """Answer whether the flow's first stage can read the message and finds its object there."""
    try:
        payload = decode(flow.entry().payload, envelope.message, what="the payload")
        flow.object_of(payload, "")  # type: ignore[arg-type]  # any id will do to ask
    except RunFailed:
        return False
    return True
