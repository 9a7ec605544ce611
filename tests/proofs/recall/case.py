"""One case of the recall: what is explored, with what, and what has to be found."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from flowguard.testing.explorer import Explored, PlainFunction, Report, View, Violation, explore

MARK: Final = "# here"
TABLES: Final = {
    "totals": "day",
    "orders": "order_id",
    "log": "entry",
    "stock": "sku",
    "lines": ("order_id", "line"),
}


@dataclass(frozen=True)
class Case:
    """``kind`` names the bug in the field's terms. ``about`` are arguments of :func:`explore`.

    ``rule`` is the rule that has to be found, any where it is empty. A ``sound`` case has to be clean. ``source`` is
    where such a bug was told of in public. ``invariant`` is what the owner of the handler would ask of each end; it is
    asked where the recall is told so.
    """

    kind: str
    of: Explored | Sequence[Explored]
    messages: Sequence[Any]
    about: Mapping[str, Any] = field(default_factory=dict)
    rule: str = ""
    sound: bool = False
    source: str = ""
    invariant: Callable[[View], object] | None = None

    def lines(self) -> set[tuple[str, int]]:
        """Return the lines of source that have to be named."""
        found: set[tuple[str, int]] = set()
        for one in self.of if isinstance(self.of, Sequence) else [self.of]:
            for part in [one.handler] if isinstance(one, PlainFunction) else one.stages:
                found |= _marked(part)
        return found

    def judged(self) -> Case:
        """Return the case with its owner's invariant."""
        if self.invariant is None:
            return self
        return replace(self, about={**self.about, "invariants": [self.invariant]})

    def run(self, budget: Mapping[str, Any]) -> Result:
        """Explore it. What goes wrong in the explorer itself is a result, too."""
        began = time.perf_counter()
        try:
            report = explore(self.of, self.messages, **{"tables": TABLES, **budget, **self.about})
        except Exception as error:  # the recall goes on with the next case
            return Result(self, Outcome(None, time.perf_counter() - began, f"{type(error).__name__}: {error}"))
        return Result(self, Outcome(report, time.perf_counter() - began))


class Outcome(NamedTuple):
    """What an exploration ended with. ``error`` is what the explorer itself ended with."""

    report: Report | None
    seconds: float
    error: str = ""


@dataclass(frozen=True)
class Result:
    """A case, and what its exploration ended with."""

    case: Case
    outcome: Outcome

    @property
    def report(self) -> Report | None:
        return self.outcome.report

    @property
    def seconds(self) -> float:
        return self.outcome.seconds

    @property
    def error(self) -> str:
        return self.outcome.error

    @property
    def found(self) -> Violation | None:
        """Return the violation that tells of the bug: one at the right line before any other."""
        violations = [one for one in self._all() if self.case.rule in ("", one.rule)]
        return min(violations, key=lambda one: not self._is_there(one), default=None)

    @property
    def violations(self) -> int:
        """Return how many violations were reported."""
        return len(self._all())

    @property
    def is_right(self) -> bool:
        """Return whether the right line is named."""
        return self.found is not None and self._is_there(self.found)

    @property
    def is_good(self) -> bool:
        """Return whether the bug was found, or nothing where there is none."""
        if self.error:
            return False
        return not self._all() if self.case.sound else self.found is not None

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON."""
        found = self.found
        return {
            "kind": self.case.kind,
            "sound": self.case.sound,
            "ok": self.is_good,
            "schedule": found.schedule if found is not None else None,
            "rule": found.rule if found is not None else None,
            "line": str(found.site) if found is not None and found.site is not None else None,
            "right": self.is_right,
            "violations": self.violations,
            "seconds": round(self.seconds, 1),
            "error": self.error or None,
        }

    def _all(self) -> Sequence[Violation]:
        return self.outcome.report.violations if self.outcome.report is not None else ()

    def _is_there(self, violation: Violation) -> bool:
        site = violation.site
        return site is not None and (site.file, site.line) in self.case.lines()


def _marked(part: Any) -> set[tuple[str, int]]:
    """Return the marked lines of a handler or stage, or those of its module's helpers where it has none itself."""
    file = str(inspect.getsourcefile(part))
    lines, first = inspect.getsourcelines(part)
    own = {(file, number) for number, line in enumerate(lines, first) if line.rstrip().endswith(MARK)}
    if own:
        return own
    module = sys.modules[part.__module__]
    named = [one for name, one in vars(module).items() if name.startswith("_") and name in "".join(lines)]
    return {place for one in named if inspect.isfunction(one) and one is not part for place in _marked(one)}
