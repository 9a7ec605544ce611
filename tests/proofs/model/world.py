"""What a world is made of: the run item, records, workers, parked dead letters, and what may still go wrong.

Items, envelopes and answers are objects of the library; a state holds their numbers in a :class:`Shelf`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple


class Shelf:
    """Things by number, equal ones (by their repr) under the same."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._things: list[Any] = []

    def put(self, thing: object) -> int:
        text = repr(thing)
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self._things)
            self._things.append(thing)
        return number

    def __getitem__(self, number: int) -> Any:
        return self._things[number]


class Record(NamedTuple):
    """A message in a queue. ``copy`` tells it from others with the same text; ``seen`` counts its receives;
    ``from_dlq`` says that SQS moved it to its dead letters."""

    envelope: int
    copy: int = 0
    from_dlq: bool = False
    seen: int = 0
    hidden: bool = False


class Worker(NamedTuple):
    """An invocation with one record: all that it depends on is its nonce and the answers it has got so far."""

    record: Record
    owner: int
    answers: tuple[int, ...] = ()
    stalled_at: int = 0
    """How many answers a worker that has only read had when the item expired; 0 for others."""


class Budget(NamedTuple):
    """How often each thing may still happen."""

    crashes: int = 0
    """A worker dies between two calls, or in the middle of a batch of sends."""
    failures: int = 0
    """A handler raises."""
    rejects: int = 0
    """A handler raises Reject."""
    doubles: int = 0
    """A record that is being worked on is delivered once more."""
    lapses: int = 0
    """A lease ends while its worker lives."""
    lost: int = 0
    """The answer to an applied write is lost."""
    refused: int = 0
    """A batch of sends is taken in part."""
    redrives: int = 0
    """Somebody moves a dead letter back."""
    expiries: int = 0
    """The item is removed."""
    abandoned: int = 0
    """Nobody has worked on the run for longer than its flow allows."""
    early: int = 0
    """The message of a deadline comes before its time."""
    resets: int = 0
    """Somebody resets the run, and may die before the message is sent with which the work begins anew."""
    cancels: int = 0
    """Somebody cancels the run, and may die before the message is sent that goes on with one which waited."""
    kills: int = 0
    """A function is killed in its handler."""


Fact = tuple[str, ...]


class World(NamedTuple):
    """One state. ``log`` is what has happened as far as the checks need it; ``fault`` what a step did wrong.

    ``rows`` are those by which answers from outside find their runs, ``kept`` the answers that came before their wait.
    """

    item: int | None
    queue: tuple[Record, ...]
    budget: Budget
    workers: tuple[Worker, ...] = ()
    parked: tuple[int, ...] = ()
    log: frozenset[Fact] = frozenset()
    fault: str = ""
    rows: frozenset[int] = frozenset()
    kept: frozenset[tuple[str, int]] = frozenset()
    callers: frozenset[tuple[str, int]] = frozenset()
    """The callers that are rows, with the names of their lists."""

    def spend(self, what: str, **changes: Any) -> World:
        left = self.budget._replace(**{what: getattr(self.budget, what) - 1})
        return self._replace(budget=left, **changes)

    def noted(self, *facts: Fact) -> World:
        return self if self.log.issuperset(facts) else self._replace(log=self.log.union(facts))

    def blamed(self, fault: str) -> World:
        return self if self.fault or not fault else self._replace(fault=fault)

    def with_message(self, envelope: int) -> World:
        """One more message, which is no other one, whatever it says."""
        there = [*self.queue, *(worker.record for worker in self.workers)]
        used = {record.copy for record in there if record.envelope == envelope}
        copy = next(number for number in range(len(used) + 1) if number not in used)
        return self._replace(queue=(*self.queue, Record(envelope, copy)))

    def tidied(self) -> World:
        """The same world, with its records and workers in one order. It makes no difference which copy is which."""
        queue, workers = tuple(sorted(self.queue)), tuple(sorted(self.workers))
        if any(record[1] for record in queue) or any(one[0][1] for one in workers):
            numbers = _numbers(queue, workers)
            queue = tuple(sorted(_renumbered(record, numbers) for record in queue))
            workers = tuple(sorted(Worker(_renumbered(one[0], numbers), *one[1:]) for one in workers))
        if queue == self.queue and workers == self.workers:
            return self
        return World(self[0], queue, self[2], workers, *self[4:])  # not _replace: this is done at every step

    @property
    def is_quiet(self) -> bool:
        return not self.queue and not self.workers


_Original = tuple[int, int, bool]
"""What does not change of a record while it is in its queue."""


def _numbers(queue: tuple[Record, ...], workers: tuple[Worker, ...]) -> dict[_Original, int]:
    """The number that each copy gets, by what is done with it."""
    places: dict[_Original, list[tuple[object, ...]]] = {}
    for record in queue:
        places.setdefault(record[:3], []).append((0, record[3], record[4]))
    for worker in workers:
        places.setdefault(worker[0][:3], []).append((1, *worker[1:]))
    numbers: dict[_Original, int] = {}
    used: Counter[int] = Counter()
    for original in sorted(places, key=lambda one: (one[2], places[one], one)):
        numbers[original] = used[original[0]]
        used[original[0]] += 1
    return numbers


def _renumbered(record: Record, numbers: dict[_Original, int]) -> Record:
    return Record(record[0], numbers[record[:3]], record[2], record[3], record[4])
