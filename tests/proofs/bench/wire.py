"""A function on a table and no queues: what it sends is kept, and can be handed to it as the event it would become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flowguard import LambdaHandler, Settings, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.clock import ManualClock, SystemClock
from flowguard.destinations import Queue
from flowguard.events import Tally
from flowguard.flow import AnyFlow
from flowguard.protocol.outbox import Send
from flowguard.wire.envelope import Envelope
from flowguard.worker.ports import Refusal
from tests.proofs.bench.flow import Context, an_event


class Wire:
    """Implements :class:`flowguard.worker.ports.Sender`."""

    def __init__(self) -> None:
        self.sent: list[Send] = []

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        self.sent.extend(sends)
        return {}

    def postpone(self, envelope: Envelope, seconds: int) -> None:
        pass

    def hand_back(self, records: Sequence[tuple[Envelope, int]]) -> None:
        pass

    def next_event(self) -> dict[str, Any]:
        """The last message sent, as SQS hands it over."""
        return event_of(self.sent[-1])


def event_of(send: Send) -> dict[str, Any]:
    """A message that was sent to a queue, as SQS hands it over."""
    assert isinstance(send.to, Queue)
    attributes = {name: attribute.to_sqs_record() for name, attribute in send.attributes.items()}
    return an_event(send.to.name, send.body, attributes, message_id=send.id, sent_at=0)


class Bench:
    """One function for all stages of some flows, on whatever the clients talk to.

    Its clock stands still, at the time of now: DynamoDB Local removes items that expired long ago.
    """

    def __init__(self, flow: AnyFlow, clients: Clients, *more: AnyFlow) -> None:
        self.wire, self.tally, self.clock = Wire(), Tally(), ManualClock(SystemClock().now())
        services = aws_services(Settings(), clients, clock=self.clock, observer=self.tally)
        self.services = services._replace(sender=self.wire)
        self._handler: LambdaHandler = lambda_handler(flow, *more).using(self.services)

    def run(self, event: dict[str, Any]) -> str:
        """What was told of the event's record: the first thing, such as ``claimed``."""
        told = len(self.tally.events)
        self.deliver(event)
        return self.tally.events[told].type.value

    def deliver(self, event: dict[str, Any]) -> None:
        self._handler(event, Context())
