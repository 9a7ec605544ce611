"""``python -m tests.proofs.recall``: explore each case, and print what was found of it.

Ends with 1 where a bug was not found that is not among ``MISSED``, or where something was found in sound code.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tests.arguments import count
from tests.proofs.prove.fork import pool
from tests.proofs.recall.case import Case, Outcome, Result
from tests.proofs.recall.cases import BUGS, MISSED, SOUND
from tests.proofs.recall.later import LATER
from tests.proofs.recall.speed import USUAL, search
from tests.proofs.recall.unseen import HELD_BACK, MISSED_UNSEEN, VISIBLE

SHORT: Final[Mapping[str, Any]] = {"bound": 20, "walks": 10, "most": 4, "patience": 3.0}
LONG: Final[Mapping[str, Any]] = {}
ALL: Final = (*BUGS, *SOUND)
UNSEEN: Final = (*VISIBLE, *HELD_BACK, *LATER)


def main(arguments: Sequence[str] | None = None) -> int:
    given = _arguments().parse_args(arguments)
    if given.speed:
        for case in USUAL:
            sys.stdout.write(f"{search(case, seconds=given.seconds)}\n")
        return 0
    of = UNSEEN if given.unseen else ALL
    chosen = {place: case for place, case in enumerate(of) if given.only in case.kind}
    results = []
    explored = functools.partial(_explored, given.unseen, given.invariants, LONG if given.long else SHORT)
    for result in _results(chosen, explored, given.jobs):
        results.append(result)
        if not given.json:
            sys.stdout.write(f"{_line(result)}\n")
            sys.stdout.flush()
    if given.json:
        sys.stdout.write(json.dumps(_as_json(results)) + "\n")
    else:
        sys.stdout.write("\n" + "\n".join(f"{name:<9} {text}" for name, text in _figures(results).items()) + "\n")
    return 0 if all(map(is_expected, results)) else 1


def _results(chosen: Mapping[int, Case], explored: Callable[[int], Outcome], jobs: int) -> Iterator[Result]:
    """Yield the results in the order of the cases, which are explored in as many processes as there are jobs."""
    if min(jobs, len(chosen)) < 2:
        outcomes: Iterator[Outcome] = map(explored, chosen)
        yield from map(Result, chosen.values(), outcomes)
        return
    with pool(jobs) as processes:
        yield from map(Result, chosen.values(), processes.map(explored, chosen))


def _explored(of_unseen: bool, with_invariants: bool, budget: Mapping[str, Any], place: int) -> Outcome:
    """Explore the case of this place, which a forked process has from the start: cases cannot be sent to it."""
    case = (UNSEEN if of_unseen else ALL)[place]
    return (case.judged() if with_invariants else case).run(budget).outcome


def is_expected(result: Result) -> bool:
    """Answer whether a case ends as the table of those that are missed says. With an invariant one may be found."""
    return result.is_good != (result.case.kind in MISSED) or result.case.kind in MISSED_UNSEEN


def _line(result: Result) -> str:
    case, found = result.case, result.found
    if result.error:
        shown = result.error
    elif case.sound:
        shown = "clean" if result.is_good else f"FALSE ALARM {found.rule if found else ''}"
    elif found is None:
        why = {**MISSED, **MISSED_UNSEEN}.get(case.kind)
        shown = "MISSED" if why is None else f"missed: {why}"
    else:
        shown = f"{found.schedule:<8} {'right line' if result.is_right else f'line {found.site}'}  {found.rule}"
        shown += f", {result.violations} violations" if result.violations > 1 else ""
    return f"{'sound' if case.sound else 'bug':<6}{case.kind:<42}{shown:<44}{result.seconds:5.1f} s"


def _figures(results: Sequence[Result]) -> dict[str, str]:
    bugs = [one for one in results if not one.case.sound]
    sound = [one for one in results if one.case.sound]
    found = [one for one in bugs if one.found is not None]
    longest = max((one.seconds for one in results), default=0.0)
    return {
        "bugs": f"{len(found)} of {len(bugs)} found",
        "once": f"{sum(one.violations == 1 for one in found)} of {len(found)} as one violation",
        "lines": f"{sum(one.is_right for one in found)} of {len(found)} right",
        "sound": f"{sum(one.is_good for one in sound)} of {len(sound)} clean",
        "seconds": f"{sum(one.seconds for one in results):.0f}, at most {longest:.1f}",
    }


def _as_json(results: Sequence[Result]) -> dict[str, Any]:
    return {
        "figures": _figures(results),
        "holds": all(map(is_expected, results)),
        "lines": [_line(one) for one in results],
        "checks": [{"name": one.case.kind, **one.as_json(), "ok": is_expected(one)} for one in results],
    }


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.recall", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--long", action="store_true", help="explore with the defaults, as a user does")
    parser.add_argument("--unseen", action="store_true", help="the cases of public trackers instead")
    parser.add_argument("--invariants", action="store_true", help="ask what the owners of the handlers would ask")
    parser.add_argument("--speed", action="store_true", help="instead, how long usual searches take with the defaults")
    parser.add_argument("--seconds", type=float, metavar="N", help="of --speed: end each search after so long")
    parser.add_argument("--jobs", type=count, default=len(os.sched_getaffinity(0)), help="processes; one a core")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose kind has it")
    return parser


if __name__ == "__main__":
    sys.exit(main())
