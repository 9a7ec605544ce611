"""Answers to callers: requests that met a run of another request."""

from __future__ import annotations

from collections.abc import Sequence

from flowguard.destinations import parse_destination
from flowguard.errors import Reject, TextGone
from flowguard.events import EventType
from flowguard.names.ids import RequestId
from flowguard.protocol.callers import Caller, Callers, StoredEnd, asker_key
from flowguard.protocol.claims import stood_in_line
from flowguard.protocol.outbox import Send
from flowguard.protocol.run import ENDED, Claim, RunItem, Status
from flowguard.verdicts import Verdict
from flowguard.wire.message import PLACE, ErrorNote
from flowguard.worker.dispatch import Due, not_sent, send_or_park
from flowguard.worker.emitter import Emitter
from flowguard.worker.lifetimes import lifetimes_of
from flowguard.worker.ports import Services
from flowguard.worker.replies import answer_place, at_work, not_carried_out, reply, takes_callers, was_reset
from flowguard.worker.routing import Arrival

MOST_ASKERS = 4
"""Requests that lost the object and stay noted until the next commit. More of them are removed by a call of its own."""

ASKERS_A_CALL = 50
"""Names that are removed by one update."""


class CallerAnswers:
    """Takes and answers the callers of one function's flows."""

    def __init__(self, services: Services, emitter: Emitter) -> None:
        self._services = services
        self._emitter = emitter

    def attach(self, arrival: Arrival, item: RunItem) -> bool:
        """Let the run at work answer the request. False where that has ended meanwhile.

        A request that wants no answer needs nothing.
        """
        caller, callers = Caller.of(arrival.message), item.callers
        if caller is None or callers is None:
            return caller is None
        return self._attach(arrival, item, callers, caller)

    def _attach(self, arrival: Arrival, item: RunItem, callers: Callers, caller: Caller) -> bool:
        now, lifetimes, m = self._services.clock.now(), lifetimes_of(arrival.flow), arrival.message
        until = max(lifetimes.of_run(now), item.ttl * 1_000)
        row_until = lifetimes.of_caller(now)
        return self._services.store.callers.attach(m.flow, m.object_id, callers, caller, until, row_until)

    # -- answers

    def answered(self, arrival: Arrival, item: RunItem) -> tuple[Send, ...]:
        """Return the answers of a run that has ended, made of its item. Its worker may have died before it sent them.

        Raises :class:`flowguard.errors.TextGone`.
        """
        if item.answered is None or item.answered_by != item.request_id or item.status not in ENDED:
            return ()
        return self.replies(arrival, self._end(item), item.answered)

    def answer(self, arrival: Arrival, item: RunItem) -> tuple[Send, ...]:
        """Return the answer to a request that the stored end is good for."""
        caller = Caller.of(arrival.message)
        return () if caller is None else self._sends(arrival, self._end(item), [caller])

    def asked_after_end(self, arrival: Arrival, item: RunItem) -> tuple[Send, ...]:
        """Return the answer to another asker of a request whose run has ended.

        The run has answered its own request itself. The outbox of its end says to where, and for which wait.
        """
        caller = Caller.of(arrival.message)
        if caller is None or arrival.message.hop > 1 or item.status not in ENDED:
            return ()
        if _is_answered_by_run(arrival, item, caller):
            return ()
        if item.reset_at is not None and caller.requested_at > item.reset_at:
            return self._sends(arrival, was_reset(caller), [caller])
        return self.answer(arrival, item)

    def of_work_of_another(self, arrival: Arrival) -> tuple[Send, ...]:
        """Return the answer to another asker of a request that is at work. Its record cannot wait for the end."""
        caller = Caller.of(arrival.message)
        return () if caller is None else self._sends(arrival, at_work(caller), [caller])

    def turned_away(self, arrival: Arrival, verdict: Verdict, item: RunItem | None) -> tuple[Send, ...]:
        """Return the answer to a request that is not carried out, because another has the object.

        A STALE one may be a copy of a request whose run has ended. So only a waiting run gets an answer to that: it
        takes one for each name. As long as the end may not have been sent, the run that has the object sends it.
        """
        caller, request_id = Caller.of(arrival.message), arrival.message.request_id
        if item is None or caller is None:
            return ()
        is_answered = verdict is Verdict.IGNORED or (verdict is Verdict.STALE and caller.answer_to is not None)
        is_left = caller.asks_as(item.askers.get(asker_key(request_id))) or (
            item.outbox is not None
            and item.outbox.request_id == request_id
            and _is_answered_by_run(arrival, item, caller)
        )
        return self._sends(arrival, not_carried_out(caller, verdict), [caller]) if is_answered and not is_left else ()

    def lost(self, arrival: Arrival, error: ErrorNote) -> tuple[Send, ...]:
        """Return the answer to a request whose run item has expired under it, and with that all who had attached.

        It may be a late copy of a run that has ended. So it is answered only where that does no harm: where a run waits
        for it, which takes one answer for each name, or where each answer to it has one id.
        """
        to_all = arrival.message.answer_to is not None or takes_callers(arrival.flow)
        return self.refused(arrival, error) if to_all else ()

    def refused(self, arrival: Arrival, error: ErrorNote) -> tuple[Send, ...]:
        """Return the answer to a request that no run is begun for. None where it wants no answer."""
        caller = Caller.of(arrival.message)
        if caller is None:
            return ()
        end = StoredEnd(caller.request_id, error.at, Status.FAILED.value, error=str(error))
        return self._sends(arrival, end, [caller])

    def replies(self, arrival: Arrival, end: StoredEnd, callers: Callers) -> tuple[Send, ...]:
        """Return the answers to those whom the item held. Those in rows are sent theirs at once, page by page."""
        flow, object_id = arrival.flow, arrival.message.object_id
        pages = self._services.store.callers.rows(flow.name, object_id, callers.term) if callers.rows else ()
        for page in pages:
            self._send(arrival, end.request_id, self._sends(arrival, end, page))
            self._services.store.callers.forget(flow.name, object_id, callers.term, page)
        return self._sends(arrival, end, callers.in_item)

    def _end(self, item: RunItem) -> StoredEnd:
        if item.lost is not None:
            raise item.lost
        error = (item.error or "") if item.status is Status.FAILED else None
        return StoredEnd(item.request_id, item.committed_at, item.status.value, item.result, error)

    def _sends(self, arrival: Arrival, end: StoredEnd, callers: Sequence[Caller]) -> tuple[Send, ...]:
        sends = []
        for caller in callers:
            try:
                sends.append(reply(arrival.flow, arrival.message.object_id, caller, end))
            except Reject as refusal:  # nothing can be sent there: one caller must not keep the others from theirs
                self._emitter.emit(
                    EventType.LOST, arrival, for_request=caller.request_id, to=caller.reply_to, why=str(refusal)
                )
        return tuple(sends)

    def _send(self, arrival: Arrival, for_request: RequestId, sends: Sequence[Send]) -> None:
        """Send on behalf of another run. Raises :class:`SendFailed` for what is not taken now."""
        theirs = arrival.message._replace(request_id=for_request)
        refused = send_or_park(
            self._services, self._emitter, [Due(send, arrival.flow, theirs, arrival.envelope) for send in sends]
        )
        if left := {str(sends[place].to): refusal for place, refusal in refused.items() if not refusal.final}:
            raise not_sent(left)
        for place, (why, *_) in refused.items():
            facts = {"for_request": for_request, "to": str(sends[place].to), "id": sends[place].id, "why": why}
            self._emitter.emit(EventType.LOST, arrival, **facts)

    # -- what a claim finds of other runs

    def flush(self, arrival: Arrival, claim: Claim) -> None:
        """Answer those of the runs before whose answers may not have been sent: before anything else is done.

        All of it stays in the item until the commit. A hop that waits for a place has done so before it stood in line.
        """
        if stood_in_line(claim):
            return
        self._answer_left(arrival, claim.item)
        if not claim.item.askers:
            return
        asker = asker_key(arrival.message.request_id)
        others = {key: text for key, text in claim.item.askers.items() if key != asker}
        if not others:
            return
        waiting = [Caller.from_text(text) for text in others.values()]
        if takes_callers(arrival.flow):
            self._adopt(arrival, claim.item, waiting)
        else:
            self._tell_superseded(arrival, waiting)
        if len(others) > MOST_ASKERS:
            keys, m = sorted(others), arrival.message
            for start in range(0, len(keys), ASKERS_A_CALL):
                self._services.store.callers.forget_askers(m.flow, m.object_id, keys[start : start + ASKERS_A_CALL])

    def _answer_left(self, arrival: Arrival, item: RunItem) -> None:
        """Answer with the end of the run before, unless that is so old that no message of it can still be queued."""
        left = item.left_end
        if left is None or left.request_id == arrival.message.request_id:
            return
        if left.committed_at < self._services.clock.now() - lifetimes_of(arrival.flow).retention:
            return
        if not left.callers.held and not left.callers.rows:
            return
        try:
            end = left.read()
        except TextGone as gone:  # a lost text of another run cannot keep this one from its work
            self._emitter.emit(EventType.LOST, arrival, for_request=left.request_id, why=str(gone))
            return
        self._send(arrival, left.request_id, self.replies(arrival, end, left.callers))

    def _adopt(self, arrival: Arrival, item: RunItem, waiting: Sequence[Caller]) -> None:
        """Let this run answer the requests whose runs it took over."""
        for caller in waiting:
            if item.callers is not None:
                self._attach(arrival, item, item.callers, caller)

    def _tell_superseded(self, arrival: Arrival, waiting: Sequence[Caller]) -> None:
        """Tell the requests whose runs this one took over that they will not be carried out."""
        for caller in waiting:
            end = not_carried_out(caller, Verdict.STALE)  # the same from any newer run
            self._send(arrival, caller.request_id, self._sends(arrival, end, [caller]))


def _is_answered_by_run(arrival: Arrival, item: RunItem, caller: Caller) -> bool:
    """Answer whether the item's outbox has an answer to this caller, which then has asked first."""
    there = str(parse_destination(caller.reply_to)), answer_place(arrival.flow, caller.answer_to, caller).get(PLACE)
    sends = () if item.outbox is None else item.outbox.sends
    return any((str(send.to), send.attributes.get(PLACE)) == there for send in sends)
