"""The delivery of one schedule's records to workers.

The event source knows SQS's rules. Here is decided what a schedule decides: which workers die or are held up, which
record goes first, and what is delivered twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from flowguard.destinations import Queue
from flowguard.errors import NotProcessed
from flowguard.events import Event, EventType
from flowguard.sim.event_source import LEFT_THERE, MOST_RECEIVES, STEP, EventSource, failures_of
from flowguard.sim.issued_tokens import NoSuchToken, means_token
from flowguard.sim.recording import RecordedRecord
from flowguard.sim.scans import Scans
from flowguard.sim.shards import delivered_again, shard_of
from flowguard.sim.waiting_records import Delivery
from flowguard.sim.weather.layer import Invoked
from flowguard.testing import lambda_events
from flowguard.testing.explorer.record.happened import waits_for_newer, would_be_put_off_again
from flowguard.testing.explorer.record.history import DeliveryRecord, History, Note
from flowguard.testing.explorer.record.question import PARTIES
from flowguard.testing.explorer.record.schedule import (
    AFTER_THE_DEADLINE,
    AS_LATE_AS_CAN_BE,
    FOR_GOOD,
    OF_ANSWERS,
    OF_CODE,
    OF_DELIVERIES,
    OF_WEATHER,
    TO_THE_OLD,
    Choice,
    FaultKind,
    Schedule,
)
from flowguard.testing.explorer.record.site import raising_site
from flowguard.testing.explorer.record.wait_messages import address_in, is_deadline
from flowguard.testing.explorer.run.bad_day import BadDay
from flowguard.testing.explorer.run.expiry import Expiry, last_moment
from flowguard.testing.explorer.run.fault_effects import Killed
from flowguard.testing.explorer.run.held_workers import HeldWorkers
from flowguard.testing.explorer.run.inbox import Coming, Inbox, arn_of, envelope_of
from flowguard.testing.explorer.run.injector import FaultInjector
from flowguard.testing.explorer.run.insider import Insider
from flowguard.testing.explorer.run.next_requests import moment_of_next, next_requests
from flowguard.testing.explorer.run.parties import AskedQuestion, OpenQuestions
from flowguard.testing.explorer.run.redrives import Redrives
from flowguard.testing.explorer.run.sandbox import Sandbox
from flowguard.testing.explorer.run.shared_prefix import SharedPrefix
from flowguard.testing.explorer.run.told_records import told_record
from flowguard.testing.explorer.run.worker import Worker
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.envelope import Source
from flowguard.wire.message import FLOW_STAGE
from flowguard.wire.tokens import token_awaited_id
from flowguard.worker.patience import MANY_RECEIVES

MOST_DELIVERIES: Final = 300
"""With more, the flow counts as one that never rests, unless so many messages came."""

_OF_EACH: Final = 60
"""So many deliveries may each message lead to: what refuses its record for good alone takes half of them."""

_KEPT: Final = (AnswerVerdict.RESUMED, AnswerVerdict.RECORDED)
_OF_WAITS: Final = (EventType.ANSWERED, EventType.TIMED_OUT)

_SERVER_ERROR: Final = 500

LATE: Final = 3_600_000
"""How much later the second time of ``x2-1`` is, ms."""


def run(sandbox: Sandbox, schedule: Schedule) -> History:
    """Run a schedule from the first message until nothing is left to be delivered.

    Where something is refused for good, each object is then asked for once more.
    """
    driver = _Driver(sandbox, schedule)
    with sandbox.fresh(driver.faults, scans_of(schedule)):
        history = driver.run()
        if history.refusals and history.at_rest and history.hung is None:
            history.after = driver.ask_again()
    return history


_FOR_MINUTES: Final = 16
"""Receives at the pace of a queue's own visibility: what two things need that are refused one after the other."""


def scans_of(schedule: Schedule) -> Scans:
    """Return how Scans answer in a schedule."""
    if schedule.has(frozenset({FaultKind.PAGED})):
        return Scans.IN_PAGES
    return Scans.BACKWARDS if schedule.has(frozenset({FaultKind.TURNED})) else Scans.FORWARDS


class _Driver:
    """The policy of one schedule over the event source. It also decides which of the workers has the turn."""

    def __init__(self, sandbox: Sandbox, schedule: Schedule) -> None:
        self.history = History(schedule, sandbox.start)
        self._sandbox = sandbox
        self._schedule = schedule
        self._redrives = Redrives(sandbox, schedule, self.history)
        self._expiry = Expiry(sandbox, schedule, self.history, self.note)
        self._source = EventSource(_receives(schedule, of_flows=bool(sandbox.flows)))
        self._day = BadDay(sandbox, schedule, lambda text: self.note(None, text))
        self._insider = Insider(schedule, self.history, self._source, sandbox.distrusted)
        self._questions = OpenQuestions(sandbox.parties)
        self._answers: dict[int, int] = {}
        self._later = sorted(sandbox.coming, key=lambda coming: coming.after)
        self._with_token: list[Coming] = []
        self._looks = 0
        self._waiting: tuple[int, ...] = ()
        self._held = HeldWorkers(schedule, sandbox, self._source, self)
        self.faults = FaultInjector(sandbox, schedule, self.history, self._source, self._before, self._day)
        self._shared = SharedPrefix(sandbox, schedule, self.faults)

    def run(self) -> History:
        self._new, self._old = self._sandbox.functions(self._tell, self._is_awaited)
        self._source.functions = self._new
        self.history.inner = frozenset(f"sqs:{function.queue}" for function in self._sandbox.plain)
        self.history.answers = frozenset(_answer_queues(self._sandbox))
        queues = list(dict.fromkeys([*self._new.by_queue, *self._old.by_queue]))
        self.faults.inbox = Inbox(self._source, queues, self._sandbox.topics)
        return self._to_the_end()

    def ask_again(self) -> History | None:
        """Run a next request for each object and return the history of that. None where there is none."""
        before, sandbox = self.history, self._sandbox
        sandbox.time.move_to(moment_of_next(before, sandbox))
        asked = list(next_requests(before, sandbox))
        if not asked:
            return None
        before.asked = {request.key: request.request_id for request in asked}
        self.history = History(
            before.schedule,
            before.start,
            before=before,
            inner=before.inner,
            answers=before.answers,
            refusals=before.refusals,
            removed=[*before.removed],
        )
        self._schedule, self._expiry.history = Schedule(), self.history
        self.faults.go_on_undisturbed(self.history)
        for request in asked:
            self._put(request.recorded, request.recorded.envelope.queue)
        return self._to_the_end()

    def _to_the_end(self) -> History:
        try:
            while self._goes_on() and (delivery := self._next()) is not None:
                self._deliver(delivery)
        finally:
            self._held.end()
        self.history.tables = self._sandbox.items(self.history.removed)
        self.history.row_keys = self._sandbox.row_keys()
        self.history.kept = tuple(self._sandbox.memory.seen)
        return self.history

    def _before(self, worker: Worker) -> tuple[FaultKind, ...]:
        """Hold a worker up before a call where the schedule says so, and remove what has expired by then."""
        kinds = self._held.before(worker)
        self._expiry.remove()
        return kinds

    def _goes_on(self) -> bool:
        return self.history.at_rest and self.history.hung is None

    # -- deliveries

    def _next(self) -> Delivery | None:
        """Return the delivery to make now. None where nothing is left.

        What is due goes first, then workers that are held up, then what is due next.
        """
        while (first := self._source.next(self._sandbox.time, self, meanwhile=self._meanwhile)) is not None:
            if self._is_invoked(first):
                return self._reordered(first)
        return None

    def _is_invoked(self, delivery: Delivery) -> bool:
        """Receive a record whose function the weather keeps from being invoked. Answer whether it is invoked.

        One that no function of the code reads any more lies there, and is taken away.
        """
        if not self._is_read(delivery):
            self.history.unread.append(str(delivery.queue))
            self.note(None, f"no function reads {delivery.queue} any more")
            self._source.end(delivery, acked=False, left=True)
            return False
        is_invoked = self._day.invoked(delivery, delivery.queue or "") is Invoked.YES
        if not is_invoked:
            self._source.begin(delivery, self._sandbox.now())
            self._source.end(delivery, acked=False)
        return is_invoked

    def _is_read(self, delivery: Delivery) -> bool:
        """Choose the version that gets a record. Answer whether that has a function which reads its queue.

        A queue that one version alone reads is read by it for as long as both are there.
        """
        number = len(self.history.deliveries) + 1
        is_old = self._schedule.is_old_at(number)
        chosen, other = (self._old, self._new) if is_old else (self._new, self._old)
        self._source.functions = chosen
        if delivery.from_dlq or delivery.queue in chosen.read or delivery.queue not in other.read:
            return True
        if self._schedule.switches_after(number):
            self._source.functions = other
            return True
        return False

    def moments(self) -> list[int]:
        """Return when later messages and those of schedules come."""
        later = [self._sandbox.start + coming.after for coming in self._later[:1]]
        return [*(posted.due for posted in self.faults.scheduled if posted.due is not None), *later]

    def _meanwhile(self, moments: list[int]) -> bool:
        """Do what there is to do before the time goes on and answer whether that was anything."""
        if not moments and (sent := self._redrives.next(self.faults.inbox)) is not None:
            self.note(None, sent)
            return True
        return self._held.one_goes_on(moments)

    def _put(self, recorded: RecordedRecord, queue: str | None) -> None:
        self._source.put(recorded.envelope, recorded.raw, queue, self._sandbox.now())

    def arrive(self, now: int) -> None:
        """Enqueue answers of parties outside, and the later messages and those of schedules whose time has come."""
        for asked in self._questions.new(self.history):
            self._answer(asked)
        if count := self._insider.comes(now, self.faults.inbox):
            self.note(None, f"somebody without a signing key sends {count} forged records")
        while self._later and self._sandbox.start + self._later[0].after <= now:
            coming = self._later.pop(0)
            if coming.recorded.envelope.source is Source.INVOCATION and means_token(coming.recorded.raw):
                self._with_token.append(coming)
            else:
                self._put(coming.recorded, coming.queue)
        self._post()
        for posted in [posted for posted in self.faults.scheduled if posted.due is not None and posted.due <= now]:
            self.faults.scheduled.remove(posted)
            for record in self.faults.inbox.receive(posted, now):
                self.history.senders[record.number] = posted.call

    def _post(self) -> None:
        """Enqueue each recorded HTTP request whose token a run awaits. Its sender tries again after a crash."""
        for coming in [*self._with_token]:
            recorded = coming.recorded
            with suppress(NoSuchToken):
                filled = self._sandbox.made_tokens.filled_in(recorded.raw)
                self._with_token.remove(coming)
                self._put(replace(recorded, raw=filled), coming.queue)

    def _is_awaited(self, row_id: str) -> bool:
        """Answer whether a wait for the row of a token was committed, also by a worker that has not reported it."""
        awaited = token_awaited_id(row_id)
        items = (version.item for version in self.history.versions)
        plans = (item.wait.plan for item in items if item is not None and item.wait is not None)
        return any(plan is not None and awaited in plan.names.values() for plan in plans)

    def _answer(self, asked: AskedQuestion) -> None:
        """Put an answer where its function gets it, now or when the schedule says."""
        self.history.questions[asked.number] = asked.question
        at = self._sandbox.now()
        for choice in self._schedule.find(asked.number, OF_ANSWERS):
            if not choice.more:
                self.note(None, f"answer {asked.number}, {asked.question.name!r}, never comes")
                return
            at = asked.question.deadline + (LATE if choice.more == AFTER_THE_DEADLINE else 0)
            self.note(None, f"answer {asked.number}, {asked.question.name!r}, comes at its deadline or later")
        event = lambda_events.sqs_event(arn_of(PARTIES), asked.body, message_id=f"answer-{asked.number}", sent_at=at)
        record = self._source.put(envelope_of(event), event["Records"][0], PARTIES, at)
        self._answers[record.number] = asked.number

    def _reordered(self, first: Delivery) -> Delivery:
        number = len(self.history.deliveries) + 1
        others = self._others(first)
        self._waiting = tuple(other.number for other in others)
        for choice in self._schedule.find(number, OF_DELIVERIES):
            if choice.kind is FaultKind.REORDERED and len(others) >= choice.more > 0:
                self.note(None, f"delivery {number} goes to a later record first")
                other = others[choice.more - 1]
                if waits_for_newer(self.history, other.number):  # the others are late: it never comes before its time
                    self._sandbox.time.move_to(max(self._sandbox.now(), other.visible_at))
                return other
        return first

    def _others(self, first: Delivery) -> list[Delivery]:
        """Return the records that may go first instead.

        A deadline never does before its time: it would come again. Nor does an answer that is late, or a record that
        was put off and would be once more. Copies that change nothing are in one order.
        """
        now, others, settled = self._sandbox.now(), [], self._settled()
        contents = {_said(first)}
        if _answered_by(first) in settled:
            return []
        for other in self._source.others(first):
            is_timed = _is_deadline(other) or other.queue == PARTIES
            if other.visible_at > now and (is_timed or would_be_put_off_again(self.history, other.number)):
                continue
            if _answered_by(other) in settled:
                continue
            if _said(other) is None or _said(other) not in contents:
                contents.add(_said(other))
                others.append(other)
        return others

    def _settled(self) -> set[tuple[object, ...]]:
        """Return what was answered in time: an answer to it settles nothing more."""
        settled: set[tuple[object, ...]] = set()
        for _, event in self.history.events(EventType.ANSWERED):
            if (message := event.message) is not None and event.facts.get("verdict") in _KEPT:
                hop = message.flow, message.object_id, message.request_id, message.hop
                settled.add((*hop, str(event.facts.get("name"))))
        return settled

    def _deliver(self, delivery: Delivery) -> None:
        history, number = self.history, len(self.history.deliveries) + 1
        is_forged = delivery.number in history.forged
        self._looks += is_forged or _is_deadline(delivery)
        most = max(MOST_DELIVERIES, _OF_EACH * len(self._sandbox.coming))
        if number - self._looks > most:  # a deadline that lies ahead comes every quarter of an hour
            history.at_rest = False
            return
        refused = self._day.refused
        for switch in self._schedule.find(number, OF_CODE):
            self.note(None, f"from delivery {number} on: the {'old' if switch.more == TO_THE_OLD else 'new'} code")
        self._copied(delivery, number)
        self._expiry.remove()
        others = len(self._others(delivery))
        function = self._source.begin(delivery, self._sandbox.now())
        entry = self._entry(delivery, number, others)
        entry.stage = function.name if function.plain else None
        history.deliveries.append(entry)
        batch = 1 if is_forged else function.batch
        with_it = self._source.with_it(delivery, batch, self._sandbox.now())
        entries = [entry]
        if function.plain:
            entry.batch = dict.fromkeys((fellow.number for fellow in with_it), False)
        for fellow in with_it if not function.plain else ():
            self._copied(fellow, len(history.deliveries) + 1)
            other = self._entry(fellow, number, 0)
            other.calls, other.shared, entry.shared = entry.calls, True, True
            entries.append(other)
            history.deliveries.append(other)
        if self._schedule.has(OF_CODE) and (not function.plain or delivery.queue == PARTIES):
            for given in entries:
                given.code = "old" if self._source.functions is self._old else "new"
        worker = Worker(function, delivery, entry, self._sandbox.patience, with_it, entries)
        if self._shared.repeats(worker, history):
            self._finish(worker)
        else:
            self.turn_to(worker, lambda: worker.start(self._sandbox.threads, lambda: self._work(worker)))
        self._looks += self._day.refused > refused
        self._sandbox.time.move_to(self._sandbox.now() + (0 if is_forged else STEP))
        self._held.after(worker)

    def _copied(self, delivery: Delivery, number: int) -> None:
        """Put the copies of a record into its queue that the schedule wants."""
        for choice in self._schedule.find(number, OF_DELIVERIES):
            if choice.kind is FaultKind.DUPLICATED and not delivery.from_dlq:
                copy = self._source.copy(delivery, self._again(delivery, choice))
                self.history.copies[copy.number] = delivery.number
                self.note(None, f"delivery {number} happens twice")

    def _entry(self, delivery: Delivery, worker: int, others: int) -> DeliveryRecord:
        entry = DeliveryRecord(
            worker, self._sandbox.now(), delivery.queue, delivery.number, delivery.receives, others, delivery.from_dlq
        )
        entry.message_id, entry.envelope = delivery.message_id, delivery.envelope
        entry.is_request, entry.waiting = delivery.is_request, self._waiting
        entry.address = address_in(delivery.envelope.attributes)
        entry.settles = entry.address is not None or delivery.queue == PARTIES
        return entry

    def _again(self, delivery: Delivery, choice: Choice) -> int:
        """Return the moment of a delivery's second time."""
        now, sent_at = self._sandbox.now(), delivery.envelope.sent_at
        if choice.more == AS_LATE_AS_CAN_BE:
            return max(now, last_moment(self._sandbox, sent_at if sent_at is not None else self._sandbox.start))
        return now + (LATE if choice.more else 0)

    def turn_to(self, worker: Worker, step: Callable[[], None]) -> None:
        invocation = self._sandbox.invocation
        before, invocation.worker = invocation.worker, worker
        try:
            with self._sandbox.code_of(worker):
                step()
        finally:
            invocation.worker = before
        if worker.is_abandoned and self.history.hung is None:
            entry = self.history.hung = worker.entry
            entry.raised_at = worker.hung
            entry.why = worker.given_up

    def _work(self, worker: Worker) -> None:
        """Run the whole invocation in the worker's thread. The search for a call's site ends at this frame."""
        entry = worker.entry
        self._seed(worker)
        try:
            with self._sandbox.lines.noted():
                answer = worker.function.handler(worker.event())
            entry.died = worker.killed  # user code may have caught even that
            entry.failures = failures_of(answer)
            if not worker.killed:
                _note_answer(worker, answer)
        except Killed:
            entry.died = True
        except NotProcessed as left:
            entry.why, entry.raised_at = str(left), raising_site(left)
        except BaseException as error:  # the function crashed or exited: Lambda leaves the record in its queue
            entry.why, entry.raised_at = f"{type(error).__name__}: {error}", raising_site(error)
            if (debugger := self._sandbox.invocation.debugger) is not None:
                debugger.raised(error)
        if entry.died:
            self._sandbox.end_processes()
        for other in worker.entries[1:]:
            other.died, other.last, other.why = entry.died, entry.last, entry.why
        if not worker.is_abandoned:
            self._remember(worker)
            self._shared.note(worker, self.history)
            self._finish(worker)

    def _remember(self, worker: Worker) -> None:
        """Keep what modules keep: the next record finds it unless the process died."""
        if not worker.function.plain:  # those of plain functions note it themselves
            self._sandbox.memory.after()
        if worker.entry.died:
            self._sandbox.memory.lose()
            self._sandbox.drop(worker)
        elif worker.entry.why is not None:
            self._sandbox.failed(worker)

    def _seed(self, worker: Worker) -> None:
        """Seed each attempt at a hop alike until one has had a direct effect, alone or with others.

        What is recorded with the step is applied once, whichever attempt it came from.
        """
        self._sandbox.randomness.seed(self._sandbox.seed, worker.work, self.faults.effects[worker.work])

    def _finish(self, worker: Worker) -> None:
        delivery, entry = worker.delivery, worker.entry
        if worker.killed and not entry.died:
            return
        for place, fellow in enumerate(worker.others, 1):
            record = entry if worker.function.plain else worker.entries[place]
            acked = entry.batch[fellow.number] if worker.function.plain else record.acked
            if self._source.is_waiting(fellow):
                left = _is_left(record, fellow)
                self._source.end(fellow, acked=acked, left=left, last=entry.last, too_early=_came_too_early(record))
        if not self._source.is_waiting(delivery):
            return
        if delivery.number in self.history.forged:
            self._insider.give_up(delivery, is_over=entry.acked or _is_refused(entry))
            return
        for moment in self._day.copies(delivery) if entry.acked else ():
            self.history.copies[self._source.copy(delivery, moment).number] = delivery.number
        left, too_early = _is_left(entry, delivery), _came_too_early(entry)
        if not self._source.end(delivery, acked=entry.acked, left=left, last=entry.last, too_early=too_early):
            return
        if delivery.queue == PARTIES or delivery.is_request:
            self._give_up(delivery)
        elif entry.last:
            self.note(None, f"delivery {entry.worker} was its record's last receive")

    def _give_up(self, delivery: Delivery) -> None:
        """Let the party that sent the record not try again."""
        self._source.end(delivery, acked=True)
        number = self._answers.get(self.history.copies.get(delivery.number, delivery.number))
        if number is not None:
            self.history.not_retried.add(number)
            self.note(None, f"the party of answer {number} does not try again")

    # -- telling

    def _tell(self, event: Event) -> None:
        if (worker := self.faults.worker) is None:
            return
        entry = worker.entry
        if len(worker.entries) > 1:
            place = _place_of(event, worker)
            entry = worker.entries[place]
            if event.type is EventType.CLAIMED:
                worker.turn = place
                self._seed(worker)
        is_first = all(
            earlier.message is None for earlier in entry.events
        )  # later ones may be about the run taken over
        entry.events.append(event)
        if (message := event.message) is not None and is_first:
            entry.settles = entry.settles or event.type in _OF_WAITS
            entry.stage, entry.hop = message.stage, message.hop
            if message.hop == 1 and message.object_id and not entry.settles and entry.record not in self.history.forged:
                self.history.requests.append((f"run#{message.flow}#{message.object_id}", message.request_id))

    def note(self, worker: Worker | None, text: str) -> None:
        number = worker.entry.worker if worker is not None else None
        self.history.notes.append(Note(self._sandbox.now(), len(self.history.calls), number, text))


def _place_of(event: Event, worker: Worker) -> int:
    """Return the place of the record that an event is about, of those that the worker got."""
    record = told_record() or event.facts.get("record")
    ids = [entry.message_id for entry in worker.entries]
    return ids.index(record) if record in ids else worker.turn


def _note_answer(worker: Worker, answer: Any) -> None:
    """Note of each record whether it was processed. What the function lists that it did not get is the first one's."""
    entry, listed = worker.entry, worker.entry.failures
    if not worker.others:
        entry.acked = not listed and not _is_to_be_repeated(worker.delivery, answer)
        return
    entry.acked = worker.delivery.message_id not in listed
    if worker.function.plain:
        entry.batch = {other.number: other.message_id not in listed for other in worker.others}
        return
    others = {other.message_id for other in worker.others}
    entry.failures = tuple(name for name in listed if name not in others)
    for other in worker.entries[1:]:
        other.failures = tuple(name for name in listed if name == other.message_id)
        other.acked = not other.failures
    _repeat_from_checkpoint(worker, listed)


def _repeat_from_checkpoint(worker: Worker, listed: tuple[str, ...]) -> None:
    """Let a shard's records come again from the first that the function names on, though it has done later ones."""
    deliveries = (worker.delivery, *worker.others)
    if listed and shard_of(worker.delivery.envelope) is not None:
        first = delivered_again([delivery.envelope for delivery in deliveries], listed)
        for entry in worker.entries[first:]:
            entry.acked = False


def _is_left(entry: DeliveryRecord, delivery: Delivery) -> bool:
    """Answer whether the record is of no run, and lies there for somebody to look at.

    What a stage's message says of another release is explored until it is parked.
    """
    is_of_run = any(event.message is not None for event in entry.events)
    return _is_refused(entry) and (delivery.from_dlq or not is_of_run)


def _is_refused(entry: DeliveryRecord) -> bool:
    """Answer whether nobody here takes the record."""
    return not entry.died and bool(LEFT_THERE & {event.type.name for event in entry.events})


def _came_too_early(entry: DeliveryRecord) -> bool:
    """Answer whether an answer has found that the hop which waits for it is not committed."""
    return any(event.facts.get("verdict") == AnswerVerdict.EARLY for event in entry.events)


def _is_to_be_repeated(delivery: Delivery, answer: Any) -> bool:
    """Answer whether an HTTP request got a status after which its sender tries again."""
    return delivery.is_request and isinstance(answer, dict) and answer.get("statusCode", 200) >= _SERVER_ERROR


def _answered_by(delivery: Delivery) -> tuple[object, ...] | None:
    """Return the name that a record answers, with its run."""
    address = address_in(delivery.envelope.attributes)
    if address is None or is_deadline(address):
        return None
    return address.flow, address.object_id, address.request_id, address.hop, address.name


def _said(delivery: Delivery) -> tuple[object, ...] | None:
    """Return what copies of a later hop's message have in common. None for any other record."""
    attributes = delivery.envelope.attributes
    if FLOW_STAGE not in attributes or delivery.receives or delivery.from_dlq:
        return None
    return delivery.queue, delivery.envelope.message, tuple(sorted((k, a.value) for k, a in attributes.items()))


def _is_deadline(delivery: Delivery) -> bool:
    address = address_in(delivery.envelope.attributes)
    return address is not None and is_deadline(address)


def _answer_queues(sandbox: Sandbox) -> Iterator[str]:
    return (f"sqs:{flow.answers.short_name}" for flow in sandbox.flows if isinstance(flow.answers, Queue))


def _receives(schedule: Schedule, *, of_flows: bool) -> int:
    """Return the most receives of a record. What is refused for good takes longer than what passes."""
    if schedule.has(OF_WEATHER):
        return MANY_RECEIVES
    return MOST_RECEIVES + len(schedule.choices) + (_FOR_MINUTES if of_flows and schedule.has(FOR_GOOD) else 0)
