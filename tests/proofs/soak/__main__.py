"""``python -m tests.proofs.soak``: prints the sums, and ends with 1 where they do not reconcile."""

from __future__ import annotations

import argparse
import json
import logging
import resource
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from flowguard.clock import SystemClock
from flowguard.errors import SettingsError
from flowguard.sim.weather.forecast import forecast
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
from tests.proofs.soak.weather_sums import weather_figures, weather_sums
from tests.proofs.soak.weathered import weathered_soak

LONG = 100_000

Soaked = tuple[Figures, list[Check]]


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
    told, checks = _under_weather(given, messages, odds) if given.weather else _on_engines(given, messages, odds)
    sys.stdout.write(as_json(told, checks) if given.json else as_text(told, checks))
    return 0 if all(check.holds for check in checks) else 1


def _under_weather(given: argparse.Namespace, messages: int, odds: Odds) -> Soaked:
    """In this process, and in no time."""
    logging.getLogger("flowguard").setLevel(logging.CRITICAL)
    if given.mutant is not None:
        MUTANTS[given.mutant]()
    day = weathered_soak(given.weather, messages, odds)
    told = {name: figure for name, figure in figures(day.outcome).items() if "CPU" not in name}
    return {**told, **weather_figures(day)}, [*reconcile(day.outcome), *weather_sums(day)]


def _on_engines(given: argparse.Namespace, messages: int, odds: Odds) -> Soaked:
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch, dynamodb_local() as database, elasticmq() as queues:
        journal = given.journal or Path(scratch) / "journal"
        mutant = () if given.mutant is None else ("--mutant", given.mutant)
        outcome = soak(Sandbox(database, queues), journal, messages, given.workers, odds, given.limit * 60, *mutant)
    return {**figures(outcome), **_cpu()}, reconcile(outcome)


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


def weather(text: str) -> str:
    """Check that the text names weather."""
    try:
        forecast(text, SystemClock())
    except SettingsError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


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
    add("--forge", type=share, default=odds.forge, help="the share of waits to which an insider lies")
    add("--weather", type=weather, default="", help="a bad day in virtual time: dynamodb-away=60m@10m")
    add("--limit", type=duration, default=30, help="minutes that it may take")
    add("--mutant", choices=MUTANTS, help="a guard of flowguard to do without: the sums have to notice")
    add("--journal", type=Path, help="keep the workers' journal here")
    add("--json", action="store_true", help="figures and sums as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
