"""The function under test: the library's own batch, runtime and dispatch, stopped at each call to the outside.

A worker is its nonce and the answers it has got. To go on, it is run again from its start with those answers, up to
the first call that has none: nothing of its order of steps is modelled, so a wrong one is found.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from pydantic import BaseModel

from flowguard.callback import Callback
from flowguard.clock import ManualClock
from flowguard.destinations import Queue
from flowguard.errors import Reject
from flowguard.events import Event
from flowguard.failed import Failure
from flowguard.flow import AnyFlow, Flow
from flowguard.names.ids import ObjectId, RequestId
from flowguard.outcome import Done, Outcome
from flowguard.payload.codec import Codecs
from flowguard.protocol.callers import Caller, Callers, StoredEnd
from flowguard.protocol.claims import taken
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.outbox import Send
from flowguard.protocol.run import (
    AwaitingRow,
    BackOff,
    Claim,
    ClaimRequest,
    Commit,
    Committed,
    Fenced,
    Looked,
    Refused,
    ResetOnce,
    Rest,
    RunItem,
    RunName,
    Settled,
    TimedOut,
)
from flowguard.protocol.run_orders import ArrivedDeadline, read_order
from flowguard.protocol.waiting import EarlyAnswer, GivenAnswer, Kept, Look, Use
from flowguard.retry import Fixed, RetryPolicy
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.attributes import Attribute, attributes_to
from flowguard.wire.envelope import Envelope, normalize, normalize_record
from flowguard.wire.message import FLOW_STAGE, REQUEST_ID, ErrorNote, Message
from flowguard.wire.signing import UNSIGNED
from flowguard.worker.asks import CommitAnswer
from flowguard.worker.batch import Batch
from flowguard.worker.callbacks import Callbacks
from flowguard.worker.ending import Ending
from flowguard.worker.external_answer import ExternalAnswer
from flowguard.worker.place_store import PlaceStore
from flowguard.worker.ports import (
    Batches,
    CallerLists,
    Cancellations,
    Groups,
    Memos,
    Refusal,
    Services,
    Unlimited,
)
from flowguard.worker.restart import needs_restart, restart_of
from flowguard.worker.routing import Arrival, Routes
from flowguard.worker.settler import Settler
from tests.proofs.model.peers import EVENT_QUEUE, PARTIES, PARTY_QUEUE, answer_of, awaited_of
from tests.proofs.model.scenarios import Scenario
from tests.proofs.model.world import Record, Shelf, Worker

NOW = 1_800_000_000_000
WHY = "a mistake"
INBOX = "inbox"
FIFO_INBOX = "inbox.fifo"
COMPANION = "companion"
"""The object, the request and the record that come with each record where calls are shared."""
EARLY = -1
"""The nonce of a worker that gets the message of a deadline before its time."""
AGAIN = -2
"""The nonce of a worker that gets an answer which was left in its queue before."""
_DAY = timedelta(days=1)
_LONG = timedelta(days=29)
"""Longer than an item lives after its last write."""


class Claiming(NamedTuple):
    """A claim. One that is ``shared`` may stay without an answer, and is asked for again by a call of its own."""

    request: ClaimRequest
    shared: bool = False


class Judging(NamedTuple):
    """The item is read, and nothing is written. A shared read that stays without an answer is made again, alone."""

    request: ClaimRequest
    shared: bool = False


class Handling(NamedTuple):
    """The stage runs; answered by how it ends: ``ok``, ``fail``, ``reject``."""


class Committing(NamedTuple):
    claim: Claim
    commit: Commit
    shared: bool = False


class Releasing(NamedTuple):
    claim: Claim
    failed: bool


class Noting(NamedTuple):
    """The workers of an attempt that were killed are noted in the item."""

    claim: Claim


class Sending(NamedTuple):
    sends: tuple[Send, ...]


class Settling(NamedTuple):
    address: AnswerAddress
    answer: GivenAnswer


class TimingOut(NamedTuple):
    address: AnswerAddress


class Early(NamedTuple):
    """A deadline's message has come too early."""

    address: AnswerAddress
    look: Look


class Saving(NamedTuple):
    rows: tuple[AwaitingRow, ...]


class Finding(NamedTuple):
    """The rows of an id."""

    awaited_id: str


class WaitJudging(NamedTuple):
    """Whether a run can take an answer."""

    address: AnswerAddress


class Keeping(NamedTuple):
    """An answer is kept that may come before its wait. ``waited`` says who waits for it already."""

    awaited_id: str
    answer: GivenAnswer
    waited: str


class Taking(NamedTuple):
    """A run gets what is kept, which is used up by that."""

    address: AnswerAddress
    answer: GivenAnswer
    use: Use


class Freeing(NamedTuple):
    """What is kept is left to the next wait."""

    awaited_id: str


class Looking(NamedTuple):
    """Whether an answer was kept that no other wait has used."""

    awaited_id: str
    who: str


class Attaching(NamedTuple):
    """A caller is added to a list. One ``in_row`` is written there, and the item has still to say so."""

    term: str
    caller: Caller
    in_row: bool = False


class NotingRows(NamedTuple):
    """The item is told that a list has rows, if it is open."""

    term: str


class ReadingRows(NamedTuple):
    term: str


class ForgettingRows(NamedTuple):
    term: str
    callers: tuple[Caller, ...]


class Cancelling(NamedTuple):
    """A run is cancelled, if it is that of the request and time."""

    at: int
    why: str
    only: RequestId | None


class Ended(NamedTuple):
    """All that is left is to tell the queue."""

    ack: bool


Calling = Attaching | NotingRows | ReadingRows | ForgettingRows
Waiting = Settling | TimingOut | Early | Saving | Finding | WaitJudging | Keeping | Taking | Freeing | Looking
Working = Claiming | Judging | Handling | Releasing | Committing | Noting | Sending
Call = Working | Waiting | Calling | Cancelling | Ended


class Direct(NamedTuple):
    """An answer over HTTP: nobody gives it a second time, whatever comes of it."""

    awaited_id: str


class _Suspended(KeyboardInterrupt):
    """Passes through the runtime as the end of its process would."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call


class _Outside:
    """The store, the sender and the ids of one worker; also what its stages ask how to end."""

    asked: ClassVar[_Outside]
    shares: ClassVar[bool] = False

    def __init__(self, worker: Worker, answers: Sequence[Any], clock: ManualClock) -> None:
        self._owner = worker.owner
        self._answers = iter(answers)
        self._clock = clock
        self._stalls_after = worker.stalled_at
        self._late_by = 0

    @property
    def codecs(self) -> Codecs:
        return Codecs()

    @property
    def waits(self) -> _Outside:
        return self

    @property
    def memos(self) -> Memos:
        raise AssertionError("no stage of the worlds remembers anything")

    @property
    def cancellations(self) -> Cancellations:
        return self

    @property
    def places(self) -> PlaceStore:
        raise AssertionError("no stage here has a limit")

    @property
    def callers(self) -> CallerLists:
        return _Lists(self)

    @property
    def batches(self) -> Batches | None:
        return _Shared(self.ask) if self.shares else None

    def ask(self, call: Call) -> Any:
        answer = next(self._answers, self)
        if answer is self:
            raise _Suspended(call)
        self._stalls_after -= 1
        if self._stalls_after == 0:
            self._late_by = _LONG // timedelta(milliseconds=1)
            self._clock.advance(ms=self._late_by)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run_of(self, flow: str, object_id: ObjectId, by: RunName, known_until: int) -> RunName | None:
        raise AssertionError("nobody orders a cancellation by a message here")

    def cancel(
        self, flow: str, object_id: ObjectId, at: int, why: str, now: int, only: RequestId | RunName | None = None
    ) -> RunItem | None:
        assert not isinstance(only, RunName)
        found: RunItem | None = self.ask(Cancelling(at, why, only))
        return found

    def judge(self, request: ClaimRequest) -> Claim | Refused:
        if _is_companions(request.message):
            return Claim(request.message, taken(None, request), None, unwritten=request)
        answer: Claim | Refused = self.ask(Judging(request))
        return answer

    def claim(self, request: ClaimRequest) -> Claim | Refused:
        if _is_companions(request.message):
            return Claim(request.message, taken(None, request), None)
        answer: Claim | Refused = self.ask(Claiming(self._in_time(request)))
        return answer

    def _in_time(self, request: ClaimRequest) -> ClaimRequest:
        """A claim of a worker that has stalled, by the clock of the others: theirs began anew when the item expired."""
        late_by, self._late_by = self._late_by, 0
        self._clock.advance(ms=-late_by)
        return request._replace(
            now=request.now - late_by,
            lease_until=request.lease_until - late_by,
            abandoned_before=request.abandoned_before - late_by,
            expires_at=request.expires_at - late_by,
        )

    def release(self, claim: Claim, now: int, *, failed: bool, rest: Rest = None, called_attempt: str = "") -> None:
        self.ask(Releasing(claim, failed))

    def note_kills(self, claim: Claim) -> None:
        self.ask(Noting(claim))

    def back_off(self, claim: Claim, back_off: BackOff) -> None:
        raise AssertionError("no attempt of the worlds rests for a minute")

    def tell(self, claim: Claim, error: ErrorNote) -> None:
        raise AssertionError("no flow of the model has a full history")

    def commit(self, claim: Claim, commit: Commit) -> Committed | Fenced | Refused:
        if _is_companions(claim.message):
            return Committed()
        answer: Committed | Fenced | Refused = self.ask(Committing(claim, commit))
        return answer

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        own = {place: send for place, send in enumerate(sends) if not send.id.startswith(COMPANION)}
        if not own and sends:
            return {}
        answer: Mapping[int, Refusal] = self.ask(Sending(tuple(own.values())))
        return {place: answer[number] for number, place in enumerate(own) if number in answer}

    def settle(self, address: AnswerAddress, answer: GivenAnswer) -> Settled:
        settled: Settled = self.ask(Settling(address, answer))
        return settled

    @property
    def groups(self) -> Groups:
        raise AssertionError("the stages of the worlds wait for no group")

    def verdict(self, address: AnswerAddress) -> AnswerVerdict:
        verdict: AnswerVerdict = self.ask(WaitJudging(address))
        return verdict

    def time_out(self, address: AnswerAddress, now: int) -> TimedOut:
        ended: TimedOut = self.ask(TimingOut(address))
        return ended

    def look(self, address: AnswerAddress, look: Look) -> Looked:
        looked: Looked = self.ask(Early(address, look))
        return looked

    def save(self, rows: Sequence[AwaitingRow]) -> None:
        self.ask(Saving(tuple(rows)))

    def waiting_for(self, flow: str, awaited_id: str, by: str = "") -> tuple[AwaitingRow, ...]:
        rows: tuple[AwaitingRow, ...] = self.ask(Finding(awaited_id))
        return rows

    def keep_place(self, flow: str, awaited_id: str, by: str, row: AwaitingRow, until: int) -> None:
        raise AssertionError("an invocation of the worlds has time for all who wait")

    def keep_early(  # noqa: PLR0913 - everything but the first three is named
        self,
        flow: str,
        awaited_id: str,
        answer: GivenAnswer,
        *,
        now: int,
        expires_at: int,
        known_until: int = 0,
        by: str = "",
        at: int = 0,
        names: Sequence[str] = (),
        waited: str = "",
    ) -> Kept:
        kept: Kept = self.ask(Keeping(awaited_id, answer, waited))
        return kept

    def early(self, flow: str, awaited_id: str, now: int, who: str = "") -> EarlyAnswer | None:
        found: EarlyAnswer | None = self.ask(Looking(awaited_id, who))
        return found

    def take(self, address: AnswerAddress, answer: GivenAnswer, use: Use) -> Settled | None:
        settled: Settled | None = self.ask(Taking(address, answer, use))
        return settled

    def free_early(self, flow: str, awaited_id: str, by: str) -> bool:
        is_left: bool = self.ask(Freeing(awaited_id))
        return is_left

    def close_early(self, flow: str, awaited_id: str, by: str) -> None:
        raise AssertionError("the worlds have one object, so that several runs cannot wait at once")

    def postpone(self, envelope: Envelope, seconds: int) -> None:
        """The model delivers every visible record at any time."""

    def hand_back(self, records: Sequence[tuple[Envelope, int]]) -> None:
        """The model delivers every visible record at any time."""

    def new(self) -> str:
        return owner_name(self._owner)


def _is_companions(message: Message) -> bool:
    return message.object_id == COMPANION


class _Shared:
    """The calls that a worker shares with the record that came with its own. Nothing goes wrong for that one."""

    def __init__(self, ask: Callable[[Call], Any]) -> None:
        self._ask = ask

    def claim(self, requests: Sequence[ClaimRequest]) -> list[Claim | Refused | None]:
        return [self._claimed(request) for request in requests]

    def _claimed(self, request: ClaimRequest) -> Claim | Refused | None:
        if _is_companions(request.message):
            return Claim(request.message, taken(None, request), None)
        answer: Claim | Refused | None = self._ask(Claiming(request, shared=True))
        return answer

    def judge(self, requests: Sequence[ClaimRequest]) -> list[Claim | Refused | None]:
        return [self._judged(request) for request in requests]

    def _judged(self, request: ClaimRequest) -> Claim | Refused | None:
        if _is_companions(request.message):
            return Claim(request.message, taken(None, request), None, unwritten=request)
        answer: Claim | Refused | None = self._ask(Judging(request, shared=True))
        return answer

    def commit(self, commits: Sequence[tuple[Claim, Commit]], *, in_threads: bool = False) -> list[CommitAnswer]:
        return [self._committed(claim, commit) for claim, commit in commits]

    def _committed(self, claim: Claim, commit: Commit) -> Committed | Fenced | Refused | None:
        if _is_companions(claim.message):
            return Committed()
        try:
            answer: Committed | Fenced | Refused | None = self._ask(Committing(claim, commit, shared=True))
        except ConnectionError:
            return None
        return answer

    def release(self, claims: Sequence[Claim], now: int) -> None:
        assert not claims, "there is time enough for every record"

    def refusals(self) -> list[str]:
        return []


class _Lists:
    """The lists of callers of one worker, in the order of calls that the real store has."""

    row_first: ClassVar[bool] = True
    in_rows: ClassVar[bool] = False

    def __init__(self, outside: _Outside) -> None:
        self._ask = outside.ask

    def attach(
        self, flow: str, object_id: ObjectId, callers: Callers, caller: Caller, until: int, row_until: int
    ) -> bool:
        if not self.in_rows:
            return caller.key in callers.held or bool(self._ask(Attaching(callers.term, caller)))
        first: Calling = Attaching(callers.term, caller, in_row=True)
        second: Calling = NotingRows(callers.term)
        if not self.row_first:
            first, second = second, first
        return bool(self._ask(first)) and bool(self._ask(second))

    def rows(self, flow: str, object_id: ObjectId, term: str) -> Iterator[Sequence[Caller]]:
        if page := self._ask(ReadingRows(term)):
            yield page

    def forget(self, flow: str, object_id: ObjectId, term: str, callers: Sequence[Caller]) -> None:
        self._ask(ForgettingRows(term, tuple(callers)))

    def forget_askers(self, flow: str, object_id: ObjectId, keys: Sequence[str]) -> None:
        raise AssertionError("the worlds have no more requests than a commit removes")

    def reset(
        self, flow: str, object_id: ObjectId, by: str, at: int, now: int, order: ResetOnce | None = None
    ) -> RunItem | None:
        raise AssertionError("no worker of the worlds resets anything")

    def stored_end(self, flow: str, object_id: ObjectId) -> StoredEnd | None:
        raise AssertionError("no worker of the worlds reads an end")


def run_name(run: int) -> RequestId:
    return RequestId(f"run-{run}")


def owner_name(owner: int) -> str:
    return f"owner-{owner}"


class Cart(BaseModel):
    cart: str
    order: str = ""


class Passed(BaseModel):
    """The run's state: the hops it has passed, in their order, and the answers that the last of them got."""

    hops: tuple[int, ...] = ()
    answers: tuple[str, ...] = ()


class Answers(BaseModel):
    """No field takes a failure, and each may stay without an answer."""

    a: Any = None
    b: Any = None
    p: Any = None
    x: Any = None


def make_waiting_flow(scenario: Scenario) -> AnyFlow:
    """A flow whose first stage waits; it goes on at one of three stages, by how the wait ended."""
    policy, lease = RetryPolicy(attempts=scenario.attempts, backoff=Fixed(0), jitter=0), scenario.lease

    class Begin(Stage[Cart, Passed], name="first", then=("second", "late", "sorry"), retry=policy, lease=lease):
        def handle(self, payload: Cart, step: Step[Passed]) -> Outcome:
            _work(step)
            awaited = awaited_of(scenario, step)
            needed = scenario.needed or len(awaited)
            return GoOn.when(quorum=needed, **awaited, within=_DAY, on_timeout="late", on_error="sorry")

    class GoOn(Stage[Answers, Passed], name="second", retry=policy, lease=scenario.lease):
        def handle(self, payload: Answers, step: Step[Passed]) -> Outcome:
            _work(step)
            step.state.answers = tuple(name for name, one in payload.model_dump().items() if one is not None)
            return Done()

    class Late(Stage[dict[str, Any], Passed], name="late", retry=policy, lease=scenario.lease):
        def handle(self, payload: dict[str, Any], step: Step[Passed]) -> Outcome:
            _work(step)
            step.state.answers = _given(payload)
            return Done()

    class Sorry(Stage[dict[str, Any], Passed], name="sorry", retry=policy, lease=scenario.lease):
        def handle(self, payload: dict[str, Any], step: Step[Passed]) -> Outcome:
            _work(step)
            step.state.answers = _given(payload)
            return Done()

    class Waits(
        Flow,
        name="modelled",
        object_id="cart",
        inbox=INBOX,
        dead_letters="parked",
        complete_to="told",
        on_conflict=scenario.on_conflict,
        abandoned_after=_DAY,
        callbacks=(Callback(PARTY_QUEUE, id="ref"), Callback(EVENT_QUEUE, id="ref", keep_early=_DAY)),
        trust_senders=True,
    ):
        stages = (Begin, GoOn, Late, Sorry)

    return Waits


def _given(payload: dict[str, Any]) -> tuple[str, ...]:
    """The names with an answer, and not a failure in its place."""
    return tuple(sorted(name for name, one in payload.items() if not (isinstance(one, dict) and one.get("failed"))))


def make_flow(scenario: Scenario) -> AnyFlow:
    """A flow of one or two stages, each of which sends one side message. The last may read from a FIFO queue."""
    inbox = Queue(FIFO_INBOX if scenario.is_fifo else INBOX)
    policy = RetryPolicy(attempts=scenario.attempts, backoff=Fixed(0), jitter=0)
    last = scenario.hops == 1

    class First(
        Stage[Cart, Passed],
        name="first",
        then=() if last else "second",
        retry=policy,
        inbox=inbox if last else None,
        lease=scenario.lease,
    ):
        def handle(self, payload: Cart, step: Step[Passed]) -> Outcome:
            _work(step)
            return Done() if last else Second.message(payload)

    class Second(Stage[Cart, Passed], name="second", retry=policy, inbox=inbox, lease=scenario.lease):
        def handle(self, payload: Cart, step: Step[Passed]) -> Outcome:
            _work(step)
            return Done()

    class Undo(Stage[Failure, Passed], name="undo", retry=policy, lease=scenario.lease):
        def handle(self, payload: Failure, step: Step[Passed]) -> Outcome:
            _work(step)
            return Done()

    stages_ = (First,) if last else (First, Second)

    class Modelled(
        Flow,
        name="modelled",
        object_id="cart",
        inbox=INBOX,
        dead_letters="parked",
        complete_to="told",
        on_conflict=scenario.on_conflict,
        abandoned_after=_DAY,
        request_id="order" if scenario.by_payload else None,
        on_failed=Undo if scenario.undoes else None,
    ):
        stages = (*stages_, Undo) if scenario.undoes else stages_

    return Modelled


def _work(step: Step[Passed]) -> None:
    if step.object_id == COMPANION:
        return
    ending = _Outside.asked.ask(Handling())
    if ending == "fail":
        raise ValueError("this attempt fails")
    if ending == "reject":
        raise Reject("this can never work")
    step.state.hops = (*step.state.hops, step.hop)
    step.send("sides", {"of": step.hop})


def _received_again(envelope: Envelope) -> Envelope:
    """A record that was received before, and has waited."""
    attributes = {**envelope.received["attributes"], "ApproximateReceiveCount": "2", "SentTimestamp": "1"}
    return envelope._replace(received={**envelope.received, "attributes": attributes})


class Function:
    """All workers of a scenario, run step by step."""

    def __init__(self, scenario: Scenario, shelf: Shelf) -> None:
        self._shelf = shelf
        self._apart = scenario.apart
        self._in_rows = scenario.in_rows
        self._shares = scenario.shares
        self._by_payload = scenario.by_payload
        self.flow = make_waiting_flow(scenario) if scenario.waits else make_flow(scenario)
        self._failing = scenario.failing
        self._routes = Routes([self.flow])
        self._calls: dict[tuple[int, bool, int, tuple[int, ...], int], Call] = {}
        self._arrivals: dict[int, Arrival] = {}
        self._records: dict[tuple[int, str], int] = {}
        self._about: dict[int, tuple[str, str]] = {}

    def call_of(self, worker: Worker) -> Call:
        """What the worker does next."""
        key = (worker.record.envelope, worker.record.from_dlq, worker.owner, worker.answers, worker.stalled_at)
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = self._run(worker)
        return call

    def _run(self, worker: Worker) -> Call:
        _Lists.in_rows, _Outside.shares = self._in_rows, self._shares
        clock = ManualClock(self._now(worker))
        outside = _Outside.asked = _Outside(worker, [self._shelf[answer] for answer in worker.answers], clock)
        services = Services(
            store=outside,
            sender=outside,
            clock=clock,
            ids=outside,
            observer=_unheard,
            draw=random.Random(0),
        )
        try:
            return Ended(self._ending(worker.record, services).ack)
        except _Suspended as suspended:
            return suspended.call

    def _now(self, worker: Worker) -> int:
        """The worker's clock. The message of a deadline mostly comes in its time."""
        is_late = self._is_deadline(worker.record.envelope) and worker.owner != EARLY
        return NOW + 2 * _DAY // timedelta(milliseconds=1) if is_late else NOW

    def _is_deadline(self, envelope: int) -> bool:
        found = self._shelf[envelope]
        return isinstance(found, Envelope) and isinstance(read_order(found), ArrivedDeadline)

    def is_from_outside(self, envelope: int) -> bool:
        """Answer whether a record is an answer that no flow gives."""
        found = self._shelf[envelope]
        return isinstance(found, Envelope) and found.queue in (PARTY_QUEUE, EVENT_QUEUE)

    def _ending(self, record: Record, services: Services) -> Ending:
        """Run the function that reads the record's queue."""
        envelope = self._shelf[record.envelope]
        callbacks = Callbacks((self.flow,), services)
        if isinstance(envelope, Direct):
            return self._direct(envelope, callbacks)
        if envelope.queue in (PARTY_QUEUE, EVENT_QUEUE):
            return callbacks.take(_received_again(envelope) if services.ids.new() == owner_name(AGAIN) else envelope)
        batch = Batch(self._routes, services, Unlimited(), from_dlq=record.from_dlq, together=self._shares)
        return batch.run([envelope, self._companion] if self._shares else [envelope])[0]

    def _direct(self, given: Direct, callbacks: Callbacks) -> Ending:
        [nothing] = normalize({}, invocation_id="direct")
        assert isinstance(nothing, Envelope)
        try:
            callbacks.answer(ExternalAnswer(self.flow, given.awaited_id, GivenAnswer('"given"')))
        except Exception:
            return Ending(nothing, ack=False)
        return Ending(nothing, ack=True)

    def message_of(self, envelope: int) -> Message:
        """The message of a record, as the library's own routing reads it."""
        if envelope not in self._arrivals:
            self._arrivals[envelope] = self._routes.resolve(self._shelf[envelope], NOW)
        return self._arrivals[envelope].message

    def about(self, envelope: int) -> tuple[str, str]:
        """The run of a record, if it says so, and what it is, for people."""
        if envelope not in self._about:
            self._about[envelope] = self._find_about(self._shelf[envelope], envelope)
        return self._about[envelope]

    def _find_about(self, envelope: Envelope | Direct, number: int) -> tuple[str, str]:
        if isinstance(envelope, Direct):
            return "", f"an answer over HTTP for {envelope.awaited_id}"
        if envelope.queue in (PARTY_QUEUE, EVENT_QUEUE):
            return "", f"an answer from outside for {json.loads(envelope.message)['ref']}"
        if (arrived := read_order(envelope)) is not None:
            run, name = arrived.address.request_id, arrived.address.name
            return run, f"{run}, the deadline" if isinstance(arrived, ArrivedDeadline) else f"{run}, the answer {name}"
        m = self.message_of(number)
        attempt = f"{f', redrive {m.redrive}' if m.redrive else ''}{f', retry {m.retry}' if m.retry else ''}"
        return m.request_id, f"{m.request_id}, hop {m.hop}{attempt}{', cancelled' if m.cancelled else ''}"

    def given(self, awaited_id: str, *, is_direct: bool = False) -> int:
        """The envelope of an event's answer, which comes without being asked for."""
        if is_direct:
            return self._shelf.put(Direct(awaited_id))
        return self._outside(EVENT_QUEUE, awaited_id)

    def unasked(self, run: int, name: str) -> int:
        """The envelope of a party's answer that it gives before it is asked: it knows the id from elsewhere."""
        message = self.message_of(self.request(run))
        return self._outside(PARTY_QUEUE, f"{name}#{message.hop_id}")

    def answer_to(self, send: Send) -> int:
        """The envelope of the answer to what was asked for."""
        if send.to == Queue(PARTIES):
            return self._outside(PARTY_QUEUE, send.attributes[REQUEST_ID].value)
        answer = answer_of(send, self._envelope_of(send.body, send.attributes, "m", "another"), self._failing)
        return self.received(answer)

    def _outside(self, queue: str, awaited_id: str) -> int:
        body = json.dumps({"ref": awaited_id})
        return self._shelf.put(self._envelope_of(body, {}, "m", queue))

    def request(self, run: int, later: int = 0, note: str | None = None) -> int:
        """The envelope of the first message of a run; a greater run was asked for later. ``later`` is in ms.

        ``note`` is in the payload, and makes it another text.
        """
        message = Message(
            flow=self.flow.name,
            stage="first",
            version=1,
            object_id=ObjectId("c"),
            request_id=run_name(run),
            requested_at=NOW - 1_000 + run + (run - 1) * self._apart + later,
            body='{"cart":"c"}' if note is None else json.dumps({"cart": "c", "note": note}),
            reply_to="sqs:told" if self.flow.on_conflict is OnConflict.ATTACH else None,
        )
        if not self._by_payload:
            return self._envelope(message.body, message.attributes())
        body = json.dumps({"cart": "c", "order": run_name(run)})
        said = {name: one for name, one in message.attributes().items() if name != REQUEST_ID}
        return self._envelope(body, said, message_id=f"m{later}")

    def cancelled(self, run: int) -> int:
        """The envelope of the request, once more and as cancelled."""
        message = self.message_of(self.request(run))._replace(body="cancelled", reply_to=None, cancelled=WHY)
        return self._envelope(message.body, message.attributes())

    def ended_wait(self, item: RunItem) -> int | None:
        """The envelope of the message that goes on with a cancelled run which waited; None where it did not."""
        outside = _Outside(Worker(Record(0), 0), [], ManualClock(NOW))
        settler = Settler(Services(store=outside, sender=outside))
        address = AnswerAddress(self.flow.name, ObjectId("c"), item.request_id, item.requested_at, item.hop, "")
        onward = settler.next_hop(self.flow, address, item)
        return None if onward is None else self.received(onward[1])

    def restarted(self, item: RunItem) -> int | None:
        """The envelope with which a run that was reset begins anew; None where its own is still there."""
        restart = restart_of(self.flow, ObjectId("c"), item, UNSIGNED) if needs_restart(item) else None
        return None if restart is None else self.received(restart.send)

    @cached_property
    def _companion(self) -> Envelope:
        """The record of another object that comes with each record."""
        message = self.message_of(self.request(1))._replace(
            object_id=ObjectId(COMPANION), request_id=RequestId(COMPANION), body=f'{{"cart":"{COMPANION}"}}'
        )
        found = self._shelf[self._envelope(message.body, message.attributes(), COMPANION)]
        assert isinstance(found, Envelope)
        return found

    def received(self, send: Send, message_id: str = "m") -> int:
        """The envelope in which a queue delivers what was sent to it."""
        key = (self._shelf.put(send), message_id)
        if key not in self._records:
            self._records[key] = self._envelope(send.body, send.attributes, message_id)
        return self._records[key]

    def _envelope(self, body: str, attributes: Mapping[str, Attribute], message_id: str = "m") -> int:
        """As the inbox of its stage delivers it, also where it comes from the dead letters."""
        inbox = self.flow.answers
        if FLOW_STAGE in attributes:
            inbox = self.flow.inbox_of(self.flow.stage(attributes[FLOW_STAGE].value.rpartition("/")[2]))
        assert isinstance(inbox, Queue)
        return self._shelf.put(self._envelope_of(body, attributes, message_id, inbox.name))

    def _envelope_of(self, body: str, attributes: Mapping[str, Attribute], message_id: str, queue: str) -> Envelope:
        record = {
            "messageId": message_id,
            "body": body,
            "attributes": {"SentTimestamp": str(NOW), "MessageGroupId": "c"},
            "messageAttributes": attributes_to(_IN_RECORD, attributes),
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:eu-central-1:123456789012:{queue}",
        }
        return normalize_record(record)


_IN_RECORD: Callable[[Attribute], dict[str, Any]] = Attribute.to_sqs_record


def _unheard(event: Event) -> None:
    """The model looks at what is done, not at what is told."""
