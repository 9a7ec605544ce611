"""``python -m tests.proofs.races``: races, prints figures and checks, and ends with 1 where a check does not hold."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

from tests.arguments import count, share
from tests.engines.dynamodb_local import dynamodb_local
from tests.proofs.races.figures import figures
from tests.proofs.races.history import History
from tests.proofs.races.mishaps import Odds
from tests.proofs.races.mutants import MUTANTS
from tests.proofs.races.reconcile import Check, reconcile
from tests.proofs.races.run import Outcome, run
from tests.proofs.races.worker import Race


def main(arguments: Sequence[str] | None = None) -> int:
    given = _arguments().parse_args(arguments)
    with dynamodb_local() as url, tempfile.TemporaryDirectory(prefix="races-") as scratch:
        outcome = run(
            Race(
                dynamodb_url=url,
                access_key=uuid.uuid4().hex[:20],
                folder=given.keep or Path(scratch),
                claims=given.claims,
                processes=given.processes,
                seed=given.seed,
                odds=Odds(throttle=given.throttle),
                mutant=given.mutant,
            )
        )
    return report(outcome, as_json=given.json)


def report(outcome: Outcome, *, as_json: bool = False) -> int:
    """Prints what was found; answers what the process ends with."""
    history = History.read(outcome.journal)
    counts, checks = figures(outcome, history), reconcile(outcome, history)
    is_good = all(check.holds for check in checks)
    if as_json:
        counted = {name.strip(): number for name, number in counts.items()}
        sys.stdout.write(json.dumps({"ok": is_good, "counts": counted, "checks": [*map(_as_json, checks)]}) + "\n")
    else:
        told = [f"{name:<68} {number:>6}" for name, number in counts.items()]
        sys.stdout.write("\n".join([*told, "", *map(str, checks), ""]))
    return 0 if is_good else 1


def _as_json(check: Check) -> dict[str, object]:
    return {"name": check.name, "ok": check.holds, "of": check.of, "wrong": list(check.strays[:5])}


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs.races", description="Processes race on DynamoDB Local."
    )
    parser.add_argument("--claims", type=count, default=10_000, help="how many are asked for before it comes to an end")
    parser.add_argument("--processes", type=count, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--throttle", type=share, default=Odds().throttle, help="the share of calls that are throttled")
    parser.add_argument("--mutant", choices=MUTANTS, metavar="NAME", help="race without one of the store's guards")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the processes' journal and post here")
    parser.add_argument("--json", action="store_true", help="print counts and checks as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
