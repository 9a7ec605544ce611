"""What follows from a claim that was refused: its verdict says it."""

from __future__ import annotations

from typing import assert_never

from flowguard.errors import RunFailed, TextGone
from flowguard.events import EventType
from flowguard.flow import AnyFlow
from flowguard.protocol.callers import Caller, asker_key
from flowguard.protocol.run import ENDED, Refused, RunItem
from flowguard.verdicts import Verdict
from flowguard.worker import limits
from flowguard.worker.caller_answers import CallerAnswers
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending, acked, kept
from flowguard.worker.kept_answers import KeptAnswers
from flowguard.worker.no_run import NoRun
from flowguard.worker.ports import Services
from flowguard.worker.restart import restart_of
from flowguard.worker.routing import Arrival


class TurnedAway:
    """Ends records whose hops were not claimed."""

    def __init__(
        self,
        services: Services,
        emitter: Emitter,
        caller_answers: CallerAnswers,
        early: KeptAnswers,
        no_run: NoRun,
    ) -> None:
        self._services = services
        self._emitter = emitter
        self._caller_answers = caller_answers
        self._no_run = no_run
        self._early = early

    def ending(self, arrival: Arrival, refused: Refused) -> Ending:
        """Report the verdict of a refused claim, and return what follows from it."""
        if (ended := limits.turned_away(self._services, self._emitter, arrival, refused)) is not None:
            return ended
        if arrival.message.cancelled is not None:
            from flowguard.worker.cancelling import Canceller, is_for_its_run  # most requests are not cancelled

            if is_for_its_run(arrival.message, refused):
                return Canceller(self._services).of_request(arrival, refused.verdict)
        asked = None if refused.item is None else self._asked_meanwhile(arrival, refused.verdict, refused.item)
        return self._refused(arrival, refused) if asked is None else asked

    def _refused(self, arrival: Arrival, refused: Refused) -> Ending:
        """Handle a claim that was refused. No second read is needed: the answer brought the item along."""
        verdict, item = refused.verdict, refused.item
        match verdict:
            case Verdict.DONE if item is not None:
                return self.done(arrival, item)
            case Verdict.BUSY if item is not None:
                return self._busy(arrival, item)
            case Verdict.RESET if item is not None:
                return self._begun_anew(arrival, item)
            case Verdict.ATTACHED | Verdict.KEPT if item is not None:
                return self._answered_by_another(arrival, verdict, item)
            case Verdict.GONE:
                gone = RunFailed("the run's item has expired, and with it its state")
                return self._no_run.dead(arrival, gone, verdict)
            case Verdict.GIVEN_UP if item is not None:
                return self._no_run.dead(arrival, _failed_for_good(arrival.flow, item), verdict)
            case Verdict.DUPLICATE | Verdict.STALE | Verdict.SUPERSEDED | Verdict.IGNORED:
                return acked(arrival, verdict, self._caller_answers.turned_away(arrival, verdict, item))
            case (
                Verdict.EARLY
                | Verdict.GIVEN_UP
                | Verdict.DONE
                | Verdict.BUSY
                | Verdict.CLAIMED
                | Verdict.ATTACHED
                | Verdict.KEPT
                | Verdict.RESET
            ):
                return kept(arrival, verdict, "the hop before it is not committed", backs_off=True)
            case _:
                assert_never(verdict)

    def _busy(self, arrival: Arrival, item: RunItem) -> Ending:
        """Leave the record until the lease or its rest ends. Where that is over, the run takes no callers now."""
        now = self._services.clock.now()
        if item.lease_until < now:
            return kept(arrival, Verdict.BUSY, "the run that it has met takes no callers now", backs_off=True)
        seconds = max(1, -((now - item.lease_until) // 1000))
        self._services.sender.postpone(arrival.envelope, seconds)
        return kept(arrival, Verdict.BUSY, f"another worker has it, or it rests, for {seconds} s more")

    def _begun_anew(self, arrival: Arrival, item: RunItem) -> Ending:
        """Acknowledge a message of a run that was reset.

        The run is restarted by another message, which the reset may not have sent yet: it is sent here.
        """
        restart = restart_of(arrival.flow, arrival.message.object_id, item, self._services.signer)
        if restart is None:
            why = "the run was reset, and its first message is not stored: it began before its flow took callers"
            return self._no_run.dead(arrival, RunFailed(why), Verdict.RESET)
        return acked(arrival._replace(message=restart.message), Verdict.RESET, (restart.send,))

    def _answered_by_another(self, arrival: Arrival, verdict: Verdict, item: RunItem) -> Ending:
        """Acknowledge a request that another one's run answers, or has answered. Its own payload is not looked at."""
        if verdict is Verdict.ATTACHED:
            return acked(arrival, verdict)
        try:
            answers = self._caller_answers.answer(arrival, item)
            return acked(arrival, verdict, answers, item.result, str(item.lost or item.error or ""))
        except TextGone as gone:
            return self._no_run.dead(arrival, gone, verdict)

    def _asked_meanwhile(self, arrival: Arrival, verdict: Verdict, item: RunItem) -> Ending | None:
        """Return the ending of a request that is at work for another asker. None for any other.

        ::

            flow with callers          it is listed, and answered with the others
            standard queue as inbox    it is sent there again, later, until the run has ended
            FIFO queue, topic, call    none of these can wait: it is answered at once, IGNORED
        """
        if not _is_at_work_for_another(arrival, verdict, item):
            return None
        may_be_first = asker_key(arrival.message.request_id) not in item.askers and verdict is Verdict.DONE
        ending = self.done(arrival, item) if may_be_first else acked(arrival, verdict)
        if item.callers is not None:
            if self._caller_answers.attach(arrival, item):
                self._emitter.emit(EventType.ATTACHED, arrival)
                return ending._replace(verdict=Verdict.ATTACHED)
            self._emitter.emit(EventType.BUSY, arrival)
            return kept(arrival, Verdict.BUSY, "the run that it has met takes no callers now", backs_off=True)
        from flowguard.worker.asked_meanwhile import look_again  # few requests have two askers

        if (send := look_again(self._services, arrival)) is not None:
            return ending._replace(sends=(*ending.sends, send))
        if verdict is Verdict.DONE:
            ending = self.done(arrival, item)
        return ending._replace(sends=(*ending.sends, *self._caller_answers.of_work_of_another(arrival)))

    def done(self, arrival: Arrival, item: RunItem) -> Ending:
        """Acknowledge a hop that was committed before. Another asker of a request whose run has ended is answered.

        The hop's worker may have died before it sent anything: send the outbox again.
        """
        try:
            sends = item.unsent_at(arrival.message.hop)
            if arrival.message.hop == item.hop:
                sends = (*self._caller_answers.answered(arrival, item), *sends)
            sends = (*self._caller_answers.asked_after_end(arrival, item), *sends)
        except TextGone as gone:
            return self._no_run.dead(arrival, gone, Verdict.DONE)
        early = self._early.of_item(arrival, item)
        sends = self._early.sends(arrival, sends, early)
        why = str(item.lost or item.error or "")
        return acked(arrival, Verdict.DONE, sends, item.result, why, owner=item.owner)


def _is_at_work_for_another(arrival: Arrival, verdict: Verdict, item: RunItem) -> bool:
    """Answer whether a message asks for a run that goes on under its own request id, for another asker.

    Until its end the item notes who has asked first. It notes nobody for a request that wanted no answer, or whose
    asker it has no room for: then a message may be a copy of the first asker's, and what a committed hop has to send is
    sent once more. A message of the same text waits for a hop at work in any case.
    """
    caller, request_id = Caller.of(arrival.message), arrival.message.request_id
    if caller is None or arrival.message.hop > 1 or request_id != item.request_id or item.status in ENDED:
        return False
    return not (verdict is Verdict.BUSY or caller.asks_as(item.askers.get(asker_key(request_id))))


def _failed_for_good(flow: AnyFlow, item: RunItem) -> RunFailed:
    """Build the error for a redriven message of a hop that its run has given up."""
    from flowguard.worker.again import anew_by_hand  # few letters are given up

    at = f"it is at hop {item.hop} ({item.stage}), {item.status.value}"
    return RunFailed(f"the run failed here for good, and went on at {flow.on_failed}; {at}; {anew_by_hand(flow)}")
