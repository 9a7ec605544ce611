"""Which unit test notices which mutant, of those that no schedule has killed.

As with schedules, a mutant meets only those tests that can tell it apart: all of them are run once with the probes, on
the whole flowguard. Where no probe was met all are tried, since a test may ask an expression in a way of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.garbage import spare_what_is_there
from tests.proofs.prove.elsewhere import Elsewhere, tested
from tests.proofs.prove.fork import forked, pool
from tests.proofs.prove.mutant import Mutant
from tests.proofs.prove.mutants import Mutants
from tests.proofs.prove.noticing import Collected, Seen, collected
from tests.proofs.prove.protocol import allow_unused


@dataclass
class Witnesses:
    """``noticed`` is by a mutant's number the test that noticed it, None where no test did; ``met`` how many could.

    ``failing`` are tests that fail on the whole flowguard too: what they notice means nothing.
    """

    mutants: Mutants
    jobs: int
    noticed: dict[int, str | None] = field(default_factory=dict)
    met: Counter[int] = field(default_factory=Counter)
    failing: list[str] = field(default_factory=list)

    def ask(self, chosen: Sequence[Mutant]) -> None:
        """Those for which ``elsewhere`` names tests; of the others nothing is known afterwards."""
        left = {one.number: where for one in chosen if (where := tested(one.name)) is not None}
        if left:
            collected({test for where in left.values() for test in where.tests}, lambda found: self._ask(found, left))

    def _ask(self, found: Collected, left: Mapping[int, Elsewhere]) -> None:
        global _tests, _mutants, _warming  # noqa: PLW0603 - what the forked processes have from the start
        _tests, _mutants = found, self.mutants
        with pool(self.jobs) as watching:
            seen = [one for each in watching.map(_watch, found.files()) for one in each]
        self.failing = [one.test for one in seen if one.fails]
        self.met = Counter(number for one in seen for number in one.met)
        _warming = _one_of_each_file(seen)
        with pool(self.jobs) as asking:
            answers = asking.map(_first_failing, left, [_able(number, where, seen) for number, where in left.items()])
            self.noticed = dict(zip(left, answers, strict=True))


def _able(number: int, where: Elsewhere, seen: Sequence[Seen]) -> dict[str, float]:
    """The tests named for it that meet it, with the seconds that each took."""
    named = [one for one in seen if one.test.startswith(where.tests)]
    meeting = [one for one in named if number in one.met]
    return {one.test: one.seconds for one in meeting or named}


def _one_of_each_file(seen: Sequence[Seen]) -> list[str]:
    """The quickest test of each that passes."""
    slowest_first = sorted((one for one in seen if not one.fails), key=lambda one: -one.seconds)
    return list({one.test.partition("::")[0]: one.test for one in slowest_first}.values())


# -- in the forked processes -------------------------------------------------------------------------------------------

_tests: Collected
_mutants: Mutants
_warming: Sequence[str]
_probed = False
_is_warm = False
_noticing: Final[defaultdict[str, set[str]]] = defaultdict(set)
"""By the function, the tests that noticed mutants of it in this process: they are likely to notice others of it."""

LIKELY: Final = 10
"""How much more often such a test notices a mutant than another one that meets it."""


def _watch(file: str) -> list[Seen]:
    global _probed  # noqa: PLW0603 - a process gets its probes once
    if not _probed:
        _mutants.put_probes()
        _probed = True
    return _tests.watch([file])


def _first_failing(number: int, tests: Mapping[str, float]) -> str | None:
    global _is_warm  # noqa: PLW0603 - what tests import and make once, the children of a process have from the start
    if not _is_warm:
        _tests.watch(_warming)
        _is_warm = True
        spare_what_is_there()
    allow_unused()
    mutant = _mutants.by_number(number)
    likely = _noticing[mutant.function]
    in_order = sorted(tests, key=lambda test: tests[test] / (LIKELY if test in likely else 1))
    with mutant.at_work():
        answer = forked(lambda: _tests.first_failing({test: tests[test] for test in in_order}))
    if answer is None:
        return f"one of {', '.join(in_order[:3])} …, which comes to no end,"
    (noticing,) = answer
    if noticing is not None:
        likely.add(noticing)
    return noticing
