"""Runs one schedule: delivers records to workers by SQS's rules, and holds up those that the schedule names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from flowguard.errors import NotProcessed
from flowguard.events import Happening
from flowguard.local.functions import Function
from flowguard.local.queues import Delivery, Queues
from flowguard.local.world import LEFT_THERE, MOST_RECEIVES, STEP
from flowguard.testing.explore.faults import Killed
from flowguard.testing.explore.ground import Ground
from flowguard.testing.explore.history import History, Noted, Worked
from flowguard.testing.explore.inbox import Inbox
from flowguard.testing.explore.schedule import HOLDS, OF_DELIVERIES, Choice, Kind, Schedule
from flowguard.testing.explore.strikes import Strikes
from flowguard.testing.explore.worker import Worker

MOST_DELIVERIES: Final = 300
"""More, and the flow is taken not to come to rest."""

LATE: Final = 3_600_000
"""How much later the second time of ``x2-1`` is, ms."""


def run(ground: Ground, schedule: Schedule) -> History:
    """From the first message until nothing is left to be delivered."""
    driver = _Driver(ground, schedule)
    with ground.fresh(driver.strikes):
        driver.run()
    return driver.history


class _Driver:
    """The event source mapping of all functions, and who of their workers has the turn."""

    def __init__(self, ground: Ground, schedule: Schedule) -> None:
        self.history = History(schedule, ground.start)
        self._ground = ground
        self._schedule = schedule
        self._holds = [choice for choice in schedule.choices if choice.kind in HOLDS]
        self._receives = MOST_RECEIVES + len(schedule.choices)
        self._queues = Queues()
        self._held: list[Worker] = []
        self.strikes = Strikes(ground, schedule, self.history, self._queues, self._before)

    def run(self) -> None:
        self._functions = self._ground.functions(self._tell)
        self.strikes.inbox = Inbox(self._queues, self._functions.by_queue, self._ground.topics)
        for one in self._ground.recorded:
            self._queues.add(one.envelope, one.raw, one.envelope.queue, self._ground.start)
        try:
            while (delivery := self._next()) is not None and self.history.at_rest:
                self._deliver(delivery)
        finally:
            self._end()
        self.history.tables = self._ground.items()

    def _end(self) -> None:
        """Nobody is left waiting, not even after an error."""
        while self._held:
            worker = self._held.pop()
            worker.killed = True
            worker.go_on()

    # -- deliveries

    def _next(self) -> Delivery | None:
        """What is due, or else whoever is held up, or else whatever is due next."""
        while True:
            now = self._ground.now()
            first = self._queues.due(now)
            if first is not None:
                return self._reordered(first)
            moments = self._queues.moments()
            if any(worker.held and worker.held.kind is Kind.SEEN_EARLY for worker in self._held) or not moments:
                if not self._held:
                    return None
                self._let_go(self._held[0])
                continue
            self._ground.time.move_to(min(moments))

    def _reordered(self, first: Delivery) -> Delivery:
        number = len(self.history.deliveries) + 1
        others = self._others(first)
        for choice in self._schedule.find(number, OF_DELIVERIES):
            if choice.kind is Kind.REORDERED and len(others) >= choice.more > 0:
                self._note(None, f"delivery {number} goes to a later record first")
                return others[choice.more - 1]
        return first

    def _others(self, first: Delivery) -> list[Delivery]:
        return [one for one in self._queues.waiting if one is not first and (one.group is None or one.receives == 0)]

    def _deliver(self, delivery: Delivery) -> None:
        history, number = self.history, len(self.history.deliveries) + 1
        if number > MOST_DELIVERIES:
            history.at_rest = False
            return
        for choice in self._schedule.find(number, OF_DELIVERIES):
            if choice.kind is Kind.DUPLICATED and not delivery.given_up:
                again = self._ground.now() + (LATE if choice.more else 0)
                self._queues.add(delivery.envelope, delivery.raw, delivery.queue, again)
                self._note(None, f"delivery {number} happens twice")
        function = self._function(delivery)
        others = len(self._others(delivery))
        self._queues.receive(delivery, self._ground.now() + function.visibility)
        entry = Worked(
            number, self._ground.now(), delivery.queue, delivery.number, delivery.receives, others, delivery.given_up
        )
        history.deliveries.append(entry)
        worker = Worker(function, delivery, entry)
        self._turn_to(worker, lambda: worker.start(lambda: self._work(worker)))
        self._ground.time.move_to(self._ground.now() + STEP)
        for held in list(self._held):
            if held.delivery is delivery and held is not worker and held.held and not held.held.more and worker.over:
                self._let_go(held)

    def _function(self, delivery: Delivery) -> Function:
        if delivery.given_up:
            return self._functions.dead
        return self._functions.serving(delivery.queue, delivery.envelope)

    def _turn_to(self, worker: Worker, step: Callable[[], None]) -> None:
        before, self.strikes.worker = self.strikes.worker, worker
        try:
            step()
        finally:
            self.strikes.worker = before

    def _work(self, worker: Worker) -> None:
        """The whole invocation, in the worker's thread; calls are looked for above this frame."""
        entry, delivery = worker.entry, worker.delivery
        self._seed(worker)
        try:
            answer = worker.function.handler(delivery.event())
            entry.died = worker.killed  # user code may have caught even that
            entry.acked = not worker.killed and not (isinstance(answer, dict) and answer.get("batchItemFailures"))
        except Killed:
            entry.died = True
        except NotProcessed as left:
            entry.why = str(left)
        except Exception as error:  # the function crashed: Lambda leaves the record in its queue
            entry.why = f"{type(error).__name__}: {error}"
        self._finish(worker)

    def _seed(self, worker: Worker) -> None:
        """The same draws for each attempt at a hop, until one of them has had an effect by itself: what is recorded
        with the step is applied once, whichever attempt it came from."""
        self._ground.chance.seed(self._ground.seed, worker.work, self.strikes.effects[worker.work])

    def _finish(self, worker: Worker) -> None:
        delivery, entry = worker.delivery, worker.entry
        if delivery not in self._queues.waiting or (worker.killed and not entry.died):
            return
        if entry.acked or (not entry.died and LEFT_THERE & {one.event.name for one in entry.told}):
            self._queues.delete(delivery)
        elif delivery.receives >= self._receives:
            if delivery.given_up:
                self._queues.delete(delivery)
            delivery.given_up, delivery.receives = True, 0

    # -- workers that are held up

    def _hold(self, worker: Worker, choice: Choice) -> None:
        """In the worker's thread, before a call: the others go on."""
        worker.held = choice
        worker.until = len(self.history.calls) + choice.more if choice.more else 0
        self._held.append(worker)
        if choice.kind is Kind.SEEN_EARLY:
            worker.delivery.visible_at = self._ground.now()
        self._note(worker, "held up" + (", and its record seen early" if choice.kind is Kind.SEEN_EARLY else ""))
        worker.wait()

    def _let_go(self, worker: Worker) -> None:
        self._held.remove(worker)
        worker.held = None
        self._note(worker, "goes on")
        self._turn_to(worker, worker.go_on)

    def _before(self, worker: Worker) -> tuple[Kind, ...]:
        """Who goes first? Not a dead worker, and not one that the schedule holds up. Answers how it was."""
        kinds: tuple[Kind, ...] = ()
        while True:
            if worker.killed:
                raise Killed
            calls = len(self.history.calls)
            for held in list(self._held):
                if held.until and calls >= held.until:
                    self._let_go(held)
            due = [choice for choice in self._holds if choice.at == len(self.history.calls) + 1]
            if not due:
                return kinds
            kinds += (due[0].kind,)
            self._holds.remove(due[0])
            self._hold(worker, due[0])

    # -- telling

    def _tell(self, happening: Happening) -> None:
        if self.strikes.worker is None:
            return
        entry = self.strikes.worker.entry
        entry.told.append(happening)
        if (message := happening.message) is not None:
            entry.stage, entry.hop = message.stage, message.hop
            if message.hop == 1 and message.object_id:
                self.history.requests.append((f"run#{message.flow}#{message.object_id}", message.request_id))

    def _note(self, worker: Worker | None, text: str) -> None:
        number = worker.entry.worker if worker is not None else None
        self.history.notes.append(Noted(self._ground.now(), len(self.history.calls), number, text))
