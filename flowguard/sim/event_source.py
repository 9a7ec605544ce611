"""The event source mapping, which brings messages from queues to their functions as Lambda and SQS do.

::

    what comes ──▶ waiting ── next ──▶ begin ──▶ the caller invokes ──▶ end ──▶ deleted, or visible again,
    (Arrivals)       ▲                                                          or with the dead-letter function
                     └───────── visibility timeout, receive count ──────────────┘

It knows visibility, receive counts, the redrive policy and the order of FIFO groups. Its callers decide the rest: how a
function is invoked and when its worker dies, which record goes first, what is delivered twice.

A message that was sent becomes a record in one of two ways. The worlds take it out of the engine's SQS
(:class:`flowguard.sim.mail.Mail`), which knows whatever users have made there: delays of a queue, subscriptions,
messages of their own. The explorer makes it of what was posted, for it has to know which call a record comes from, and
its engine forgets all queues between two schedules. From there on a record is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol

from flowguard.aws.sender import MOST_ENTRIES
from flowguard.sim.calls import ApiCall, Response
from flowguard.sim.functions import Functions, ServedFunction
from flowguard.sim.shards import shard_of
from flowguard.sim.virtual import VirtualTime
from flowguard.sim.waiting_records import Delivery, Queues
from flowguard.wire.envelope import Envelope
from flowguard.worker.patience import MANY_RECEIVES

STEP: Final = 20
"""The virtual time that an invocation takes, ms."""

MOST_RECEIVES: Final = 3
QUICK_REPEATS: Final = 10
"""So often a shard's record is repeated like that of a queue, and then ever more seldom: the others are left out."""

LONGEST_AGE: Final = 12 * 3_600_000
"""How old in ms a shard's record is when it has used up the retries that the mapping of a template allows, about."""

LEFT_THERE: Final = frozenset({"UNROUTABLE", "UNREADABLE", "UNTRUSTED"})
"""These verdicts would be the same each time, so the record is delivered once."""


class QueueTimes(NamedTuple):
    """What the queues of a deployment do with records that stay. Times are in ms.

    The queue that records are given up to hides each for ``killed_visibility`` and drops it after ``killed_receives``.
    So do the queues ``of_outside``, whose records nobody but their own function can read. ``keeps`` and
    ``killed_keeps`` say how long a queue keeps a record, from its first sending.
    """

    killed_receives: int
    killed_visibility: int
    keeps: int
    killed_keeps: int
    of_outside: frozenset[str] = frozenset()

    def is_patient(self, delivery: Delivery) -> bool:
        """Answer whether the record is in one of those queues."""
        return delivery.from_dlq or delivery.queue in self.of_outside


class Arrivals(Protocol):
    """Where records come from while others are delivered."""

    def arrive(self, now: int, /) -> None:
        """Put what has come by now."""
        ...

    def moments(self) -> Iterable[int]:
        """Return when more will come, ms since 1970."""
        ...


def _let_pass(moments: list[int]) -> bool:
    return False


class EventSource:
    """The event source mappings of some functions.

    ``most_receives`` is that of every queue's redrive policy. Without ``times`` a record is kept until somebody takes
    it, and the queue of those given up is as the others.
    """

    functions: Functions

    def __init__(self, most_receives: int = MOST_RECEIVES, times: QueueTimes | None = None) -> None:
        self._most_receives = most_receives
        self._times = times
        self._queues = Queues()
        self.expired: list[Delivery] = []
        """The records that their queues have deleted, because nobody took them in time."""

    @property
    def put_in(self) -> int:
        """Return how many records there have been."""
        return self._queues.added

    # -- records

    def put(self, envelope: Envelope, raw: Any, queue: str | None, at: int) -> Delivery:
        """Add a record that is visible at this moment, ms since 1970."""
        return self._queues.add(envelope, raw, queue, at)

    def copy(self, delivery: Delivery, at: int) -> Delivery:
        """Add the record once more. SQS delivers each at least once; a shard does from its checkpoint on.

        A copy of a shard's record that comes later is of another mapping, which reads the stream once more.
        """
        copy = self.put(delivery.envelope, delivery.raw, delivery.queue, at)
        if shard_of(delivery.envelope) is not None:
            copy.place, copy.alone = delivery.place, delivery.alone or at > delivery.visible_at
        return copy

    def is_waiting(self, delivery: Delivery) -> bool:
        """Answer whether the record is not deleted yet. It may be in a worker's hands."""
        return delivery in self._queues.waiting

    # -- turns

    def next(
        self,
        time: VirtualTime,
        arrivals: Arrivals,
        *,
        until: int | None = None,
        meanwhile: Callable[[list[int]], bool] = _let_pass,
    ) -> Delivery | None:
        """Move the time to the next delivery and return it. None where nothing is left that is due by ``until``.

        Before the time is moved, ``meanwhile`` gets the moments ahead; where it answers that it did something, what is
        due now is looked at again.
        """
        while True:
            arrivals.arrive(time.now())
            self._expire(time.now())
            if (delivery := self._queues.due(time.now())) is not None:
                return delivery
            moments = [*self._queues.moments(), *arrivals.moments()]
            if meanwhile(moments):
                continue
            if not moments or (until is not None and min(moments) > until):
                return None
            time.move_to(min(moments))

    def others(self, first: Delivery) -> list[Delivery]:
        """Return the records that SQS might deliver instead of this one. No FIFO group passes one of its records."""
        return [
            delivery
            for delivery in self._queues.free()
            if delivery is not first and (delivery.group is None or delivery.receives == 0)
        ]

    # -- a delivery

    def begin(self, delivery: Delivery, now: int) -> ServedFunction:
        """Return the function that gets the record. For others it is invisible as long as the function may run."""
        function = self._function(delivery)
        hidden = function.visibility
        if self._times is not None and self._times.is_patient(delivery):
            hidden = self._times.killed_visibility
        if shard_of(delivery.envelope) is not None:
            hidden *= 2 ** max(0, delivery.receives - QUICK_REPEATS)
        self._queues.receive(delivery, now + hidden)
        return function

    def with_it(self, first: Delivery, batch: int, now: int) -> list[Delivery]:
        """Receive what the function gets besides this record. Both are no more than ``batch``.

        Those are records of the same queue that are visible, none of them a copy of another. Of a FIFO group they are
        the next ones in its order, and a batch of a stream is of one shard. What neither delivers comes alone.
        """
        taken, passed = [first], set[tuple[str, str] | None]()
        shard = shard_of(first.envelope)
        for delivery in self._queues.waiting if not first.alone and (first.queue or shard) is not None else ():
            if len(taken) >= batch:
                break
            is_of_it = (delivery.queue, delivery.from_dlq) == (first.queue, first.from_dlq)
            is_of_it &= shard is None or (shard_of(delivery.envelope) == shard and not delivery.alone)
            is_fellow = is_of_it and delivery.visible_at <= now
            is_copy = delivery.message_id in {known.message_id for known in taken}
            if is_fellow and not is_copy and (delivery.group is None or delivery.group not in passed):
                taken.append(delivery)
            elif delivery is not first:
                passed.add(delivery.group)
        fellows = taken[1:]
        for delivery in fellows:
            self._queues.receive(delivery, now + self._function(first).visibility)
        return fellows

    def end(
        self, delivery: Delivery, *, acked: bool, left: bool = False, last: bool = False, too_early: bool = False
    ) -> bool:
        """Do what follows from a function's answer and answer whether this was the record's last receive.

        A record that was ``acked`` is deleted, and so is one that is ``left``, to which the answer would always be the
        same. After its last receive SQS moves it to the dead-letter queue, where it is due when it would have been seen
        again; what fails there as often is dropped. ``last`` says that no receive is left whatever their count.

        A shard knows no receives: its record stays until it is acked, or has used up the retries of its mapping, most
        of which are left out.

        A receive that was ``too_early`` is one of as many as queues of templates have: it is another record's attempts
        that these wait for, and their pauses are longer.
        """
        delivery.too_early += too_early
        if acked or left:
            self._queues.delete(delivery)
            return False
        if shard_of(delivery.envelope) is not None:
            if delivery.visible_at - (delivery.envelope.sent_at or delivery.visible_at) > LONGEST_AGE:
                self._queues.delete(delivery)
                self.expired.append(delivery)
            return False
        most, many = self._most_receives, MANY_RECEIVES
        if self._times is not None and self._times.is_patient(delivery):
            most = many = self._times.killed_receives
        is_left = delivery.receives - delivery.too_early < most and delivery.receives < many
        if is_left and (not last or delivery.from_dlq):
            return False
        if delivery.from_dlq:
            self._queues.delete(delivery)
        delivery.from_dlq, delivery.receives, delivery.too_early = True, 0, 0
        return True

    def show_early(self, delivery: Delivery, now: int) -> None:
        """Make a record visible while a worker still has it."""
        delivery.visible_at = now

    def postponed(self, call: ApiCall, now: int) -> bool:
        """Carry out a change of visibility of records that are here. Answer whether it was that."""
        if not call.operation.startswith("ChangeMessageVisibility"):
            return False
        hidden = [
            (self._queues.find(entry["ReceiptHandle"]), entry) for entry in call.params.get("Entries", [call.params])
        ]
        for held, entry in hidden:
            if held is not None:
                held.visible_at = now + entry["VisibilityTimeout"] * 1000
        return any(held is not None for held, _ in hidden)

    def deleted(self, call: ApiCall) -> Response | None:
        """Delete records that their function deletes itself, and return SQS's answer. None for what never came here.

        To delete one that is gone already is no error. One that came from another queue is not deleted, and a batch
        that SQS refuses deletes none.
        """
        if not call.operation.startswith("DeleteMessage"):
            return None
        entries = call.params.get("Entries", [call.params])
        queue = call.params["QueueUrl"].rpartition("/")[2]
        came = self._queues.received.issuperset((queue, entry["ReceiptHandle"]) for entry in entries)
        ids = {entry.get("Id") for entry in entries}
        if not came or not len(ids) == len(entries) <= MOST_ENTRIES:
            return None
        for entry in entries:
            if (held := self._queues.find(entry["ReceiptHandle"])) is not None:
                self._queues.delete(held)
        answer: Response = {"ResponseMetadata": {"HTTPStatusCode": 200}}
        if call.operation == "DeleteMessageBatch":
            answer["Successful"] = [{"Id": entry["Id"]} for entry in entries]
        return answer

    def _expire(self, now: int) -> None:
        """Delete what its queue keeps no longer."""
        if (times := self._times) is None:
            return
        for delivery in tuple(self._queues.waiting):
            keeps = times.killed_keeps if delivery.from_dlq else times.keeps
            if now - (delivery.envelope.sent_at or now) > keeps:
                self._queues.delete(delivery)
                self.expired.append(delivery)

    def _function(self, delivery: Delivery) -> ServedFunction:
        if delivery.from_dlq:
            return self.functions.dlq_function(delivery.queue)
        if delivery.is_request:
            return self.functions.answering(delivery.envelope, delivery.raw)
        return self.functions.serving(delivery.queue, delivery.envelope)


def failures_of(answer: Any) -> tuple[str, ...]:
    """Return the ids of the records that a function answered to be delivered again."""
    failed = (answer.get("batchItemFailures") if isinstance(answer, dict) else None) or ()
    return tuple(str(failure.get("itemIdentifier")) for failure in failed)
