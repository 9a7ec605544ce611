"""What a search goes on with after a run, and how that is written to a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from flowguard.flow import AnyFlow
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import OF_SCANS, OF_WEATHER, Choice, FaultKind, Schedule
from flowguard.testing.explorer.search.known_runs import KnownRun
from flowguard.testing.explorer.search.next_schedules import follow_ups
from flowguard.testing.explorer.search.pairs import Second, seconds_in
from flowguard.testing.explorer.search.repeated_holds import Alike, alike_holds
from flowguard.testing.explorer.search.right_ends import Missing
from flowguard.testing.explorer.search.runs import Met


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the next schedules follow from. ``seconds`` are None where no pair begins with this one.

    ``alike`` are the hold-ups that are like that of the schedule.
    """

    is_hung: bool
    follow_ups: tuple[Choice, ...]
    seconds: tuple[Second, ...] | None
    alike: tuple[Alike, ...]

    @classmethod
    def of(cls, schedule: Schedule, history: History, flows: Sequence[AnyFlow], *, commutes: bool) -> Outcome:
        """Return what follows from a run."""
        return cls(
            history.hung is not None,
            tuple(follow_ups(history, flows)),
            seconds_in(history, schedule.choices[-1]) if _begins_pairs(schedule, history) else None,
            tuple(alike_holds(schedule, history, commutes=commutes)),
        )


@dataclass(slots=True)
class Judgement:
    """Whether a run's end was right.

    ``digest`` is that of the end. ``counts`` says that it was compared with right ends, ``asked`` which answers and
    messages those ends went without.
    """

    digest: str = ""
    counts: bool = False
    asked: tuple[tuple[Missing, ...], frozenset[str]] | None = None
    is_unjudged: bool = False


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run of an earlier search: its calls, the schedules that follow from it, and the judgement on its end."""

    met: Met
    outcome: Outcome
    judgement: Judgement = field(default_factory=Judgement)


def written(met: Met, outcome: Outcome, judgement: Judgement) -> KnownRun:
    """Return a run as plain data."""
    asked = None
    if judgement.asked is not None:
        missing, overtaken = judgement.asked
        asked = [sorted(map(str, answers)) for answers in missing], sorted(overtaken)
    return KnownRun(
        calls=[(name, "".join(sorted(kinds))) for name, kinds in met.calls],
        reads=sorted(met.touched.reads),
        writes=sorted(met.touched.writes),
        uncounted=sorted(met.uncounted),
        kept=met.has_kept,
        end=judgement.digest,
        counts=judgement.counts,
        asked=asked,
        follow_ups=[*map(str, outcome.follow_ups)],
        seconds=None if outcome.seconds is None else [str(second.choice) for second in outcome.seconds],
        alike=[(alike.more, [*alike.numbers.items()]) for alike in outcome.alike],
    )


def read(run: KnownRun) -> FoundRun:
    """Return a run from plain data. Raises an error where it is of none."""
    names = [name for name, _ in run.calls]
    seconds = None
    if run.seconds is not None:
        seconds = tuple(Second(choice, names[choice.at - 1]) for choice in _choices(run.seconds))
    asked = None
    if run.asked is not None:
        missing, overtaken = run.asked
        asked = tuple(frozenset(_choices(answers)) for answers in missing), frozenset(overtaken)
    calls = [(name, frozenset(map(FaultKind, kinds))) for name, kinds in run.calls]
    met = Met(calls, frozenset(run.uncounted), run.kept)
    for places, is_read in ((run.reads, True), (run.writes, False)):
        met.touched.add(places, is_read=is_read)
    alike = tuple(Alike(more, dict(numbers)) for more, numbers in run.alike)
    outcome = Outcome(False, _choices(run.follow_ups), seconds, alike)
    return FoundRun(met, outcome, Judgement(run.end, run.counts, asked))


def _choices(texts: Sequence[str]) -> tuple[Choice, ...]:
    return Schedule.parse(".".join(texts)).choices if texts else ()


def _begins_pairs(schedule: Schedule, history: History) -> bool:
    if history.forged or schedule.has(OF_WEATHER | OF_SCANS):
        return False
    is_redriven = len(schedule.choices) == 2 and schedule.choices[-1].kind is FaultKind.REDRIVEN
    return len(schedule.choices) == 1 or is_redriven
