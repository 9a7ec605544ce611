"""Records that nobody here can take: they cannot be read or routed, or claim what their flow does not allow.

They wait some minutes, for a rolling deployment may bring the code that takes them. Then they are parked among the dead
letters as they are, so that none of them is received a hundred times.
"""

from __future__ import annotations

from collections.abc import Mapping

from flowguard.errors import Reject
from flowguard.events import EventType
from flowguard.flow import AnyFlow
from flowguard.protocol.outbox import Kind, Send
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import BadRecord, Envelope
from flowguard.wire.send_ids import digest_of
from flowguard.worker.emitter import Emitter
from flowguard.worker.patience import has_waited
from flowguard.worker.plan import resent
from flowguard.worker.ports import Services


def is_parked(services: Services, emitter: Emitter, flow: AnyFlow, envelope: Envelope, why: str) -> bool:
    """Park the record among the dead letters of ``flow``, if it has waited. False where it stays in its queue."""
    body, attributes = resent(envelope, {})
    return _park(services, emitter, flow, envelope, body, attributes, why)


def is_unopened_parked(services: Services, emitter: Emitter, flow: AnyFlow, bad: BadRecord) -> bool:
    """Park a record whose body cannot be read, as it came. False where it stays in its queue."""
    if bad.envelope is None:
        return False
    return _park(services, emitter, flow, bad.envelope, bad.envelope.message, bad.envelope.attributes, str(bad.error))


def _park(
    services: Services,
    emitter: Emitter,
    flow: AnyFlow,
    envelope: Envelope,
    body: str,
    attributes: Mapping[str, Attribute],
    why: str,
) -> bool:
    if envelope.queue_arn is None or not has_waited(envelope, 0, services.clock.now()):
        return False
    own = f"{digest_of(envelope.message_id)}.unread"
    try:
        letter = Send(Kind.DEAD, flow.dead_letters, body, own, attributes).checked()
    except Reject:  # too large to be wrapped: it stays in its queue
        return False
    facts = {"kind": letter.kind.value, "to": str(letter.to), "id": letter.id, "delay": 0}
    if refusal := services.sender.send([letter]).get(0):
        emitter.emit(EventType.NOT_SENT, None, **facts, why=refusal.why)
        return False
    emitter.emit(EventType.PARKED, None, record=envelope.message_id, **facts, why=why)
    return True
