"""What `make prove` prints: each mutant in two lines, then the figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from tests.proofs.prove.elsewhere import tested
from tests.proofs.prove.hunt import Hunt, Kill
from tests.proofs.prove.judge import Case, Truth
from tests.proofs.prove.mutant import Mutant
from tests.proofs.prove.others import Outcome
from tests.proofs.prove.witnesses import Witnesses


class Fate(StrEnum):
    """What became of a mutant. The last three are failures."""

    KILLED = "killed"
    TESTED = "tested"
    """No schedule can meet the guard, and a test notices that it is gone."""
    HARMLESS = "harmless"
    SURVIVED = "SURVIVED"
    NOT_MET = "NOT MET"
    """No schedule of any case meets the guard so that it matters."""
    NOT_HARMLESS = "NOT HARMLESS"
    """It is in the table of the harmless, and was killed."""

    @property
    def is_good(self) -> bool:
        return self in {Fate.KILLED, Fate.TESTED, Fate.HARMLESS}


@dataclass(frozen=True)
class Line:
    """``reason`` is of one of the tables; ``met`` is how many schedules and tests could have told the mutant apart."""

    mutant: Mutant
    fate: Fate
    kill: Kill | None
    reason: str | None
    met: int

    def __str__(self) -> str:
        return f"{self.fate:<9} {self.mutant.place}  {self.mutant.name}\n{'':9} {self._why()}"

    def _why(self) -> str:
        if self.kill is None:
            return self.reason if self.reason is not None else f"{self.met} schedules and tests meet it"
        case, schedule, verdict, schedules = self.kill
        return f"{case} {schedule}, after {schedules}: {verdict.rule}, {verdict.about}"

    def as_json(self) -> dict[str, Any]:
        kill = self.kill
        about = {} if kill is None else {**kill._asdict(), "verdict": kill.verdict._asdict()}
        return {
            "fate": self.fate.value,
            "name": self.mutant.name,
            "place": self.mutant.place,
            "reason": self.reason,
            "met": self.met,
            "kill": about or None,
        }


def lines(hunt: Hunt, witnesses: Witnesses, chosen: Sequence[Mutant], harmless: Mapping[str, str]) -> list[Line]:
    return [_line(hunt, witnesses, mutant, harmless.get(mutant.name)) for mutant in chosen]


def _line(hunt: Hunt, witnesses: Witnesses, mutant: Mutant, reason: str | None) -> Line:
    number, where = mutant.number, tested(mutant.name)
    kill, met = hunt.kills.get(number), hunt.met(number) + witnesses.met[number]
    if kill is not None:
        return Line(mutant, Fate.KILLED if reason is None else Fate.NOT_HARMLESS, kill, reason, met)
    if reason is not None:
        return Line(mutant, Fate.HARMLESS, None, reason, met)
    if where is not None and (test := witnesses.noticed.get(number)) is not None:
        return Line(mutant, Fate.TESTED, None, f"{test}: {where.reason}", met)
    return Line(mutant, Fate.SURVIVED if met else Fate.NOT_MET, None, None, met)


MOST_FAILURES: Final = 60


@dataclass(frozen=True)
class Figures:
    """The last lines. ``seconds`` are by part."""

    cases: Sequence[Case]
    truths: Sequence[Truth]
    lines: Sequence[Line]
    tried: int
    others: dict[str, Outcome]
    stale: Sequence[str]
    failing: Sequence[str]
    seconds: Mapping[str, float]

    @property
    def violations(self) -> int:
        return sum(len(truth.report.violations) for truth in self.truths)

    @property
    def is_good(self) -> bool:
        return not any(self._failures())

    def count(self, fate: Fate) -> int:
        return sum(line.fate is fate for line in self.lines)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        schedules = sum(truth.report.schedules for truth in self.truths)
        busy = sum(truth.seconds for truth in self.truths)
        calls = sum(len(truth.report.coverage) for truth in self.truths)
        faults = sum(len(kinds) for truth in self.truths for kinds in truth.report.coverage.values())
        rest = sum(not line.fate.is_good for line in self.lines)
        yield _figure("flows", f"{len(self.cases)} cases, {self.violations} violations of the whole flowguard")
        yield _figure("schedules", f"{schedules:,}, {schedules / busy:.0f} a second on each core" if busy else "0")
        yield _figure("calls", f"{calls} kinds of calls met {faults:,} faults")
        yield _figure(
            "mutants",
            f"{self.count(Fate.KILLED):,} killed by the explorer, {self.count(Fate.TESTED)} by tests, "
            f"{self.count(Fate.HARMLESS)} named as harmless, {rest} neither, of {len(self.lines):,}; "
            f"{self.tried:,} schedules",
        )
        for name, outcome in self.others.items():
            yield from _other(name, outcome)
        for name in self.stale:
            yield _figure("stale", f"no mutant is named {name!r} any more: take it off the tables")
        for test in self.failing:
            yield _figure("tests", f"{test} fails on the whole flowguard too: what it notices means nothing")
        parts = ", ".join(f"{part} {seconds:.0f}" for part, seconds in self.seconds.items())
        yield _figure("seconds", f"{sum(self.seconds.values()):.0f}: {parts}")
        failures = list(self._failures())
        yield from (_figure("FAILED", failure) for failure in failures[:MOST_FAILURES])
        if len(failures) > MOST_FAILURES:
            yield _figure("FAILED", f"and {len(failures) - MOST_FAILURES} more: they stand above")

    def _failures(self) -> Iterator[str]:
        """Yield what makes it end with 1. They come last: who keeps only the end of an output still sees why."""
        for case, truth in zip(self.cases, self.truths, strict=True):
            if truth.report.violations:
                yield f"flows: {case.name} has {len(truth.report.violations)} violations"
        yield from (f"mutants: {line.fate} {line.mutant.name}" for line in self.lines if not line.fate.is_good)
        yield from (f"stale: {name}" for name in self.stale)
        yield from (f"tests: {test} fails on the whole flowguard" for test in self.failing)
        for name, outcome in self.others.items():
            yield from (f"{name}: {check.splitlines()[-1]}" for check in outcome.broken)
            if not (outcome.holds or outcome.broken):
                yield f"{name}: every check holds, and {outcome.command} ended with {outcome.code}"

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.is_good,
            "schedules": sum(truth.report.schedules for truth in self.truths),
            "cases": {
                case.name: {
                    "schedules": truth.report.schedules,
                    "orders": truth.report.orders,
                    "coverage": truth.report.coverage,
                    "violations": [one.schedule for one in truth.report.violations],
                }
                for case, truth in zip(self.cases, self.truths, strict=True)
            },
            "mutants": [line.as_json() for line in self.lines],
            "others": {name: vars(one) for name, one in self.others.items()},
            "stale": list(self.stale),
            "failing": list(self.failing),
            "seconds": {part: round(seconds, 1) for part, seconds in self.seconds.items()},
        }


def case_lines(case: Case, truth: Truth) -> Iterator[str]:
    """A case in a line, and what it violates in full."""
    report = truth.report
    faults = sum(map(len, report.coverage.values()))
    yield (
        f"{case.name:<20} {report.schedules:>6,} schedules, {len(report.coverage):>3} calls met {faults:>4} faults, "
        f"{report.orders:>3} undisturbed orders, {len(report.violations)} violations, {truth.seconds:.1f} s"
    )
    if report.violations:
        yield str(report)


def _other(name: str, outcome: Outcome) -> Iterator[str]:
    said = f"{outcome.checks - len(outcome.broken)} of {outcome.checks} checks hold, {outcome.seconds:.0f} s"
    yield _figure(name, f"{said} ({outcome.command})")
    yield from (f"{'':12} {figure:<66} {value}" for figure, value in outcome.figures.items())
    yield from (f"{'':12} BROKEN: {one}" for one in outcome.broken)


def _figure(name: str, text: str) -> str:
    return f"{name:<12} {text}"
