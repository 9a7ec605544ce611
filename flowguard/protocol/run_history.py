"""What has happened to a run lately, as its item keeps it: a line for each attempt that ended.

::

    4f0c,1,0,0,1,r,,19bf0c5a2d0,price-order     run 4f0c, hop 1, retry 0, redrive 0, epoch 1: failed, and was retried
    4f0c,1,1,0,2,c,45,19bf0c66620,price-order   its second attempt committed, 45 ms after its claim

The lines are in the order in which they were written. Nothing decides by them: a text that makes no sense is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final
from zlib import crc32

from flowguard.protocol.run import ENDED, Claim, Commit, RunItem, Status
from flowguard.startup.named_tuple import NamedTuple

LONGEST: Final = 256
"""Bytes that an item keeps of its history."""

_LONGEST_STAGE: Final = 32
_LONGEST_TOLD: Final = 255
"""The same in a row of the full history, where each name that an item holds has room."""
_FIELDS: Final = 9


class How(StrEnum):
    """How an attempt ended. The value is what a line has."""

    COMMITTED = "c"
    WAITED = "w"
    COMPLETED = "e"
    FAILED = "f"
    GAVE_UP = "g"
    """Failed for good, and the run went on at ``on_failed``."""
    UNDONE = "u"
    """The ``on_failed`` stage has ended the run."""
    RETRIED = "r"
    TAKEN_OVER = "t"
    """Its worker had not committed when its lease was over, and another one took the hop."""
    SUPERSEDED = "s"
    """A newer request took the object."""
    RESET = "n"
    """The run was reset, and its work began anew."""


class Happened(NamedTuple):
    """The end of an attempt. ``at`` is in ms since 1970.

    ``run`` is the digest of the run. ``ms`` is the time from the claim to the end, None where nobody measured it.
    """

    run: str
    hop: int
    retry: int
    redrive: int
    epoch: int
    how: How
    ms: int | None
    at: int
    stage: str

    @classmethod
    def from_text(cls, line: str) -> Happened | None:
        """Read a line. None where it is none."""
        fields = line.split(",", _FIELDS - 1)
        try:
            run, hop, retry, redrive, epoch, how, ms, at, stage = fields
            counts = int(hop), int(retry), int(redrive), int(epoch)
            return cls(run, *counts, How(how), int(ms) if ms else None, int(at, 16), stage)
        except ValueError:
            return None


def run_digest(request_id: str, requested_at: int) -> str:
    """Return what tells the runs of an object apart in a history. It decides nothing, so it is short and quick."""
    return f"{crc32(f'{requested_at}#{request_id}'.encode()) & 0xFFFF:04x}"


def read_history(text: str) -> tuple[Happened, ...]:
    """Read a history. What is no line of it is left out."""
    return tuple(happened for line in text.split("\n") if (happened := Happened.from_text(line)) is not None)


def after_commit(claim: Claim, commit: Commit) -> str:
    """Return the history of the item with what the commit adds: its own line, and that of the attempt before it."""
    return _with(claim, _how(commit), commit.ended_at or commit.committed_at)


def after_retry(claim: Claim, now: int) -> str:
    """Return the history of the item with the line of an attempt that has failed and is retried."""
    return _with(claim, How.RETRIED, now)


def told_by_commit(claim: Claim, commit: Commit) -> str:
    """Return what a row of the full history tells of a commit: its own line, after that of the attempt before it."""
    return "\n".join(_added(claim, _how(commit), commit.ended_at or commit.committed_at, _LONGEST_TOLD))


def told_by_retry(claim: Claim, now: int) -> str:
    """Return what a row of the full history tells of an attempt that has failed and is retried."""
    return "\n".join(_added(claim, How.RETRIED, now, _LONGEST_TOLD))


def error_of(commit: Commit) -> str | None:
    """Return the type of the error with which the hop of this commit has failed for good. None for one that has not."""
    error = commit.error if commit.failed is None else commit.failed.error
    return None if error is None else error.type


def _with(claim: Claim, how: How, at: int) -> str:
    return "\n".join(filter(None, (claim.item.history, *_added(claim, how, at, _LONGEST_STAGE))))


def _added(claim: Claim, how: How, at: int, longest: int) -> Iterator[str]:
    """Yield the line of the attempt that the claim has found, where it has none, and the claim's own line."""
    m = claim.message
    run = run_digest(m.request_id, m.requested_at)
    if claim.before is not None and (before := _before(claim, claim.before, run, longest)) is not None:
        yield before
    yield _line(run, claim.item, how, at, longest, at - claim.at if claim.at else "")


def newest(text: str, room: int) -> str:
    """Return the newest lines that take no more than ``room`` bytes."""
    data = text.encode()
    if len(data) <= room:
        return text
    start = data.find(b"\n", len(data) - room - 1) + 1 if room > 0 else 0
    return data[start:].decode() if start else ""


def _before(claim: Claim, item: RunItem, run: str, longest: int) -> str | None:
    """Return the line of the attempt that the claim has found in the item, where that wrote none itself."""
    m = claim.message
    if item.request_id != m.request_id:
        if item.status in ENDED:
            return None
        how = How.SUPERSEDED if item.reset_at is None else How.RESET
        return _line(run_digest(item.request_id, item.requested_at), item, how, claim.at, longest)
    is_known = _tells(claim.item.history, run, item.epoch)
    if is_known or item.hop != m.hop or item.done or item.cancelled_because is not None:
        return None
    if (item.redrive, item.retry) < m.attempt:
        first = m.first_error if m.attempt == (0, 1) else None  # of a later attempt the message has no time
        return _line(run, item, How.RETRIED, claim.at if first is None else first.at, longest)
    return _line(run, item, How.TAKEN_OVER, min(item.lease_until, claim.at), longest)


def _tells(text: str, run: str, epoch: int) -> bool:
    """Answer whether the last line is of this claim. A retry in place has written it."""
    last = Happened.from_text(text.rpartition("\n")[2])
    return last is not None and (last.run, last.epoch) == (run, epoch)


def _line(run: str, item: RunItem, how: How, at: int, longest: int, ms: int | str = "") -> str:
    """Return the line of an attempt. A stage's name that is longer than ``longest`` is cut."""
    stage = item.stage
    if len(stage) > longest or "\n" in stage:
        stage = _short(stage.replace("\n", " "), longest)
    return f"{run},{item.hop},{item.retry},{item.redrive},{item.epoch},{how},{ms},{at:x},{stage}"


def _short(stage: str, longest: int) -> str:
    return stage if len(stage) <= longest else f"{stage[:longest]}…"


_OF_STATUS: Final = {
    Status.RUNNING: How.COMMITTED,
    Status.WAITING: How.WAITED,
    Status.COMPLETED: How.COMPLETED,
    Status.FAILED: How.FAILED,
}


def _how(commit: Commit) -> How:
    if commit.failed is not None:
        return How.GAVE_UP
    return How.UNDONE if commit.undone else _OF_STATUS[commit.status]
