"""The violations that a search has found, each once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from flowguard.testing.explorer.checks.problem import EQUIVALENCE, HANGS, STATE, Problem
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.schedule import FOR_GOOD, Schedule
from flowguard.testing.explorer.report.diagnosis import Diagnosis, Effects, diagnose
from flowguard.testing.explorer.report.findings import Violation
from flowguard.testing.explorer.report.lanes import lanes
from flowguard.testing.explorer.report.lines import struck, timeline

_SHOWN: Final = 10

Group: TypeAlias = tuple[str, str, str]
"""Problems that are one: the rule, what it is about, and the line to change."""


class Found:
    """The violations by what makes problems one. A problem that is found again counts once more."""

    def __init__(self) -> None:
        self._by_group: dict[Group, Violation] = {}
        self._named: dict[Group, Group] = {}
        self._differing: set[str] = set()

    def __len__(self) -> int:
        return len(self._by_group)

    @property
    def all(self) -> tuple[Violation, ...]:
        """Return the violations in the order in which they were found."""
        return tuple(self._by_group.values())

    def of(self, schedule: Schedule) -> dict[Group, Violation]:
        """Return those that this schedule shows, by what makes problems one."""
        return {own_group(violation): violation for violation in self.all if violation.schedule == schedule.id}

    def add(self, problem: Problem, history: History, undisturbed: Iterable[Effects]) -> None:
        """Add a problem that the whole of a history shows."""
        likely = diagnose(history, undisturbed, problem)
        self._by_group[_group(problem, likely)] = Violation(
            history.schedule.id, (problem,), likely.site, likely.text, *_shown(history), lanes=lanes(history),
            option=likely.option,
        )  # fmt: skip

    def known(self, group: Group) -> Violation | None:
        """Return what is known of these problems, or of their cause."""
        return self._by_group.get(self._named.get(group, group))

    def note(self, group: Group, violation: Violation) -> None:
        """Note that a schedule shows these problems. ``violation`` has the shortest one that does."""
        place = self._named.get(group, group)
        known = self._by_group.get(place)
        if violation.rule != group[0]:  # its cause has a name, under which it may be known
            place = self._named[group] = own_group(violation)
            if (earlier := self._by_group.get(place)) is not None:
                violation = known = earlier
        self._by_group[place] = replace(violation, times=(0 if known is None else known.times) + 1)

    def follow(self, schedule: Schedule, violations: Iterable[Violation]) -> bool:
        """Answer whether several faults show what one of them shows, too: what more differs then follows from that."""
        differing = {
            problem.where for violation in violations for problem in violation.problems if problem.rule == EQUIVALENCE
        }
        if len(schedule.choices) > 1 or schedule.has(FOR_GOOD):
            return not differing.isdisjoint(self._differing)
        self._differing |= differing
        return False


def violations_of(
    history: History, problems: Sequence[Problem], undisturbed: Sequence[Effects]
) -> dict[Group, Violation]:
    """Return the violations of one schedule by what makes problems one."""
    violations: dict[Group, Violation] = {}
    differing = {problem.where for problem in problems}
    for problem in problems:
        likely = diagnose(history, undisturbed, problem, differing)
        group = _group(problem, likely)
        if group in violations:
            violations[group] = replace(violations[group], problems=(*violations[group].problems, problem))
            continue
        went_wrong, shown = _shown(history)
        lines = shown if problem.rule == HANGS else ()
        violations[group] = Violation(
            history.schedule.id, (problem,), likely.site, likely.text, went_wrong, lines, option=likely.option
        )
    return violations


def own_group(violation: Violation) -> Group:
    """Return what makes the problems of a violation one."""
    return _group(violation.problems[0], Diagnosis(violation.site, violation.fix))


def _group(problem: Problem, likely: Diagnosis) -> Group:
    """Return what makes problems one. What a module keeps is one problem, wherever it shows."""
    where = "" if likely.is_whole else problem.where
    return problem.rule, where, "" if problem.rule == STATE else str(likely.site)


def _shown(history: History) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what went wrong and the time line, as lines."""
    lines = struck(history), timeline(history)
    return lines if history.hung is None else (_shortened(lines[0]), _shortened(lines[1]))


def _shortened(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines of what does not end without most of its middle."""
    left_out = len(lines) - 2 * _SHOWN
    return (*lines[:_SHOWN], f"  … {left_out} lines …", *lines[-_SHOWN:]) if left_out > 1 else lines
