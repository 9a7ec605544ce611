"""A report or one schedule as a page of HTML: one file that needs neither a network nor a script.

The same report gives the same bytes. So the page has no date, and not how many schedules a second there were.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from flowguard.testing.explorer.record.schedule import NOTHING, FaultKind
from flowguard.testing.explorer.record.site import Site
from flowguard.testing.explorer.report.excerpt import SourceLine, excerpt
from flowguard.testing.explorer.report.findings import Report, Trace, Violation
from flowguard.testing.explorer.report.grid import MOST, Grid, grid
from flowguard.testing.explorer.report.lanes import Called, LaneDelivery, Lanes, Said
from flowguard.text.printable import printable

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

LONGEST: Final = 2000
"""Characters of a value that is shown."""


def page(report: Report) -> str:
    """Render the whole report.

    The page has the violations with their time lines, the undisturbed run's time line and which call met which faults.
    """
    facts = [
        Figure("schedules", report.schedules),
        Figure("calls", len(report.coverage)),
        Figure("faults met", sum(map(len, report.coverage.values()))),
        Figure("undisturbed orders", report.orders),
        Figure("different ends", report.ends),
        Figure("pairs beyond the bound", report.pairs_left),
    ]
    return _rendered(
        flows=report.flows,
        schedule=None,
        is_judged=report.is_judged,
        limits=report.limits(),
        facts=facts,
        parts=[
            Part(f"v{number}", violation, violation.lanes, draws_lanes=True)
            for number, violation in enumerate(report.violations, 1)
        ],
        coverage=_coverage(report.coverage),
        other=Other("undisturbed", "The undisturbed run", _grid(report.undisturbed)),
    )


def page_of_schedule(trace: Trace) -> str:
    """Render one schedule with its time line and what is wrong after it."""
    facts = [
        Figure("workers", len(trace.lanes.lanes)),
        Figure("calls", sum(isinstance(moment, Called) for moment in trace.lanes.moments)),
        Figure("calls struck", len(_struck(trace.lanes))),
    ]
    title = "The undisturbed run" if trace.schedule == NOTHING else f"Time line of schedule {trace.schedule}"
    return _rendered(
        flows=trace.flows,
        schedule=trace.schedule,
        is_judged=True,
        limits=[],
        facts=facts,
        parts=[
            Part(f"v{number}", violation, trace.lanes, draws_lanes=False)
            for number, violation in enumerate(trace.violations, 1)
        ],
        coverage=None,
        other=Other("timeline", title, _grid(trace.lanes)),
    )


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: int


@dataclass(frozen=True, slots=True)
class Other:
    """A time line that is no violation's. ``grid`` is None where the report has none."""

    id: str
    title: str
    grid: Grid | None


@dataclass(frozen=True, slots=True)
class SourceExcerpt:
    """An excerpt of source. ``role`` is what the line is and ``lines`` are empty where the file cannot be read."""

    role: str
    site: Site
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A violation and the lanes of its schedule. ``draws_lanes``: with it, and not elsewhere on the page."""

    id: str
    violation: Violation
    lanes: Lanes | None
    draws_lanes: bool

    @property
    def grid(self) -> Grid | None:
        return _grid(self.lanes) if self.draws_lanes else None

    @property
    def sources(self) -> list[SourceExcerpt]:
        """Return the line to change and the lines at which something struck."""
        notes: dict[Site, str] = {}
        if self.violation.site is not None:
            notes[self.violation.site] = "the line to change"
        for site in dict.fromkeys(call.site for call in self.struck if call.site.is_users):
            notes[site] = f"{notes[site]}, and where it struck" if site in notes else "where it struck"
        return [SourceExcerpt(note, site, excerpt(site)) for site, note in notes.items()]

    @property
    def struck(self) -> list[Called]:
        """Return the calls at which something went wrong."""
        return _struck(self.lanes) if self.lanes is not None else []

    @property
    def struck_in_view(self) -> list[Called]:
        """Return the struck calls that are drawn."""
        shown = self.lanes.moments[:MOST] if self.lanes is not None else ()
        return [call for call in self.struck if call in shown]

    @property
    def compares(self) -> bool:
        """Answer whether anything was expected. A user's own invariant only says what is wrong."""
        return any((problem.expected, problem.found) != (None, None) for problem in self.violation.problems)


@dataclass(frozen=True, slots=True)
class Covered:
    """The calls of a stage. Each says for every kind of fault that any call met whether this call met it."""

    stage: str
    calls: tuple[tuple[str, tuple[bool, ...]], ...]


@dataclass(frozen=True, slots=True)
class Coverage:
    """The table of faults that calls met. ``kinds`` heads the columns: a letter and what it stands for."""

    kinds: tuple[tuple[str, str], ...]
    stages: tuple[Covered, ...]


def _coverage(met: Mapping[str, str]) -> Coverage:
    kinds = [kind for kind in FaultKind if any(kind in letters for letters in met.values())]
    calls = [(*name.partition(": ")[::2], tuple(kind in letters for kind in kinds)) for name, letters in met.items()]
    stages = [
        Covered(stage, tuple((call, hits) for _, call, hits in of_stage))
        for stage, of_stage in groupby(calls, key=lambda row: row[0])
    ]
    return Coverage(tuple((kind.value, kind.name.lower().replace("_", " ")) for kind in kinds), tuple(stages))


def _struck(lanes: Lanes) -> list[Called]:
    return [moment for moment in lanes.moments if isinstance(moment, Called) and moment.strikes]


def _grid(lanes: Lanes | None) -> Grid | None:
    return grid(lanes) if lanes is not None else None


def _rendered(**about: Any) -> str:
    return _environment().get_template("page.html.jinja").render(**about)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # loaded where a page is made, and only there

    environment = Environment(
        loader=PackageLoader("flowguard.testing.explorer.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_printable,
    )
    environment.filters["value"] = _value
    environment.filters["many"] = _many
    environment.filters["humps"] = _humps
    environment.tests["delivered"] = lambda moment: isinstance(moment, LaneDelivery)
    environment.tests["called"] = lambda moment: isinstance(moment, Called)
    environment.tests["said"] = lambda moment: isinstance(moment, Said)
    return environment


def _printable(value: object) -> str:
    """Make printable what a template prints. An encoding must take the page and a terminal may show it."""
    from markupsafe import Markup  # comes with jinja2

    return Markup(printable(value)) if isinstance(value, Markup) else printable(str(value))  # noqa: S704 - is Markup


def _value(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _humps(name: str) -> Markup:
    """Mark the places before a name's capitals where it may be broken, as in TransactWriteItems."""
    from markupsafe import Markup  # comes with jinja2

    return Markup("<wbr>").join(re.split(r"(?<=[a-z])(?=[A-Z])", name))


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
