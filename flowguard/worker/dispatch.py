"""Sends what a batch of records has committed to send. Nothing here changes a run item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from flowguard.errors import Reject, SendFailed
from flowguard.flow import AnyFlow
from flowguard.protocol.outbox import LAST_PHASE, Kind, Send
from flowguard.spans import Phase
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.envelope import Envelope
from flowguard.wire.message import ErrorNote, Message
from flowguard.worker.denials import place_of
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.ports import Refusal, Services

if TYPE_CHECKING:
    from flowguard.worker.stream_sends import StreamSends

MOST_DUE: Final = 100
"""Sends that wait for those of further records, at most. To wait for more would save no call: ten go in each."""

RESERVE_MS: Final = 1_000
"""Kept of an invocation for sending what was committed: no further record is begun when less is left."""

CALL_MS: Final = 25
"""Kept for each call that sends ten which are due, beside that."""

_A_CALL: Final = 10


class Due(NamedTuple):
    """A send, the hop's message that it belongs to, and the record whose work it is.

    ``has_copy`` says that a copy of the record is in a queue, and sends again what is refused now.
    """

    send: Send
    flow: AnyFlow
    message: Message
    envelope: Envelope
    has_copy: bool = False

    def judged(self, services: Services, refusal: Refusal) -> Refusal:
        """Return what the refusal means to its record: one that may pass is final once it has lasted for minutes."""
        if not refusal.for_minutes or self.has_copy:
            return refusal
        place, now = place_of(self.send), services.clock.now()
        return refusal.after(services.denials.are_final(place, self.envelope, now, self.message.since))


def dispatch(services: Services, emitter: Emitter, endings: list[Ending], *, have_copies: bool = False) -> list[Ending]:
    """Send all side messages, then deadlines, dead letters and asks, then the next hops.

    A record that keeps any is not acked. ``have_copies`` says that a copy of each is in a queue. What this process has
    sent for a record of a stream is not sent for its copy.

    ::

        record 1   side ✓  side ✓            then   next ✓    ack
        record 2   side ✓  side ✗ throttled         (held)    stays queued: delivered again, it answers DONE and resends
        record 3   side ✓  side ✗ no such queue: parked       next ✓    ack

    The order matters: the claim of the next hop clears the outbox, because its message was the last of it.
    """
    if not any(ending.sends for ending in endings):
        return endings
    for phase in range(LAST_PHASE + 1):
        endings = _send(services, emitter, endings, phase, have_copies=have_copies)
    return endings


class DueSends:
    """The sends that are due. Those of FIFO queues are left out, for they are sent before the next record is begun."""

    def __init__(self, services: Services, emitter: Emitter) -> None:
        self._services = services
        self._emitter = emitter
        self._waiting: dict[int, Ending] = {}
        self._number = 0

    @property
    def reserve_ms(self) -> int:
        """Return how long it may take to send them."""
        return RESERVE_MS + CALL_MS * (self._number // _A_CALL)

    def add(self, endings: Mapping[int, Ending]) -> Mapping[int, Ending]:
        """Take further endings by the places of their records. Return them, or all that waited once those are sent.

        A batch that sent all of its messages at its end would send none where its time is too short for all, and the
        next invocation would begin with as many.
        """
        due = {place: ending for place, ending in endings.items() if ending.sends and not ending.envelope.is_fifo}
        self._waiting |= due
        self._number += sum(len(ending.sends) for ending in due.values())
        if self._number < MOST_DUE:
            return endings
        waiting, self._waiting, self._number = self._waiting, {}, 0
        sent = dispatch(self._services, self._emitter, list(waiting.values()))
        return {**endings, **{place: end._replace(sends=()) for place, end in zip(waiting, sent, strict=True)}}


def _send(
    services: Services, emitter: Emitter, endings: list[Ending], phase: int, *, have_copies: bool
) -> list[Ending]:
    due = [
        (place, Due(send, ending.arrival.flow, ending.arrival.message, ending.envelope, have_copies))
        for place, ending in enumerate(endings)
        if ending.ack and ending.arrival is not None
        for send in ending.sends
        if send.kind.phase == phase and not _is_sent(services, ending, send)
    ]
    if not due:
        return endings
    refused = send_or_park(services, emitter, [entry for _, entry in due])
    for number, (place, entry) in enumerate(due):
        if number not in refused and (known := stream_sends(services, entry.envelope)) is not None:
            known.note(entry.send, entry.envelope, endings[place].owner)
    answered = list(endings)
    for number, refusal in refused.items():
        place, (send, *_) = due[number]
        answered[place] = endings[place].kept(f"not sent to {send.to}: {refusal.why}", for_minutes=refusal.for_minutes)
    return answered


def stream_sends(services: Services, envelope: Envelope) -> StreamSends | None:
    """Return what remembers the sends of a stream's record. None for another one."""
    if not envelope.source.is_stream:
        return None
    from flowguard.worker.stream_sends import StreamSends  # most functions read no stream

    return StreamSends(services.stream_sends)


def _is_sent(services: Services, ending: Ending, send: Send) -> bool:
    """Answer whether this process has sent it for an earlier copy of a stream's record."""
    known = stream_sends(services, ending.envelope)
    return known is not None and known.has(send, ending.envelope, ending.owner)


def send_or_park(services: Services, emitter: Emitter, due: Sequence[Due]) -> Mapping[int, Refusal]:
    """Send everything; what is refused for good goes to the dead letters. The answer has what neither of them took."""
    with emitter.span(Phase.DISPATCH, *(entry.message for entry in due), sends=len(due)):
        refused = services.sender.send([entry.send for entry in due])
    refused = {number: due[number].judged(services, refusal) for number, refusal in refused.items()}
    for number, entry in enumerate(due):
        if number not in refused:
            services.denials.ended(entry.send)
        emitter.sent(entry.message, entry.send, refused.get(number))
    left = {number: refusal for number, refusal in refused.items() if not refusal.final}
    letters: dict[int, Due] = {}
    for number, refusal in refused.items():
        if not refusal.final:
            continue
        try:
            letters[number] = due[number]._replace(send=_letter(services, due[number], refusal))
        except Reject as error:
            left[number] = refusal._replace(why=f"{refusal.why}; it cannot be parked: {error}")
    return {**left, **_park(services, emitter, due, letters, refused)}


def not_sent(refused: Mapping[str, Refusal]) -> SendFailed:
    """Return the error of messages that were not taken, by their destinations."""
    reasons = {to: refusal.why for to, refusal in refused.items()}
    return SendFailed(reasons, for_minutes=any(refusal.for_minutes for refusal in refused.values()))


def _letter(services: Services, entry: Due, refusal: Refusal) -> Send:
    if entry.send.kind is Kind.DEAD:
        raise Reject("it is a dead letter itself")
    from flowguard.worker.undeliverable import park  # little is refused for good

    note = ErrorNote.storable("NotSent", f"{entry.send.to} refuses it for good: {refusal.why}", services.clock.now())
    return park(entry.flow, entry.message, entry.send, note, services.signer)


def _park(
    services: Services,
    emitter: Emitter,
    due: Sequence[Due],
    letters: Mapping[int, Due],
    refused: Mapping[int, Refusal],
) -> Mapping[int, Refusal]:
    """Send the letters. The answer has those that the dead letters did not take, by the numbers of their sends."""
    if not letters:
        return {}
    with emitter.span(Phase.DISPATCH, *(letter.message for letter in letters.values()), sends=len(letters)):
        answer = services.sender.send([letter.send for letter in letters.values()])
    failed = {
        number: letter.judged(services, answer[place])
        for place, (number, letter) in enumerate(letters.items())
        if place in answer
    }
    for number, letter in letters.items():
        emitter.sent(letter.message, letter.send, failed.get(number))
        if number not in failed:
            services.denials.ended(letter.send)
            emitter.parked(due[number].message, due[number].send, refused[number].why)
    return failed
