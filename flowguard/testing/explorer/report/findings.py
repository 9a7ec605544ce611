"""The findings of an exploration for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.checks.undisturbed import UndisturbedEnd
from flowguard.testing.explorer.checks.unplayed import Unplayed
from flowguard.testing.explorer.record.ran_lines import RanLines
from flowguard.testing.explorer.record.site import Site
from flowguard.testing.explorer.report.folded import folded
from flowguard.testing.explorer.report.lanes import Lanes
from flowguard.testing.explorer.report.parting import Parting
from flowguard.testing.explorer.report.sides import is_of_ends, shown_sides, sides
from flowguard.text.printable import bounded, one_line

_OFFER: Final = " (to try some: bound=300, walks=200)"
_MOST_ENDS: Final = 5
_LONGEST_END: Final = 300
_MOST_NAMED: Final = 6
_MOST_TIME_LINES: Final = 3
_MOST_DIFFERENCES: Final = 6


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation. ``schedule`` is the shortest that shows it and ``times`` is how many did.

    ``site`` is the line of user code to change, ``fix`` how. ``option`` is how to say that it is meant, and what is not
    looked at then: it is no fix. ``struck`` says at which calls something went wrong, ``timeline`` all
    that happened, a line each. ``lanes`` is the same as data. ``parts_at`` is the first step at which what differs is
    written otherwise than in the undisturbed run.
    """

    schedule: str
    problems: tuple[Problem, ...]
    site: Site | None
    fix: str
    struck: tuple[str, ...]
    timeline: tuple[str, ...]
    times: int = 1
    lanes: Lanes | None = None
    option: str = ""
    parts_at: Parting | None = None

    @property
    def rule(self) -> str:
        """Return the name of the broken promise or invariant."""
        return self.problems[0].rule


class NotRun(NamedTuple):
    """A message that no function took, and the reason. ``number`` is its place among those given, from 1.

    ``is_expected`` says that this is how the message was meant to end.
    """

    number: int
    why: str
    is_expected: bool = False

    @property
    def begins(self) -> str:
        """Return how the line about it begins."""
        return "as expected, nothing ran for" if self.is_expected else "nothing ran for"


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The result of an exploration.

    ``coverage`` maps each call, as it is shown, to the letters of the faults that it met. ``pairs_left`` is how many
    schedules of two faults were beyond the bound; ``ends`` counts the different states at the end.
    ``undisturbed_ends`` are what the run came to in which nothing went wrong, ``undisturbed`` is that run as a picture.
    ``is_complete`` is false where the search was interrupted. ``stopped_after`` are the seconds after which it was to
    end and did, with schedules left. ``uncounted`` are the calls whose effect no comparison of ends sees, ``elsewhere``
    the services that moto answered for the engine in memory. ``has_all_orders`` is false where there are more
    undisturbed orders than were run: then runs that met are not judged. ``unjudged`` counts the schedules that ended as
    none of those orders does, and may be right, ``singles_left`` the single faults that there was no time for.
    ``has_run`` is false where no message was for what is explored, and ``not_run`` are those that were not; ``names``
    are what the messages are called, by their files. Of several ``parts`` the first messages touch nothing of one
    another's, and each part was searched by itself; ``parts_left`` were not searched to their end. ``has_twin`` says
    that the only message was also run with its twin, the same content under a new id. ``switched`` counts the schedules
    that switch between two versions of the code. ``compared`` are the tables,
    destinations and parties of which the ends were compared, ``never_ran`` the stages that no schedule came to.
    ``unanswered`` are the names that nobody answers before the deadline of their wait, ``unawaited`` the answers among
    the messages for which no run waits. ``unplayed`` is where handlers met a driver that is not played.
    ``either`` are the attributes and fields of which several forms are allowed.
    ``lines`` are those of the handlers that ran, where that was asked for. ``unwritten`` says which file of runs could
    not be written to, and why.
    """

    flows: tuple[str, ...]
    schedules: int
    orders: int
    ends: int
    pairs_left: int
    coverage: Mapping[str, str]
    violations: tuple[Violation, ...]
    undisturbed: Lanes | None = None
    undisturbed_ends: tuple[UndisturbedEnd, ...] = ()
    is_complete: bool = True
    stopped_after: float | None = None
    uncounted: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    has_all_orders: bool = True
    unjudged: int = 0
    singles_left: int = 0
    has_run: bool = True
    not_run: tuple[NotRun, ...] = ()
    names: tuple[str, ...] = ()
    parts: int = 1
    parts_left: int = 0
    has_twin: bool = False
    switched: int = 0
    compared: tuple[str, ...] = ()
    never_ran: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()
    unawaited: tuple[NotRun, ...] = ()
    unplayed: tuple[Unplayed, ...] = ()
    either: tuple[str, ...] = ()
    lines: RanLines | None = None
    unwritten: str = ""
    seconds: float = field(compare=False, default=0.0)

    @property
    def ok(self) -> bool:
        """Return whether nothing was found, and all that was to be judged could be."""
        return not self.violations and self.is_judged

    @property
    def is_judged(self) -> bool:
        """Return whether there were calls, every message and single fault ran, and each end could be judged."""
        left = (
            any(not message.is_expected for message in self.not_run)
            or self.unjudged
            or self.singles_left
            or self.parts_left
            or self.unplayed
            or (self.lines is not None and not self.lines.are_enough)
        )
        return self.has_run and bool(self.coverage) and not left

    @property
    def verdict(self) -> str:
        """Return ``broken`` or ``clean``, or ``not looked at`` without ground for either."""
        return "broken" if self.violations else "clean" if self.ok else "not looked at"

    @property
    def rate(self) -> float:
        """Return how many schedules ran a second."""
        return self.schedules / self.seconds if self.seconds else 0.0

    def __repr__(self) -> str:
        """Format it for an assertion that fails: shorter than what it holds."""
        return f"<Report: {self.verdict}, {_many(len(self.violations), 'violation')}, {self.schedules} schedules>"

    def __str__(self) -> str:
        """Format the report as ``flowguard explore`` prints it: a few time lines, as far as they fit."""
        lines: list[str] = []
        timed: set[str] = set()
        for number, violation in enumerate(self.violations, 1):
            is_left_out = violation.schedule in timed or len(timed) == _MOST_TIME_LINES
            lasted = () if is_left_out else violation.timeline
            timed |= {violation.schedule} if lasted else set()
            shown = replace(violation, timeline=tuple(folded(lasted, violation.schedule)))
            lines += [*show(shown, f"violation {number} of {len(self.violations)}"), ""]
        return "\n".join(map(one_line, [*lines, *self.summary()]))

    @property
    def tried(self) -> str:
        """Return what was tried, as a line."""
        faults = sum(map(len, self.coverage.values()))
        left = f", {self.pairs_left} pairs beyond the bound{_OFFER}" if self.pairs_left else ""
        return (
            f"{', '.join(self.flows)}: {self.schedules} schedules, {len(self.coverage)} calls met {faults} faults, "
            f"{self.ends} different ends, {self.orders} undisturbed orders{left}{self._ground()}"
        )

    def _ground(self) -> str:
        """Return what the verdict stands on beside the numbers."""
        shown = ", ".join(self.compared[:_MOST_NAMED])
        more = f" and {len(self.compared) - _MOST_NAMED} more" if len(self.compared) > _MOST_NAMED else ""
        twin = ", the message with its twin" if self.has_twin else ""
        twin += f", two versions of the code with {self.switched} switches between them" if self.switched else ""
        return f"{twin}; compared: {shown}{more}" if shown else f"{twin}; compared: nothing but how runs ended"

    def summary(self) -> list[str]:
        """Return the undisturbed ends, what was tried and how much was found, as lines."""
        stopped = [] if self.is_complete else ["interrupted: what follows is what was found until then"]
        if self.stopped_after is not None:
            stopped.append(f"stopped after {self.stopped_after:g} s: what follows is what was found until then")
        if self.unwritten:
            stopped.append(f"not written, the runs from then on: {self.unwritten}")
        figures = f"{_many(len(self.violations), 'violation')}, {self.rate:.0f} schedules a second"
        return [*stopped, *_undisturbed(self.undisturbed_ends), *self.limits(), self.tried, figures]

    def limits(self) -> list[str]:
        """Return what the exploration did not see, as lines."""
        lines = [f"answered by moto: {', '.join(self.elsewhere)}"] if self.elsewhere else []
        if self.parts > 1:
            lines.append(f"searched apart: {self.parts} parts of the messages, which touch nothing of one another's")
        if self.parts_left:
            lines.append(f"not searched to the end, {_many(self.parts_left, 'part')} of the messages")
        if self.uncounted:
            lines.append(f"not compared, what these leave: {', '.join(self.uncounted)}")
        if self.either:
            lines.append(f"allowed in one of several forms: {', '.join(self.either)}")
        if not self.has_all_orders:
            lines.append("not judged, runs that meet: there are more undisturbed orders than were run")
        if self.unjudged:
            which = f"{_many(self.unjudged, 'schedule')} that ended as none of the {self.orders} orders that were run"
            lines.append(f"not judged, {which}; give fewer messages, any_order=True or invariants_only=True")
        if self.singles_left:
            lines.append(
                f"not tried, {_many(self.singles_left, 'single fault')}: so this is no verdict; give more time"
            )
        lines += map(str, self.unplayed)
        lines += [f"{left.begins} {self._name(left.number)}: {left.why}" for left in self.not_run]
        lines += self._left_alone()
        if self.has_run and not self.coverage:
            lines.append("no call was met: nothing could go wrong, so this says nothing")
        if not self.has_run:
            lines.append("nothing ran: no message is for what is explored, so this says nothing of it")
        return lines

    def _left_alone(self) -> list[str]:
        """Return what nobody answered, and what nothing came to, as lines."""
        lines = [nobody_answers(self.unanswered)] if self.unanswered else []
        lines += [f"changes nothing, {self._name(answer.number)}: {answer.why}" for answer in self.unawaited]
        if self.never_ran:
            lines.append(f"never ran: {', '.join(self.never_ran)}; no message and no fault came there")
        if self.lines is not None:
            lines.append(str(self.lines))
        return lines

    def _name(self, number: int) -> str:
        return self.names[number - 1] if self.names else f"message {number}"

    def as_json(self) -> dict[str, Any]:
        """Return the report as ``flowguard explore --json`` prints it."""
        return {
            "flows": list(self.flows),
            "schedules": self.schedules,
            "orders": self.orders,
            "ends": self.ends,
            "pairs_left": self.pairs_left,
            "coverage": dict(self.coverage),
            "violations": [violation_as_json(violation) for violation in self.violations],
            "undisturbed": [end._asdict() for end in self.undisturbed_ends],
            "uncounted": list(self.uncounted),
            "elsewhere": list(self.elsewhere),
            "has_all_orders": self.has_all_orders,
            "unjudged": self.unjudged,
            "singles_left": self.singles_left,
            "has_run": self.has_run,
            "not_run": [{"message": self._name(left.number), "why": left.why} for left in self.not_run],
            "parts": self.parts,
            "parts_left": self.parts_left,
            "has_twin": self.has_twin,
            "switched": self.switched,
            "compared": list(self.compared),
            "never_ran": list(self.never_ran),
            "unanswered": list(self.unanswered),
            "unawaited": [{"message": self._name(answer.number), "why": answer.why} for answer in self.unawaited],
            "unplayed": [place._asdict() for place in self.unplayed],
            "either": list(self.either),
            "unwritten": self.unwritten,
            "lines": None if self.lines is None else self.lines.as_json(),
            "verdict": self.verdict,
            "complete": self.is_complete and self.stopped_after is None,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Trace:
    """One schedule. ``timeline`` is a line for each thing that happened and ``lanes`` the same as data.

    ``unplayed`` is where handlers met a driver that is not played.
    """

    flows: tuple[str, ...]
    schedule: str
    timeline: tuple[str, ...]
    lanes: Lanes
    violations: tuple[Violation, ...]
    unplayed: tuple[Unplayed, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether nothing was found, and no driver was met that is not played."""
        return not (self.violations or self.unplayed)

    def __repr__(self) -> str:
        """Format it for an assertion that fails."""
        return f"<Trace: schedule {self.schedule}, {_many(len(self.violations), 'violation')}>"

    def __str__(self) -> str:
        """Format the trace as ``flowguard explore --schedule`` prints it."""
        lines = [line for violation in self.violations for line in ("", *show(violation))]
        left = ["", *map(str, self.unplayed)] if self.unplayed else []
        return "\n".join(map(one_line, [*self.timeline, *(lines or ["", "0 violations"]), *left]))


def show(violation: Violation, title: str = "violation") -> list[str]:
    """Format a violation for people."""
    origin = f"found by {_many(violation.times, 'schedule')}"
    lines = [f"{title}: {violation.rule}, schedule {violation.schedule}, {origin}"]
    if violation.timeline:
        lines += ["", *violation.timeline]
    lines.append("")
    lines += [f"  what went wrong   {text}" for text in violation.struck]
    lines += _differing(violation)
    if violation.site is not None:
        lines += [f"  the line          {violation.site}: {violation.site.text}"]
    lines.append(f"  likely fix        {violation.fix}")
    return [*lines, f"  if it is meant    {violation.option}"] if violation.option else lines


def _differing(violation: Violation) -> list[str]:
    """Return lines with both ends in two columns and what else is wrong."""
    problems = [problem for problem in violation.problems if not is_of_ends(problem)]
    rows = sides(violation.problems)
    lines = [f"  what differs      {_shown(problem)}" for problem in problems[:_MOST_DIFFERENCES]]
    if rows:
        heads = ("what differs", *("",) * _MOST_DIFFERENCES)
        columns = shown_sides(rows[:_MOST_DIFFERENCES])
        lines += [f"  {head:16}  {line}" for head, line in zip(heads, columns, strict=False)]
    if (left := sum(max(0, len(of) - _MOST_DIFFERENCES) for of in (problems, rows))) > 0:
        lines.append(f"  what differs      and {left} more")
    return [*lines, f"  they part at      {violation.parts_at}"] if violation.parts_at else lines


def nobody_answers(names: Sequence[str]) -> str:
    """Return the hint about names that nobody answers."""
    shown = ", ".join(names[:_MOST_NAMED])
    say = f"answers={{{names[0]!r}: …}}, ANSWERS in the module or --answer {names[0]}=…"
    return f"nobody answers {shown}, so each schedule lasts until the deadline; to say what is answered: {say}"


def _undisturbed(ends: Sequence[UndisturbedEnd]) -> list[str]:
    """Return the ends as lines: the failed ones first, and no more than fit a glance."""
    shown = sorted(ends, key=lambda end: not end.has_failed)
    rest = [f"undisturbed: and {len(shown) - _MOST_ENDS} more"] if len(shown) > _MOST_ENDS else []
    return [*(f"undisturbed: {bounded(str(end), _LONGEST_END)}" for end in shown[:_MOST_ENDS]), *rest]


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _shown(problem: Problem) -> str:
    text = f"{problem.where}, {problem.text}"
    if problem.expected is None and problem.found is None:
        return text
    return f"{text}: expected {_value(problem.expected)}, found {_value(problem.found)}"


def _value(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def violation_as_json(violation: Violation) -> dict[str, Any]:
    return {
        "schedule": violation.schedule,
        "times": violation.times,
        "problems": [
            {
                "rule": problem.rule,
                "where": problem.where,
                "text": problem.text,
                "expected": problem.expected,
                "found": problem.found,
            }
            for problem in violation.problems
        ],
        "site": str(violation.site) if violation.site is not None else None,
        "source": violation.site.text if violation.site is not None else None,
        "fix": violation.fix,
        "option": violation.option,
        "struck": list(violation.struck),
        "sides": [side._asdict() for side in sides(violation.problems)],
        "parts_at": None if violation.parts_at is None else violation.parts_at._asdict(),
        "timeline": list(violation.timeline),
    }
