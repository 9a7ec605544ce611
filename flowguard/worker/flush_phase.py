"""The second step of a message: what a run before it has committed to send is sent."""

from __future__ import annotations

from datetime import timedelta

from flowguard.errors import TextGone
from flowguard.events import EventType
from flowguard.protocol.claims import stood_in_line
from flowguard.protocol.outbox import Outbox, Send, StoredOutbox
from flowguard.protocol.run import Claim, RunItem
from flowguard.worker.caller_answers import CallerAnswers
from flowguard.worker.dispatch import Due, not_sent, send_or_park
from flowguard.worker.emitter import Emitter
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival


class FlushPhase:
    """Sends what was left in the items of hops that are claimed."""

    def __init__(self, services: Services, emitter: Emitter, caller_answers: CallerAnswers) -> None:
        self._services = services
        self._emitter = emitter
        self._caller_answers = caller_answers

    def flush(self, arrival: Arrival, claim: Claim) -> None:
        """Send what a run that this claim took over had committed to send, or the hop that waited for this one.

        It stays in the item until the commit. So do the requests that nobody has answered. A hop that waits for a place
        has sent it before it stood in line, as the item says.
        """
        self._flush_outbox(arrival, claim)
        self._caller_answers.flush(arrival, claim)

    def _flush_outbox(self, arrival: Arrival, claim: Claim) -> None:
        if (outbox := claim.item.outbox) is None or stood_in_line(claim):
            return
        try:
            sends = self._left(arrival, claim, outbox)
        except TextGone as gone:  # a lost text of another run cannot keep this one from its work
            self._emitter.emit(EventType.LOST, arrival, for_request=outbox.request_id, why=str(gone))
            return
        if not sends:
            return
        theirs = arrival.message._replace(request_id=outbox.request_id)
        due = [Due(send, arrival.flow, theirs, arrival.envelope) for send in sends]
        refused = send_or_park(self._services, self._emitter, due)
        if left := {str(sends[place].to): refusal for place, refusal in refused.items() if not refusal.final}:
            raise not_sent(left)
        for place, (why, *_) in refused.items():
            self._emitter.emit(
                EventType.LOST,
                arrival,
                for_request=outbox.request_id,
                to=str(sends[place].to),
                id=sends[place].id,
                why=why,
            )
        self._emitter.emit(EventType.FLUSHED, arrival, sends=len(sends) - len(refused), for_request=outbox.request_id)

    def _left(self, arrival: Arrival, claim: Claim, outbox: Outbox | StoredOutbox) -> tuple[Send, ...]:
        """Return what may not have been sent yet."""
        message = arrival.message
        if message.resumed and outbox.request_id == message.request_id:
            return () if claim.item.wait_was_dispatched else outbox.left_by_its_wait()
        horizon = self._services.clock.now() - arrival.flow.retention // timedelta(milliseconds=1)
        left = outbox.left_by_another(message.request_id, horizon)
        return () if _has_sent(claim.before) else left


def _has_sent(before: RunItem | None) -> bool:
    """Answer whether the item that a takeover found proves that its outbox was sent."""
    return before is not None and before.has_sent_beside_its_wait
