"""The records of one invocation. Each goes its own way, their messages are sent together, none harms another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, TypeGuard, TypeVar

from flowguard.errors import EnvelopeError
from flowguard.events import EventType
from flowguard.protocol.run import Claim
from flowguard.protocol.run_orders import read_order
from flowguard.stage import AnyStage
from flowguard.wire.envelope import BadRecord, Envelope
from flowguard.worker.asks import Answer, Ask, Claiming, Committing, Way
from flowguard.worker.dispatch import DueSends, dispatch
from flowguard.worker.driving import Driver
from flowguard.worker.emitter import Emitter
from flowguard.worker.ending import Ending
from flowguard.worker.object_notices import ObjectNotices
from flowguard.worker.outages import Outages
from flowguard.worker.own_table import ending_of_own, is_of_run_table
from flowguard.worker.patience import is_nearly_over
from flowguard.worker.ports import Batches, Budget, Services
from flowguard.worker.routing import Arrival, Routes, Unroutable
from flowguard.worker.runtime import Runtime
from flowguard.worker.together import LONGEST_WAIT_MS, PendingCommits, Shared, Turn, Waiting, at_once, can_wait, waves
from flowguard.worker.trust import Trust
from flowguard.worker.unread import is_parked, is_unopened_parked

if TYPE_CHECKING:
    from flowguard.worker.given_up import GivenUp
    from flowguard.worker.invocation_lock import InvocationLock

WARNING_MS = 1_000
"""How long before its end an invocation warns that it will be cut off."""

HAND_BACK_RESERVE_MS: Final = 300
"""With less left of an invocation, its records are seen again at their queues' own pace. ``KEPT_MS`` leaves more."""

_A_CALL: Final = 10
"""How many records are handed back before the time is looked at again."""

_HELD: Final = "a record before it in its group stays in the queue"
_NO_TIME: Final = "not enough time was left to begin it"

Result = TypeVar("Result")


class Batch:
    """Takes the envelopes of one invocation through the flows of one function.

    ``from_dlq`` is for the function of a dead-letter queue: SQS moved these records there, and no stage is begun.
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
        services.store.codecs.learn(routes.flows)
        self._budget = budget
        self._trust = Trust(services.signer, function_arn, gets_given_up=from_dlq)
        self._emitter = Emitter(services.observer)
        self._due = DueSends(services, self._emitter)
        self._lock = _lock() if together and services.threads and routes.are_parallel else None
        self._runtime = Runtime(services, self._emitter, None if self._lock is None else self._lock.handed_on)
        self._driver = Driver(services)
        self._given_up = _given_up(services, self._runtime) if from_dlq else None
        self._now_at: Arrival | None = None
        self._longest: dict[AnyStage, int] = {}
        self._outages = Outages(services, self._emitter, routes.flows)

    def run(self, envelopes: Sequence[Envelope], held: Sequence[Envelope] = ()) -> list[Ending]:
        """Process the envelopes and return their endings in order. Those that say ``ack`` are done with.

        The endings of the ``held``, which stay in their queue untouched, come after them.

        Of a FIFO queue each record's messages are sent before the next record is begun, and after one that stays in
        its queue the rest of its group stays too, untouched. A record that stays unread is to be seen again at once.
        """
        self._has_several = len(envelopes) > 1
        batches = self._services.store.batches if self._together and len(envelopes) > 1 else None
        call_off = self._warning()
        try:
            endings = self._in_turn(envelopes) if batches is None else self._in_waves(envelopes, batches)
            endings = dispatch(self._services, self._emitter, endings)
            endings += [self._returned(envelope, _HELD) for envelope in held]
            if self._given_up is not None:
                endings = [self._parked_at_last(ending) for ending in endings]
            self._hand_back(endings)
            return endings
        finally:
            call_off()
            self._runtime.close()

    def unopened(self, records: Sequence[BadRecord]) -> list[BadRecord]:
        """Park the records whose bodies nobody can read, if they have waited. Return those that stay in their queue."""
        flow = self._routes.flows[0]
        left = [bad for bad in records if not is_unopened_parked(self._services, self._emitter, flow, bad)]
        self._hand_back([self._outages.ending(bad.envelope, bad.error) for bad in left if bad.envelope is not None])
        return left

    def _in_turn(self, envelopes: Sequence[Envelope]) -> list[Ending]:
        """Process the records in order, each by calls for it alone."""
        endings: dict[int, Ending] = {}
        groups = [(envelope.queue_arn, envelope.group_id) if envelope.is_fifo else None for envelope in envelopes]
        for place, (envelope, group) in enumerate(zip(envelopes, groups, strict=True)):
            if place in endings:
                continue
            endings |= self._due.add({place: self._ending(envelope, first=not endings)})
            if group is not None:
                [endings[place]] = dispatch(self._services, self._emitter, [endings[place]])
                later = {at: envelopes[at] for at in range(place + 1, len(envelopes)) if groups[at] == group}
                endings |= self._in_order(endings[place], place, later)
        return [endings[place] for place in sorted(endings)]

    def _in_order(self, ending: Ending, place: int, later: Mapping[int, Envelope]) -> dict[int, Ending]:
        """Return the endings that follow from one of a FIFO group. If its record stays, so do the ``later`` ones.

        SQS gives out nothing of a group while one of its messages is hidden, so those are handed back with it.
        """
        ending = ending._replace(sends=())
        if ending.ack:
            return {place: ending}
        held = {at: self._returned(envelope, _HELD) for at, envelope in later.items()}
        endings = {place: ending, **held}
        if ending.why != _NO_TIME:  # else the others have no time either, and all go back in few calls
            self._hand_back(list(endings.values()))
            endings = {at: ending._replace(again_in=None, backs_off=False) for at, ending in endings.items()}
        return endings

    def _ending(self, envelope: Envelope, *, first: bool) -> Ending:
        """Take one envelope through its stage. Whatever goes wrong outside a stage leaves the record in its queue."""
        if (left := self._outages.left_alone(envelope)) is not None:
            return left
        if (acked := ending_of_own(self._services, self._emitter, envelope)) is not None:
            return acked
        arrival: Arrival | None = None
        try:
            if (order := read_order(envelope)) is not None:
                from flowguard.worker.orders import Orders  # most functions get the messages of stages alone

                orders = Orders(self._services, self._emitter, self._trust, self._routes.queues)
                return orders.ending(envelope, self._routes.flow(order.address.flow), order)
            if (notice := envelope.notice) is not None:
                return ObjectNotices(self._services, self._emitter, self._trust, self._routes).ending(envelope, notice)
            if first or self._has_time():
                arrival = self._arrival(envelope)
            if arrival is None or (not first and not self._has_time(arrival)):
                return self._returned(envelope, _NO_TIME)
            return self._alone(arrival)
        except Exception as error:  # a service, the network, a setting: kept, reported, delivered again by the queue
            return self._broken(envelope, arrival, error)

    def _alone(self, arrival: Arrival) -> Ending:
        """Take a message through its stage by calls of its own."""
        if self._given_up is not None:
            judged = self._driver.alone(self._given_up.judged(arrival, self._budget))
            if isinstance(judged, Ending):
                return judged
            arrival = judged
        way = self._runtime.work(arrival, self._budget)
        return self._at_work(arrival, lambda: self._driver.alone(way))

    def _at_work(self, arrival: Arrival, go_on: Callable[[], Result]) -> Result:
        """Carry a way on. Show an observer what is done for the message, and note how long that takes."""
        self._now_at, before = arrival, self._budget.remaining() if self._has_several else None
        try:
            if not self._emitter.opens_spans:
                return go_on()
            with self._emitter.working_on(arrival):
                return go_on()
        finally:
            self._note_time(arrival, before)

    def _note_time(self, arrival: Arrival, before: int | None) -> None:
        """Note how long the stage has taken, for the records after this one. ``before`` is what was left then, ms."""
        if before is not None and arrival.stage is not None and (after := self._budget.remaining()) is not None:
            self._longest[arrival.stage] = max(before - after, self._longest.get(arrival.stage, 0))

    def _broken(self, envelope: Envelope, arrival: Arrival | None, error: Exception) -> Ending:
        ending = self._outages.ending(envelope, error)._replace(arrival=arrival)
        self._emitter.broken(envelope, arrival, error, ending.why)
        unread = ending.for_minutes and isinstance(error, EnvelopeError | Unroutable)
        if unread and is_parked(self._services, self._emitter, self._routes.flows[0], envelope, ending.why):
            return ending._replace(ack=True, backs_off=False)
        return ending

    # -- together

    def _in_waves(self, envelopes: Sequence[Envelope], batches: Batches) -> list[Ending]:
        """Process the records of different objects and groups together, and those of one in turn."""
        endings: dict[int, Ending] = {}
        turns = [self._turn(place, envelope) for place, envelope in enumerate(envelopes)]
        for wave in waves(turns):
            begun = [turn for turn in wave if turn.place not in endings]
            self._wave(begun, batches, endings)
            in_order = [turn for turn in begun if turn.group is not None]
            sent = dispatch(self._services, self._emitter, [endings[turn.place] for turn in in_order])
            for turn, ending in zip(in_order, sent, strict=True):
                later = {late.place: late.envelope for late in turns[turn.place + 1 :] if late.group == turn.group}
                endings |= self._in_order(ending, turn.place, later)
        for why in batches.refusals():
            self._emitter.emit(EventType.UNSHARED, None, records=len(envelopes), why=why)
        return [endings[place] for place in sorted(endings)]

    def _turn(self, place: int, envelope: Envelope) -> Turn:
        """Find out what the record is for. One that cannot be read says so when its turn has come."""
        try:
            if (order := read_order(envelope)) is not None:
                return Turn(place, envelope, about=(order.address.flow, order.address.object_id))
            is_late = not self._has_time()  # a key may have to be asked for to open it: only the first is, in its turn
            if is_late or envelope.notice is not None or is_of_run_table(self._services, envelope):
                return Turn(place, envelope)
            arrival = self._arrival(envelope)
        except Exception:
            return Turn(place, envelope)
        return Turn(place, envelope, arrival, (arrival.flow.name, arrival.message.object_id))

    def _wave(self, wave: Sequence[Turn], batches: Batches, endings: dict[int, Ending]) -> None:
        """Process records of different objects. Those that may share calls go first.

        What may have killed a worker is begun when the others are committed, and committed before the next one.
        """
        first = not endings
        asked = self._ask([turn for turn in wave if turn.may_share])
        pending = PendingCommits(self._driver, self._services.clock, self._budget)
        not_begun: list[Claim] = []
        last = [turn for turn in wave if turn.place in asked and asked[turn.place].may_kill]
        rest = [turn for turn in wave if turn.place in asked and turn not in last]
        turns = [*at_once(rest, in_threads=self._lock is not None), *([turn] for turn in last)]
        for several in turns:
            if pending.is_due() or several[0] in last:
                endings |= self._due.add(self._committed(pending))
            work: dict[int, Callable[[], Ending | Waiting]] = {}
            for turn in several:
                claim = asked[turn.place]
                left = self._outages.left_alone(turn.envelope)
                if left is None and not (first and turn is turns[0][0]) and not self._has_time(claim.arrival):
                    left = self._returned(turn.envelope, _NO_TIME)
                if left is not None:
                    endings[turn.place] = left
                    not_begun += claim.leases
                    continue
                work[turn.place] = partial(self._begun, turn.envelope, claim)
            endings |= self._due.add(self._ended(work, pending))
        endings |= self._due.add(self._committed(pending))
        batches.release(not_begun, self._services.clock.now())
        for turn in wave:
            if turn.place not in endings:
                endings |= self._due.add({turn.place: self._ending(turn.envelope, first=not endings)})

    def _ask(self, turns: Sequence[Turn]) -> dict[int, Shared]:
        """Begin the records together that the time left is enough for, if each takes as long as its stage may."""
        left = self._budget.remaining()
        ways: dict[int, tuple[Arrival, Way[Ending]]] = {}
        for turn in turns:
            if (arrival := turn.arrival) is None:
                continue
            if left is not None:
                if left <= self._due.reserve_ms + _timeout(arrival):
                    break
                left -= _timeout(arrival) // (turn.parallel if self._lock is not None else 1)
            ways[turn.place] = arrival, self._runtime.work(arrival, self._budget)
        begun = {place: self._driver.begin(way) for place, (_, way) in ways.items()}
        asks = {place: ask for place, ask in begun.items() if not isinstance(ask, Ending)}
        answers = self._driver.ask_together(asks)
        return {place: Shared(*ways[place], answers.get(place)) for place in asks}

    def _ended(self, work: Mapping[int, Callable[[], Ending | Waiting]], pending: PendingCommits) -> dict[int, Ending]:
        """Begin records, several at once. Where one takes long, the commits of the others do not wait for it."""
        began_at, endings = self._services.clock.now(), dict[int, Ending]()
        lock = self._lock if len(work) > 1 else None
        alone = ({place: begin()} for place, begin in work.items())
        for results in alone if lock is None else lock.at_once(work, LONGEST_WAIT_MS / 1000):
            for place, left in results.items():
                if isinstance(left, Ending):
                    endings[place] = left
                else:
                    pending.add(place, left, began_at)
            if not results or pending.is_due(at_work=True):
                endings |= self._committed(pending)
        return endings

    def _begun(self, envelope: Envelope, shared: Shared) -> Ending | Waiting:
        """Carry on with a claim, up to a commit that may wait for others."""
        arrival = shared.arrival
        try:
            answer = shared.in_time(*self._runtime.claims.lease(arrival, self._budget))
            at = self._at_work(arrival, lambda: self._driver.answer(shared.way, answer, can_wait))
        except Exception as error:  # as of a record that goes alone
            return self._broken(envelope, arrival, error)
        return Waiting(arrival, shared.way, at) if isinstance(at, Committing) else at

    def _committed(self, pending: PendingCommits) -> dict[int, Ending]:
        """Make the commits that wait, and return the endings of their records."""
        endings: dict[int, Ending] = {}
        for place, left, answer in pending.flush():
            try:
                endings[place] = self._finished(left, answer)
            except Exception as error:  # as of a record that goes alone
                endings[place] = self._broken(left.arrival.envelope, left.arrival, error)
        return endings

    def _parked_at_last(self, ending: Ending) -> Ending:
        """Park a record that stays although its queue will soon delete it. SQS would not tell anybody."""
        flow = self._routes.flows[0] if ending.arrival is None else ending.arrival.flow
        is_due = not ending.ack and is_nearly_over(ending.envelope, flow.retention, self._services.clock.now())
        if not is_due or not is_parked(self._services, self._emitter, flow, ending.envelope, ending.why, is_last=True):
            return ending
        return ending._replace(ack=True, backs_off=False)

    def _finished(self, left: Waiting, answer: Answer) -> Ending:
        """Return the ending of a hop with its commit's answer. One that was overtaken is handled again, claimed."""
        at = self._driver.answer(left.way, answer, _is_claim)
        if isinstance(at, Ending):
            return at
        if not self._has_time(left.arrival):
            return self._returned(left.arrival.envelope, _NO_TIME)
        return self._at_work(left.arrival, lambda: self._driver.ask(left.way, at))

    # -- what each needs

    def _arrival(self, envelope: Envelope) -> Arrival:
        arrival = self._routes.resolve(envelope, self._services.clock.now(), self._trust)
        if arrival.weak_id and arrival.flow.name not in self._weak_flows:
            self._weak_flows.add(arrival.flow.name)
            self._emitter.emit(EventType.WEAK_ID, arrival)
        return arrival

    def _has_time(self, arrival: Arrival | None = None) -> bool:
        """Answer whether there is time for the stage, as long as it may take or has taken here. Without one: any."""
        left, needs = self._budget.remaining(), 0
        if arrival is not None and arrival.stage is not None:
            needs = _timeout(arrival) or self._longest.get(arrival.stage, 0)
        return left is None or left > self._due.reserve_ms + needs

    def _returned(self, envelope: Envelope, why: str) -> Ending:
        self._emitter.emit(EventType.RETURNED, None, record=envelope.message_id, why=why)
        return Ending(envelope=envelope, ack=False, why=why, again_in=0)

    def _hand_back(self, endings: Sequence[Ending]) -> None:
        """Let records that stay be seen again when their endings say so, ten in a call, while there is time for it."""
        due = [
            (ending.envelope, seconds)
            for ending in endings
            if not ending.ack and (seconds := self._outages.again_in(ending)) is not None
        ]
        for start in range(0, len(due), _A_CALL):
            if (left := self._budget.remaining()) is None or left >= HAND_BACK_RESERVE_MS:
                self._services.sender.hand_back(due[start : start + _A_CALL])

    def _warning(self) -> Callable[[], None]:
        """Warn shortly before the invocation is cut off, naming its message at work. Return what calls that off."""
        if (left := self._budget.remaining()) is None:
            return lambda: None
        return self._services.alarm(
            max(left - WARNING_MS, 0), lambda: self._emitter.emit(EventType.TIME_SHORT, self._now_at, ms=WARNING_MS)
        )


_MILLISECOND: Final = timedelta(milliseconds=1)


def _lock() -> InvocationLock:
    from flowguard.worker.invocation_lock import InvocationLock  # threads load where several records go at once

    return InvocationLock()


def _given_up(services: Services, runtime: Runtime) -> GivenUp:
    from flowguard.worker.given_up import GivenUp  # few functions get what SQS has given up

    return GivenUp(services, runtime.claims)


def _timeout(arrival: Arrival) -> int:
    """Return how long the stage may take, ms."""
    if arrival.stage is None or (timeout := arrival.stage.timeout) is None:
        return 0
    return timeout // _MILLISECOND


def _is_claim(ask: Ask) -> TypeGuard[Claiming]:
    return isinstance(ask, Claiming)
