"""The failures of a run that count: the last one and only where the run did not go on after it.

::

    fails ── dead letter, redrive 1 ── FAILED as run.1.0 ──▶ sent back ─┬─▶ goes on:     COMPLETED as run.1r1.0
             neither counts any more                                    └─▶ fails again: dead letter, redrive 2,
                                                                            FAILED as run.1r1.0; these two count

A hop that its run has given up, in a flow with ``on_failed``, is not done again: sent back, its letter becomes another
one, one redrive higher.

So a run that fails again after a redrive ends like one that was never redriven, one number higher. A dead letter under
another number, or word of the failure under an id that was used before (docs/decisions/0009), is none of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from flowguard.events import Event, EventType
from flowguard.names.ids import ObjectId
from flowguard.protocol.callers import Caller
from flowguard.protocol.outbox import Kind
from flowguard.protocol.run import RunItem, Status
from flowguard.sim.posted_messages import Posted
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.naming import Names
from flowguard.testing.explorer.record.schedule import RAISED

Runs: TypeAlias = Mapping[tuple[str, str], RunItem]
"""The item of each run, by key and request id, as it stood at last."""

_Sent: TypeAlias = tuple[str, str]
"""A receiver's bare name, and the id."""

_Letter: TypeAlias = tuple[str, str, int, int]
"""A dead letter: its run item's key, request id, hop, redrive."""


def last_of_runs(history: History) -> Runs:
    return {
        (version.key, version.item.request_id): version.item for version in history.versions if version.item is not None
    }


@dataclass(frozen=True)
class Failures:
    """What the failed commits of a history sent.

    ``notices`` are the Complete messages of failed commits: which error they name depends on what went wrong.
    ``overcome`` are those of runs that went on and ``letters_overcome`` their dead letters. ``returned`` is the last
    redrive of what was sent back by key, request id and hop. ``answered`` are the answers to callers of failed runs
    that went on: a caller gets one end, and it was that. ``repeated`` are those to requests that met a stored end:
    a copy that comes after a further end gets that one.
    """

    notices: frozenset[_Sent]
    overcome: frozenset[_Sent]
    letters: frozenset[_Letter]
    letters_overcome: frozenset[_Letter]
    names: Names
    returned: Mapping[tuple[str, str, int], int]
    answered: frozenset[_Sent] = frozenset()
    repeated: frozenset[_Sent] = frozenset()

    @classmethod
    def of(cls, history: History, last: Runs) -> Failures:
        failed = [
            (version.key, version.item)
            for version in history.versions
            if version.item and version.item.status is Status.FAILED
        ]
        over = [(key, item) for key, item in failed if _went_on(item, last[key, item.request_id])]
        returned = _returned(history)
        own_failures = frozenset(_own_failures(history))
        letters = frozenset(_letter(pair) for pair in failed if not is_undone(pair[1])) | own_failures
        posted = frozenset(_letter_of(posted) for posted in history.posted if posted.is_letter)
        sent_back = {letter for letter in own_failures if (*letter[:3], letter[3] + 1) in posted}
        letters_overcome = frozenset(map(_letter, over)) | sent_back
        return cls(
            notices=_notices(item for _, item in failed),
            overcome=_notices(item for _, item in over),
            letters=letters - letters_overcome,
            letters_overcome=letters_overcome,
            names=Names.of(history),
            returned=returned,
            answered=frozenset(answer for key, item in over for answer in _answers(key, item)) | _given_up(history),
            repeated=frozenset(_kept(event for _, event in history.events(EventType.KEPT))),
        )

    def is_notice(self, message: Posted) -> bool:
        """Answer whether a message notifies ``reply_to`` of a failure."""
        return _own(message) in self.notices

    def is_overcome(self, message: Posted) -> bool:
        """Answer whether a message says that a run failed which has gone on since, into the next failure maybe."""
        if not message.is_letter:
            return _own(message) in self.overcome
        letter = _letter_of(message)
        return letter in self.letters_overcome or (letter not in self.letters and letter[3] <= self._last(letter))

    def is_final(self, message: Posted) -> bool:
        """Answer whether a message gave a caller the end of a run that went on: the caller gets no other."""
        return _own(message) in self.answered

    def may_repeat(self, message: Posted) -> bool:
        """Answer whether a copy of a message may say another end than the first one."""
        return _own(message) in self.repeated

    def id_of(self, message: Posted) -> str | None:
        """Return the id by which a message is compared. None for a message without one.

        It is the message's id without what depends on time and without the marks of redrives that counted.
        """
        if message.id is None:
            return None
        plain = self.names.plain(message.id)
        if not message.is_letter:
            return plain
        letter = _letter_of(message)
        is_next = letter in self.letters or letter[3] == self._last(letter) + 1
        return f"{plain} (dead letter of hop {letter[2]}{'' if is_next else f', redrive {letter[3]}'})"

    def _last(self, letter: _Letter) -> int:
        """Return the last redrive before a letter.

        This is for a letter with no commit behind it, such as that of a message that names no object.
        """
        return self.returned.get(letter[:3], 0)


def failed_by_right(history: History) -> bool:
    """Answer whether a run ended FAILED by an attempt that may fail.

    That is an attempt whose record SQS moved to the dead-letter queue, or one at whose hop user code met an error. Such
    a run may have failed elsewhere than undisturbed, or before it did what it does undisturbed.
    """
    disturbed = {made.worker for made in history.calls if made.fault in RAISED and made.site.is_users}
    disturbed |= {delivery.worker for delivery in history.deliveries if delivery.from_dlq}
    failed = {run: item for run, item in last_of_runs(history).items() if item.status is Status.FAILED}
    tried = (
        (version.worker, version.item, failed.get((version.key, version.item.request_id)))
        for version in history.versions
        if version.item
    )
    return any(worker in disturbed and end and (at.hop, at.redrive) in _failed_at(end) for worker, at, end in tried)


def _failed_at(end: RunItem) -> set[tuple[int, int]]:
    """Return hop and redrive of each hop at which a run has failed."""
    hops = {(end.hop, end.redrive)}
    return hops if end.own_failure is None else hops | {(end.own_failure.hop, end.own_failure.redrive)}


def is_undone(item: RunItem) -> bool:
    """Answer whether the run was ended by its ``on_failed`` stage: no hop is left to be sent back."""
    return item.own_failure is not None and item.own_failure.undone


def _own_failures(history: History) -> Iterator[_Letter]:
    """Yield the dead letters of the hops that runs have given up."""
    for version in history.versions:
        if version.item is not None and (failed := version.item.own_failure) is not None:
            yield version.key, str(version.item.request_id), failed.hop, failed.redrive + 1


def _went_on(failed: RunItem, last: RunItem) -> bool:
    return (failed.hop, failed.redrive, failed.status) != (last.hop, last.redrive, last.status)


def _letter(failed: tuple[str, RunItem]) -> _Letter:
    """Return the dead letter of a failed commit. Sent back, it is the next redrive."""
    key, item = failed
    return key, str(item.request_id), item.hop, item.redrive + 1


def _letter_of(message: Posted) -> _Letter:
    return message.run, message.id or "", message.place.hop, message.place.redrive


def _notices(failed: Iterable[RunItem]) -> frozenset[_Sent]:
    outboxes = [item.outbox for item in failed if item.outbox is not None]
    sends = [send for outbox in outboxes for send in outbox.sends if send.kind is Kind.COMPLETE]
    return frozenset((_bare(str(send.to)), send.id) for send in sends)


def _answers(key: str, item: RunItem) -> Iterator[_Sent]:
    """Yield the answers to the callers that a run item held when its run failed."""
    _, flow, object_id = key.split("#", 2)
    for caller in item.answered.in_item if item.answered is not None else ():
        yield _bare(caller.reply_to), caller.reply_id(flow, ObjectId(object_id))


def _given_up(history: History) -> frozenset[_Sent]:
    """Return the answers to requests whose own records SQS gave up, where they met the stored end of another one."""
    return frozenset(_kept(event for delivery, event in history.events(EventType.KEPT) if delivery.from_dlq))


def _kept(events: Iterable[Event]) -> Iterator[_Sent]:
    """Yield the answers to requests that met a stored end."""
    for event in events:
        m = event.message
        if m is not None and (caller := Caller.of(m)) is not None:
            yield _bare(caller.reply_to), caller.reply_id(m.flow, m.object_id)


def _own(message: Posted) -> _Sent:
    return _bare(message.to), message.id or ""


def _bare(address: str) -> str:
    """Return the bare name of a queue or topic or function or bus, whichever way it was named."""
    return re.split(r"[/:|]", address)[-1]


def _returned(history: History) -> dict[tuple[str, str, int], int]:
    redrives: dict[tuple[str, str, int], int] = {}
    for redriven in history.redriven:
        place = (redriven.key, str(redriven.message.request_id), redriven.message.hop)
        redrives[place] = max(redrives.get(place, 0), redriven.message.redrive)
    return redrives
