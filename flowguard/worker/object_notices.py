"""The notices of S3 that are no request themselves: of several objects, or of none.

::

    several   a request for each is sent to the first stage's inbox, or to the queue that this topic feeds, under the id
              of its change, and the record is acked when all are sent. What is refused for now leaves the record in its
              queue; it sends the same ones again
    none      S3 tries whether it may send to the queue: the record is acked
"""

from __future__ import annotations

from flowguard.destinations import Destination, Queue
from flowguard.events import EventType
from flowguard.protocol.outbox import Kind, Send
from flowguard.wire.envelope import Envelope
from flowguard.wire.object_notices import ObjectNotice
from flowguard.wire.send_ids import IdKind, id_of
from flowguard.wire.signing import signed_attributes
from flowguard.worker.dispatch import Due, send_or_park
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival, Routes
from flowguard.worker.trust import Trust


class ObjectNotices:
    """Takes the notices of one function."""

    def __init__(self, services: Services, emitter: Emitter, trust: Trust, routes: Routes) -> None:
        self._services = services
        self._emitter = emitter
        self._trust = trust
        self._routes = routes

    def ending(self, envelope: Envelope, notice: ObjectNotice) -> Ending:
        """Take one notice. Raises what :meth:`Routes.resolve` does for a change of it."""
        if not notice.events:
            tell_tested(self._emitter, envelope, notice)
            return Ending(envelope, ack=True)
        now = self._services.clock.now()
        arrivals = [self._routes.resolve(part, now, self._trust) for part in envelope.parts]
        due = [Due(self._request(arrival), arrival.flow, arrival.message, arrival.envelope) for arrival in arrivals]
        if refused := send_or_park(self._services, self._emitter, due):
            number, refusal = next(iter(refused.items()))
            why = f"not sent to {due[number].send.to}: {refusal.why}"
            return Ending(envelope, ack=True).kept(why, for_minutes=refusal.for_minutes)
        self._emitter.emit(EventType.SPLIT, None, record=envelope.message_id, bucket=notice.bucket, requests=len(due))
        return Ending(envelope, ack=True)

    def _request(self, arrival: Arrival) -> Send:
        """Return what is sent for one change: its payload, as any sender of a request does."""
        message = arrival.message._replace(is_event=False)
        return Send(
            Kind.SIDE,
            _inbox(arrival),
            message.body,
            id_of(IdKind.START, message),
            {**message.carried, **signed_attributes(message, self._services.signer)},
            group=message.object_id,
        ).checked()


def _inbox(arrival: Arrival) -> Destination:
    """Return the first stage's inbox. Of a topic, which others may read, it is the queue that brought the notice."""
    (_, inbox), arn = arrival.flow.entrance(arrival.message.carried), arrival.envelope.arn_before
    return inbox if isinstance(inbox, Queue) or arn is None else Queue(arn)


def tell_tested(emitter: Emitter, envelope: Envelope, notice: ObjectNotice) -> None:
    """Report that a bucket has tried whether it may send to the queue."""
    emitter.emit(EventType.TESTED, None, record=envelope.message_id, bucket=notice.bucket)
