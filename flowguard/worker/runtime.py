"""The way of a message through its stage, to be read in ``Runtime.work``: claim, flush, handle, commit.

It returns an ending, which says what is to be sent and whether to ack. ``worker/batch.py`` dispatches that.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

from flowguard.errors import (
    Cancelled,
    ConditionFailed,
    FlowguardError,
    GroupUnsaved,
    NotHeld,
    OtherRelease,
    Reject,
    Retry,
    RunFailed,
    SendFailed,
    TextGone,
    WorkerFenced,
    WriteDenied,
)
from flowguard.events import EventType
from flowguard.failure import Again, Attempt, Never, after_failure
from flowguard.flow import AnyFlow
from flowguard.ids import Owner
from flowguard.outcome import Outcome, WaitForGroup
from flowguard.payloads import decode
from flowguard.protocol.callers import Caller, Callers, StoredEnd, asker_key
from flowguard.protocol.claims import needs_lease, outlived, waits_unseen
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.groups import group_key
from flowguard.protocol.outbox import Outbox, Send, StoredOutbox
from flowguard.protocol.run import (
    LONGEST_LEASE,
    BackOff,
    Claim,
    ClaimRequest,
    Commit,
    Committed,
    Fenced,
    FencedBy,
    Refused,
    RunItem,
)
from flowguard.protocol.verdicts import Verdict
from flowguard.recorded.read_answers import EndedGroup
from flowguard.recorded.table_writes import NOTHING_REFUSED, RefusedWrites
from flowguard.retry import LONGEST_DELAY, LONGEST_SQS_DELAY, LONGEST_VISIBILITY, RetryPolicy
from flowguard.spans import Phase
from flowguard.step import Before, Step
from flowguard.wire.message import ErrorNote, Message
from flowguard.wire.trace_context import is_sampled
from flowguard.worker.asks import Claiming, Committing, Judging, Way
from flowguard.worker.caller_answers import CallerAnswers
from flowguard.worker.cancelling import Canceller, is_for_its_run
from flowguard.worker.children import cancelled_requests
from flowguard.worker.dispatch import Due, dispatch, send_or_park
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending, acked, kept
from flowguard.worker.failure_note import failure_of
from flowguard.worker.group_parts import keep_part, read_parts
from flowguard.worker.group_planner import SavedGroup
from flowguard.worker.hop_memory import HopMemory
from flowguard.worker.kills import MOST_KILLS, counted, killed
from flowguard.worker.lifetimes import Lifetimes
from flowguard.worker.patience import has_waited
from flowguard.worker.plan import Planner, dead_letter, retried
from flowguard.worker.ports import Budget, Services
from flowguard.worker.restart import restart_of
from flowguard.worker.resumed import resumed_payload
from flowguard.worker.routing import CLOCKS_DIFFER_BY, Arrival
from flowguard.worker.settler import Settler

if TYPE_CHECKING:
    from flowguard.worker.event_loop import EventLoop

LEASE_WITHOUT_LAMBDA = timedelta(seconds=30)
"""How long a claim holds where no Lambda says how long it has, and the stage names no timeout."""

NOTED_FROM = timedelta(minutes=1)
"""How long a failed attempt's hop must rest for its item to say so."""

MOST_CALLS = 10
"""How often one attempt calls its handler, while writes that it can do without do not hold."""

MOST_MEETINGS = 5
"""How often a request asks for its object, while each run that it meets ends before it has attached."""

KEPT_TO_COMMIT_MS = 2_000
"""Kept of a claim for the commit, while the requests of a group are saved."""

_OTHER_WRITES = f"at each of {MOST_CALLS} calls the handler recorded other writes with else_go_on that did not hold"

_MILLISECOND = timedelta(milliseconds=1)

Written: TypeAlias = Committed | Fenced | Refused | None
"""What a commit is answered. None where its hop was only read, is still open, and has to be claimed now."""


class Runtime:
    """Takes one message through its stage. Holds nothing of it afterwards."""

    def __init__(
        self, services: Services, emitter: Emitter, outside: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        """``outside`` is where handlers run: others may go on meanwhile."""
        self._outside = outside
        self.services = services
        self._emitter = emitter
        self._settler = Settler(services)
        self._canceller = Canceller(services)
        self._caller_answers = CallerAnswers(services, emitter)
        self._loop: EventLoop | None = None

    def work(self, arrival: Arrival, budget: Budget) -> Way[Ending]:
        """Take one message through its stage. The ending says what is still to be sent, and whether to ack after that.

        A hop that was only read, and that others have changed since, goes its way once more, under a claim.
        """
        if (ending := self._without_run(arrival)) is not None:
            return ending
        while True:
            try:
                arrival, claim = yield from self._claim(arrival, budget)
            except Reject as error:  # no run item can hold what the message says of itself
                return self._dead(arrival, error, None)
            if isinstance(claim, Refused):
                return self._turned_away(arrival, claim)
            if not arrival.begins:
                raise NotBegun(arrival.message.stage)
            if (finished := (yield from self._held(arrival, counted(claim)))) is not None:
                return finished
            arrival = arrival.to_claim()

    def _without_run(self, arrival: Arrival) -> Ending | None:
        """Return the ending of a message for which no run is claimed."""
        if isinstance(arrival.problem, OtherRelease):
            return self._of_another_release(arrival, arrival.problem)
        if not arrival.message.object_id:
            return self._dead(arrival, arrival.problem or RunFailed("the message names no object"), None)
        if (too_deep := arrival.too_deep) is not None:
            return self._too_deep(arrival, too_deep)
        return None

    def _held(self, arrival: Arrival, claim: Claim) -> Way[Ending | None]:
        """Flush, handle, commit. None where the hop was only read, is still open, and has to be claimed.

        The handler is called again while writes do not hold that it does without, or makes anew.
        """
        with self._given_back(claim):
            arrival = self._with_kills(arrival, claim)
            self._emitter.claimed(arrival, claim)
            self._flush(arrival, claim)
            memory, calls, refused = HopMemory(self.services.store, claim), 1, NOTHING_REFUSED
            commit = yield from self._handle(arrival, memory, refused, calls=0)
            while isinstance(commit, Commit):
                try:
                    written = yield from self._written(arrival, memory.claim, commit)
                except NotHeld as error:
                    if (last := _last_error(error, calls)) is not None:
                        return (yield from self._failed(arrival, memory.claim, last))
                    refused = {**refused, **error.refused}
                except (ConditionFailed, Reject) as error:  # known not to be applied; any other might hide a success
                    return (yield from self._failed(arrival, memory.claim, error))
                else:
                    return self._answered(arrival, memory.claim, commit, written)
                commit = yield from self._handle(arrival, memory, refused, calls)
                calls += 1
            return commit

    def close(self) -> None:
        """Close what the handlers of this invocation have shared."""
        if self._loop is not None:
            self._loop.close()

    def judged(self, arrival: Arrival, budget: Budget) -> Way[tuple[Message, Claim | Refused]]:
        """Decide the claim by a read, and return it with the message at the attempt that the item says it is."""
        claim: Claim | Refused = yield Judging(self.claim_request(arrival, budget))
        while arrival.envelope.retried_in_place and (retry := _retry_in_item(arrival, claim)) is not None:
            arrival = arrival._replace(message=arrival.message.at_retry(retry))
            claim = yield Judging(self.claim_request(arrival, budget))
        return arrival.message, claim

    # -- the steps

    def _claim(self, arrival: Arrival, budget: Budget) -> Way[tuple[Arrival, Claim | Refused]]:
        """Claim the hop, or let the run at work answer the request. Do so again where that has ended meanwhile.

        A list of callers that closes again and again keeps the record in its queue, as a worker at work does.
        """
        met: RunItem | None = None
        for _ in range(MOST_MEETINGS):
            arrival, claim = yield from self._claim_attempt(arrival, budget)
            if isinstance(claim, Claim) or claim.verdict is not Verdict.ATTACHED or claim.item is None:
                return arrival, claim
            if self._caller_answers.attach(arrival, claim.item):
                return arrival, claim
            met = claim.item
        return arrival, Refused(Verdict.BUSY, met)

    def _claim_attempt(self, arrival: Arrival, budget: Budget) -> Way[tuple[Arrival, Claim | Refused]]:
        """Claim the hop in one call, or in two where the record is retried in place.

        Such a record carries no retry count: claim again with the item's. There are more calls only where an attempt
        fails between two of them: each answer shows a later attempt. Without a lease the hop is read, and nothing is
        written: its commit asks whether that is still so. Who begins nothing claims nothing: two copies of a message
        that SQS has given up would find each other busy again and again.
        """
        if not arrival.begins:
            message, read = yield from self.judged(arrival, budget)
            return arrival._replace(message=message), read
        claim = yield from self._asked(arrival, budget)
        while arrival.envelope.retried_in_place and (retry := _retry_in_item(arrival, claim)) is not None:
            arrival = arrival._replace(message=arrival.message.at_retry(retry))
            claim = yield Claiming(self.claim_request(arrival, budget))
        return arrival, claim

    def _asked(self, arrival: Arrival, budget: Budget) -> Way[Claim | Refused]:
        """Ask for the hop under one owner, until there is an answer."""
        ask: type[Claiming | Judging] = Claiming if arrival.takes_lease else Judging
        owner, claim = Owner(self.services.ids.new()), None
        while claim is None:
            claim = yield ask(self.claim_request(arrival, budget, owner))
        if isinstance(claim, Claim) and needs_lease(claim):
            claim = yield Claiming(self.claim_request(arrival, budget, owner))
        answer: Claim | Refused = claim
        return answer

    def claim_request(self, arrival: Arrival, budget: Budget, owner: Owner | None = None) -> ClaimRequest:
        """Make the request for the message's hop. ``owner`` is one that has asked for it before."""
        (now, lease_until), flow = self.lease(arrival, budget), arrival.flow
        return ClaimRequest(
            message=arrival.message,
            owner=owner if owner is not None else Owner(self.services.ids.new()),
            now=now,
            lease_until=lease_until,
            on_conflict=flow.on_conflict,
            abandoned_before=now - _ms(flow.abandoned_after),
            expires_at=Lifetimes(flow).of_run(now),
            fresh_since=flow.fresh_since(arrival.message.requested_at),
            longest_lease=_longest_lease(arrival),
        )

    def lease(self, arrival: Arrival, budget: Budget) -> tuple[int, int]:
        """Return the time, and until when a lease that is taken now holds (both ms)."""
        now, left = self.services.clock.now(), budget.remaining()
        without_lambda = (arrival.stage.timeout if arrival.stage is not None else None) or LEASE_WITHOUT_LAMBDA
        return now, now + (left if left is not None else _ms(without_lambda))

    @contextmanager
    def _given_back(self, claim: Claim) -> Iterator[None]:
        """Release the claim after an error: its worker lives, and the record comes back before the lease is over."""
        try:
            yield
        except Exception:
            self._release(claim)
            raise

    def _release(self, claim: Claim) -> None:
        """Say in the item that nobody is at work any more. A hop that was only read has no lease."""
        if claim.unwritten is None:
            with suppress(Exception):  # what has failed before is what to report
                self.services.store.release(claim, self.services.clock.now(), failed=False)

    def _with_kills(self, arrival: Arrival, claim: Claim) -> Arrival:
        """Note the workers that were killed at this hop before. After too many of them it has failed.

        No code of the user runs before: an observer that kills its process is counted as a handler that does.
        """
        if not (kills := claim.item.kills):
            return arrival
        self.services.store.note_kills(claim)
        return arrival if kills < MOST_KILLS else arrival._replace(problem=killed(kills))

    def _flush(self, arrival: Arrival, claim: Claim) -> None:
        """Send what a run that this claim took over had committed to send, or the hop that waited for this one.

        It stays in the item until the commit. So do the requests that nobody has answered.
        """
        self._flush_outbox(arrival, claim)
        self._caller_answers.flush(arrival, claim)

    def _flush_outbox(self, arrival: Arrival, claim: Claim) -> None:
        if (outbox := claim.item.outbox) is None:
            return
        try:
            sends = self._left(arrival, claim.item, outbox)
        except TextGone as gone:  # a lost text of another run cannot keep this one from its work
            self._emitter.emit(EventType.LOST, arrival, for_request=outbox.request_id, why=str(gone))
            return
        if not sends:
            return
        theirs = arrival.message._replace(request_id=outbox.request_id)
        due = [Due(send, arrival.flow, theirs, arrival.envelope) for send in sends]
        refused = send_or_park(self.services, self._emitter, due)
        if failures := {str(sends[place].to): one.why for place, one in refused.items() if not one.final}:
            raise SendFailed(failures)
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

    def _left(self, arrival: Arrival, item: RunItem, outbox: Outbox | StoredOutbox) -> tuple[Send, ...]:
        """Return what may not have been sent yet."""
        message = arrival.message
        if message.resumed and outbox.request_id == message.request_id:
            return () if item.wait_was_dispatched else outbox.left_by_its_wait()
        horizon = self.services.clock.now() - _ms(arrival.flow.retention)
        return outbox.left_by_another(message.request_id, horizon)

    def _handle(
        self, arrival: Arrival, memory: HopMemory, refused: RefusedWrites, calls: int
    ) -> Way[Commit | Ending | None]:
        """Run the stage. Nothing that it recorded has happened when this returns. An ending is for one that fails."""
        try:
            return self._planned(arrival, memory, refused, calls)
        except _GoesOn as saved:
            return self._continued(arrival, memory.claim, saved.requests)
        except WorkerFenced as fenced:
            return self._overtaken(arrival, FencedBy(fenced.by))
        except KeyboardInterrupt:  # the process is being stopped: the record stays in its queue
            raise
        except BaseException as error:  # a stage may raise anything; what follows is decided in one place
            return (yield from self._failed(arrival, memory.claim, error))

    def _planned(self, arrival: Arrival, memory: HopMemory, refused: RefusedWrites, calls: int) -> Commit:
        """Call the handler, and plan the commit of what it asks for."""
        if not calls:  # what is there later is of this very attempt
            memory.begin()
        claim = memory.claim
        if (why := claim.item.cancelled_because or arrival.message.cancelled) and claim.item.own_failure is None:
            raise Cancelled(why)
        if arrival.problem is not None or arrival.stage is None:
            raise arrival.problem or RunFailed("the message is for no stage")
        if claim.item.lost is not None:
            raise claim.item.lost
        stage, message, planner = arrival.stage, arrival.message, self._planner(arrival, claim)
        payload = arrival.payload
        if message.resumed:
            payload = resumed_payload(stage, claim.item.wait)
        elif payload is None or calls:  # a handler that is called again may have changed what it was given
            payload = _decoded(message, stage.payload, message.body, f"the payload of {stage.name}")
        stored = claim.item.state
        state = stage.state() if stored is None else _decoded(message, stage.state, stored, "the state")
        services = self.services
        step: Step[Any] = Step(
            message,
            state=state,
            clock=services.clock,
            committed_at=planner.moment,
            signer=services.signer,
            tokens=services.tokens,
            before=Before(
                refused,
                memory,
                left=None if claim.item.left is None else claim.item.left.read,
                left_error=_left_error(claim.item),
                tables=services.tables,
                calls=calls,
                epoch=claim.item.epoch,
                leased=stage.lease,
                debugs=services.debug_sampled and is_sampled(message.trace),
                group=self._ended_group(arrival, claim),
            ),
        )
        with self._emitter.span(Phase.HANDLE, message):
            with self._outside():
                outcome = stage().handle(payload, step)
            if isinstance(outcome, Coroutine):
                outcome = self._awaited(outcome)
        ended_at = services.clock.now()
        planned = self._saved(outcome, planner, memory, calls) if isinstance(outcome, WaitForGroup) else outcome
        return planner.ended(planned, step)._replace(ended_at=ended_at)

    def _ended_group(self, arrival: Arrival, claim: Claim) -> EndedGroup | None:
        wait = claim.item.wait
        group = wait.plan.group if wait is not None and wait.plan is not None else None
        return None if group is None else EndedGroup(self.services.store.waits.groups, arrival.flow.name, group)

    def _saved(self, outcome: WaitForGroup, planner: Planner, memory: HopMemory, calls: int) -> SavedGroup:
        """Save the requests of a group. They are this attempt's own: nothing asks them before its commit.

        Raises :class:`_GoesOn` where they need another invocation. A hop that was only read remembers nothing.
        """
        item, groups, clock = memory.claim.item, self.services.store.waits.groups, self.services.clock
        until = item.lease_until - KEPT_TO_COMMIT_MS
        of_group = planner.of_group(group_key(item.request_id, item.requested_at, item.hop, item.owner, calls))
        parts = read_parts(memory)
        saved = of_group.saved(outcome, groups.save, lambda: clock.now() < until, parts)
        if isinstance(saved, SavedGroup):
            return saved
        if memory.claim.unwritten is not None:
            raise GroupUnsaved(planner.message.stage, 0)
        keep_part(memory, len(parts), saved)
        raise _GoesOn(saved.requests)

    def _awaited(self, handler: Coroutine[Any, Any, Outcome]) -> Outcome:
        from flowguard.worker.event_loop import EventLoop  # a function whose handlers await nothing starts quicker

        if self._loop is None:
            self._loop = EventLoop()
        return self._loop.result_of(handler)

    def _written(self, arrival: Arrival, claim: Claim, commit: Commit) -> Way[Written]:
        """Write all of the commit or nothing. Before it the rows by which answers find a run that waits."""
        if waits_unseen(claim, commit):
            return None
        if commit.wait is not None and commit.wait.rows:
            self.services.store.waits.save(commit.wait.rows)
        return (yield from self._write(arrival, claim, commit))

    def _write(self, arrival: Arrival, claim: Claim, commit: Commit) -> Way[Written]:
        """Ask for the commit until there is an answer. None where the hop was only read, and has to be claimed now."""
        answer: Written = None
        while answer is None:
            if outlived(claim, self.services.clock.now(), _ms(arrival.flow.retention)):
                return None
            answer = yield Committing(claim, commit)
        return None if isinstance(answer, Refused) and answer.verdict is Verdict.CLAIMED else answer

    # -- what each answer leads to

    def _turned_away(self, arrival: Arrival, refused: Refused) -> Ending:
        """Report the verdict of a refused claim, and return what follows from it."""
        self._emitter.emit(EventType(refused.verdict.value.lower()), arrival)
        if is_for_its_run(arrival.message, refused):
            return self._canceller.of_request(arrival, refused.verdict)
        return self._refused(arrival, refused)

    def _refused(self, arrival: Arrival, refused: Refused) -> Ending:
        """Handle a claim that was refused. No second read is needed: the answer brought the item along."""
        verdict, item = refused.verdict, refused.item
        match verdict:
            case Verdict.DONE if item is not None:
                return self._done(arrival, item)
            case Verdict.BUSY if item is not None:
                seconds = max(1, -((self.services.clock.now() - item.lease_until) // 1000))
                self.services.sender.postpone(arrival.envelope, seconds)
                return kept(arrival, verdict, f"another worker has it for {seconds} s more")
            case Verdict.RESET if item is not None:
                return self._begun_anew(arrival, item)
            case Verdict.ATTACHED | Verdict.KEPT if item is not None:
                return self._answered_by_another(arrival, verdict, item)
            case Verdict.GONE:
                return self._dead(arrival, RunFailed("the run's item has expired, and with it its state"), verdict)
            case Verdict.GIVEN_UP if item is not None:
                return self._dead(arrival, _failed_for_good(arrival.flow, item), verdict)
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

    def _begun_anew(self, arrival: Arrival, item: RunItem) -> Ending:
        """Acknowledge a message of a run that was reset.

        Its work begins anew with another message, which whoever has reset it may not have sent.
        """
        restart = restart_of(arrival.flow, arrival.message.object_id, item, self.services.signer)
        if restart is None:
            why = "the run was reset, and its first message is not stored: it began before its flow took callers"
            return self._dead(arrival, RunFailed(why), Verdict.RESET)
        return acked(arrival._replace(message=restart.message), Verdict.RESET, (restart.send,))

    def _answered_by_another(self, arrival: Arrival, verdict: Verdict, item: RunItem) -> Ending:
        """Acknowledge a request that another one's run answers, or has answered. Its own payload is not looked at."""
        if verdict is Verdict.ATTACHED:
            return acked(arrival, verdict)
        try:
            return acked(
                arrival, verdict, self._caller_answers.answer(arrival, item), item.result, str(item.lost or "")
            )
        except TextGone as gone:
            return self._dead(arrival, gone, verdict)

    def _done(self, arrival: Arrival, item: RunItem) -> Ending:
        """Acknowledge a hop that was committed before.

        Its worker may have died before it sent anything: send the outbox again.
        """
        try:
            sends = item.unsent_at(arrival.message.hop)
            if arrival.message.hop == item.hop:
                sends = (*self._caller_answers.answered(arrival, item), *sends)
        except TextGone as gone:
            return self._dead(arrival, gone, Verdict.DONE)
        early = self._settler.look_early(arrival.flow, arrival.envelope, item, arrival.message)
        return acked(arrival, Verdict.DONE, self._with_early(arrival, sends, early), item.result, str(item.lost or ""))

    def _answered(self, arrival: Arrival, claim: Claim, commit: Commit, answer: Written) -> Ending | None:
        """Return what the answer to a commit means for the record. None where its hop has to be claimed."""
        if answer is None:
            return None
        if isinstance(answer, Committed):
            self._emitter.committed(arrival, claim, commit)
            sends = commit.outbox.sends if commit.outbox is not None else ()
            if answer.callers is not None:
                sends = (*self._replies(arrival, commit, answer.callers, sends), *sends)
            onward = self._with_early(arrival, sends, self._early(arrival, claim, commit))
            return acked(arrival, Verdict.CLAIMED, onward, commit.result)
        if isinstance(answer, Refused):
            self._emitter.emit(EventType.FENCED, arrival, by=answer.verdict.value)
            return self._turned_away(arrival, answer)
        self._emitter.emit(EventType.FENCED, arrival, by=answer.by.value)
        match answer.by:
            case FencedBy.NEWER_RUN:
                return acked(arrival, Verdict.SUPERSEDED)
            case FencedBy.FINISHED if answer.item is not None:
                return self._done(arrival, answer.item)
            case FencedBy.OTHER_ATTEMPT | FencedBy.EXPIRED | FencedBy.FINISHED:
                return kept(arrival, Verdict.BUSY, f"fenced: {answer.by.value}")
            case _:
                assert_never(answer.by)

    def _replies(self, arrival: Arrival, commit: Commit, callers: Callers, sends: tuple[Send, ...]) -> tuple[Send, ...]:
        """Return the answers to those who asked for this end, up to the very write.

        Where some of them cannot be answered now, the commit's own messages go at once. The record stays, and whoever
        gets it next finds the callers in the item.
        """
        m, error = arrival.message, commit.error
        said = (commit.result, None if error is None else str(error))
        end = StoredEnd(m.request_id, commit.committed_at, commit.status.value, *said)
        try:
            return self._caller_answers.replies(arrival, end, callers)
        except Exception:
            dispatch(self.services, self._emitter, [acked(arrival, None, sends)])
            raise

    def _overtaken(self, arrival: Arrival, by: FencedBy) -> Ending:
        """Return what it means for the record that its handler met the fence."""
        self._emitter.emit(EventType.FENCED, arrival, by=by.value)
        if by is FencedBy.NEWER_RUN:
            return acked(arrival, Verdict.SUPERSEDED)
        return kept(arrival, Verdict.BUSY, f"fenced: {by.value}")

    def _early(self, arrival: Arrival, claim: Claim, commit: Commit) -> Iterator[Send]:
        """Settle the answers that were kept before this commit. Yield the next message where they end the wait."""
        if commit.wait is None or not commit.wait.plan.early:
            return iter(())
        item = claim.item._replace(status=commit.status, done=True, wait=commit.wait.begun())
        return self._settler.look_early(arrival.flow, arrival.envelope, item, arrival.message)

    def _with_early(self, arrival: Arrival, sends: tuple[Send, ...], early: Iterator[Send]) -> tuple[Send, ...]:
        """Return what a commit sends with what answers that were kept before it lead to.

        Where these cannot be looked up, the commit's own messages go at once, its deadline among them: the record
        stays, and if nobody ever can, the wait still ends.
        """
        try:
            return (*sends, *early)
        except Exception:
            dispatch(self.services, self._emitter, [acked(arrival, None, sends)])
            raise

    def _failed(self, arrival: Arrival, claim: Claim, error: BaseException) -> Way[Ending | None]:
        """Decide by ``flowguard.failure`` whether the message is retried later or its run ends.

        Raises what may pass within minutes, until the record has waited so long.
        """
        if isinstance(error, WriteDenied) and not self._has_waited(arrival):
            raise error
        if isinstance(error, OtherRelease):
            ending = self._of_another_release(arrival, error)
            self._release(claim)
            return ending
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
                return (yield from self._end(arrival, claim, note.because(why), error))
            case Again(delay) if arrival.envelope.retried_in_place:
                return self._again_in_place(arrival, claim, note, delay)
            case Again(delay):
                return (yield from self._again(arrival, claim, note, delay, error))

    def _has_waited(self, arrival: Arrival) -> bool:
        return has_waited(arrival.envelope, arrival.message.since, self.services.clock.now())

    def _end(self, arrival: Arrival, claim: Claim, note: ErrorNote, error: BaseException) -> Way[Ending | None]:
        """End the run as FAILED, or go on where its flow has a stage for that."""
        to = arrival.flow.on_failed
        if to is None or claim.item.own_failure is not None:
            return (yield from self._end_failed(arrival, claim, note, error))
        planner, failure = self._planner(arrival, claim), failure_of(arrival.message, claim.item, note, error)
        letters = [dead_letter(arrival.flow, arrival.message, note, arrival.envelope, self.services.signer)]
        if isinstance(error, Cancelled):
            letters = []
        with suppress(Reject):
            commit = planner.giving_up(to, failure, note, letters)
            return (yield from self._ended(arrival, claim, commit))
        for letter in letters:
            self._send_before(arrival, letter)
        try:
            commit = planner.giving_up(to, failure.model_copy(update={"payload": None}), note, [])
            return (yield from self._ended(arrival, claim, commit))
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
        planner = self._planner(arrival, claim)
        commit = planner.failed(note, arrival.envelope)
        letter, rest = planner.without_letter(commit)
        if isinstance(error, Cancelled):
            return (yield from self._commit_without_letter(arrival, claim, rest))
        try:
            return (yield from self._ended(arrival, claim, commit))
        except Reject:
            self._send_before(arrival, letter)
            return (yield from self._commit_without_letter(arrival, claim, rest))

    def _send_before(self, arrival: Arrival, letter: Send) -> None:
        """Send a dead letter before the commit that ends its hop."""
        due = [Due(letter, arrival.flow, arrival.message, arrival.envelope)]
        if refused := send_or_park(self.services, self._emitter, due):
            raise SendFailed({str(letter.to): refused[0].why})

    def _commit_without_letter(self, arrival: Arrival, claim: Claim, rest: Commit) -> Way[Ending | None]:
        try:
            return (yield from self._ended(arrival, claim, rest))
        except Reject:
            written = yield from self._write(arrival, claim, rest._replace(outbox=None))
            return self._answered(arrival, claim, rest, written)

    def _ended(self, arrival: Arrival, claim: Claim, commit: Commit) -> Way[Ending | None]:
        """Make the commit that ends the run's hop without its stage. Raises as the call does."""
        return self._answered(arrival, claim, commit, (yield from self._write(arrival, claim, commit)))

    def _again(
        self, arrival: Arrival, claim: Claim, note: ErrorNote, delay: int, error: BaseException
    ) -> Way[Ending | None]:
        """Send a new message for the same hop, one attempt later. One that its queue refuses for good ends the run."""
        self._tell(arrival, claim, note)
        again = retried(arrival.message.again(note), arrival.envelope, delay, self.services.signer)
        with self._emitter.span(Phase.DISPATCH, arrival.message, sends=1):
            refusal = self.services.sender.send([again]).get(0)
        self._emitter.sent(arrival.message, again, refusal)
        if refusal is None:
            self._emitter.emit(EventType.RETRIED, arrival, error=note.type, delay=delay)
            self._note_back_off(claim, note, delay)
            return acked(arrival, Verdict.CLAIMED)
        if refusal.after(self._has_waited(arrival)).final:
            why = f"its retry cannot be sent: {refusal.why}"
            return (yield from self._end(arrival, claim, note.because(why), error))
        self._release(claim)
        why = f"its retry was not sent to {again.to}: {refusal.why}"
        return kept(arrival, Verdict.CLAIMED, "").kept(why, for_minutes=refusal.for_minutes)

    def _continued(self, arrival: Arrival, claim: Claim, requests: int) -> Ending:
        """Let another invocation go on with the hop as the same attempt, with the message sent again or in place.

        One that is not sent leaves its record, which goes on as well.
        """
        self.services.store.release(claim, self.services.clock.now(), failed=False)
        self._emitter.emit(EventType.CONTINUED, arrival, requests=requests)
        why = f"{requests} requests of its group are saved, and more are to be"
        if arrival.envelope.retried_in_place:
            self.services.sender.postpone(arrival.envelope, 0)
            return kept(arrival, Verdict.CLAIMED, why)
        onward = retried(arrival.message, arrival.envelope, 0, self.services.signer, continued=claim.item.epoch)
        with self._emitter.span(Phase.DISPATCH, arrival.message, sends=1):
            refusal = self.services.sender.send([onward]).get(0)
        self._emitter.sent(arrival.message, onward, refusal)
        return acked(arrival, Verdict.CLAIMED) if refusal is None else kept(arrival, Verdict.CLAIMED, why)

    def _again_in_place(self, arrival: Arrival, claim: Claim, note: ErrorNote, delay: int) -> Ending:
        """Leave the record where it is and count the attempt.

        It stays in a FIFO queue for order's sake, else because there is no queue to send to.
        """
        self._tell(arrival, claim, note)
        self._note_back_off(claim, note, delay)
        self.services.store.release(claim, self.services.clock.now(), failed=True)
        self.services.sender.postpone(arrival.envelope, delay)
        self._emitter.emit(EventType.RETRIED, arrival, error=note.type, delay=delay)
        return kept(arrival, Verdict.CLAIMED, str(note))

    def _note_back_off(self, claim: Claim, note: ErrorNote, delay: int) -> None:
        """Note for those who look why the run rests. It costs a write, so a short rest is not noted.

        Nothing depends on it: the next attempt's message has gone.
        """
        if delay < NOTED_FROM.total_seconds() or claim.unwritten is not None:
            return
        until = self.services.clock.now() + delay * 1000
        with suppress(Exception):
            self.services.store.back_off(claim, BackOff(note, until))

    def _tell(self, arrival: Arrival, claim: Claim, note: ErrorNote) -> None:
        """Tell the full history of a failed attempt, in a flow that has one. Nobody owns a hop that was only read."""
        if arrival.flow.full_history and claim.unwritten is None:
            self.services.store.tell(claim, note)

    def _dead(self, arrival: Arrival, error: Reject, verdict: Verdict | None) -> Ending:
        """Send a message that has no run to end straight to the dead letters."""
        note = ErrorNote.of(error, self.services.clock.now())
        self._emitter.emit(EventType.FAILED, arrival, error=note.type, why=note.text)
        letter = dead_letter(arrival.flow, arrival.message, note, arrival.envelope, self.services.signer)
        answers = self._caller_answers.lost(arrival, note) if verdict is Verdict.GONE else ()
        return acked(arrival, verdict, (*answers, letter))

    def _too_deep(self, arrival: Arrival, error: RunFailed) -> Ending:
        """End a chain of requests. No run begins, so nothing is to be undone; a cancelled request asks for nothing."""
        if arrival.message.cancelled is not None:
            return acked(arrival, None)
        dead = self._dead(arrival, error, None)
        note = ErrorNote.of(error, self.services.clock.now())
        return dead._replace(sends=(*self._caller_answers.refused(arrival, note), *dead.sends))

    def _of_another_release(self, arrival: Arrival, error: OtherRelease) -> Ending:
        """Park a message of a release that this one does not know, once a rolling deployment had its minutes.

        Its run does not end: it goes on when the message comes back to code that knows it. Raises the error before.
        """
        if not self._has_waited(arrival):
            raise error
        note = ErrorNote.of(error, self.services.clock.now())
        letter = dead_letter(arrival.flow, arrival.message, note, arrival.envelope, self.services.signer)
        self._emitter.parked(arrival.message, letter, str(error))
        return acked(arrival, None, (letter,))

    def _planner(self, arrival: Arrival, claim: Claim) -> Planner:
        """Make the planner of the hop's commit, with the hop's time.

        Within a run the time of a hop lies after that of the hop before, whatever the clocks say. Across runs it does
        not: a clock that was fast once must not date everything that comes later.
        """
        now, m, before = self.services.clock.now(), arrival.message, claim.before
        goes_on = before is not None and before.request_id == m.request_id and (m.hop > 1 or m.redrive > 0)
        moment = max(now, claim.item.committed_at + 1) if goes_on else now
        noted = claim.item.askers.get(asker_key(m.request_id))
        return Planner(
            flow=arrival.flow,
            message=m,
            moment=moment,
            signer=self.services.signer,
            failed_hop=claim.item.own_failure,
            cancelled=cancelled_requests(m, claim.item, self.services.signer),
            asked=None if noted is None else Caller.from_text(noted),
            lives_until=0 if before is None else before.ttl * 1_000,
        )


class NotBegun(FlowguardError):
    """A hop that SQS gave up may be begun again. It goes back to its queue when its record comes once more."""

    def __init__(self, stage: str) -> None:
        super().__init__(f"{stage} may be begun again, and not by this function")


class _GoesOn(Exception):
    """The requests of a group are saved up to here (``requests``). Another invocation saves more."""

    def __init__(self, requests: int) -> None:
        super().__init__(requests)
        self.requests = requests


def _decoded(message: Message, kind: type[Any], text: str, what: str) -> Any:
    """Decode what the message or its run brings. What a hop before has written is of another release if it cannot be.

    Raises :class:`RunFailed`.
    """
    try:
        return decode(kind, text, what=what)
    except RunFailed as error:
        raise (error if message.hop == 1 else OtherRelease(str(error))) from None


def _last_error(error: NotHeld, calls: int) -> Exception | None:
    """Return what fails the attempt whose writes did not hold. None where its handler may be called once more."""
    if error.changed is not None and calls >= error.changed.tries:
        return error.changed
    return Retry(_OTHER_WRITES) if calls >= MOST_CALLS else None


def _failed_for_good(flow: AnyFlow, item: RunItem) -> RunFailed:
    """Build the error for a redriven message of a hop that its run has given up."""
    at = f"it is at hop {item.hop} ({item.stage}), {item.status.value}"
    fix = "to begin anew, send the request under another id"
    return RunFailed(f"the run failed here for good, and went on at {flow.on_failed}; {at}; {fix}")


def _retry_in_item(arrival: Arrival, claim: Claim | Refused) -> int | None:
    """Return the item's retry count where it is ahead of the record's at the very same hop."""
    item, m = claim.item, arrival.message
    if item is None or item.done or item.retry <= m.retry:
        return None
    here = item.request_id, item.hop, item.redrive
    return item.retry if here == (m.request_id, m.hop, m.redrive) else None


def _left_error(item: RunItem) -> str | None:
    """Return the error of the run before, if that failed and was not undone."""
    failed = item.failed
    return None if failed is None or failed.undone or item.own_failure is not None else str(failed.error)


def _longest_lease(arrival: Arrival) -> int:
    """Return how long a worker of the stage can hold a hop, ms: as Lambda lets it, or as the stage says without one."""
    own = arrival.stage.timeout if arrival.stage is not None else None
    return _ms(LONGEST_LEASE if own is None else max(LONGEST_LEASE, own + CLOCKS_DIFFER_BY))


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


def _ms(span: timedelta) -> int:
    return span // _MILLISECOND
