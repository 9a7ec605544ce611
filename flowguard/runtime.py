"""The way of a message: claim, handle, commit, dispatch, ack. Whoever reads ``work`` can draw the life cycle."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, assert_never

from flowguard.ending import Ending, acked, kept
from flowguard.errors import ConditionFailed, Reject, RunFailed, SendFailed
from flowguard.events import Event
from flowguard.failure import Again, Attempt, Never, after_failure
from flowguard.flow import OnConflict
from flowguard.ids import Owner
from flowguard.message import ErrorNote
from flowguard.payloads import decode
from flowguard.plan import Planner, dead_letter, expires_at, retried
from flowguard.ports import Budget, Services
from flowguard.retry import LONGEST_DELAY, LONGEST_SQS_DELAY, LONGEST_VISIBILITY, RetryPolicy
from flowguard.routing import Arrival
from flowguard.run import Claim, ClaimRequest, Commit, Committed, Fenced, FencedBy, Refused
from flowguard.step import Step
from flowguard.telling import Teller
from flowguard.verdicts import Verdict

LEASE_WITHOUT_LAMBDA = timedelta(seconds=30)
"""How long a claim holds where no Lambda says how long it has, and the stage names no timeout."""

_MILLISECOND = timedelta(milliseconds=1)


class Runtime:
    """Takes one message through its stage. Holds nothing of it afterwards."""

    def __init__(self, services: Services, teller: Teller) -> None:
        self.services = services
        self._teller = teller

    def work(self, arrival: Arrival, budget: Budget) -> Ending:
        """One message's way. The ending says what is still to be sent, and whether to ack after that."""
        if not arrival.message.object_id:
            return self._dead(arrival, arrival.problem or RunFailed("the message names no object"), None)
        arrival, claim = self._claim(arrival, budget)
        if isinstance(claim, Refused):
            return self._refused(arrival, claim)
        self._teller.claimed(arrival, claim)
        self._flush(arrival, claim)
        try:
            commit = self._handle(arrival, claim)
        except KeyboardInterrupt:  # the process is being stopped: the record stays in its queue
            raise
        except BaseException as error:  # a stage may raise anything; what becomes of it is decided in one place
            return self._failed(arrival, claim, error)
        try:
            answer = self.services.store.commit(claim, commit)
        except (ConditionFailed, Reject) as error:  # known not to be applied; any other error might hide a success
            return self._failed(arrival, claim, error)
        return self._answered(arrival, commit, answer)

    # -- the steps

    def _claim(self, arrival: Arrival, budget: Budget) -> tuple[Arrival, Claim | Refused]:
        """One call; for a FIFO record further ones, as the attempt that the item has come to: itself it cannot say.

        More than one more only where an attempt fails between two of them: each answer shows a later attempt.
        """
        claim = self.services.store.claim(self._claim_request(arrival, budget))
        while arrival.envelope.is_fifo and (retry := _retry_in_item(arrival, claim)) is not None:
            arrival = arrival._replace(message=arrival.message.at_retry(retry))
            claim = self.services.store.claim(self._claim_request(arrival, budget))
        return arrival, claim

    def _claim_request(self, arrival: Arrival, budget: Budget) -> ClaimRequest:
        now, left, flow = self.services.clock.now(), budget.remaining(), arrival.flow
        without_lambda = (arrival.stage.timeout if arrival.stage is not None else None) or LEASE_WITHOUT_LAMBDA
        return ClaimRequest(
            message=arrival.message,
            owner=Owner(self.services.ids.new()),
            now=now,
            lease_until=now + (left if left is not None else _ms(without_lambda)),
            on_conflict=flow.on_conflict,
            abandoned_before=now - _ms(flow.abandoned_after),
            expires_at=expires_at(flow, now),
        )

    def _flush(self, arrival: Arrival, claim: Claim) -> None:
        """Send what a run that this claim took over had committed to send. It stays in the item until the commit."""
        if (outbox := claim.item.outbox) is None:
            return
        horizon = self.services.clock.now() - _ms(arrival.flow.retention)
        sends = outbox.left_by_another(arrival.message.request_id, horizon)
        if not sends:
            return
        if failures := self.services.sender.send(sends):
            raise SendFailed({str(sends[place].to): why for place, why in failures.items()})
        self._teller.tell(Event.FLUSHED, arrival, sends=len(sends), for_request=outbox.request_id)

    def _handle(self, arrival: Arrival, claim: Claim) -> Commit:
        """Run the stage. Nothing that it asked for has happened when this returns."""
        if arrival.problem is not None or arrival.stage is None:
            raise arrival.problem or RunFailed("the message is for no stage")
        stage, message, planner = arrival.stage, arrival.message, self._planner(arrival, claim)
        payload = arrival.payload
        if payload is None:
            payload = decode(stage.payload, message.body, what=f"the payload of {stage.name}")
        state = stage.state() if claim.item.state is None else decode(stage.state, claim.item.state, what="the state")
        step: Step[Any] = Step(message, state=state, clock=self.services.clock, committed_at=planner.moment)
        return planner.ended(stage().handle(payload, step), step)

    # -- what each answer leads to

    def _refused(self, arrival: Arrival, refused: Refused) -> Ending:
        """A claim that was not given. No second read: the answer brought the item along."""
        verdict, item, hop = refused.verdict, refused.item, arrival.message.hop
        self._teller.tell(Event(verdict.value.lower()), arrival)
        match verdict:
            case Verdict.DONE if item is not None:
                return acked(arrival, verdict, item.unsent_at(hop), item.result)
            case Verdict.BUSY if item is not None:
                seconds = max(1, -((self.services.clock.now() - item.lease_until) // 1000))
                self.services.sender.postpone(arrival.envelope, seconds)
                return kept(arrival, verdict, f"another worker has it for {seconds} s more")
            case Verdict.GONE:
                return self._dead(arrival, RunFailed("the run's item has expired, and with it its state"), verdict)
            case Verdict.DUPLICATE | Verdict.STALE | Verdict.SUPERSEDED | Verdict.IGNORED:
                return acked(arrival, verdict)
            case Verdict.EARLY | Verdict.DONE | Verdict.BUSY | Verdict.CLAIMED:
                return kept(arrival, verdict, "the hop before it is not committed")
            case _:
                assert_never(verdict)

    def _answered(self, arrival: Arrival, commit: Commit, answer: Committed | Fenced) -> Ending:
        """What the answer to a commit means for the record."""
        if isinstance(answer, Committed):
            self._teller.committed(arrival, commit)
            sends = commit.outbox.sends if commit.outbox is not None else ()
            return acked(arrival, Verdict.CLAIMED, sends, commit.result)
        self._teller.tell(Event.FENCED, arrival, by=answer.by.value)
        match answer.by:
            case FencedBy.NEWER_RUN:
                return acked(arrival, Verdict.SUPERSEDED)
            case FencedBy.FINISHED if answer.item is not None:
                return acked(arrival, Verdict.DONE, answer.item.unsent_at(arrival.message.hop), answer.item.result)
            case FencedBy.OTHER_ATTEMPT | FencedBy.EXPIRED | FencedBy.FINISHED:
                return kept(arrival, Verdict.BUSY, f"fenced: {answer.by.value}")
            case _:
                assert_never(answer.by)

    def _failed(self, arrival: Arrival, claim: Claim, error: BaseException) -> Ending:
        """Once more later, or never: see ``flowguard.failure``."""
        message, now = arrival.message, self.services.clock.now()
        note = ErrorNote.of(error, now)
        policy = arrival.stage.retry if arrival.stage is not None else RetryPolicy()
        attempt = Attempt(
            retry=message.retry,
            age=timedelta(milliseconds=now - message.requested_at),
            longest_delay=_longest_delay(arrival),
        )
        match after_failure(error, policy, attempt, self.services.draw):
            case Never(why):
                last = note.because(why)
                commit = self._planner(arrival, claim).failed(last, arrival.envelope, claim.item.state)
                return self._answered(arrival, commit, self.services.store.commit(claim, commit))
            case Again(delay):
                ending = self._again(arrival, claim, note, delay)
                self._teller.tell(Event.RETRIED, arrival, error=note.type, delay=delay)
                return ending

    def _again(self, arrival: Arrival, claim: Claim, note: ErrorNote, delay: int) -> Ending:
        """A new message for the same attempt plus one; from a FIFO queue the record itself, for order's sake."""
        envelope = arrival.envelope
        if envelope.is_fifo:
            self.services.store.release(claim, self.services.clock.now())
            self.services.sender.postpone(envelope, delay)
        if envelope.is_fifo or envelope.queue_arn is None:
            return kept(arrival, Verdict.CLAIMED, str(note))
        return acked(arrival, Verdict.CLAIMED, (retried(arrival.message.again(note), envelope, delay),))

    def _dead(self, arrival: Arrival, error: RunFailed, verdict: Verdict | None) -> Ending:
        """A message that has no run to end: straight to the dead letters."""
        note = ErrorNote.of(error, self.services.clock.now())
        self._teller.tell(Event.FAILED, arrival, error=note.type, why=note.text)
        return acked(arrival, verdict, (dead_letter(arrival.flow, arrival.message, note, arrival.envelope),))

    def _planner(self, arrival: Arrival, claim: Claim) -> Planner:
        """The hop's own time never lies before the commit that went before it, whatever the clocks say."""
        moment = max(self.services.clock.now(), claim.item.committed_at + 1)
        return Planner(flow=arrival.flow, message=arrival.message, moment=moment)


def _retry_in_item(arrival: Arrival, claim: Claim | Refused) -> int | None:
    """The attempt that the item has come to at this very hop, where the record was taken for an earlier one."""
    item, m = claim.item, arrival.message
    if item is None or item.done or item.retry <= m.retry:
        return None
    here = item.request_id, item.hop, item.redrive
    return item.retry if here == (m.request_id, m.hop, m.redrive) else None


def _longest_delay(arrival: Arrival) -> timedelta:
    """What the queue can make, and what a flow waits for before it takes the run for abandoned."""
    flow = arrival.flow
    longest = LONGEST_DELAY if flow.long_delays else LONGEST_SQS_DELAY
    if arrival.envelope.is_fifo:
        longest = LONGEST_VISIBILITY
    return min(longest, flow.abandoned_after) if flow.on_conflict is OnConflict.IGNORE else longest


def _ms(span: timedelta) -> int:
    return span // _MILLISECOND
