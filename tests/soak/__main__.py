"""``python -m tests.soak``: prints the sums, and ends with 1 where they do not reconcile."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.engines.dynamodb_local import dynamodb_local
from tests.engines.elasticmq import elasticmq
from tests.soak.ground import Ground
from tests.soak.orders import Odds
from tests.soak.outcome import Outcome
from tests.soak.reconcile import Check, figures, reconcile
from tests.soak.run import soak


def main() -> int:
    given = _arguments().parse_args()
    odds = Odds(seed=given.seed, fail=given.fail, reject=given.reject, kill=given.kill)
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch, dynamodb_local() as database, elasticmq() as queues:
        journal = given.journal or Path(scratch) / "journal"
        return report(soak(Ground(database, queues), journal, given.messages, given.workers, odds))


def report(outcome: Outcome) -> int:
    """Prints figures and sums; answers what the process ends with."""
    checks = reconcile(outcome)
    told = [f"{name:<40} {value}" for name, value in figures(outcome).items()]
    sys.stdout.write("\n".join([*told, "", *map(_line, checks), ""]))
    return 0 if all(check.holds for check in checks) else 1


def _line(check: Check) -> str:
    says = "ok" if check.holds else f"BROKEN: expected {check.expected}, such as {', '.join(check.strays)}"
    return f"{check.name:<64} {check.found:>6}  {says}"


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fail", type=float, default=0.2, help="the share of attempts that fail")
    parser.add_argument("--reject", type=float, default=0.05, help="the share of requests that are refused")
    parser.add_argument("--kill", type=float, default=0.02, help="the share of deliveries that kill their worker")
    parser.add_argument("--journal", type=Path, help="keep the workers' journal here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
