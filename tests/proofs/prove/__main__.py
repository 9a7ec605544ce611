"""``python -m tests.proofs.prove``: every guard is taken away once, and exploring has to notice.

Ends with 1 where one is not missed, or where the whole flowguard violates anything.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from tests.arguments import count
from tests.proofs.prove import others
from tests.proofs.prove.cases import CASES, with_few_schedules
from tests.proofs.prove.elsewhere import tested
from tests.proofs.prove.harmless import HARMLESS
from tests.proofs.prove.hunt import Hunt
from tests.proofs.prove.judge import Effort
from tests.proofs.prove.last_long import commit_here, write_figures
from tests.proofs.prove.mutant import Mutant
from tests.proofs.prove.mutants import Mutants
from tests.proofs.prove.parts import Parts
from tests.proofs.prove.remembered import EXPLORER, noticing, remember, remember_noticing, remembered
from tests.proofs.prove.report import Figures, case_lines, lines
from tests.proofs.prove.tries import Limits, try_all
from tests.proofs.prove.witnesses import Witnesses

SHORT = Effort(until=600)
LONG = Effort(bound=300, walks=200, most=300, until=5_000)
FEW, MORE = Limits(tested=0, harmless=12), Limits(tested=600, harmless=120)
"""A test is run on a mutant in less time than one schedule takes: only before a release both are tried on each."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _arguments()
    given = parser.parse_args(arguments)
    commit = commit_here() if given.long else ""  # before the hours in which somebody may go on
    mutants = Mutants()
    chosen = [one for one in mutants.all if given.only in f"{one.place} {one.name}"]
    if not chosen:
        parser.error(f"--only {given.only!r}: none of the {len(mutants.all):,} mutants has that in its place or name")
    if given.long:
        hunt = Hunt(mutants, CASES, given.jobs, LONG)
    else:
        hunt = Hunt(mutants, with_few_schedules(CASES), given.jobs, SHORT)
    parts = Parts()
    with parts.timed("flows"):
        hunt.watch()
    if not given.json:
        _say(line for case, truth in zip(hunt.cases, hunt.truths, strict=True) for line in case_lines(case, truth))
    witnesses = Witnesses(mutants, given.jobs)
    try_all(hunt, witnesses, chosen, MORE if given.long else FEW, parts)
    if given.remember:
        left = [one.name for one in chosen if one.number in hunt.kills and tested(one.name) is not None]
        known = {**remembered(), **witnesses.sought, **dict.fromkeys(left, EXPLORER)}
        remember({one.name: known[one.name] for one in mutants.all if one.name in known})
        remember_noticing(_with_new(mutants.all, witnesses.noticed_by_function(), only=given.only))
    found = lines(hunt, witnesses, chosen, HARMLESS)
    if not given.json:
        _say(["", *(str(line) for line in found if not (given.brief and line.fate.is_good)), ""])
    figures = Figures(
        hunt.cases,
        hunt.truths,
        found,
        sum(hunt.tried.values()),
        {} if given.only or given.alone else _others(parts, given.long),
        [] if given.only else _stale(mutants.all),
        witnesses.failing,
        parts.seconds,
    )
    if given.long and not (given.only or given.alone):
        write_figures(str(figures), commit)
    if not given.json:
        _say(f"tests        {test} failed beside others, and passed alone" for test in witnesses.unsteady)
        _say(line for outcome in figures.others.values() for line in outcome.lines)
    sys.stdout.write(json.dumps(figures.as_json(), default=str) + "\n" if given.json else f"{figures}\n")
    return 0 if figures.is_good else 1


def _others(parts: Parts, long: bool) -> dict[str, others.Outcome]:
    found = others.run_all(long=long)
    parts.seconds.update({name: outcome.seconds for name, outcome in found.items()})
    return found


def _with_new(mutants: Sequence[Mutant], new: Mapping[str, Sequence[str]], *, only: str) -> dict[str, list[str]]:
    """The tests by function, with what was found out now; of all mutants, or added to what is known of others."""
    before = noticing() if only else {}
    functions = {one.function for one in mutants}
    merged = {one: list(dict.fromkeys([*new.get(one, ()), *before.get(one, ())])) for one in {*before, *new}}
    return {one: tests for one, tests in merged.items() if one in functions}


def _stale(mutants: Sequence[Mutant]) -> list[str]:
    names = {one.name for one in mutants}
    return [name for name in HARMLESS if name not in names]


def _say(told: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in told)
    sys.stdout.flush()


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.prove", description=__doc__)
    parser.add_argument("--long", action="store_true", help="pairs of faults and random walks, long races and soak")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--jobs", type=count, default=len(os.sched_getaffinity(0)), help="processes; one a core")
    parser.add_argument("--only", default="", metavar="TEXT", help="mutants whose place or name has it; nothing else")
    parser.add_argument("--brief", action="store_true", help="of the mutants only those that nothing notices")
    parser.add_argument(
        "--remember",
        action="store_true",
        help="write down which tests noticed mutants of which functions, and what they were long sought for",
    )
    parser.add_argument(
        "--alone", action="store_true", help="without tests, recall, races, soak and the deployed flows"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
