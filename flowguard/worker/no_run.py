"""End messages that have no run, or whose run goes on without them."""

from __future__ import annotations

from flowguard.errors import CannotOpen, FlowguardError, OtherRelease, Reject, RunFailed
from flowguard.events import EventType
from flowguard.verdicts import Verdict
from flowguard.wire.message import ErrorNote
from flowguard.worker.caller_answers import CallerAnswers
from flowguard.worker.denials import Refused, other_releases_of
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending, acked
from flowguard.worker.failure_note import veiled
from flowguard.worker.plan import dead_letter
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival


class NoRun:
    """Ends records without ending a run."""

    def __init__(self, services: Services, emitter: Emitter, caller_answers: CallerAnswers) -> None:
        self._services = services
        self._emitter = emitter
        self._caller_answers = caller_answers

    def ending(self, arrival: Arrival) -> Ending | None:
        """Return the ending of a message for which no run is claimed."""
        if isinstance(arrival.problem, OtherRelease):
            return self.parked(arrival, arrival.problem, other_releases_of(arrival.flow.name))
        if not arrival.message.object_id:
            return self.dead(arrival, arrival.problem or RunFailed("the message names no object"), None)
        if (too_deep := arrival.too_deep) is not None:
            return self._too_deep(arrival, too_deep)
        return None

    def unclaimed(self, arrival: Arrival, error: CannotOpen | Reject) -> Ending:
        """End a message whose hop cannot be claimed, as no run item can hold what the message says of itself.

        One whose codec cannot open what the request has said that came first is parked. Raises that while it may pass.
        """
        if isinstance(error, CannotOpen):
            return self.parked(arrival, error, other_releases_of(arrival.flow.name))
        return self.dead(arrival, error, None)

    def dead(self, arrival: Arrival, error: Reject, verdict: Verdict | None) -> Ending:
        """Send a message that has no run to end straight to the dead letters."""
        note = ErrorNote.of(error, self._services.clock.now())
        self._emitter.emit(EventType.FAILED, arrival, error=note.type, why=veiled(arrival.flow, note).text)
        letter = dead_letter(arrival.flow, arrival.message, note, arrival.envelope, self._services.signer)
        answers = self._caller_answers.lost(arrival, note) if verdict is Verdict.GONE else ()
        return acked(arrival, verdict, (*answers, letter), why=str(note))

    def _too_deep(self, arrival: Arrival, error: RunFailed) -> Ending:
        """End a chain of requests. No run begins, so nothing is to be undone; a cancelled request asks for nothing."""
        if arrival.message.cancelled is not None:
            return acked(arrival, None)
        dead = self.dead(arrival, error, None)
        note = ErrorNote.of(error, self._services.clock.now())
        return dead._replace(sends=(*self._caller_answers.refused(arrival, note), *dead.sends))

    def parked(self, arrival: Arrival, error: FlowguardError, refused: Refused) -> Ending:
        """Park a message for something that says nothing about its business, once that has lasted for minutes.

        ``refused`` names it: another release, tables or queues that are denied or missing. The run does not end, and
        goes on when the letter comes back. Raises the error before.
        """
        now, since = self._services.clock.now(), arrival.message.since
        if not self._services.denials.are_final(refused, arrival.envelope, now, since):
            raise error
        note = ErrorNote.of(error, now)
        letter = dead_letter(arrival.flow, arrival.message, note, arrival.envelope, self._services.signer)
        self._emitter.parked(arrival.message, letter, str(error))
        return acked(arrival, None, (letter,), why=str(note))
