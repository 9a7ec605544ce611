"""The time line of a run, from its request to now or to the deadline that it waits for."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from flowguard.aws.run_reader import SeenRun
from flowguard.operate.history_facts import SAID, own_history
from flowguard.operate.moments import distance, iso
from flowguard.protocol.run import ENDED, RunItem, Status
from flowguard.protocol.run_history import Happened, How
from flowguard.protocol.waiting import Wait, WaitEnd

_LEFT, _RIGHT = 3.0, 97.0
_CLOSE: Final = 6.0  # two marks this close, in percent, do not fit beside each other
_ROW: Final = 26
_MARGIN: Final = 20
_LABELLED: Final = 9.0  # a gap of so many percent has room for how long it is
_UNIT: Final = 100  # ms, of which a gap's logarithm is taken: one of a second is a sixth as wide as one of two days
_MINUTE: Final = 60_000


class Tone(Enum):
    """What a moment is, which gives it its colour."""

    PAST = "past"
    WELL = "well"
    BAD = "bad"
    DUE = "due"
    NOW = "now"


_TONES: Final = {
    How.COMPLETED: Tone.WELL,
    How.FAILED: Tone.BAD,
    How.GAVE_UP: Tone.BAD,
    How.UNDONE: Tone.BAD,
    How.RETRIED: Tone.BAD,
    How.TAKEN_OVER: Tone.BAD,
}


class Moment(NamedTuple):
    """Something that happened, or is due. ``at`` is in ms since 1970."""

    at: int
    text: str
    tone: Tone = Tone.PAST


class Mark(NamedTuple):
    """A moment on the line. ``x`` is in percent of its width, ``y`` in pixels; ``number`` is what the list calls it."""

    number: int
    moment: Moment
    x: float
    y: int
    when: str
    distance: str


class Bar(NamedTuple):
    """A part of the line, in percent of its width."""

    x: float
    width: float
    kind: str


class Gap(NamedTuple):
    """The time between two moments, where it has room to be written. ``x`` is its middle, in percent of the width."""

    x: float
    length: str


class TimeLine(NamedTuple):
    """A time line as it is drawn. ``y`` is where its line is."""

    marks: list[Mark]
    bars: list[Bar]
    gaps: list[Gap]
    height: int
    y: int


def time_line(seen: SeenRun, now: int) -> TimeLine:
    """Draw the run's moments, each gap between two of them as wide as the logarithm of its length.

    So both the second of work and the two days of waiting after it can be seen.
    """
    moments = sorted(_moments(seen.item, now), key=lambda moment: moment.at)
    first, last = moments[0].at, moments[-1].at
    x = _scale([moment.at for moment in moments])

    places: list[tuple[float, int]] = []
    rows: list[float] = []  # of each row, where its last mark is
    for moment in moments:
        place = x(moment.at)
        row = next((i for i, taken in enumerate(rows) if place - taken >= _CLOSE), len(rows))
        rows[row:] = [place, *rows[row + 1 :]]
        places.append((place, row))
    line = _MARGIN + _ROW * (len(rows) - 1)
    marks = [
        Mark(number, moment, place, line - _ROW * row, iso(moment.at), distance(moment.at, now))
        for number, (moment, (place, row)) in enumerate(zip(moments, places, strict=True), 1)
    ]
    bars = _bars(seen.item, x(first), x(last), x(min(max(now, first), last)), x)
    return TimeLine(marks, bars, list(_gaps(moments, x)), line + 2 * _MARGIN, line)


def _scale(times: Sequence[int]) -> Callable[[int], float]:
    """Return where a time is drawn, in percent of the width. Within a gap the scale is even."""
    widths = [math.log2(1 + (after - before) / _UNIT) for before, after in pairwise(times)]
    ends, whole = [0.0, *accumulate(widths)], sum(widths)

    def x(at: int) -> float:
        gap = min(max(bisect_right(times, at) - 1, 0), len(times) - 1)
        length = times[gap + 1] - times[gap] if gap + 1 < len(times) else 0
        share = min(max(at - times[gap], 0) / length, 1.0) if length else 0.0
        place = ends[gap] + (share * widths[gap] if share else 0.0)
        return round(_LEFT + (_RIGHT - _LEFT) * place / whole, 2) if whole else _LEFT

    return x


def _gaps(moments: Sequence[Moment], x: Callable[[int], float]) -> Iterator[Gap]:
    for before, after in pairwise(moments):
        start, end = x(before.at), x(after.at)
        if end - start >= _LABELLED:
            yield Gap(round((start + end) / 2, 2), _length(after.at - before.at))


def _length(ms: int) -> str:
    """Return a length of time in its largest unit and the next smaller one: ``300 ms``, ``1.5 s``, ``2 d 3 h``."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < _MINUTE:
        return f"{ms / 1_000:.3g} s"
    minutes = ms // _MINUTE
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def _bars(item: RunItem, first: float, last: float, now: float, x: Callable[[int], float]) -> list[Bar]:
    """Return the parts of the line. A wait has a colour of its own."""
    if item.status in ENDED:
        return [_bar(first, last, "over")]
    if item.status is Status.WAITING:
        begun = min(max(x(item.committed_at), first), last)
        return [_bar(first, begun, "over"), _bar(begun, max(now, begun), "wait"), _bar(now, last, "ahead")]
    return [_bar(first, now, "over"), _bar(now, last, "ahead")]


def _bar(start: float, end: float, kind: str) -> Bar:
    return Bar(start, round(max(0.0, end - start), 2), kind)


def _moments(item: RunItem, now: int) -> Iterator[Moment]:
    yield Moment(item.requested_at, "requested")
    past = list(own_history(item))
    yield from map(_happened, past)
    if not _tells_last_commit(past, item):
        yield from _commits(item)
    yield from _interventions(item)
    if item.status in ENDED:
        return
    wait = item.wait if item.status is Status.WAITING else None
    if wait is not None:
        yield from _deadline(wait, now)
    elif not item.done and item.lease_until > now:
        yield Moment(item.lease_until, "the lease of its worker ends", Tone.DUE)
    elif not item.done:
        yield Moment(item.lease_until, "the lease of its worker ended", Tone.BAD)
    yield Moment(now, "now", Tone.NOW)


def _happened(entry: Happened) -> Moment:
    """Return the moment at which an attempt ended."""
    attempt = f", attempt {entry.retry + 1}" if entry.retry else ""
    again = f", redrive {entry.redrive}" if entry.redrive else ""
    took = "" if entry.ms is None else f", {entry.ms:,} ms after its claim"
    place = f"hop {entry.hop} at {entry.stage}{attempt}{again} (epoch {entry.epoch})"
    return Moment(entry.at, f"{place}: {SAID[entry.how]}{took}", _TONES.get(entry.how, Tone.PAST))


def _tells_last_commit(past: Sequence[Happened], item: RunItem) -> bool:
    """Answer whether the history has the last commit. A function of an older version adds nothing to it."""
    if item.done:
        return any(entry.epoch == item.epoch for entry in past)
    return any(entry.hop == item.hop - 1 for entry in past)


def _commits(item: RunItem) -> Iterator[Moment]:
    """Yield the last commit, where it is of this run."""
    if item.status is Status.COMPLETED:
        yield Moment(item.committed_at, f"completed at {item.stage}, hop {item.hop}", Tone.WELL)
    elif item.status is Status.FAILED:
        yield Moment(item.committed_at, f"failed for good at {item.stage}, hop {item.hop}", Tone.BAD)
    elif item.status is Status.WAITING:
        yield Moment(item.committed_at, f"began to wait at {item.stage}, hop {item.hop}")
    elif item.done:
        yield Moment(item.committed_at, f"committed hop {item.hop} at {item.stage}")
    elif item.hop > 1:
        yield Moment(item.committed_at, f"committed hop {item.hop - 1}")


def _interventions(item: RunItem) -> Iterator[Moment]:
    if (failed := item.own_failure) is not None:
        yield Moment(failed.error.at, f"failed for good at hop {failed.hop}, and went on at on_failed", Tone.BAD)
    if item.cancelled_because is not None and item.cancellation is not None:
        yield Moment(item.cancellation.at, "cancelled", Tone.BAD)
    if item.reset_at is not None:
        yield Moment(item.reset_at, "reset")


def _deadline(wait: Wait, now: int) -> Iterator[Moment]:
    if wait.end is None:
        after = (
            "" if wait.plan is None else f": without the answers it goes on at {wait.plan.stage_at(WaitEnd.TIMED_OUT)}"
        )
        late = wait.deadline < now
        text = "the deadline passed" if late else "the deadline"
        yield Moment(wait.deadline, f"{text}{after}", Tone.BAD if late else Tone.DUE)
