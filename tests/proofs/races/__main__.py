"""``python -m tests.proofs.races``: races, prints figures and checks, and ends with 1 where a check does not hold."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.arguments import count, share
from tests.engines.dynamodb_local import dynamodb_local
from tests.proofs.races.callers.figures import figures as caller_figures
from tests.proofs.races.callers.reconcile import reconcile as reconcile_callers
from tests.proofs.races.callers.run import Outcome as CallersOutcome
from tests.proofs.races.callers.run import run as run_callers
from tests.proofs.races.figures import figures
from tests.proofs.races.history import History
from tests.proofs.races.limits.figures import figures as limit_figures
from tests.proofs.races.limits.reconcile import reconcile as reconcile_limits
from tests.proofs.races.limits.run import Outcome as LimitsOutcome
from tests.proofs.races.limits.run import run as run_limits
from tests.proofs.races.mishaps import Odds
from tests.proofs.races.mutants import MUTANTS, OF_ONCE, OF_WAITS
from tests.proofs.races.once.figures import figures as once_figures
from tests.proofs.races.once.reconcile import reconcile as reconcile_once
from tests.proofs.races.once.run import Outcome as OnceOutcome
from tests.proofs.races.once.run import run as run_once
from tests.proofs.races.reconcile import Check, reconcile
from tests.proofs.races.run import Outcome, run
from tests.proofs.races.sums.figures import figures as sum_figures
from tests.proofs.races.sums.reconcile import reconcile as reconcile_sums
from tests.proofs.races.sums.run import Outcome as SumsOutcome
from tests.proofs.races.sums.run import run as run_sums
from tests.proofs.races.waits.figures import figures as wait_figures
from tests.proofs.races.waits.history import WaitHistory
from tests.proofs.races.waits.reconcile import reconcile as reconcile_waits
from tests.proofs.races.waits.run import Outcome as WaitsOutcome
from tests.proofs.races.waits.run import run as run_waits
from tests.proofs.races.worker import Race

Counts = Mapping[str, int | float]
Found = tuple[Counts, Sequence[Check]]

ANSWERING: Final = 8
"""Processes of the races of waits, of sums, of callers and of calls under ``@once``."""

KILL: Final = 0.001
"""The share of calls at which such a process is killed."""


def main(arguments: Sequence[str] | None = None) -> int:
    given = _arguments().parse_args(arguments)
    with dynamodb_local() as url, tempfile.TemporaryDirectory(prefix="races-") as scratch:
        folder = given.keep or Path(scratch)
        found = [race(given, url, folder) for race in _chosen(given)]
    return report([told for told, _ in found], [checks for _, checks in found], as_json=given.json)


def _chosen(given: argparse.Namespace) -> list[Callable[[argparse.Namespace, str, Path], Found]]:
    """The races that are run. One guard is missing in one of them at most."""
    if given.only is not None:
        return [RACES[given.only]]
    if given.mutant is not None:
        return [of_once if given.mutant in OF_ONCE else of_waits if given.mutant in OF_WAITS else of_claims]
    return list(RACES.values())


def of_claims(given: argparse.Namespace, url: str, folder: Path) -> Found:
    odds = Odds(throttle=given.throttle)
    return found_in_claims(run(_race(given, url, folder / "claims", given.claims, given.processes, odds)))


def of_waits(given: argparse.Namespace, url: str, folder: Path) -> Found:
    odds = Odds(throttle=given.throttle, kill=KILL)
    return found_in_waits(run_waits(_race(given, url, folder / "waits", given.waits, ANSWERING, odds)))


def of_sums(given: argparse.Namespace, url: str, folder: Path) -> Found:
    odds = Odds(throttle=given.throttle, kill=KILL)
    return found_in_sums(run_sums(_race(given, url, folder / "sums", given.sums, ANSWERING, odds)))


def of_callers(given: argparse.Namespace, url: str, folder: Path) -> Found:
    odds = Odds(throttle=given.throttle, kill=KILL)
    return found_in_callers(run_callers(_race(given, url, folder / "callers", given.callers, ANSWERING, odds)))


def of_once(given: argparse.Namespace, url: str, folder: Path) -> Found:
    odds = Odds(throttle=given.throttle, kill=KILL)
    return found_in_once(run_once(_race(given, url, folder / "once", given.once, ANSWERING, odds)))


def of_limits(given: argparse.Namespace, url: str, folder: Path) -> Found:
    odds = Odds(throttle=given.throttle, kill=KILL)
    return found_in_limits(run_limits(_race(given, url, folder / "limits", given.limits, given.processes, odds)))


RACES: Final = {
    "claims": of_claims,
    "waits": of_waits,
    "sums": of_sums,
    "callers": of_callers,
    "once": of_once,
    "limits": of_limits,
}


def found_in_claims(outcome: Outcome) -> Found:
    history = History.read(outcome.journal)
    return figures(outcome, history), reconcile(outcome, history)


def found_in_waits(outcome: WaitsOutcome) -> Found:
    history = History.read(outcome.journal)
    waits = WaitHistory.read(history)
    return wait_figures(outcome, history, waits), reconcile_waits(outcome, history, waits)


def found_in_sums(outcome: SumsOutcome) -> Found:
    return sum_figures(outcome), reconcile_sums(outcome)


def found_in_callers(outcome: CallersOutcome) -> Found:
    return caller_figures(outcome), reconcile_callers(outcome)


def found_in_once(outcome: OnceOutcome) -> Found:
    return once_figures(outcome), reconcile_once(outcome)


def found_in_limits(outcome: LimitsOutcome) -> Found:
    return limit_figures(outcome), reconcile_limits(outcome)


def _race(given: argparse.Namespace, url: str, folder: Path, number: int, processes: int, odds: Odds) -> Race:
    folder.mkdir(parents=True, exist_ok=True)
    access_key = uuid.uuid4().hex[:20]
    return Race(url, access_key, folder, number, processes, given.seed, odds, given.mutant)


def report(counts: Sequence[Counts], checks: Sequence[Sequence[Check]], *, as_json: bool = False) -> int:
    """Prints what was found, race by race; answers what the process ends with."""
    is_good = all(check.holds for found in checks for check in found)
    if as_json:
        counted = {name.strip(): number for found in counts for name, number in found.items()}
        made = [_as_json(check) for found in checks for check in found]
        sys.stdout.write(json.dumps({"ok": is_good, "counts": counted, "checks": made}) + "\n")
    else:
        parts = [
            [*(f"{name:<68} {number:>6}" for name, number in told.items()), "", *map(str, found)]
            for told, found in zip(counts, checks, strict=True)
        ]
        sys.stdout.write("\n\n".join("\n".join(part) for part in parts) + "\n")
    return 0 if is_good else 1


def _as_json(check: Check) -> dict[str, object]:
    return {"name": check.name, "ok": check.holds, "of": check.of, "wrong": list(check.strays[:5])}


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs.races",
        description="Processes race on DynamoDB Local: for claims, answers, sums, results, keys and places.",
    )
    parser.add_argument("--claims", type=count, default=10_000, help="how many are asked for before it comes to an end")
    parser.add_argument("--waits", type=count, default=1_000, help="how many begin before it comes to an end")
    parser.add_argument("--sums", type=count, default=1_000, help="how many each process adds")
    parser.add_argument("--callers", type=count, default=500, help="how many requests for pages each process has")
    parser.add_argument("--once", type=count, default=500, help="how many calls under @once each process makes")
    parser.add_argument("--limits", type=count, default=20, help="how many orders of customers with places each has")
    parser.add_argument("--only", choices=tuple(RACES), help="one of the races")
    parser.add_argument("--processes", type=count, default=16, help=f"for claims and limits; {ANSWERING} else")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--throttle", type=share, default=Odds().throttle, help="the share of calls that are throttled")
    parser.add_argument(
        "--mutant",
        choices=(*MUTANTS, *OF_WAITS, *OF_ONCE),
        metavar="NAME",
        help="race without one of the store's guards",
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the processes' journal and post here")
    parser.add_argument("--json", action="store_true", help="print counts and checks as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
