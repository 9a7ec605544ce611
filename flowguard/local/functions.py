"""The Lambda functions of some flows: one for each queue that their stages read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from flowguard.destinations import Queue, Topic
from flowguard.envelope import Envelope
from flowguard.errors import RunFailed
from flowguard.flow import AnyFlow
from flowguard.handler import LambdaHandler, dlq_handler, lambda_handler
from flowguard.message import FLOW_STAGE
from flowguard.payloads import decode
from flowguard.ports import Services
from flowguard.runtime import LEASE_WITHOUT_LAMBDA
from flowguard.stage import AnyStage


@dataclass(frozen=True, slots=True)
class Function:
    """``visibility`` is its queue's visibility timeout, ms: as long as the function may run, and so its lease."""

    name: str
    handler: LambdaHandler
    visibility: int


class Functions:
    """Stages that share a queue share a function, those of several flows too, as an event source mapping has it."""

    def __init__(self, flows: Sequence[AnyFlow], services: Services) -> None:
        self._flows = flows
        self.by_queue = {
            queue: Function(queue, lambda_handler(*_targets(served)).using(services), _visibility(served))
            for queue, served in _served(flows).items()
        }
        everything = [(flow, stage) for flow in flows for stage in flow.stages]
        self.any = Function("any", lambda_handler(*flows).using(services), _visibility(everything))
        self.dead = Function("dead-letters", dlq_handler(*flows).using(services), self.any.visibility)

    def serving(self, queue: str | None, envelope: Envelope) -> Function:
        """The function that reads the queue; without one that of the first stage of the flow that the message fits.

        A message that fits none goes to a function with every stage, which says so.
        """
        if queue is not None or FLOW_STAGE in envelope.attributes:
            return self.by_queue.get(queue or "", self.any)
        fitting = [flow for flow in self._flows if _fits(flow, envelope)]
        if len(fitting) != 1:
            return self.any
        return self.by_queue[queue_of(fitting[0], fitting[0].entry())]


def queue_of(flow: AnyFlow, stage: AnyStage) -> str:
    """The name of the queue that the stage's function reads; a topic has one that subscribes to it."""
    inbox = flow.inbox_of(stage)
    return inbox.short_name if isinstance(inbox, Queue) else f"{flow.name}-{stage.name}"


def topics(flows: Iterable[AnyFlow]) -> Mapping[str, str]:
    """The name of the topic in front of each queue that has one."""
    inboxes = {queue_of(flow, stage): flow.inbox_of(stage) for flow in flows for stage in flow.stages}
    return {queue: inbox.arn.rpartition(":")[2] for queue, inbox in inboxes.items() if isinstance(inbox, Topic)}


Served = list[tuple[AnyFlow, AnyStage]]


def _served(flows: Iterable[AnyFlow]) -> Mapping[str, Served]:
    found: dict[str, Served] = {}
    for flow in flows:
        for stage in flow.stages:
            found.setdefault(queue_of(flow, stage), []).append((flow, stage))
    return found


def _targets(served: Served) -> list[AnyFlow | AnyStage]:
    targets: list[AnyFlow | AnyStage] = []
    for flow, stage in served:
        targets += [stage] if flow in targets else [flow, stage]
    return targets


def _visibility(served: Served) -> int:
    longest = max(stage.timeout or LEASE_WITHOUT_LAMBDA for _, stage in served)
    return longest // timedelta(milliseconds=1)


def _fits(flow: AnyFlow, envelope: Envelope) -> bool:
    """Whether its first stage can read the message and finds its object there."""
    try:
        payload = decode(flow.entry().payload, envelope.message, what="the payload")
        flow.object_of(payload, "")  # type: ignore[arg-type]  # any id will do to ask
    except RunFailed:
        return False
    return True
