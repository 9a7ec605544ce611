"""The records of one invocation. Each goes its own way, their messages are sent together, none harms another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from flowguard.errors import EnvelopeError, RunFailed, Untrusted
from flowguard.events import EventType
from flowguard.protocol.run import Claim, Refused
from flowguard.wire.answer_address import AnswerAddress
from flowguard.wire.envelope import Envelope
from flowguard.worker.cancelling import Canceller, find_cancel
from flowguard.worker.dispatch import dispatch
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.group_asks import GroupAsks, find_group
from flowguard.worker.ports import Batches, Budget, CommitAnswer, Services
from flowguard.worker.resets import Resetter, find_reset
from flowguard.worker.routing import Arrival, Routes, Unroutable
from flowguard.worker.runtime import Runtime
from flowguard.worker.settler import Settler, find_arrived
from flowguard.worker.together import LONGEST_WAIT_MS, Asked, PendingCommits, Turn, Uncommitted, at_once, waves
from flowguard.worker.trust import Trust

if TYPE_CHECKING:
    from flowguard.worker.baton import Baton

DISPATCH_RESERVE_MS = 1_000
"""Kept of an invocation for sending what was committed: no further record is begun when less is left."""

WARNING_MS = 1_000
"""How long before its end an invocation warns that it will be cut off."""

_HELD: Final = "a record before it in its group stays in the queue"
_NO_TIME: Final = "not enough time was left to begin it"


class _Order(NamedTuple):
    """What is for a run and no stage's message. ``ending`` carries it out."""

    address: AnswerAddress
    ending: Callable[[], Ending]


class Batch:
    """Takes the envelopes of one invocation through the flows of one function.

    ``from_dlq`` is for the function of a dead-letter queue: SQS moved these records there, so their runs are ended.
    ``function_arn`` is the function's own, where Lambda says it. ``weak_flows`` are the flows that the function has
    warned of before, because their senders name no requests. ``together`` says that the records are claimed and
    committed in common calls, where there are several and the store has such calls.
    """

    def __init__(
        self,
        routes: Routes,
        services: Services,
        budget: Budget,
        *,
        from_dlq: bool = False,
        function_arn: str | None = None,
        weak_flows: set[str] | None = None,
        together: bool = False,
    ) -> None:
        self._together = together
        self._weak_flows: set[str] = set() if weak_flows is None else weak_flows
        self._routes = routes
        self._services = services
        self._budget = budget
        self._from_dlq = from_dlq
        self._trust = Trust(services.signer, function_arn)
        self._emitter = Emitter(services.observer)
        self._settler = Settler(services)
        self._resetter = Resetter(services)
        self._canceller = Canceller(services)
        self._group_asks = GroupAsks(services, self._emitter)
        self._baton = _baton() if together and services.threads and routes.are_parallel else None
        self._runtime = Runtime(services, self._emitter, nullcontext if self._baton is None else self._baton.handed_on)
        self._now_at: Arrival | None = None

    def run(self, envelopes: Sequence[Envelope]) -> list[Ending]:
        """Process the envelopes and return their endings in order. Those that say ``ack`` are done with.

        Of a FIFO queue each record's messages are sent before the next record is begun, and after one that stays in
        its queue the rest of its group stays too, untouched.
        """
        batches = self._services.store.batches if self._together and len(envelopes) > 1 else None
        with closing(self._runtime), self._warning():
            endings = self._in_turn(envelopes) if batches is None else self._in_waves(envelopes, batches)
            return dispatch(self._services, self._emitter, endings)

    def _in_turn(self, envelopes: Sequence[Envelope]) -> list[Ending]:
        """Process the records in order, each by calls for it alone."""
        endings: list[Ending] = []
        held: set[tuple[str | None, str | None]] = set()
        for envelope in envelopes:
            group = (envelope.queue_arn, envelope.group_id) if envelope.is_fifo else None
            if group in held:
                endings.append(self._returned(envelope, _HELD))
                continue
            ending = self._ending(envelope, first=not endings)
            if group is not None:
                [ending] = dispatch(self._services, self._emitter, [ending])
                ending = ending._replace(sends=())
                held.update(() if ending.ack else {group})
            endings.append(ending)
        return endings

    def _ending(self, envelope: Envelope, *, first: bool) -> Ending:
        """Take one envelope through its stage. Whatever goes wrong outside a stage leaves the record in its queue."""
        arrival: Arrival | None = None
        try:
            if (order := self._order(envelope)) is not None:
                return order.ending()
            arrival = self._now_at = self._arrival(envelope)
            if not first and not self._has_time(arrival):
                return self._returned(envelope, _NO_TIME)
            return self._alone(arrival)
        except Exception as error:  # a service, the network, a setting: kept, reported, delivered again by the queue
            return self._broken(envelope, arrival, error)

    def _order(self, envelope: Envelope) -> _Order | None:
        """Find the order, answer or deadline that the record is. None for a stage's message."""
        if (reset := find_reset(envelope)) is not None:
            flow = self._routes.flow(reset.flow)
            return _Order(reset, partial(self._resetter.ending, envelope, flow, reset))
        if (wanted := find_cancel(envelope)) is not None:
            flow = self._routes.flow(wanted.address.flow)
            return _Order(wanted.address, partial(self._canceller.ending, envelope, flow, wanted))
        if (order := find_group(envelope)) is not None:
            flow = self._routes.flow(order.address.flow)
            return _Order(order.address, partial(self._group_asks.ending, envelope, flow, order))
        if (arrived := find_arrived(envelope)) is not None:
            flow = self._routes.flow(arrived.address.flow)
            return _Order(arrived.address, partial(self._settler.ending, envelope, flow, arrived))
        return None

    def _alone(self, arrival: Arrival) -> Ending:
        """Take a message through its stage by calls of its own."""
        left = self._work(arrival)
        return left if isinstance(left, Ending) else self._finished(left, None)

    def _work(self, arrival: Arrival, asked: Asked | None = None) -> Ending | Uncommitted:
        with self._emitter.working_on(arrival):
            return self._runtime.work(arrival, self._budget, asked)

    def _broken(self, envelope: Envelope, arrival: Arrival | None, error: Exception) -> Ending:
        why = f"{type(error).__name__}: {error}"
        self._emitter.emit(_event_of(error), arrival, record=envelope.message_id, **_field(error), why=why)
        return Ending(envelope=envelope, ack=False, why=why)

    # -- together

    def _in_waves(self, envelopes: Sequence[Envelope], batches: Batches) -> list[Ending]:
        """Process the records of different objects and groups together, and those of one in turn."""
        endings: dict[int, Ending] = {}
        held: set[tuple[str | None, str | None] | None] = set()
        for wave in waves([self._turn(place, envelope) for place, envelope in enumerate(envelopes)]):
            stays = [turn for turn in wave if turn.group in held]
            endings |= {turn.place: self._returned(turn.envelope, _HELD) for turn in stays}
            self._wave([turn for turn in wave if turn not in stays], batches, endings)
            in_order = [turn for turn in wave if turn.group is not None]
            sent = dispatch(self._services, self._emitter, [endings[turn.place] for turn in in_order])
            for turn, ending in zip(in_order, sent, strict=True):
                endings[turn.place] = ending._replace(sends=())
                held.update(() if ending.ack else {turn.group})
        return [endings[place] for place in sorted(endings)]

    def _turn(self, place: int, envelope: Envelope) -> Turn:
        """Find out what the record is for. One that cannot be read says so when its turn has come."""
        try:
            if (order := self._order(envelope)) is not None:
                return Turn(place, envelope, about=(order.address.flow, order.address.object_id))
            arrival = self._arrival(envelope)
        except Exception:
            return Turn(place, envelope)
        return Turn(place, envelope, arrival, (arrival.flow.name, arrival.message.object_id))

    def _wave(self, wave: Sequence[Turn], batches: Batches, endings: dict[int, Ending]) -> None:
        """Process records of different objects. Those that may share calls go first."""
        first = not endings
        asked = self._ask([turn for turn in wave if turn.may_share], batches)
        threads = self._services.threads
        pending = PendingCommits(batches, self._services.clock, self._budget, in_threads=threads)
        not_begun: list[Claim] = []
        for several in at_once([turn for turn in wave if turn.place in asked], in_threads=self._baton is not None):
            if pending.is_due():
                endings |= self._committed(pending)
            work: dict[int, Callable[[], Ending | Uncommitted]] = {}
            for turn in several:
                claim = asked[turn.place]
                if not (first and turn.place == min(asked)) and not self._has_time(claim.arrival):
                    endings[turn.place] = self._returned(turn.envelope, _NO_TIME)
                    not_begun += claim.leases
                    continue
                work[turn.place] = partial(self._begun, turn.envelope, claim)
            endings |= self._ended(work, pending)
        endings |= self._committed(pending)
        batches.release(not_begun, self._services.clock.now())
        for turn in wave:
            if turn.place not in endings:
                endings[turn.place] = self._ending(turn.envelope, first=not endings)

    def _ask(self, turns: Sequence[Turn], batches: Batches) -> dict[int, Asked]:
        """Claim the records together that the time left is enough for, if each takes as long as its stage may.

        Those without a lease are read together.
        """
        left = self._budget.remaining()
        arrivals: dict[int, Arrival] = {}
        for turn in turns:
            if (arrival := turn.arrival) is None:
                continue
            if left is not None:
                if left <= DISPATCH_RESERVE_MS + _timeout(arrival):
                    break
                left -= _timeout(arrival) // (turn.parallel if self._baton is not None else 1)
            arrivals[turn.place] = arrival
        requests = {place: self._runtime.claim_request(one, self._budget) for place, one in arrivals.items()}
        answers: dict[int, Claim | Refused | None] = {}
        for ask, leased in ((batches.judge, False), (batches.claim, True)):
            places = [place for place, arrival in arrivals.items() if arrival.takes_lease is leased]
            if len(places) > 1:
                answers |= zip(places, ask([requests[place] for place in places]), strict=True)
        return {place: Asked(arrivals[place], request.owner, answers.get(place)) for place, request in requests.items()}

    def _ended(
        self, work: Mapping[int, Callable[[], Ending | Uncommitted]], pending: PendingCommits
    ) -> dict[int, Ending]:
        """Begin records, several at once. Where one takes long, the commits of the others do not wait for it."""
        began_at, endings = self._services.clock.now(), dict[int, Ending]()
        baton = self._baton if len(work) > 1 else None
        alone = ({place: begin()} for place, begin in work.items())
        for found in alone if baton is None else baton.at_once(work, LONGEST_WAIT_MS / 1000):
            for place, left in found.items():
                if isinstance(left, Ending):
                    endings[place] = left
                else:
                    pending.add(place, left, began_at)
            if not found or pending.is_due(at_work=True):
                endings |= self._committed(pending)
        return endings

    def _begun(self, envelope: Envelope, asked: Asked) -> Ending | Uncommitted:
        try:
            self._now_at = asked.arrival
            return self._work(asked.arrival, asked)
        except Exception as error:  # as of a record that goes alone
            return self._broken(envelope, asked.arrival, error)

    def _committed(self, pending: PendingCommits) -> dict[int, Ending]:
        """Make the commits that wait, and return the endings of their records."""
        endings: dict[int, Ending] = {}
        for place, left, answer in pending.flush():
            try:
                endings[place] = self._finished(left, answer)
            except Exception as error:  # as of a record that goes alone
                endings[place] = self._broken(left.arrival.envelope, left.arrival, error)
        return endings

    def _finished(self, left: Uncommitted, answer: CommitAnswer) -> Ending:
        """Return the ending of a hop with its commit's answer. One that was overtaken is handled again, claimed."""
        if (ending := self._runtime.finished(left, answer)) is not None:
            return ending
        arrival = self._now_at = left.arrival.to_claim()
        return self._alone(arrival) if self._has_time(arrival) else self._returned(arrival.envelope, _NO_TIME)

    # -- what each needs

    def _arrival(self, envelope: Envelope) -> Arrival:
        arrival = self._routes.resolve(envelope, self._services.clock.now(), self._trust)
        if arrival.weak_id and arrival.flow.name not in self._weak_flows:
            self._weak_flows.add(arrival.flow.name)
            self._emitter.emit(EventType.WEAK_ID, arrival)
        if self._from_dlq and arrival.problem is None:
            why = (
                "SQS gave the message up: each time it was delivered its function was killed, could not answer, or its "
                "stage failed and left it there (FIFO, or no queue to retry in); the function's log says which"
            )
            return arrival._replace(problem=RunFailed(why))
        return arrival

    def _has_time(self, arrival: Arrival) -> bool:
        left = self._budget.remaining()
        if left is None:
            return True
        return left > DISPATCH_RESERVE_MS + _timeout(arrival)

    def _returned(self, envelope: Envelope, why: str) -> Ending:
        self._emitter.emit(EventType.RETURNED, None, record=envelope.message_id, why=why)
        return Ending(envelope=envelope, ack=False, why=why)

    @contextmanager
    def _warning(self) -> Iterator[None]:
        """Warn shortly before the invocation is cut off, naming the message that it is in the middle of."""
        left = self._budget.remaining()
        if left is None:
            yield
            return
        call_off = self._services.alarm(
            max(left - WARNING_MS, 0), lambda: self._emitter.emit(EventType.TIME_SHORT, self._now_at, ms=WARNING_MS)
        )
        try:
            yield
        finally:
            call_off()


_MILLISECOND: Final = timedelta(milliseconds=1)


def _baton() -> Baton:
    from flowguard.worker.baton import Baton  # a function that handles one record at a time starts quicker

    return Baton()


def _timeout(arrival: Arrival) -> int:
    """Return how long the stage may take, ms."""
    if arrival.stage is None or (timeout := arrival.stage.timeout) is None:
        return 0
    return timeout // _MILLISECOND


def _field(error: Exception) -> dict[str, str]:
    return {"field": error.field} if isinstance(error, Untrusted) else {}


def _event_of(error: Exception) -> EventType:
    if isinstance(error, Unroutable):
        return EventType.UNROUTABLE
    if isinstance(error, Untrusted):
        return EventType.UNTRUSTED
    return EventType.UNREADABLE if isinstance(error, EnvelopeError) else EventType.BROKEN
