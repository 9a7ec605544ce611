"""Try an attempt that failed again later, or end its run."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

from flowguard.errors import (
    Cancelled,
    FlowguardError,
    KeyUnavailable,
    OtherRelease,
    Reject,
    SettingsError,
    TooLarge,
    WorkerFenced,
    WriteDenied,
)
from flowguard.events import EventType
from flowguard.protocol.claims import attempt_key, queued_key
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.outbox import Send
from flowguard.protocol.run import BackOff, Burst, Claim, Commit, FencedBy
from flowguard.retry import LONGEST_DELAY, LONGEST_SQS_DELAY, LONGEST_VISIBILITY, RetryPolicy
from flowguard.spans import Phase
from flowguard.verdicts import Verdict
from flowguard.wire.message import ErrorNote, Message
from flowguard.worker.asks import Way
from flowguard.worker.claim_phase import release
from flowguard.worker.commit_phase import CommitPhase
from flowguard.worker.denials import Refused, other_releases_of
from flowguard.worker.dispatch import Due, not_sent, send_or_park
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending, acked, kept
from flowguard.worker.failure import Again, Attempt, Never, after_failure
from flowguard.worker.failure_note import failure_of, veiled
from flowguard.worker.hop_memory import Unsent
from flowguard.worker.hop_planner import planner_of
from flowguard.worker.no_run import NoRun
from flowguard.worker.plan import letter_or_why, retried
from flowguard.worker.ports import Services
from flowguard.worker.routing import Arrival


class FailPhase:
    """Decides what becomes of attempts that failed."""

    def __init__(self, services: Services, emitter: Emitter, commits: CommitPhase, no_run: NoRun) -> None:
        self._services = services
        self._emitter = emitter
        self._commits = commits
        self._no_run = no_run

    def failed(self, arrival: Arrival, claim: Claim, error: BaseException) -> Way[Ending | None]:
        """Decide by ``flowguard.worker.failure`` whether the message is retried later or its run ends.

        What says nothing about the business is parked, so that no compensation begins. Raises what may pass within
        minutes, until the record has waited so long.
        """
        if isinstance(error, WorkerFenced):
            return self._commits.overtaken(arrival, FencedBy(error.by))
        if isinstance(error, SettingsError | KeyUnavailable):
            from flowguard.worker.missed import beside_stream  # few stages miss anything

            return beside_stream(self._services, self._emitter, arrival, claim, error)
        if isinstance(error, OtherRelease):
            return self._parked(arrival, claim, error, other_releases_of(arrival.flow.name))
        if isinstance(error, WriteDenied) and self._is_parked_for(arrival, claim, error):
            return self._parked_for_tables(arrival, claim, error)
        if isinstance(error, Unsent):
            return (yield from self._again(arrival, claim, error.note, error.then, error))
        message, now = arrival.message, self._services.clock.now()
        note = ErrorNote.of(error, now)
        policy = arrival.stage.retry if arrival.stage is not None else RetryPolicy()
        asked_at = message.requested_at or (message.first_error or note).at  # a record of Kafka may have no time
        age = timedelta(milliseconds=now - asked_at)
        attempt = Attempt(message.retry, age, longest_delay=_longest_delay(arrival))
        match after_failure(error, policy, attempt, self._services.draw):
            case Never(why):
                return (yield from self._end(arrival, claim, note.because(why), error))
            case Again() as then:
                self._tell(arrival, claim, note := note.because(then.why))
                if arrival.envelope.retried_in_place:
                    return self._again_in_place(arrival, claim, note, then)
                return (yield from self._again(arrival, claim, note, then, error))

    def _is_parked_for(self, arrival: Arrival, claim: Claim, denied: WriteDenied) -> bool:
        """Answer whether the message is parked for a table that is denied or missing. Raises while that may pass.

        It is where the flow would undo for it what the run did, and where nobody knows that it has lasted: the record
        is a day old, or comes no more. Else its run ends, and its callers are answered.
        """
        now, since = self._services.clock.now(), arrival.message.since
        denials, in_line = self._services.denials, arrival.message.turn is not None
        if not denials.are_final(denied.tables, arrival.envelope, now, since, comes_often=in_line and since > 0):
            raise denied
        if arrival.flow.on_failed is not None and claim.item.own_failure is None:
            return True
        return not denials.have_lasted(denied.tables, now)

    def _parked_for_tables(self, arrival: Arrival, claim: Claim, denied: WriteDenied) -> Ending:
        """Park the message once the lease is given back. Raises what the run table says where that is denied, too.

        There is a lease: a record that no queue brings, or that comes for the third time, is claimed in any case.
        """
        self._services.store.release(claim, self._services.clock.now(), failed=False)
        return self._no_run.parked(arrival, denied, denied.tables)

    def _parked(self, arrival: Arrival, claim: Claim, error: FlowguardError, refused: Refused) -> Ending:
        """Park the message, and leave the run where it is. Raises the error while it may pass."""
        ending = self._no_run.parked(arrival, error, refused)
        release(self._services, claim)
        return ending

    def _end(self, arrival: Arrival, claim: Claim, note: ErrorNote, error: BaseException) -> Way[Ending | None]:
        """End the run as FAILED, or go on where its flow has a stage for that.

        A later hop whose payload this code cannot read is parked: what a hop before has written was right.
        """
        from flowguard.worker.unread_payload import why_unread  # few runs fail for good

        to, unread = arrival.flow.on_failed, why_unread(arrival, claim.item, error)
        if unread is not None and arrival.message.hop > 1:
            return self._parked(arrival, claim, OtherRelease(unread), other_releases_of(arrival.flow.name))
        if to is None or claim.item.own_failure is not None or unread is not None:
            return (yield from self._end_failed(arrival, claim, note, error))
        planner = planner_of(self._services, arrival, claim)
        failure = failure_of(arrival.message, claim.item, note, error)
        letters, note = letter_or_why(arrival.flow, arrival.message, note, arrival.envelope, self._services.signer)
        letters = [] if isinstance(error, Cancelled) else letters
        with suppress(Reject):
            commit = planner.giving_up(to, failure, note, letters)
            return (yield from self._commits.ended(arrival, claim, commit))
        for letter in letters:
            self._send_before(arrival, letter)
        try:
            commit = planner.giving_up(to, failure.model_copy(update={"payload": None}), note, [])
            return (yield from self._commits.ended(arrival, claim, commit))
        except Reject as refusal:
            why = f"and {to} was not called: {refusal}"
            _, ended = planner.without_letter(planner.failed(note.because(why), arrival.envelope))
            return (yield from self._commit_without_letter(arrival, claim, ended))

    def _end_failed(self, arrival: Arrival, claim: Claim, note: ErrorNote, error: BaseException) -> Way[Ending | None]:
        """End the run as FAILED, with its message among the dead letters. A cancelled run leaves no letter.

        Where the letter does not fit into the item it is sent before the commit: a worker that dies between the two
        leaves a copy, whose redrive is judged by the run item like any other. Where the replies do not fit either, they
        are sent after it, and get lost with a worker that dies just then.
        """
        planner = planner_of(self._services, arrival, claim)
        commit = planner.failed(note, arrival.envelope)
        letter, rest = planner.without_letter(commit)
        if isinstance(error, Cancelled):
            return (yield from self._commit_without_letter(arrival, claim, rest))
        try:
            return (yield from self._commits.ended(arrival, claim, commit))
        except Reject:
            for send in letter:
                self._send_before(arrival, send)
            return (yield from self._commit_without_letter(arrival, claim, rest))

    def _send_before(self, arrival: Arrival, letter: Send) -> None:
        """Send a dead letter before the commit that ends its hop."""
        due = [Due(letter, arrival.flow, arrival.message, arrival.envelope)]
        if refused := send_or_park(self._services, self._emitter, due):
            raise not_sent({str(letter.to): refused[0]})

    def _commit_without_letter(self, arrival: Arrival, claim: Claim, rest: Commit) -> Way[Ending | None]:
        try:
            return (yield from self._commits.ended(arrival, claim, rest))
        except Reject:
            written = yield from self._commits.write(arrival, claim, rest._replace(outbox=None))
            return self._commits.answered(arrival, claim, rest, written)

    def _again(
        self, arrival: Arrival, claim: Claim, note: ErrorNote, then: Again, error: BaseException
    ) -> Way[Ending | None]:
        """Send a new message for the same hop, one attempt later. The run ends where its queue never takes it."""
        try:
            again = self._retried(arrival, arrival.message.again(veiled(arrival.flow, note)), then.delay)
        except TooLarge as too_large:
            return (yield from self._end(arrival, claim, note.because(f"its retry cannot be sent: {too_large}"), error))
        with self._emitter.span(Phase.DISPATCH, arrival.message, sends=1):
            refusal = self._services.sender.send([again]).get(0)
        self._emitter.sent(arrival.message, again, refusal)
        if refusal is None:
            self._services.denials.ended(again)
            self._emitter.emit(EventType.RETRIED, arrival, error=note.type, **then.facts)
            from flowguard.worker.rests import note_rest  # few attempts fail

            note_rest(self._services, arrival, claim, note, then.delay)
            return acked(arrival, Verdict.CLAIMED)
        refusal = Due(again, arrival.flow, arrival.message, arrival.envelope).judged(self._services, refusal)
        if refusal.final:
            why = f"its retry cannot be sent: {refusal.why}"
            return (yield from self._end(arrival, claim, note.because(why), error))
        rest = BackOff(veiled(arrival.flow, note), self._services.clock.now() + then.delay * 1000)
        release(self._services, claim, rest if arrival.envelope.source.is_stream else None)
        why = f"its retry was not sent to {again.to}: {refusal.why}"
        return kept(arrival, Verdict.CLAIMED, "").kept(why, for_minutes=refusal.for_minutes)

    def _retried(self, arrival: Arrival, message: Message, delay: int, continued: int | None = None) -> Send:
        (_, inbox), signer = arrival.flow.entrance(), self._services.signer
        return retried(message, arrival.envelope, delay, signer, continued, inbox)

    def continued(self, arrival: Arrival, claim: Claim, requests: int, burst: Burst | None) -> Ending:
        """Let another invocation go on with the hop as the same attempt, with the message sent again or in place.

        That is at the end of a ``burst``, or at once. One that is not sent leaves its record, which goes on as well.
        """
        now, delay, is_stream = self._services.clock.now(), 0, arrival.envelope.source.is_stream
        if not is_stream:
            self._services.store.release(claim, now, failed=False, rest=burst)
        if burst is None:
            self._emitter.emit(EventType.CONTINUED, arrival, requests=requests)
            why = f"{requests} requests of its group are saved, and more are to be"
        else:
            delay = -((now - burst.until) // 1000)
            self._emitter.emit(EventType.PUT_OFF, arrival, delay=delay)
            why = "its run is put off for newer requests of its object"
        if arrival.envelope.retried_in_place:
            self._services.sender.postpone(arrival.envelope, 0)
            return kept(arrival, Verdict.CLAIMED, why)
        is_taken = self._goes_on(arrival, claim, delay)
        if is_stream:  # its copies are told from the message by what the item says once that is sent
            release(self._services, claim, burst, queued_key(claim.item) if is_taken else "")
        return acked(arrival, Verdict.CLAIMED) if is_taken else self._left(arrival, delay, why)

    def _left(self, arrival: Arrival, delay: int, why: str) -> Ending:
        """Leave the record in its queue, for as long as its run is put off."""
        if delay:
            self._services.sender.postpone(arrival.envelope, delay)
        return kept(arrival, Verdict.CLAIMED, why)

    def _goes_on(self, arrival: Arrival, claim: Claim, delay: int) -> bool:
        """Send the message once more, as the same attempt. Answer whether its queue has it."""
        try:
            onward = self._retried(arrival, arrival.message, delay, continued=claim.item.epoch)
        except TooLarge:
            return False
        with self._emitter.span(Phase.DISPATCH, arrival.message, sends=1):
            refusal = self._services.sender.send([onward]).get(0)
        self._emitter.sent(arrival.message, onward, refusal)
        return refusal is None

    def _again_in_place(self, arrival: Arrival, claim: Claim, note: ErrorNote, then: Again) -> Ending:
        """Leave the record where it is and count the attempt.

        It stays in a FIFO queue for order's sake, else because there is no queue to send to.
        """
        now = self._services.clock.now()
        back_off = BackOff(veiled(arrival.flow, note), now + then.delay * 1000)
        called = "" if arrival.envelope.is_fifo else attempt_key(claim.item, claim.item.retry + 1)
        self._services.store.release(claim, now, failed=True, rest=back_off, called_attempt=called)
        refusal = self._services.sender.postpone(arrival.envelope, then.delay)
        not_hidden = {} if refusal is None else {"not_hidden": refusal}
        self._emitter.emit(EventType.RETRIED, arrival, error=note.type, **then.facts, **not_hidden)
        return kept(arrival, Verdict.CLAIMED, str(note))

    def _tell(self, arrival: Arrival, claim: Claim, note: ErrorNote) -> None:
        """Tell the full history of a failed attempt, in a flow that has one. Nobody owns a hop that was only read."""
        if arrival.flow.full_history and claim.unwritten is None:
            self._services.store.tell(claim, note)


def _longest_delay(arrival: Arrival) -> timedelta:
    """Return the longest delay of a retry.

    It is what the queue can make, and at most what the flow waits for before it takes the run for
    abandoned, unless a newer request takes the object in any case.
    """
    flow = arrival.flow
    longest = LONGEST_DELAY if flow.long_delays else LONGEST_SQS_DELAY
    if arrival.envelope.is_fifo:
        longest = LONGEST_VISIBILITY
    return longest if flow.on_conflict is OnConflict.SUPERSEDE else min(longest, flow.abandoned_after)
