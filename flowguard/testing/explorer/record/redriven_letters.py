"""Dead letters of a history and how they are sent back, as ``flowguard dlq redrive`` or the console does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flowguard.destinations import Queue
from flowguard.errors import FlowguardError
from flowguard.flow import AnyFlow
from flowguard.project.queues import queue_of
from flowguard.protocol.run import RunItem
from flowguard.sim.posted_messages import Posted, as_posted
from flowguard.testing.explorer.record.history import History
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.message import FLOW_STAGE
from flowguard.worker.dead_letters import Letter
from flowguard.worker.redrive import Judgement, judge
from flowguard.worker.redriven_messages import sent_back


def letters(history: History, flows: Sequence[AnyFlow]) -> list[Posted]:
    """Return the dead letters sent to the flows' queues for them in the order of sending. Copies are included."""
    queues = {f"sqs:{flow.dead_letters.short_name}" for flow in flows if isinstance(flow.dead_letters, Queue)}
    return [posted for posted in history.posted if posted.to in queues and posted.is_letter]


def read(posted: Posted, flows: Sequence[AnyFlow], now: int) -> Letter | None:
    """Read a dead letter as a read of its queue returns it.

    None where no flow of these has sent it, or where it cannot be sent back.
    """
    flow = _flow_of(posted, flows)
    letter = Letter.read(_received(posted), now=now, flow=flow)
    return letter if flow is not None and letter.message is not None else None


def judged(letter: Letter, item: RunItem | None, now: int) -> Judgement:
    return judge(letter, item, now=now, unsent=item is not None and item.outbox is not None)


def posted_back(letter: Letter) -> Posted | None:
    """Return the message that goes to its stage's queue. None where the flow has no such stage any more."""
    if letter.flow is None:
        return None
    try:
        stage = letter.flow.stage(letter.returning().stage)
        inbox = letter.flow.inbox_of(stage, letter.carried)
        queue = inbox if isinstance(inbox, Queue) else Queue(queue_of(letter.flow, stage))
        return as_posted(sent_back(letter, queue), 0)
    except (FlowguardError, ValueError):
        return None


def _flow_of(posted: Posted, flows: Sequence[AnyFlow]) -> AnyFlow | None:
    stage = posted.attributes.get(FLOW_STAGE)
    return next((flow for flow in flows if stage is not None and stage.value.startswith(f"{flow.name}/")), None)


def _received(posted: Posted) -> Mapping[str, Any]:
    """Return what ReceiveMessage answers."""
    return {
        "MessageId": f"letter-{posted.call}",
        "ReceiptHandle": f"letter-{posted.call}",
        "Body": posted.body,
        "Attributes": {"SentTimestamp": str(posted.at), "ApproximateReceiveCount": "1"},
        "MessageAttributes": attributes_to(Attribute.to_sqs_api, posted.attributes),
    }
