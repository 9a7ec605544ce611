"""A history as lines by worker: deliveries and calls with their places in the source and what went wrong where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from flowguard.events import EventType
from flowguard.testing.explorer.record.history import CallRecord, DeliveryRecord, History, Note
from flowguard.testing.explorer.record.schedule import FaultKind
from flowguard.testing.explorer.record.wait_messages import is_deadline

_FAULTS: Final = {
    FaultKind.DIES_BEFORE: "╳ dies before it",
    FaultKind.DIES_AFTER: "╳ dies after it (applied)",
    FaultKind.ERROR: "╳ server error (not applied)",
    FaultKind.THROTTLED: "╳ throttled (not applied)",
    FaultKind.LOST: "╳ answer lost, made again",
    FaultKind.UNANSWERED: "╳ answer lost for good (applied)",
    FaultKind.PARTIAL: "╳ taken in part",
    FaultKind.STALE: "╳ reads an earlier state",
    FaultKind.TURNED: "╳ answers in another order",
    FaultKind.PAGED: "╳ answers in pages of one item",
    FaultKind.REFUSED: "╳ refused for good",
}


_HELD: Final = {
    FaultKind.HELD_UP: "its worker was held up before it, and others went on",
    FaultKind.SEEN_EARLY: "its worker was held up before it, and the record seen by another",
}

_MOST_NAMED: Final = 5
"""So many calls that met the same are named by their numbers."""


def timeline(history: History) -> tuple[str, ...]:
    """Return the history's lines in the order in which they happened. ``w1`` is the worker of the first delivery.

    What a next request led to while something is refused for good follows with numbers of its own.
    """
    after = [] if history.after is None else ["  … and asked for once more:", *_lines(history.after)]
    return (*_lines(history), *after)


def struck(history: History) -> tuple[str, ...]:
    """Return what went wrong, a sentence each."""
    lines = [_several(calls, problem) for problem, calls in _struck(history).items()]
    lines += [f"call {made.number}, {called(made)}: {_HELD[kind]}" for made in history.calls for kind in made.held]
    lines += [note.text for note in history.notes if note.worker is None]
    return tuple(lines)


def _struck(history: History) -> dict[str, list[int]]:
    """Group the numbers of the calls that met a fault by the fault and the place of the call."""
    calls: dict[str, list[int]] = {}
    for made in history.struck():
        calls.setdefault(f"{called(made)}: {fault(made)[2:]}", []).append(made.number)
    return calls


def _several(calls: Sequence[int], problem: str) -> str:
    first = ", ".join(map(str, calls[:_MOST_NAMED]))
    rest = f" and {len(calls) - _MOST_NAMED} more" if len(calls) > _MOST_NAMED else ""
    return f"call{'s' if len(calls) > 1 else ''} {first}{rest}, {problem}"


def fault(made: CallRecord) -> str:
    """Describe what struck a call after a mark. Empty where nothing did."""
    if made.fault is FaultKind.REFUSED and made.applied:
        return "╳ what it stored is gone for good"
    if not made.refused:
        return _FAULTS[made.fault] if made.fault is not None else ""
    which = "entry" if len(made.refused) == 1 else "entries"
    return f"╳ {which} {', '.join(map(str, made.refused))} of {made.entries} refused"


def called(made: CallRecord) -> str:
    """Describe a call and where it is made."""
    return (
        f"{made.operation} {made.target} at {made.site}" if made.site.is_users else f"{made.operation} of {made.site}"
    )


def _lines(history: History) -> Iterator[str]:
    unseen = {delivery.worker: history.given_to(delivery.worker) for delivery in history.deliveries}
    notes = list(history.notes)
    for made in history.calls:
        while notes and notes[0].after_call < made.number:
            yield from _noted(history, notes.pop(0), unseen)
        yield from (
            _line(history, delivery.at, delivery.worker, _delivered(delivery))
            for delivery in unseen.pop(made.worker, ())
        )
        yield _line(history, made.at, None, _call(made))
    for note in notes:
        yield from _noted(history, note, unseen)


def _noted(history: History, note: Note, unseen: dict[int, list[DeliveryRecord]]) -> Iterator[str]:
    """Yield a note. A worker is introduced before anything is said of it."""
    if note.worker is not None:
        yield from (
            _line(history, delivery.at, delivery.worker, _delivered(delivery))
            for delivery in unseen.pop(note.worker, ())
        )
    yield _line(history, note.at, note.worker, f"… {note.text}")


def _call(made: CallRecord) -> str:
    place = str(made.site) if made.site.is_users else f"({made.site})"
    marks = [mark for mark in (made.error and f"→ {made.error}", fault(made)) if mark]
    return "  ".join([f"{made.number:3}  {made.operation} {made.target}  {place}", *marks])


def _delivered(entry: DeliveryRecord) -> str:
    hop = f", hop {entry.hop}" if entry.hop is not None else ""
    subject = _settled(entry) or (f"{entry.stage}{hop}" if entry.stage else f"record {entry.record}")
    again = f", {len(entry.batch) + 1} records" if entry.batch else ""
    again += f", receive {entry.receive}" if entry.receive > 1 else ""
    again += f", by the {entry.code} code" if entry.code else ""
    broken = [f"  ╳ breaks: {event.facts.get('why')}" for event in entry.events if event.type is EventType.BROKEN]
    return f"{subject}{again}{' from the dead-letter queue of SQS' if entry.from_dlq else ''}{''.join(broken[:1])}"


def _settled(entry: DeliveryRecord) -> str:
    """Describe what a record settles. Empty for a stage's message."""
    if (address := entry.address) is not None:
        subject = "deadline" if is_deadline(address) else f"answer {address.name!r}"
        return f"{subject} for {address.flow}, hop {address.hop}"
    answered = next((event for event in entry.events if entry.settles and event.message is not None), None)
    if answered is None or answered.message is None:
        return "an answer from outside" if entry.settles else ""
    return f"answer {answered.facts.get('name')!r} for {answered.message.flow}, hop {answered.message.hop}"


def _line(history: History, at: int, worker: int | None, text: str) -> str:
    label = f"w{worker}" if worker is not None else ""
    return f"  {(at - history.start) / 1000:9.3f} s  {label:4}{text}"
