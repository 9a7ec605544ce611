"""Records that nobody here can read, route or believe.

They wait some minutes, for a rolling deployment may bring the code that takes them. Then they are parked among the dead
letters as they are, so that none of them is received a hundred times.
"""

from __future__ import annotations

from collections.abc import Sequence

from flowguard.errors import Reject, TooLarge
from flowguard.events import EventType
from flowguard.flow import AnyFlow
from flowguard.protocol.outbox import Kind, Send
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import BadRecord, Envelope
from flowguard.wire.message import PLACE, REQUEST_ID, REQUESTED_AT, WEAK
from flowguard.wire.send_ids import digest_of
from flowguard.worker.dispatch import stream_sends
from flowguard.worker.emitter import Emitter
from flowguard.worker.ports import Services
from flowguard.worker.resend import as_it_came, resent


def is_parked(
    services: Services, emitter: Emitter, flow: AnyFlow, envelope: Envelope, why: str, *, is_last: bool = False
) -> bool:
    """Park the record among the dead letters of ``flow``, if it has waited or this ``is_last`` that is seen of it.

    False where it stays in its queue.

    It is wrapped, and says which queue it came through. One that is too large for that goes as it came.
    """
    body, attributes = resent(envelope, _named(envelope))
    wrapped = _letter(flow, envelope)._replace(body=body, attributes=attributes)
    try:
        letter = wrapped.checked()
    except TooLarge:
        letter = as_it_came(wrapped, envelope)
    return (is_last or _has_waited(services, envelope)) and _is_sent(services, emitter, letter, envelope, why)


def is_unopened_parked(services: Services, emitter: Emitter, flow: AnyFlow, bad: BadRecord) -> bool:
    """Park a record whose body cannot be read, as it came. False where it stays in its queue."""
    if bad.envelope is None or not _has_waited(services, bad.envelope):
        return False
    letter = as_it_came(_letter(flow, bad.envelope), bad.envelope)
    return _is_sent(services, emitter, letter, bad.envelope, str(bad.error))


def begun_and_held(
    records: Sequence[Envelope | BadRecord], left: Sequence[BadRecord]
) -> tuple[list[Envelope], list[Envelope]]:
    """Return the envelopes to be begun, and those of FIFO groups behind a record that is ``left`` in its queue."""
    if not left:
        return [record for record in records if isinstance(record, Envelope)], []
    begun: list[Envelope] = []
    held: list[Envelope] = []
    stopped = set[tuple[str | None, str | None]]()
    places = {bad.index for bad in left}
    for record in records:
        group = _fifo_group(record)
        if isinstance(record, Envelope):
            (held if group in stopped else begun).append(record)
        elif group is not None and record.index in places:
            stopped.add(group)
    return begun, held


def _fifo_group(record: Envelope | BadRecord) -> tuple[str | None, str | None] | None:
    """Return the queue and the message group of a FIFO queue's record, also of one whose attributes are unreadable."""
    if isinstance(record, Envelope):
        return (record.queue_arn, record.group_id) if record.is_fifo else None
    match record.raw:
        case {"eventSourceARN": str(arn), "attributes": {"MessageGroupId": str(group)}}:
            return arn, group
        case _:
            return None


def _letter(flow: AnyFlow, envelope: Envelope) -> Send:
    return Send(Kind.DEAD, flow.dead_letters, "", f"{digest_of(_known_by(envelope))}.unread")


def _known_by(envelope: Envelope) -> str:
    """Return what tells the record from all others. A place in a stream is one in each of its shards."""
    return f"{envelope.source_arn}:{envelope.own_id}" if envelope.source.is_stream else envelope.message_id


def _named(envelope: Envelope) -> dict[str, Attribute]:
    """Return the id and time that a stream's record would lose, for SQS gives the letter others.

    The id is weak: a flow that names its requests by their payload goes by that.
    """
    if not envelope.source.is_stream or envelope.sent_at is None:
        return {}
    return {
        REQUEST_ID: Attribute.string(envelope.own_id),
        REQUESTED_AT: Attribute.number(envelope.sent_at),
        PLACE: Attribute.string(f'{{"{WEAK}":true}}'),
    }


def _has_waited(services: Services, envelope: Envelope) -> bool:
    """Answer whether the record has waited for minutes. One that nothing brings again is not parked."""
    source = f"records of {envelope.source_arn}"
    return envelope.source_arn is not None and services.denials.are_final(source, envelope, services.clock.now())


def _is_sent(services: Services, emitter: Emitter, letter: Send, envelope: Envelope, why: str) -> bool:
    """Send the letter, and answer whether it was taken. One that was taken for an earlier copy is not sent again."""
    known = stream_sends(services, envelope)
    if known is not None and known.has(letter, envelope):
        return True
    facts = {"kind": letter.kind.value, "to": str(letter.to), "id": letter.id, "delay": 0}
    if (refusal := _refusal(services, letter)) is not None:
        emitter.emit(EventType.NOT_SENT, None, **facts, why=refusal)
        return False
    if known is not None:
        known.note(letter, envelope)
    emitter.emit(EventType.PARKED, None, record=envelope.message_id, **facts, why=why)
    return True


def _refusal(services: Services, letter: Send) -> str | None:
    """Send the letter. Return why it is not taken: dead letters in a topic take less than a queue has delivered."""
    try:
        checked = letter.checked()
    except Reject as error:
        return str(error)
    refused = services.sender.send([checked]).get(0)
    if refused is None:
        services.denials.ended(checked)
        return None
    return refused.why
