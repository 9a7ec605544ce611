"""Which unit test notices which mutant, of those that no schedule has killed.

As with schedules, a mutant meets only those tests that can tell it apart: all of them are run once with the probes, on
the whole flowguard. Where no probe was met all are tried, since a test may ask an expression in a way of its own.

To run all of them with the probes takes longer than all else. So those that noticed mutants of a function the last time
are asked first, and the others about what these left.
"""

from __future__ import annotations

import resource
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from tests.garbage import spare_what_is_there
from tests.proofs.prove.elsewhere import Elsewhere, tested
from tests.proofs.prove.fork import forked, forked_in_turn, pool
from tests.proofs.prove.mutant import Mutant
from tests.proofs.prove.mutants import Mutants
from tests.proofs.prove.noticing import Collected, Seen, collected
from tests.proofs.prove.protocol import allow_unused
from tests.proofs.prove.remembered import LONG, noticing, remembered

GROUP: Final = 16
"""Mutants that are asked in one process, which takes four times as long to fork and to warm as most tests take.

Neighbours are of one function, and often noticed by one test.
"""

QUICK: Final = 0.05
"""Seconds of a test that is sooner run twice than in a process of its own, whose fork copies tables of 700 MB."""


class Answer(NamedTuple):
    """``test`` noticed the mutant; ``seconds`` of CPU were spent on it and on those before it."""

    test: str | None
    seconds: float


@dataclass
class Witnesses:
    """``noticed`` is by a mutant's number the test that noticed it, None where no test did; ``met`` how many could.

    ``failing`` are tests that fail on the whole flowguard too, ``unsteady`` those that do so beside others and not
    alone: what they notice is not counted. ``sought`` has by a mutant's name the test that noticed it, where looking
    for it took long, or would have without what was remembered. ``asked`` are all tests that were run with probes.
    """

    mutants: Mutants
    jobs: int
    noticed: dict[int, str | None] = field(default_factory=dict)
    met: Counter[int] = field(default_factory=Counter)
    failing: list[str] = field(default_factory=list)
    unsteady: list[str] = field(default_factory=list)
    sought: dict[str, str] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    def ask(self, chosen: Sequence[Mutant]) -> None:
        """Those for which ``elsewhere`` names tests; of the others nothing is known afterwards."""
        left = {one.number: where for one in chosen if (where := tested(one.name)) is not None}
        if left:
            collected({test for where in left.values() for test in where.tests}, lambda found: self._ask(found, left))

    def _ask(self, found: Collected, left: Mapping[int, Elsewhere]) -> None:
        global _tests, _mutants, _before
        _tests, _mutants, _before = found, self.mutants, remembered()
        likely = self._likely(found, left)
        self._ask_these(grouped(likely), left if likely else {})
        rest = {number: where for number, where in left.items() if self.noticed.get(number) is None}
        named = tuple({test for where in rest.values() for test in where.tests})
        self._ask_these([[file] for file in found.files() if _is_named(file, named)], rest)

    def _likely(self, found: Collected, left: Mapping[int, Elsewhere]) -> list[str]:
        """The tests that noticed mutants of the functions of these, and that are there still."""
        known = noticing()
        functions = dict.fromkeys(self.mutants.by_number(number).function for number in left)
        return found.known(dict.fromkeys(test for function in functions for test in known.get(function, ())))

    def _ask_these(self, tests: Sequence[Sequence[str]], about: Mapping[int, Elsewhere]) -> None:
        """Run the tests with the probes, and those that meet a mutant on that mutant."""
        global _warming  # noqa: PLW0603 - what the forked processes have from the start
        if not about:
            return
        seen = self._seen(tests)
        _warming = _one_of_each_file(seen)
        able = {number: meeting for number, where in about.items() if (meeting := _able(number, where, seen))}
        groups = [dict(islice(able.items(), start, start + GROUP)) for start in range(0, len(able), GROUP)]
        with pool(self.jobs) as asking:
            by_number = {number: one for answers in asking.map(_ask_group, groups) for number, one in answers.items()}
        self.asked |= {one.test for one in seen}
        self.met |= Counter(number for one in seen for number in one.met)
        self.noticed |= {**dict.fromkeys(about), **{number: one.test for number, one in by_number.items()}}
        for number, one in by_number.items():
            self.seek(self.mutants.by_number(number).name, one, able[number])

    def _seen(self, tests: Sequence[Sequence[str]]) -> list[Seen]:
        """What each test meets, of those that pass on the whole flowguard."""
        with pool(self.jobs) as watching:
            seen = [one for each in watching.map(_watch, tests) for one in each]
        if doubtful := [one.test for one in seen if one.fails]:
            with pool(1) as alone:
                again = [one for each in alone.map(_watch, [[test] for test in doubtful]) for one in each]
            self.failing += [one.test for one in again if one.fails]
            self.unsteady += [one.test for one in again if not one.fails]
        return [one for one in seen if not one.fails]

    def noticed_by_function(self) -> dict[str, list[str]]:
        """By the function, the tests that noticed mutants of it."""
        found: dict[str, dict[str, None]] = {}
        for number, test in self.noticed.items():
            if test in self.asked:
                found.setdefault(self.mutants.by_number(number).function, {})[test] = None
        return {function: list(tests) for function, tests in found.items()}

    def seek(self, mutant: str, answer: Answer, able: Mapping[str, float]) -> None:
        """Note the test if it took long to come to it, or would have if nothing had been remembered."""
        test, seconds = answer
        if test is None or test not in able:
            return
        if _before.get(mutant) == test or seconds > max(LONG, 2 * able[test]):  # most of it was not the test's
            self.sought[mutant] = test


def _able(number: int, where: Elsewhere, seen: Sequence[Seen]) -> dict[str, float]:
    """The tests named for it that meet it, with the seconds that each took."""
    named = [one for one in seen if one.test.startswith(where.tests)]
    meeting = [one for one in named if number in one.met]
    return {one.test: one.seconds for one in meeting or named}


def grouped(tests: Iterable[str]) -> list[list[str]]:
    """Those of a file together: what they share is made once."""
    by_file: defaultdict[str, list[str]] = defaultdict(list)
    for test in tests:
        by_file[test.partition("::")[0]].append(test)
    return list(by_file.values())


def _is_named(file: str, named: tuple[str, ...]) -> bool:
    """Whether it may have one of these tests: a name is of folders, files, functions or tests."""
    return file.startswith(named) or any(one.startswith(f"{file}::") for one in named)


def _one_of_each_file(seen: Sequence[Seen]) -> list[str]:
    """The quickest test of each that passes."""
    slowest_first = sorted((one for one in seen if not one.fails), key=lambda one: -one.seconds)
    return list({one.test.partition("::")[0]: one.test for one in slowest_first}.values())


# -- in the forked processes -------------------------------------------------------------------------------------------

_tests: Collected
_mutants: Mutants
_warming: Sequence[str]
_before: Mapping[str, str]
_probed = False
_is_warm = False
_noticing: Final[defaultdict[str, set[str]]] = defaultdict(set)
"""By the function, the tests that noticed mutants of it in this process: they are likely to notice others of it."""

LIKELY: Final = 10
"""How much more often such a test notices a mutant than another one that meets it."""


def _watch(named: Sequence[str]) -> list[Seen]:
    global _probed  # noqa: PLW0603 - a process gets its probes once
    if not _probed:
        _mutants.put_probes()
        _probed = True
    return _tests.watch(named)


def _ask_group(group: Mapping[int, Mapping[str, float]]) -> dict[int, Answer]:
    """Ask the tests of each of these mutants, by number: together where that is certain, and the others alone."""
    _warm()
    together = _together(group)
    return {number: together.get(number) or _alone(number, tests) for number, tests in group.items()}


def _warm() -> None:
    """Let the children of this process have from the start what tests import and make once."""
    global _is_warm  # noqa: PLW0603 - a process is warmed once
    if not _is_warm:
        _tests.watch(_warming)
        _is_warm = True
        spare_what_is_there()
    allow_unused()


def _together(group: Mapping[int, Mapping[str, float]]) -> dict[int, Answer]:
    """The answers of those that are noticed for certain, as many of them in one process as its state allows.

    One that is not, or that ends the process, is left out, and the next ones have a process of their own.
    """
    found: dict[int, Answer] = {}
    left = [number for number, tests in group.items() if _is_quick(_mutants.by_number(number), tests)]
    while left:
        answers = forked_in_turn([partial(_noticed, number, group[number]) for number in left], lambda one: one is None)
        certain = [one for one in answers if one is not None]
        found |= zip(left, certain, strict=False)
        left = left[len(certain) + 1 :]
    for number, answer in found.items():
        _noticing[_mutants.by_number(number).function].add(str(answer.test))
    return found


def _is_quick(mutant: Mutant, tests: Mapping[str, float]) -> bool:
    """Answer whether the test that likely notices it takes little time."""
    return next(iter(_in_order(mutant, tests).values())) <= QUICK


def _noticed(number: int, tests: Mapping[str, float]) -> Answer | None:
    """The answer of a test that fails on the mutant, and passes right after, in the same process, without it."""
    mutant = _mutants.by_number(number)
    began = _cpu(resource.RUSAGE_SELF) + _cpu(resource.RUSAGE_CHILDREN)
    with mutant.at_work():
        test = _tests.first_failing(_in_order(mutant, tests))
    seconds = _cpu(resource.RUSAGE_SELF) + _cpu(resource.RUSAGE_CHILDREN) - began
    if test is None or tests[test] > QUICK or _tests.first_failing({test: tests[test]}) is not None:
        return None
    _noticing[mutant.function].add(test)
    return Answer(test, seconds)


def _alone(number: int, tests: Mapping[str, float]) -> Answer:
    """The answer of the tests in a process that meets no other mutant."""
    mutant = _mutants.by_number(number)
    in_order = _in_order(mutant, tests)
    began = _cpu(resource.RUSAGE_CHILDREN)
    with mutant.at_work():
        answer = forked(lambda: _tests.first_failing(in_order))
    seconds = _cpu(resource.RUSAGE_CHILDREN) - began
    if answer is None:
        return Answer(f"one of {', '.join([*in_order][:3])} …, which comes to no end,", seconds)
    (noticing,) = answer
    if noticing is not None:
        _noticing[mutant.function].add(noticing)
    return Answer(noticing, seconds)


def _in_order(mutant: Mutant, tests: Mapping[str, float]) -> dict[str, float]:
    """The tests, those first that are likely to notice it soon."""
    likely, before = _noticing[mutant.function], _before.get(mutant.name)

    def rank(test: str) -> tuple[bool, float]:
        return test != before, tests[test] / (LIKELY if test in likely else 1)

    return {test: tests[test] for test in sorted(tests, key=rank)}


def _cpu(whose: int) -> float:
    used = resource.getrusage(whose)
    return used.ru_utime + used.ru_stime
