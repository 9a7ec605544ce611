"""A history as data for a picture. Each worker has a lane and each lane has its moments in order.

Names, numbers and places only: no payload is in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from flowguard.protocol.run import RunItem
from flowguard.testing.explorer.record.history import CallRecord, DeliveryRecord, History, Note, Version
from flowguard.testing.explorer.record.site import Site
from flowguard.testing.explorer.report.lines import fault


class LaneEnding(StrEnum):
    """How a worker ended, in a word."""

    ACKED = "acked"
    DIED = "died"
    LEFT = "not acked"


@dataclass(frozen=True, slots=True)
class Lane:
    """A worker. ``why`` is the name of the error that it ended with. ``events`` are the types of its events."""

    worker: int
    ending: LaneEnding
    why: str | None
    events: tuple[str, ...]


class Came(StrEnum):
    """How a record arrived at a worker."""

    SENT = "sent"
    AGAIN = "again"
    COPIED = "copied"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record is from. ``worker`` sent it or had it before or had the record that it is a copy of.

    ``call`` is the call that sent it.
    """

    came: Came
    worker: int
    call: int | None = None


@dataclass(frozen=True, slots=True)
class LaneDelivery:
    """A record delivered to a worker.

    ``origin`` is None for what the exploration was given and for a dead letter that was sent back: ``letter`` is its
    number. ``is_first`` is False for what came with another record. ``code`` is the version that handles it, ``old`` or
    ``new``, where there are two.
    """

    at: int
    worker: int
    record: int
    queue: str | None
    stage: str | None
    hop: int | None
    receive: int
    from_dlq: bool
    origin: Origin | None
    letter: int | None
    is_first: bool = True
    code: str = ""


@dataclass(frozen=True, slots=True)
class Called:
    """A call. ``strikes`` is what went wrong at it in words.

    ``error`` is the code of its refusal and ``applied`` how often it was carried out. ``effects`` says what it did to
    run items, ``sent`` to whom messages went and ``records`` which deliveries they became.
    """

    at: int
    worker: int
    number: int
    operation: str
    target: str
    site: Site
    strikes: tuple[str, ...]
    error: str | None
    applied: int
    effects: tuple[str, ...]
    sent: tuple[str, ...]
    records: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Said:
    """Any other moment in words, such as held up or going on. ``worker`` is None for what happens to a queue."""

    at: int
    worker: int | None
    text: str


Moment: TypeAlias = LaneDelivery | Called | Said


@dataclass(frozen=True, slots=True)
class Lanes:
    """All lanes and moments of a history. Times are ms since the schedule's beginning.

    ``moments`` are in the order in which they happened, ``lanes`` in the order in which their workers began.
    """

    lanes: tuple[Lane, ...]
    moments: tuple[Moment, ...]


def lanes(history: History) -> Lanes:
    moments = tuple(_Reading(history).moments())
    workers = dict.fromkeys(delivery.worker for delivery in history.deliveries)
    return Lanes(tuple(_lane(history.given_to(worker)) for worker in workers), moments)


def _lane(given: Sequence[DeliveryRecord]) -> Lane:
    entry, is_acked = given[0], all(delivery.acked for delivery in given)
    ending = LaneEnding.DIED if entry.died else LaneEnding.ACKED if is_acked else LaneEnding.LEFT
    events = tuple(dict.fromkeys(event.type.value for delivery in given for event in delivery.events))
    return Lane(entry.worker, ending, _name(entry.why), events)


def _name(why: str | None) -> str | None:
    """Return the name of the error alone. The rest of its text may quote a payload."""
    return why.partition(":")[0] if why is not None else None


class _Reading:
    def __init__(self, history: History) -> None:
        self._history = history
        self._unseen = list(history.deliveries)
        self._effects = effects(history.versions)
        self._worker_of = {made.number: made.worker for made in history.calls}
        self._letters = {record: redriven.number for redriven in history.redriven for record in redriven.records}
        self._had: dict[int, int] = {}

    def moments(self) -> Iterator[Moment]:
        notes = list(self._history.notes)
        for made in self._history.calls:
            while notes and notes[0].after_call < made.number:
                yield from self._noted(notes.pop(0))
            yield from self._introduced(made.worker)
            yield self._called(made)
        for note in notes:
            yield from self._noted(note)
        yield from self._introduced(len(self._history.deliveries))

    def _introduced(self, worker: int) -> Iterator[Moment]:
        """Yield the deliveries of this worker and of those before it, also of those that made no call."""
        while self._unseen and self._unseen[0].worker <= worker:
            yield self._delivered(self._unseen.pop(0))

    def _noted(self, note: Note) -> Iterator[Moment]:
        if note.worker is not None:
            yield from self._introduced(note.worker)
        yield Said(note.at - self._history.start, note.worker, note.text)

    def _delivered(self, entry: DeliveryRecord) -> LaneDelivery:
        origin = self._origin(entry.record)
        self._had[entry.record] = entry.worker
        return LaneDelivery(
            at=entry.at - self._history.start,
            worker=entry.worker,
            record=entry.record,
            queue=entry.queue,
            stage=entry.stage,
            hop=entry.hop,
            receive=entry.receive,
            from_dlq=entry.from_dlq,
            origin=origin,
            letter=self._letters.get(entry.record) if origin is None else None,
            is_first=self._history.deliveries[entry.worker - 1] is entry,
            code=entry.code,
        )

    def _origin(self, record: int) -> Origin | None:
        if record in self._had:
            return Origin(Came.AGAIN, self._had[record])
        if (call := self._history.senders.get(record)) is not None:
            return Origin(Came.SENT, self._worker_of[call], call)
        copied = self._had.get(self._history.copies.get(record, 0))
        return Origin(Came.COPIED, copied) if copied is not None else None

    def _called(self, made: CallRecord) -> Called:
        posted = Counter(message.to for message in self._history.posted if message.call == made.number)
        return Called(
            at=made.at - self._history.start,
            worker=made.worker,
            number=made.number,
            operation=made.operation,
            target=made.target,
            site=made.site,
            strikes=_strikes(made),
            error=made.error,
            applied=made.applied,
            effects=tuple(self._effects.get(made.number, ())),
            sent=tuple(f"{to} × {count}" if count > 1 else to for to, count in posted.items()),
            records=tuple(record for record, call in self._history.senders.items() if call == made.number),
        )


def _strikes(made: CallRecord) -> tuple[str, ...]:
    held = [f"{kind.name.lower().replace('_', ' ')}, before it" for kind in made.held]
    return (*held, *filter(None, [fault(made).removeprefix("╳ ")]))


def effects(versions: list[Version]) -> Mapping[int, list[str]]:
    """Return what calls did to run items by the calls' numbers. The object is named where there are several."""
    several = len({version.key for version in versions}) > 1
    before: dict[str, RunItem | None] = {}
    texts: dict[int, list[str]] = {}
    for version in versions:
        text = _effect(before.get(version.key), version.item)
        before[version.key] = version.item
        if text is not None:
            whose = f"{version.key.partition('#')[2]}: " if several else ""
            texts.setdefault(version.call, []).append(whose + text)
    return texts


def _effect(before: RunItem | None, item: RunItem | None) -> str | None:
    """Describe the effect of a write. None where it left the run as it was, as a repeated write does."""
    if item is None:
        return "run item removed"
    if before is None or item.epoch != before.epoch:
        return f"claimed: epoch {item.epoch}, hop {item.hop}"
    if (item.done, item.committed_at, item.status) != (before.done, before.committed_at, before.status):
        return f"committed: hop {item.hop}, {item.status.value}"
    return None if item == before else f"run item written: hop {item.hop}, {item.status.value}"
