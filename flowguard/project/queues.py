"""The queues that functions of flows read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flowguard.destinations import Queue, Topic
from flowguard.flow import AnyFlow
from flowguard.stage import AnyStage


def queue_of(flow: AnyFlow, stage: AnyStage) -> str:
    """Return the name of the queue that the stage's function reads.

    A topic has one for each flow, named after the first of the flow's stages that read from the topic.
    """
    inbox = flow.inbox_of(stage)
    if isinstance(inbox, Queue):
        return inbox.short_name
    first = next(other for other in flow.stages if flow.inbox_of(other) == inbox)
    return f"{flow.name}-{first.name}"


def queues_of(flow: AnyFlow, stage: AnyStage) -> tuple[str, ...]:
    """Return the names of the queues that the stage's function reads for it, of lanes that of each."""
    return tuple(lane.inbox.short_name for lane in flow.lanes_of(stage)) or (queue_of(flow, stage),)


def topics(flows: Iterable[AnyFlow]) -> Mapping[str, str]:
    """Return the name of the topic in front of each queue that has one."""
    flows = list(flows)
    inboxes = {queue_of(flow, stage): flow.inbox_of(stage) for flow in flows for stage in flow.stages}
    by_queue = {queue: inbox.arn for queue, inbox in inboxes.items() if isinstance(inbox, Topic)}
    for flow in flows:
        answering = [callback.source for callback in flow.callbacks if isinstance(callback.source, Topic)]
        by_queue |= {_callback_queue(flow, topic): topic.arn for topic in answering}
    return {queue: arn.rpartition(":")[2] for queue, arn in by_queue.items()}


def callback_queues(flows: Iterable[AnyFlow]) -> Mapping[str, list[AnyFlow]]:
    """Return the queues through which answers come from outside, with the flows that declare them.

    A topic has one queue for each flow, named after both.
    """
    readers: dict[str, list[AnyFlow]] = {}
    for flow in flows:
        for callback in flow.callbacks:
            match callback.source:
                case Queue() as queue:
                    readers.setdefault(queue.short_name, []).append(flow)
                case Topic() as topic:
                    readers.setdefault(_callback_queue(flow, topic), []).append(flow)
                case _:
                    pass  # an event of a bus is delivered by its own record
    return readers


def _callback_queue(flow: AnyFlow, topic: Topic) -> str:
    return f"{flow.name}-{topic.arn.rpartition(':')[2]}"
