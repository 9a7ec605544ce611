"""``python -m tests.proofs.soak``: prints the sums, and ends with 1 where they do not reconcile."""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from tests.arguments import count, duration, share
from tests.engines.dynamodb_local import dynamodb_local
from tests.engines.elasticmq import elasticmq
from tests.proofs.soak.check import Check
from tests.proofs.soak.figures import Figures, figures
from tests.proofs.soak.mutants import MUTANTS
from tests.proofs.soak.odds import Odds
from tests.proofs.soak.reconcile import reconcile
from tests.proofs.soak.run import NotDrained, soak
from tests.proofs.soak.sandbox import Sandbox

LONG = 100_000


def main() -> int:
    given = _arguments().parse_args()
    try:
        return _soak(given)
    except NotDrained as late:
        sys.stderr.write(f"{late}\n")
        return 1


def _soak(given: argparse.Namespace) -> int:
    messages = LONG if given.long else given.messages
    odds = Odds(**{name: getattr(given, name) for name in asdict(Odds())})
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch, dynamodb_local() as database, elasticmq() as queues:
        journal = given.journal or Path(scratch) / "journal"
        mutant = () if given.mutant is None else ("--mutant", given.mutant)
        outcome = soak(Sandbox(database, queues), journal, messages, given.workers, odds, given.limit * 60, *mutant)
    checks, told = reconcile(outcome), {**figures(outcome), **_cpu()}
    sys.stdout.write(as_json(told, checks) if given.json else as_text(told, checks))
    return 0 if all(check.holds for check in checks) else 1


def _cpu() -> Figures:
    """Of this process, and of the engines, which have ended and are therefore counted."""
    engines = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "  of a CPU in the engines": round(engines.ru_utime + engines.ru_stime, 1),
        "  of a CPU in what sends and collects": round(time.process_time(), 1),
    }


def as_text(told: Figures, checks: list[Check]) -> str:
    return "\n".join([*(f"{name:<40} {value}" for name, value in told.items()), "", *map(str, checks), ""])


def as_json(told: Figures, checks: list[Check]) -> str:
    found = {
        "figures": {name.strip(): value for name, value in told.items()},
        "checks": [{**asdict(check), "holds": check.holds} for check in checks],
        "holds": all(check.holds for check in checks),
    }
    return json.dumps(found, indent=2) + "\n"


def _arguments() -> argparse.ArgumentParser:
    odds = Odds()
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.soak", description=__doc__)
    add = parser.add_argument
    add("--messages", type=count, default=2_000, help="requests: orders, pages, and a tenth that wait")
    add("--long", action="store_true", help=f"{LONG:,} of them")
    add("--workers", type=count, default=4)
    add("--seed", type=int, default=odds.seed)
    add("--fail", type=share, default=odds.fail, help="the share of attempts that fail")
    add("--reject", type=share, default=odds.reject, help="the share of requests that are refused")
    add("--kill", type=share, default=odds.kill, help="the share of deliveries that kill their worker")
    add("--stall", type=share, default=odds.stall, help="the share of deliveries whose worker outlives its lease")
    add("--throttle", type=share, default=odds.throttle, help="the share of the workers' calls that AWS refuses")
    add("--lost", type=share, default=odds.lost, help="the share of the workers' calls whose answer gets lost")
    add("--strike", type=duration, default=odds.strike, help="mean seconds between kills from outside; 0 for none")
    add("--hostile", type=share, default=odds.hostile, help="the share of errors, notes and ids that are hostile texts")
    add("--limit", type=duration, default=30, help="minutes that it may take")
    add("--mutant", choices=MUTANTS, help="a guard of flowguard to do without: the sums have to notice")
    add("--journal", type=Path, help="keep the workers' journal here")
    add("--json", action="store_true", help="figures and sums as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
