"""The way of a message: claim, handle, commit, dispatch, ack. Whoever reads ``work`` can draw the life cycle."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, assert_never

from flowguard.destinations import Queue
from flowguard.dispatch import dispatch
from flowguard.ending import Ending, acked, kept
from flowguard.envelope import Envelope, resend
from flowguard.errors import EnvelopeError, Reject, Retry, RunFailed, SendFailed
from flowguard.events import Event, Happening
from flowguard.flow import OnConflict
from flowguard.ids import Owner
from flowguard.message import FirstError
from flowguard.outbox import Kind, Send
from flowguard.payloads import decode
from flowguard.plan import Planner, dead_letter, expires_at
from flowguard.ports import Budget, Services
from flowguard.routing import Arrival, Routes, Unroutable
from flowguard.run import ENDED, Claim, ClaimRequest, Commit, Committed, Fenced, FencedBy, Refused, Status
from flowguard.step import Step
from flowguard.verdicts import Verdict

DISPATCH_RESERVE = timedelta(seconds=1)
"""Kept of an invocation for sending what was committed: no further record is claimed when less is left."""

LEASE_WITHOUT_STAGE = timedelta(seconds=30)


class Runtime:
    """Takes a batch of envelopes through the flows of one function."""

    def __init__(self, routes: Routes, services: Services) -> None:
        self.routes = routes
        self.services = services

    def run(self, envelopes: Sequence[Envelope], budget: Budget) -> list[Ending]:
        """Each record is claimed, handled and committed on its own; what they have to send goes out in common batches.

        The endings come in the order of the envelopes; those that say ``ack`` are done with.
        """
        endings: list[Ending] = []
        for envelope in envelopes:
            begin = not endings or _has_time(budget)
            endings.append(self._guarded(envelope, budget) if begin else self._returned(envelope))
        return dispatch(self.services.sender, endings, self._tell_send)

    def work(self, arrival: Arrival, budget: Budget) -> Ending:
        """One message's way. The ending says what is still to be sent, and whether to ack after that."""
        claim = self.services.store.claim(self._claim_request(arrival, budget))
        if isinstance(claim, Refused):
            return self._refused(arrival, claim)
        self._tell_claim(arrival, claim)
        self._flush(arrival, claim)
        try:
            commit = self._handle(arrival, claim)
            answer = self.services.store.commit(claim, commit)
        except Exception as error:  # a stage may raise anything; what becomes of it is decided in one place
            return self._failed(arrival, claim, error)
        return self._answered(arrival, commit, answer)

    # -- the steps

    def _claim_request(self, arrival: Arrival, budget: Budget) -> ClaimRequest:
        now, left, flow = self.services.clock.now(), budget.remaining(), arrival.flow
        without_lambda = arrival.stage.timeout if arrival.stage is not None else LEASE_WITHOUT_STAGE
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
        self._tell(Event.FLUSHED, arrival, sends=len(sends), for_request=outbox.request_id)

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
        self._tell(Event(verdict.value.lower()), arrival)
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
            self._tell_commit(arrival, commit)
            sends = commit.outbox.sends if commit.outbox is not None else ()
            return acked(arrival, Verdict.CLAIMED, sends, commit.result)
        self._tell(Event.FENCED, arrival, by=answer.by.value)
        match answer.by:
            case FencedBy.NEWER_RUN:
                return acked(arrival, Verdict.SUPERSEDED)
            case FencedBy.FINISHED if answer.item is not None:
                return acked(arrival, Verdict.DONE, answer.item.unsent_at(arrival.message.hop), answer.item.result)
            case FencedBy.OTHER_ATTEMPT | FencedBy.EXPIRED | FencedBy.FINISHED:
                return kept(arrival, Verdict.BUSY, f"fenced: {answer.by.value}")
            case _:
                assert_never(answer.by)

    def _failed(self, arrival: Arrival, claim: Claim, error: Exception) -> Ending:
        """Once more later, or never: a Reject settles it at once, else the stage's policy."""
        message, stage = arrival.message, arrival.stage
        first = message.first_error or FirstError.of(error, self.services.clock.now())
        if isinstance(error, Reject) or stage is None or stage.retry.exhausted(message.retry):
            commit = self._planner(arrival, claim).failed(first, arrival.envelope, claim.item.state)
            return self._answered(arrival, commit, self.services.store.commit(claim, commit))
        delay = stage.retry.delay(message.retry + 1, self.services.draw)
        if isinstance(error, Retry) and error.after is not None:
            delay = int(error.after.total_seconds())
        self._tell(Event.RETRIED, arrival, error=type(error).__name__, delay=delay)
        queue = arrival.envelope.queue_arn
        if queue is None or arrival.envelope.is_fifo:
            return kept(arrival, Verdict.CLAIMED, f"{type(error).__name__}: {error}")
        again = message.again(first)
        body, attributes = resend(arrival.envelope, again.own_attributes())
        own = f"{again.request_id}.{again.hop}.{again.redrive}.{again.retry}"
        return acked(arrival, Verdict.CLAIMED, (Send(Kind.SIDE, Queue(queue), body, own, attributes, delay),))

    def _dead(self, arrival: Arrival, error: RunFailed, verdict: Verdict | None) -> Ending:
        """A message that has no run to end: straight to the dead letters."""
        first = arrival.message.first_error or FirstError.of(error, self.services.clock.now())
        self._tell(Event.FAILED, arrival, error=first.type, why=first.text)
        return acked(arrival, verdict, (dead_letter(arrival.flow, arrival.message, first, arrival.envelope),))

    # -- around it

    def _guarded(self, envelope: Envelope, budget: Budget) -> Ending:
        """One record never harms the others: whatever goes wrong outside its stage leaves it in its queue."""
        arrival: Arrival | None = None
        try:
            arrival = self.routes.resolve(envelope, self.services.clock.now())
            if arrival.weak_id:
                self._tell(Event.WEAK_ID, arrival)
            if not arrival.message.object_id:
                return self._dead(arrival, arrival.problem or RunFailed("the message names no object"), None)
            return self.work(arrival, budget)
        except Exception as error:  # a service, the network, a setting: kept, told, delivered again by the queue
            why = f"{type(error).__name__}: {error}"
            self._tell(_event_of(error), arrival, record=envelope.message_id, why=why)
            return Ending(envelope=envelope, ack=False, arrival=arrival, why=why)

    def _returned(self, envelope: Envelope) -> Ending:
        self._tell(Event.RETURNED, None, record=envelope.message_id)
        return Ending(envelope=envelope, ack=False, why="not enough time was left to begin it")

    def _planner(self, arrival: Arrival, claim: Claim) -> Planner:
        """The hop's own time never lies before the commit that went before it, whatever the clocks say."""
        moment = max(self.services.clock.now(), claim.item.committed_at + 1)
        return Planner(flow=arrival.flow, message=arrival.message, moment=moment)

    # -- telling

    def _tell(self, event: Event, arrival: Arrival | None, **facts: Any) -> None:
        self.services.observer(Happening(event, arrival.message if arrival is not None else None, facts))

    def _tell_claim(self, arrival: Arrival, claim: Claim) -> None:
        before = claim.before
        if before is not None and before.request_id != claim.message.request_id and before.status not in ENDED:
            self._tell(Event.TOOK_OVER, arrival, from_request=before.request_id, from_stage=before.stage)
            if arrival.flow.on_conflict is OnConflict.IGNORE:
                self._tell(Event.ABANDONED, arrival, from_request=before.request_id)
        self._tell(Event.CLAIMED, arrival, epoch=claim.item.epoch)

    def _tell_commit(self, arrival: Arrival, commit: Commit) -> None:
        match commit.status:
            case Status.RUNNING:
                self._tell(Event.COMMITTED, arrival, writes=len(commit.writes))
            case Status.COMPLETED:
                self._tell(Event.COMPLETED, arrival, writes=len(commit.writes))
            case Status.FAILED:
                error = commit.error
                self._tell(Event.FAILED, arrival, error=error.type if error else "", why=error.text if error else "")
            case _:
                assert_never(commit.status)

    def _tell_send(self, ending: Ending, send: Send, why: str | None) -> None:
        event = Event.SENT if why is None else Event.NOT_SENT
        facts = {"kind": send.kind.value, "to": str(send.to), "id": send.id, "delay": send.delay}
        self._tell(event, ending.arrival, **facts, **({} if why is None else {"why": why}))


def _event_of(error: Exception) -> Event:
    if isinstance(error, Unroutable):
        return Event.UNROUTABLE
    return Event.UNREADABLE if isinstance(error, EnvelopeError) else Event.BROKEN


def _has_time(budget: Budget) -> bool:
    left = budget.remaining()
    return left is None or left > _ms(DISPATCH_RESERVE)


def _ms(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)
