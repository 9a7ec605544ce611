"""What can happen next in a world: what the queue, the database, people and bad luck do to the real function."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from flowguard.destinations import Queue
from flowguard.names.ids import Owner, RequestId
from flowguard.protocol import claims
from flowguard.protocol.answers import judge
from flowguard.protocol.failed_hop import FailedHop
from flowguard.protocol.outbox import Kind, Send
from flowguard.protocol.run import Claim, ClaimRequest, Commit, Committed, Refused, RunItem, Status
from flowguard.protocol.waiting import EarlyAnswer, GivenAnswer, Kept, Look, Use
from flowguard.verdicts import Verdict
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.message import Message
from flowguard.worker.ports import Refusal
from tests.proofs.model import calling, checks, waits
from tests.proofs.model.function import (
    AGAIN,
    EARLY,
    FIFO_INBOX,
    INBOX,
    NOW,
    WHY,
    Attaching,
    Calling,
    Cancelling,
    Claiming,
    Committing,
    Direct,
    Early,
    Ended,
    Finding,
    ForgettingRows,
    Freeing,
    Function,
    Handling,
    Judging,
    Keeping,
    Looking,
    Noting,
    NotingRows,
    ReadingRows,
    Releasing,
    Saving,
    Sending,
    Settling,
    Taking,
    TimingOut,
    WaitJudging,
    owner_name,
)
from tests.proofs.model.scenarios import Scenario
from tests.proofs.model.world import Fact, Record, Shelf, Worker, World
from tests.proofs.model.written import noted, released

MOST_WORKERS = 2
MOST_COPIES = 9
"""Of a deadline's message at one time."""
_NOBODY = 0
"""The nonce of a worker that claims nothing."""
Step = tuple[str, World]


@dataclass(frozen=True)
class Environment:
    """The parts of the database and the queue that a mutant may break.

    ``fence`` are the conditions of a commit; the store has them as an expression, so they stand here once more.
    """

    fence: frozenset[str] = frozenset({"request_id", "epoch", "owner", "done"})
    read_fence: frozenset[str] = frozenset({"request_id", "epoch", "owner", "done"})
    """The same of a commit whose hop was only read."""
    creates_only: bool = True
    """Such a commit that has read that there is no item does not overwrite one."""
    acks_before_sending: bool = False
    closes_list: bool = True
    looks_at_list: bool = True
    """A caller is added only to a list that is open."""
    reset_fences: bool = True
    cancel_fences: bool = True
    cancel_asks: bool = True
    """A cancelled request cancels its own run alone."""
    ends_twice: bool = False
    """A deadline ends a wait that is over."""
    uses_up: bool = True
    """A run that gets an answer that is kept uses it up by that."""


class _Granted(NamedTuple):
    """What a claim does, whatever else is in the world."""

    item: int | None
    answer: int
    verdict: Verdict
    fault: str


class _Kept(NamedTuple):
    """An answer that is kept for an id: who waited when it came, and who has used it."""

    answer: GivenAnswer
    waited: str = ""
    user: str = ""


class _Arrived(NamedTuple):
    """What sends lead to. They are kept, so that their identity is theirs alone.

    Copies of a deadline's message are told apart by their message ids: ``deadlines`` has an envelope for each id.
    """

    sends: tuple[Send, ...]
    queued: tuple[int, ...]
    parked: tuple[int, ...]
    facts: tuple[Fact, ...]
    deadlines: tuple[tuple[int, ...], ...] = ()


class Actions:
    """The steps of one scenario."""

    def __init__(self, scenario: Scenario, environment: Environment) -> None:
        self.scenario = scenario
        self.shelf = Shelf()
        self.function = Function(scenario, self.shelf)
        self._environment = environment
        self._claims: dict[tuple[int | None, Worker], _Granted] = {}
        self._sends: dict[tuple[int, ...], _Arrived] = {}
        self._names: dict[tuple[int, bool], str] = {}

    def start(self) -> World:
        asked = [self.function.request(run) for run in self.scenario.requests]
        asked += [self.function.request(run, later=1) for run in self.scenario.repeated]
        asked += [self.function.request(run, later=1, note="his") for run in self.scenario.forged]
        asked += [self.function.cancelled(run) for run in self.scenario.cancelled]
        happens = [name for name in self.scenario.events if name not in self.scenario.silent]
        asked += [self.function.given(name, is_direct=self.scenario.is_direct) for name in happens]
        asked += [self.function.unasked(run, name) for run in self.scenario.requests for name in self.scenario.unasked]
        queue = tuple(map(Record, asked))
        return World(None, queue, self.scenario.budget).tidied()

    def steps(self, world: World) -> Iterator[Step]:
        """Every step that changes the world."""
        if world.fault:
            return
        for label, after in self._all(world):
            tidy = after.tidied()
            if tidy != world:
                yield label, tidy

    def fault_of(self, world: World, moved: bool) -> str:
        if world.fault or (moved and not world.is_quiet):
            return world.fault
        if not world.is_quiet:
            return "nothing can go on, and not everything is done"
        # a world that is quiet may still have letters to move back; if nobody does, this is its end
        found = checks.end_fault(self.scenario, self.function, self.shelf, world)
        return found or checks.calm_fault(self.scenario, self.function, self.shelf, world)

    def _all(self, world: World) -> Iterator[Step]:
        if len(world.workers) < MOST_WORKERS:
            for record in dict.fromkeys(world.queue):
                if not record.hidden:
                    yield from self._deliver(world, record)
        for place, worker in enumerate(world.workers):
            rest = world.workers[:place] + world.workers[place + 1 :]
            yield from self._work(world._replace(workers=rest), worker)
        yield from self._misfortunes(world)
        yield from self._people(world)

    # -- the queue

    def _deliver(self, world: World, record: Record) -> Iterator[Step]:
        """A record is delivered and its first call made: nothing is to be seen between the two."""
        counting = self.scenario.receives and not record.from_dlq
        taken = record._replace(hidden=True, seen=record.seen + 1 if counting else 0)
        here = world._replace(queue=(*_without(world.queue, record), taken))
        answering = Worker(taken._replace(hidden=False), _NOBODY)
        if not isinstance(self.function.call_of(answering), Claiming | Judging):
            is_deadline = isinstance(self.function.call_of(answering), TimingOut)
            if is_deadline and not self.scenario.has_deadline:
                yield from self._answer(here, answering._replace(owner=EARLY))
                return
            yield from self._answer(here, answering)
            if is_deadline and world.budget.early:
                yield from self._answer(here.spend("early"), answering._replace(owner=EARLY))
            if self.function.is_from_outside(record.envelope):
                yield from self._answer(here, answering._replace(owner=AGAIN))
            return
        worker = answering._replace(owner=self._free_owner(world))
        call = self.function.call_of(worker)
        if isinstance(call, Judging):
            yield from self._judge(here, worker)
            if world.budget.lost and call.shared:
                label = f"{self._label('read', worker)}: not answered"
                yield from self._went_on(here.spend("lost"), worker, self.shelf.put(None), label)
            return
        label = self._label("claim", worker)
        yield from self._claim(here, worker, label)
        if world.budget.lost:
            yield from self._claim_twice(here, worker, f"{label}, its answer lost")
        if world.budget.lost and isinstance(call, Claiming) and call.shared:
            yield from self._claim_unanswered(here.spend("lost"), worker, label)
        if world.budget.crashes and counting:
            yield f"{label}: killed before it", self._back(here, worker).spend("crashes")

    def _back(self, world: World, worker: Worker) -> World:
        """The record is visible again; SQS gives it up when it was received too often."""
        mine = worker.record._replace(hidden=True)
        if mine not in world.queue:
            return world  # delivered once more meanwhile, or settled
        if isinstance(self.shelf[mine.envelope], Direct):
            return world._replace(queue=_without(world.queue, mine))
        visible = mine._replace(hidden=False)
        if self.scenario.receives and not mine.from_dlq and mine.seen >= self.scenario.receives:
            visible = Record(mine.envelope, mine.copy, from_dlq=True)
        return world._replace(queue=(*_without(world.queue, mine), visible))

    def _acked(self, world: World, worker: Worker) -> World:
        """Any receipt removes the message, also one of an earlier delivery; gone from the queue, it removes nothing."""
        same = [one for one in world.queue if one[:3] == worker.record[:3]]
        found: RunItem | None = None if world.item is None else self.shelf[world.item]
        here = world.blamed(checks.forgotten_fault(self.scenario, self.function, worker.record.envelope, found))
        return here._replace(queue=_without(world.queue, same[0])) if same else here

    def _free_owner(self, world: World) -> int:
        """A nonce that nobody who is still there has."""
        used = {owner_name(worker.owner) for worker in world.workers}
        if world.item is not None:
            used.add(self.shelf[world.item].owner)
            used |= calling.terms(self.shelf[world.item])
        answers = [self.shelf[number] for worker in world.workers for number in worker.answers]
        used |= {one.before.owner for one in answers if isinstance(one, Claim) and one.before is not None}
        used |= {term for one in answers if isinstance(one, Refused) for term in calling.terms(one.item)}
        return next(owner for owner in range(1, 9) if owner_name(owner) not in used)

    # -- claims

    def _claim(self, world: World, worker: Worker, label: str) -> Iterator[Step]:
        granted = self._granted(world.item, worker)
        message = self.function.message_of(worker.record.envelope)
        after = world._replace(item=granted.item).noted(*_claim_facts(world, self.shelf, granted, message))
        after = after.blamed(self._claim_fault(world, granted) or checks.text_fault(after, message))
        yield from self._went_on(after, worker, granted.answer, f"{label}: {granted.verdict.value}")

    def _claim_again(self, world: World, worker: Worker) -> Iterator[Step]:
        yield from self._claim(world, worker, self._label("claim once more", worker))

    def _judge(self, world: World, worker: Worker) -> Iterator[Step]:
        """The worker reads who has the hop. One that may go on has taken nothing yet."""
        read = self._granted(world.item, worker)
        label = f"{self._label('read', worker)}: {read.verdict.value}"
        if read.verdict is Verdict.CLAIMED:
            yield from self._went_on(world, worker, read.answer, label)
        else:
            yield from self._claim(world, worker, self._label("read", worker))

    def _claim_twice(self, world: World, worker: Worker, label: str) -> Iterator[Step]:
        first = self._granted(world.item, worker)
        if first.verdict is not Verdict.CLAIMED:
            return
        message = self.function.message_of(worker.record.envelope)
        facts = _claim_facts(world, self.shelf, first, message)
        after = world._replace(item=first.item).spend("lost").noted(*facts)
        if self._granted(first.item, worker).verdict is not Verdict.CLAIMED:
            after = after.blamed("a worker does not recognise its own claim")
        yield from self._claim(after, worker, label)

    def _claim_unanswered(self, world: World, worker: Worker, label: str) -> Iterator[Step]:
        """A shared call says nothing of this claim, whether it was carried out or not."""
        granted, nothing = self._granted(world.item, worker), self.shelf.put(None)
        yield from self._went_on(world, worker, nothing, f"{label}: not carried out")
        if granted.verdict is Verdict.CLAIMED:
            message = self.function.message_of(worker.record.envelope)
            after = world._replace(item=granted.item).noted(*_claim_facts(world, self.shelf, granted, message))
            yield from self._went_on(after, worker, nothing, f"{label}: not answered")

    def _claim_fault(self, world: World, granted: _Granted) -> str:
        late = ("expired",) in world.log and granted.verdict is Verdict.EARLY
        return "" if late else granted.fault

    def _granted(self, item: int | None, worker: Worker) -> _Granted:
        key = (item, worker)
        if key not in self._claims:
            self._claims[key] = self._ask(item, worker)
        return self._claims[key]

    def _ask(self, number: int | None, worker: Worker) -> _Granted:
        call = self.function.call_of(worker)
        assert isinstance(call, Claiming | Judging), call
        item: RunItem | None = None if number is None else self.shelf[number]
        item = calling.as_found(item, call.request.message)
        verdict = claims.decide(item, call.request)
        message = call.request.message
        fault = checks.conflict_fault(self.scenario, verdict, item, message)
        if verdict is not Verdict.CLAIMED:
            return _Granted(number, self.shelf.put(Refused(verdict, item)), verdict, fault)
        after = claims.taken(item, call.request)
        if isinstance(call, Judging):
            found = _as_read(item)
            return _Granted(
                number, self.shelf.put(Claim(message, after, found, unwritten=call.request)), verdict, fault
            )
        answer = self.shelf.put(Claim(message, after, _essence(item, call.request.owner)))
        return _Granted(self.shelf.put(after), answer, verdict, fault or checks.claim_fault(item, after))

    # -- workers

    def _went_on(self, world: World, worker: Worker, answer: int, label: str) -> Iterator[Step]:
        """The worker has an answer. One that has nothing to do but to end has ended: nothing happens in between."""
        went = worker._replace(answers=(*worker.answers, answer))
        call = self.function.call_of(went)
        if isinstance(call, Ended) and (not call.ack or len(went.answers) == 1):
            yield label, self._acked(world, went) if call.ack else self._back(world, went)
        else:
            yield label, world._replace(workers=(*world.workers, went))

    def _work(self, world: World, worker: Worker) -> Iterator[Step]:
        """The worker's next call, answered in each way it may be; or the worker dies instead."""
        call = self.function.call_of(worker)
        if world.budget.crashes:
            yield self._label("death", worker), self._back(world, worker).spend("crashes")
        match call:
            case Ended():
                yield self._label("ack", worker), self._acked(world, worker)
            case Handling():
                yield from self._handle(world, worker)
            case Committing():
                yield from self._commit(world, worker, call)
            case Sending(sends):
                yield from self._send(world, worker, sends)
            case Releasing() | Noting():
                yield from self._fenced(world, worker, call)
            case Claiming() | Judging():
                ask = self._claim_again if isinstance(call, Claiming) else self._judge
                yield from ask(world, worker)
            case Attaching() | NotingRows() | ReadingRows() | ForgettingRows():
                yield from self._called(world, worker, call)
            case _:
                yield from self._answer(world, worker)

    def _handle(self, world: World, worker: Worker) -> Iterator[Step]:
        *_, message = [one.message for one in map(self.shelf.__getitem__, worker.answers) if isinstance(one, Claim)]
        if self.scenario.budget.kills:
            world = world.blamed(checks.handled_fault(world, message))
        if world.budget.kills:
            killed = world.noted(checks.kill_fact(world, message)).spend("kills")
            yield self._label("killed", worker), self._back(killed, worker)
        yield from self._went_on(world, worker, self.shelf.put("ok"), self._label("handle", worker))
        for ending, what in (("fail", "failures"), ("reject", "rejects")):
            if getattr(world.budget, what):
                answer = self.shelf.put(ending)
                call = self.function.call_of(worker._replace(answers=(*worker.answers, answer)))
                fault = checks.failure_fault(self.scenario, message, ending, call)
                yield from self._went_on(world.spend(what).blamed(fault), worker, answer, self._label(ending, worker))

    # -- releases and commits

    def _fenced(self, world: World, worker: Worker, call: Releasing | Noting) -> Iterator[Step]:
        """As the store does it: nothing where another owns the hop. A note may be written and never answered."""
        claim, after = call.claim, world
        found: RunItem | None = None if world.item is None else self.shelf[world.item]
        if self._passes(claim, found):
            item = found or claim.item
            item = noted(item, claim) if isinstance(call, Noting) else released(item, claim, NOW, failed=call.failed)
            after = world._replace(item=self.shelf.put(item))
        what = f"note {claim.item.kills} killed" if isinstance(call, Noting) else "release"
        yield from self._went_on(after, worker, self.shelf.put("written"), self._label(what, worker))
        if world.budget.lost and isinstance(call, Noting):
            never = self.shelf.put(ConnectionError("no answer"))
            yield from self._went_on(after.spend("lost"), worker, never, self._label(f"{what}, never answered", worker))

    def _commit(self, world: World, worker: Worker, call: Committing) -> Iterator[Step]:
        claim, commit = call.claim, call.commit
        label = self._label(f"commit {commit.status.value}", worker)
        if call.shared and world.budget.lost:
            yield from self._went_on(world.spend("lost"), worker, self.shelf.put(None), f"{label}: not carried out")
        found: RunItem | None = None if world.item is None else self.shelf[world.item]
        if claim.unwritten is not None:
            yield from self._commit_read(world, worker, claim, commit, claim.unwritten)
            return
        if not self._passes(claim, found):
            answer = claims.refused_commit(claim, commit, found)
            told = "taken for done" if isinstance(answer, Committed) else f"fenced by {answer.by.value}"
            yield from self._went_on(world, worker, self.shelf.put(answer), f"{label}: {told}")
            return
        after = self._written(world, worker, claim, commit)
        assert after.item is not None
        callers = self.shelf[after.item].answered if commit.closes_list else None
        yield from self._went_on(after, worker, self.shelf.put(Committed(callers)), label)
        if world.budget.lost:
            yield from self._commit_lost(after.spend("lost"), worker, claim, commit, label)

    def _commit_read(
        self, world: World, worker: Worker, claim: Claim, commit: Commit, request: ClaimRequest
    ) -> Iterator[Step]:
        """The commit of a hop that was only read takes it, or is answered as a claim of that moment."""
        label = self._label(f"take and commit {commit.status.value}", worker)
        found: RunItem | None = None if world.item is None else self.shelf[world.item]
        found = calling.as_found(found, claim.message)
        if not self._is_as_read(claim, found):
            yield from self._overtaken(world, worker, claim, commit, request, label)
            return
        item = claims.taken(found, request)
        fault = checks.conflict_fault(self.scenario, Verdict.CLAIMED, found, claim.message)
        fault = fault or checks.claim_fault(found, item)
        if worker.stalled_at:
            fault = "a worker commits what it read before the item expired"
        taken = world._replace(item=self.shelf.put(item)).blamed(fault)
        if found is not None and found.request_id != claim.message.request_id:
            taken = taken.noted(("superseded", found.request_id))
        after = self._written(taken, worker, claim, commit)
        assert after.item is not None
        callers = self.shelf[after.item].answered if commit.closes_list else None
        yield from self._went_on(after, worker, self.shelf.put(Committed(callers)), label)
        if world.budget.lost:
            lost = after.spend("lost")
            never = self.shelf.put(ConnectionError("no answer"))
            yield from self._went_on(lost, worker, never, f"{label}, never answered")
            yield from self._overtaken(lost, worker, claim, commit, request, f"{label}, repeated")

    def _overtaken(
        self, world: World, worker: Worker, claim: Claim, commit: Commit, request: ClaimRequest, label: str
    ) -> Iterator[Step]:
        """The condition has failed: it was this worker's own commit, or its message is judged anew."""
        found: RunItem | None = None if world.item is None else self.shelf[world.item]
        answer: Committed | Refused
        if isinstance(own := claims.refused_commit(claim, commit, found), Committed):
            callers = found.answered if commit.closes_list and found is not None else None
            answer, told, facts = Committed(callers), "taken for done", list[Fact]()
        else:
            found = calling.as_found(found, claim.message)
            verdict = claims.decide(found, request)
            fault = checks.conflict_fault(self.scenario, verdict, found, claim.message)
            granted = _Granted(world.item, self.shelf.put(Refused(verdict, found)), verdict, fault)
            world = world.blamed(self._claim_fault(world, granted))
            answer, told = Refused(verdict, found), f"{own.by.value}, {verdict.value}"
            is_open = verdict is Verdict.CLAIMED
            facts = [] if is_open else _claim_facts(world, self.shelf, granted, claim.message)
        yield from self._went_on(world.noted(*facts), worker, self.shelf.put(answer), f"{label}: {told}")

    def _is_as_read(self, claim: Claim, found: RunItem | None) -> bool:
        read = claim.before
        if read is None:
            return found is None or not self._environment.creates_only
        if found is None:
            return not self._environment.read_fence
        return all(getattr(found, name) == getattr(read, name) for name in self._environment.read_fence)

    def _commit_lost(self, after: World, worker: Worker, claim: Claim, commit: Commit, label: str) -> Iterator[Step]:
        """The write is applied. Its answer never comes, or it is repeated and meets itself."""
        never = self.shelf.put(ConnectionError("no answer"))
        yield from self._went_on(after, worker, never, f"{label}, never answered")
        assert after.item is not None
        answer = claims.refused_commit(claim, commit, self.shelf[after.item])
        if commit.closes_list and isinstance(answer, Committed):
            answer = Committed(self.shelf[after.item].answered)
        seen = after if isinstance(answer, Committed) else after.blamed("a worker does not recognise its own commit")
        yield from self._went_on(seen, worker, self.shelf.put(answer), f"{label}, repeated")

    def _passes(self, claim: Claim, found: RunItem | None) -> bool:
        fence, mine = self._environment.fence, claim.item
        if found is None:
            return not fence
        same = all(getattr(found, name) == getattr(mine, name) for name in fence - {"done"})
        return same and not (found.done and "done" in fence)

    def _written(self, world: World, worker: Worker, claim: Claim, commit: Commit) -> World:
        message, found = claim.message, None if world.item is None else self.shelf[world.item]
        end = "UNDONE" if commit.undone else commit.status.value
        fact = ("commit", message.request_id, str(message.hop), end, str(message.redrive))
        owed = _owed(commit.outbox.sends if commit.outbox is not None else ())
        ended = [("ended", message.request_id)] if commit.status in checks.ENDED else []
        fault = checks.write_fault(world, found, owner_name(worker.owner), fact)
        handled = {"fail", "reject"}.intersection(str(self.shelf[answer]) for answer in worker.answers)
        if not handled:
            fault = fault or checks.killed_fault(self.scenario, world, worker.record, message, commit)
        fault = fault or checks.resumed_fault(self.scenario, world, claim.item, commit) or checks.told_fault(commit)
        after = (found or claim.item)._replace(
            status=commit.status,
            done=True,
            committed_at=commit.committed_at,
            outbox=commit.outbox,
            state=(found or claim.item).state if commit.leaves_state else commit.state,
            result=commit.result,
            stages={} if commit.status is Status.COMPLETED else (found or claim.item).stages,
            wait=waits.after_commit(found or claim.item, commit),
            failed=_failed(found or claim.item, commit),
            first_text=None,
        )
        after = calling.committed(after, claim, commit, closes=self._environment.closes_list)
        fault = fault or checks.reset_fault(found) or checks.cancelled_fault(found, commit)
        return world._replace(item=self.shelf.put(after)).noted(fact, *owed, *ended).blamed(fault)

    # -- callers

    def _called(self, world: World, worker: Worker, call: Calling) -> Iterator[Step]:
        """A list of callers is written or read. A write may be applied and never answered."""
        label, item = self._label("callers", worker), None if world.item is None else self.shelf[world.item]
        match call:
            case Attaching(term, caller, in_row=True):
                rows = world.callers | {(term, self.shelf.put(caller))}
                yield from self._went_on(world._replace(callers=rows), worker, self.shelf.put(True), f"{label}: row")
            case Attaching(term, caller):
                yield from self._listed(
                    world,
                    worker,
                    calling.attached(item, term, caller, looks=self._environment.looks_at_list),
                    f"{label}: attach",
                )
            case NotingRows(term):
                yield from self._listed(world, worker, calling.with_rows(item, term), f"{label}: note rows")
            case ReadingRows(term):
                found = [self.shelf[number] for name, number in sorted(world.callers) if name == term]
                yield from self._went_on(world, worker, self.shelf.put(found), f"{label}: read rows")
            case ForgettingRows(term, callers):
                gone = {(term, self.shelf.put(one)) for one in callers}
                after = world._replace(callers=world.callers - gone)
                yield from self._went_on(after, worker, self.shelf.put("gone"), f"{label}: forget rows")

    def _listed(self, world: World, worker: Worker, item: RunItem | None, label: str) -> Iterator[Step]:
        if item is None:
            yield from self._went_on(world, worker, self.shelf.put(False), f"{label}, too late")
            return
        after = world._replace(item=self.shelf.put(item))
        yield from self._went_on(after, worker, self.shelf.put(True), label)
        if world.budget.lost:
            never = self.shelf.put(ConnectionError("no answer"))
            yield from self._went_on(after.spend("lost"), worker, never, f"{label}, never answered")

    def _resets(self, world: World, item: RunItem) -> Iterator[Step]:
        """Somebody resets the run at work, or its end, and sends the message for it, or dies before."""
        if not world.budget.resets or not claims.can_be_reset(item, calling.RESET, NOW):
            return
        after = calling.reset(item, NOW, fences=self._environment.reset_fences)
        gone = world.spend("resets", item=self.shelf.put(after))
        yield "the run is reset, and nothing is sent", gone
        if (restart := self.function.restarted(after)) is not None:
            yield "the run is reset", gone.with_message(restart)

    # -- cancellations

    def _cancelled(self, world: World, at: int, only: RequestId | None) -> tuple[World, RunItem | None]:
        item: RunItem | None = None if world.item is None else self.shelf[world.item]
        about, fences = self._environment, self._environment.cancel_fences
        after, answer = calling.cancelled(item, at, WHY, NOW, only, fences=fences, asks=about.cancel_asks)
        fault = checks.other_run_fault(answer, only)
        return world._replace(item=None if after is None else self.shelf.put(after)).blamed(fault), answer

    def _cancel(self, world: World, worker: Worker, call: Cancelling) -> Iterator[Step]:
        """A worker cancels the run of a request. A write may be applied and never answered."""
        after, answer = self._cancelled(world, call.at, call.only)
        label = self._label("cancel", worker)
        yield from self._went_on(after, worker, self.shelf.put(answer), label)
        if world.budget.lost and after.item != world.item:
            never = self.shelf.put(ConnectionError("no answer"))
            yield from self._went_on(after.spend("lost"), worker, never, f"{label}, never answered")

    def _cancels(self, world: World) -> Iterator[Step]:
        """Somebody cancels the run, and sends the message for one that waits, or dies before."""
        if not world.budget.cancels:
            return
        after, answer = self._cancelled(world, NOW, None)
        if answer is None:
            return
        gone = after.spend("cancels")
        yield "the run is cancelled, and nothing is sent", gone
        if (onward := self.function.ended_wait(answer)) is not None:
            yield "the run is cancelled", gone.with_message(onward)

    # -- waits

    def _answer(self, world: World, worker: Worker) -> Iterator[Step]:
        """The next call of a worker that settles something, or that is about to wait."""
        match self.function.call_of(worker):
            case Settling(address, answer):
                yield from self._settle(world, worker, address, answer)
            case Cancelling() as cancelling:
                yield from self._cancel(world, worker, cancelling)
            case TimingOut(address):
                yield from self._time_out(world, worker, address)
            case Early(address, look):
                yield from self._look(world, worker, address, look)
            case Saving(rows):
                saved = world._replace(rows=world.rows.union(map(self.shelf.put, rows)))
                yield from self._went_on(saved, worker, self.shelf.put("saved"), self._label("rows", worker))
            case Finding() | WaitJudging() | Keeping() | Taking() | Freeing() | Looking() as call:
                yield from self._outside(world, worker, call)
            case Ended(ack):
                yield self._label("end", worker), self._acked(world, worker) if ack else self._back(world, worker)
            case call:
                raise AssertionError(f"{call} is no call about a wait")

    def _outside(
        self, world: World, worker: Worker, call: Finding | WaitJudging | Keeping | Taking | Freeing | Looking
    ) -> Iterator[Step]:
        """The next call of a worker that has an answer from outside, or looks for one."""
        match call:
            case Finding(awaited_id):
                rows = tuple(row for row in map(self.shelf.__getitem__, sorted(world.rows)) if row.id == awaited_id)
                yield from self._went_on(world, worker, self.shelf.put(rows), self._label("find", worker))
            case WaitJudging(address):
                verdict = judge(None if world.item is None else self.shelf[world.item], address)
                label = self._label(f"judge wait: {verdict.value}", worker)
                yield from self._went_on(world, worker, self.shelf.put(verdict), label)
            case Keeping(awaited_id, answer, waited):
                there = self._kept(world, awaited_id)
                after = world if there else self._with_kept(world, awaited_id, _Kept(answer, waited))
                kept = Kept(
                    is_new=there is None, used_by=there.user if there else "", waited=there.waited if there else ""
                )
                yield from self._went_on(after, worker, self.shelf.put(kept), self._label("keep", worker))
            case Taking(address, answer, use):
                yield from self._take(world, worker, address, answer, use)
            case Freeing(awaited_id):
                there = self._kept(world, awaited_id)
                is_left = there is not None and not there.user
                after = self._with_kept(world, awaited_id, there._replace(waited="")) if there and is_left else world
                yield from self._went_on(after, worker, self.shelf.put(is_left), self._label("free", worker))
            case Looking(awaited_id, who):
                there = self._kept(world, awaited_id)
                is_free = there is not None and there.user in {"", who}
                early = EarlyAnswer(there.answer, waited=there.waited) if there and is_free else None
                yield from self._went_on(world, worker, self.shelf.put(early), self._label("look", worker))

    def _take(
        self, world: World, worker: Worker, address: AnswerAddress, answer: GivenAnswer, use: Use
    ) -> Iterator[Step]:
        """Both or nothing: a run gets the answer, and it is used up."""
        _, settled = waits.settle(self.shelf, world.item, address, answer)
        there = self._kept(world, use.id)
        if settled.verdict in waits.APPLIED and (there is None or there.user not in {"", use.user}):
            yield from self._went_on(world, worker, self.shelf.put(None), self._label("take: used", worker))
            return
        applied = settled.verdict in waits.APPLIED and self._environment.uses_up
        after = self._with_kept(world, use.id, there._replace(user=use.user)) if there and applied else world
        yield from self._settle(after, worker, address, answer)

    def _kept(self, world: World, awaited_id: str) -> _Kept | None:
        number = dict(world.kept).get(awaited_id)
        found: _Kept | None = None if number is None else self.shelf[number]
        return found

    def _with_kept(self, world: World, awaited_id: str, kept: _Kept) -> World:
        return world._replace(kept=frozenset({**dict(world.kept), awaited_id: self.shelf.put(kept)}.items()))

    def _settle(self, world: World, worker: Worker, address: AnswerAddress, answer: GivenAnswer) -> Iterator[Step]:
        number, settled = waits.settle(self.shelf, world.item, address, answer)
        label = self._label(f"settle {address.name}: {settled.verdict.value}", worker)
        after = world._replace(item=number)
        if settled.verdict in waits.APPLIED:
            assert world.item is not None
            assert number is not None
            fault = checks.answer_fault(self.scenario, world, self.shelf[world.item], self.shelf[number], address)
            after = after.noted(checks.answer_fact(address, answer)).blamed(fault)
        yield from self._went_on(after, worker, self.shelf.put(settled), label)
        if world.budget.lost and settled.verdict in waits.APPLIED:
            never = self.shelf.put(ConnectionError("no answer"))
            yield from self._went_on(after.spend("lost"), worker, never, f"{label}, never answered")
            yield from self._settle(after.spend("lost"), worker, address, answer)

    def _time_out(self, world: World, worker: Worker, address: AnswerAddress) -> Iterator[Step]:
        number, ended = waits.time_out(self.shelf, world.item, address, ends_twice=self._environment.ends_twice)
        label = self._label(f"time out: {ended.applied}", worker)
        after = world._replace(item=number)
        if ended.applied:
            assert world.item is not None
            after = after.blamed(checks.deadline_fault(self.shelf[world.item], address))
        yield from self._went_on(after, worker, self.shelf.put(ended), label)
        if ended.applied and world.budget.lost:
            never = self.shelf.put(ConnectionError("no answer"))
            yield from self._went_on(after.spend("lost"), worker, never, f"{label}, never answered")

    def _look(self, world: World, worker: Worker, address: AnswerAddress, look: Look) -> Iterator[Step]:
        number, looked = waits.look(self.shelf, world.item, address, look)
        label = self._label(f"too early, {'sent again' if looked.goes_on else 'a copy'}", worker)
        after = world._replace(item=number)
        yield from self._went_on(after, worker, self.shelf.put(looked), label)
        if number != world.item and world.budget.lost:
            never = self.shelf.put(ConnectionError("no answer"))
            yield from self._went_on(after.spend("lost"), worker, never, f"{label}, never answered")

    # -- sends

    def _send(self, world: World, worker: Worker, sends: tuple[Send, ...]) -> Iterator[Step]:
        early = self._acked(world, worker) if self._environment.acks_before_sending else world
        label = self._label(f"send {', '.join(send.id for send in sends)}", worker)
        yield from self._went_on(self._sent(early, worker, sends), worker, self.shelf.put({}), label)
        for taken in _parts(sends):
            some = self._sent(early, worker, taken)
            said = f"{self._label('send', worker)}: only {', '.join(send.id for send in taken) or 'nothing'}"
            if world.budget.crashes and taken:
                yield f"{said}, then death", self._back(some, worker).spend("crashes")
            if world.budget.refused:
                refused = {place: Refusal("throttled") for place, send in enumerate(sends) if send not in taken}
                yield from self._went_on(some.spend("refused"), worker, self.shelf.put(refused), said)

    def _sent(self, world: World, worker: Worker, sends: tuple[Send, ...]) -> World:
        arrived = self._arrived(sends)
        own, _ = self.function.about(worker.record.envelope)
        fault = world.fault or checks.sends_fault(world, own, sends, arrived.facts)
        parked = tuple(sorted({*world.parked, *arrived.parked})) if arrived.parked else world.parked
        log = world.log if world.log.issuperset(arrived.facts) else world.log.union(arrived.facts)
        after = world._replace(workers=(*world.workers, worker), parked=parked, log=log, fault=fault)
        for envelope in arrived.queued:
            after = after.with_message(envelope)
        for copies in arrived.deadlines:
            if (copy := self._unlike(after, copies)) is not None:
                after = after.with_message(copy)
        return after._replace(workers=world.workers)

    def _unlike(self, world: World, copies: tuple[int, ...]) -> int | None:
        """One of the envelopes whose message id no other message has, nor the one that the wait remembers.

        None where the deadline lies far ahead, and the message that looks at the wait is there, or has been.
        """
        there = {record.envelope for record in world.queue} | {one.record.envelope for one in world.workers}
        wait = None if world.item is None else self.shelf[world.item].wait
        looked_by = "" if wait is None else wait.looked_by
        unlike = (one for one in copies if one not in there and self.shelf[one].message_id != looked_by)
        return next(unlike) if self.scenario.has_deadline else next(unlike, None)

    def _arrived(self, sends: tuple[Send, ...]) -> _Arrived:
        key = tuple(map(id, sends))
        if key not in self._sends:
            self._sends[key] = self._arrive(sends)
        return self._sends[key]

    def _arrive(self, sends: tuple[Send, ...]) -> _Arrived:
        """What comes of sends, wherever they come from: further hops and attempts, dead letters, facts."""
        queued, parked, facts, deadlines = [], [], list[Fact](), []
        for send in sends:
            inward = isinstance(send.to, Queue) and send.to.short_name in (INBOX, FIFO_INBOX)
            if send.kind is Kind.DEAD:
                parked.append(self.function.received(send))
            elif send.kind is Kind.ASK:
                queued.append(self.function.answer_to(send))
                continue
            elif send.kind is Kind.DEADLINE:
                many = MOST_COPIES if self.scenario.has_deadline else int(send.delay == 0)
                ids = [f"deadline-{number}" for number in range(many)]
                deadlines.append(tuple(self.function.received(send, one) for one in ids))
            elif inward:
                queued.append(self.function.received(send))
            if not inward or send.kind is Kind.DEADLINE:
                facts.append(("sent", send.id, str(zlib.crc32(f"{send.to}{send.body}".encode()))))
        return _Arrived(sends, tuple(queued), tuple(parked), tuple(facts), tuple(filter(None, deadlines)))

    # -- what else may happen

    def _misfortunes(self, world: World) -> Iterator[Step]:
        if world.budget.doubles:
            for record in dict.fromkeys(world.queue):
                if record.hidden:
                    seen = record._replace(hidden=False)
                    queue = (*_without(world.queue, record), seen)
                    yield f"{self._name(record)} becomes visible again", world.spend("doubles", queue=queue)
        if world.item is not None:
            item: RunItem = self.shelf[world.item]
            yield from self._lapses(world, item)
            yield from self._resets(world, item)
            yield from self._cancels(world)
            if world.budget.expiries:
                yield "the item expires", self._expired(world)

    def _lapses(self, world: World, item: RunItem) -> Iterator[Step]:
        """The lease of a dead worker ends by itself; that of a living one only with bad luck."""
        alive = any(owner_name(worker.owner) == item.owner for worker in world.workers)
        if not item.done and item.lease_until > NOW and (world.budget.lapses or not alive):
            over = world._replace(item=self.shelf.put(item._replace(lease_until=NOW)))
            yield "the lease ends", over.spend("lapses") if alive else over
        if world.budget.abandoned and (item.done or item.lease_until == NOW):
            long_over = item._replace(lease_until=checks.LONG_OVER)
            if item.wait is not None:
                long_over = long_over._replace(wait=item.wait._replace(deadline=checks.LONG_OVER))
            yield "a day passes", world.spend("abandoned", item=self.shelf.put(long_over))

    def _expired(self, world: World) -> World:
        """Far later than any message lives, but for what a stalled worker still holds; then requests come again."""
        kept = frozenset(fact for fact in world.log if fact[0] in ("ended", "superseded", "sent"))
        stalled = tuple(map(self._stalled, world.workers))
        after = world.spend("expiries", item=None, log=kept | {("expired",)}, workers=stalled)
        for run in self.scenario.again:
            request = self.function.request(run)
            after = after.with_message(request).noted(("came", self.function.message_of(request).request_id))
        return after

    def _stalled(self, worker: Worker) -> Worker:
        """A worker that has only read is late now, by the clock that it looks at before it writes."""
        read = [one for one in map(self.shelf.__getitem__, worker.answers) if isinstance(one, Claim)]
        is_late = read and read[-1].unwritten is not None
        return worker._replace(stalled_at=len(worker.answers)) if is_late else worker

    def _people(self, world: World) -> Iterator[Step]:
        if world.budget.redrives:
            for letter in world.parked:
                parked = tuple(other for other in world.parked if other != letter)
                label = f"{self._name(Record(letter))} is moved back"
                yield label, world.with_message(letter).spend("redrives", parked=parked)

    # -- names

    def _label(self, what: str, worker: Worker) -> str:
        return f"{owner_name(worker.owner)}: {what} ({self._name(worker.record)})"

    def _name(self, record: Record) -> str:
        key = (record.envelope, record.from_dlq)
        if key not in self._names:
            _, what = self.function.about(record.envelope)
            self._names[key] = f"{what}{', given up' if record.from_dlq else ''}"
        return self._names[key]


def _claim_facts(world: World, shelf: Shelf, granted: _Granted, message: Message) -> list[Fact]:
    """Who lost the object, to whom."""
    if granted.verdict in (Verdict.ATTACHED, Verdict.KEPT):
        return [("called", message.request_id)]
    if granted.verdict is Verdict.IGNORED:
        return [("ignored", message.request_id)]
    if granted.verdict in (Verdict.STALE, Verdict.SUPERSEDED):
        return [("superseded", message.request_id)]
    if granted.verdict is not Verdict.CLAIMED:
        return []
    begins = message.hop == 1 and message.cancelled is None
    texts: list[Fact] = [("text", message.request_id, message.body)] if begins else []
    if world.item is None:
        return texts
    before: RunItem = shelf[world.item]
    return texts if before.request_id == message.request_id else [*texts, ("superseded", before.request_id)]


def _essence(item: RunItem | None, owner: str = "") -> RunItem | None:
    """All of it that a worker looks at: which run's which attempt it was. Keeps the number of workers small.

    Whose it was matters where it was the worker's, the ``owner``.
    """
    if item is None:
        return None
    return item._replace(
        epoch=0,
        outbox=None,
        state=None,
        result=None,
        committed_at=0,
        owner=Owner(item.owner if item.owner == owner else ""),
        lease_until=0,
        wait=None,
        callers=None,
        answered=None,
        askers={},
        left_end=None,
        first_message=None,
        error=None,
    )


def _as_read(item: RunItem | None) -> RunItem | None:
    """What the commit of a hop that was only read compares, beside what its worker looks at."""
    found = _essence(item)
    if item is None or found is None:
        return None
    return found._replace(epoch=item.epoch, owner=item.owner, askers=item.askers)


def _failed(item: RunItem, commit: Commit) -> FailedHop | None:
    """Where a run failed, as a commit leaves it in the item."""
    if commit.failed is not None:
        return commit.failed
    if commit.undone:
        return item.failed._replace(undone=True) if item.failed is not None else None
    return item.failed if item.own_failure is not None or commit.can_be_redriven else None


def _owed(sends: tuple[Send, ...]) -> Iterator[Fact]:
    """What of a commit has to be sent, and before what. Others may stay unsent where the run goes on without them."""
    carriers = [send.id for send in sends if send.kind in checks.CARRIERS]
    for send in sends:
        if send.kind in (Kind.NEXT, Kind.ASK):
            continue
        word = "before" if send.kind is Kind.DEADLINE else "owed"
        for carrier in [one for one in carriers if one != send.id] or [""]:
            yield word, send.id, carrier


def _without(queue: tuple[Record, ...], record: Record) -> tuple[Record, ...]:
    place = queue.index(record)
    return queue[:place] + queue[place + 1 :]


def _parts(sends: tuple[Send, ...]) -> Iterator[tuple[Send, ...]]:
    """Every part of a batch that may be taken, short of all of it."""
    for size in range(len(sends)):
        yield from combinations(sends, size)
