"""``python -m tests.proofs.bench``: prints the table, judges it, or draws it."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.engines.process import engine_home
from tests.proofs.bench import (
    batches,
    calls,
    cpu,
    exploring,
    groups,
    leaner,
    memory,
    pictures,
    price,
    starts,
    throughput,
    waits,
    watched,
    wrus,
)
from tests.proofs.bench.figure import Figure, State, table

Measure = Callable[[], list[Figure]]

MEASURES: Final[dict[str, Measure]] = {
    "calls": calls.figures,
    "wrus": wrus.figures,
    "waits": waits.figures,
    "groups": groups.figures,
    "cpu": cpu.figures,
    "batches": batches.figures,
    "lean": leaner.figures,
    "observers": watched.figures,
    "starts": starts.figures,
    "memory": memory.figures,
    "throughput": throughput.figures,
    "price": price.figures,
    "explorer": exploring.figures,
}


def main(arguments: Sequence[str] | None = None, measures: dict[str, Measure] = MEASURES) -> int:
    given = _arguments(measures).parse_args(arguments)
    found = [figure for name in given.only or measures for figure in measures[name]()]
    rows = [figure.as_json() for figure in found]
    print(json.dumps(rows, indent=2) if given.json else table(found))
    if given.picture is not None:
        _draw(rows, given.picture)
    missed = [figure for figure in found if figure.state is State.MISSED]
    if given.check and missed:
        print(f"missed by more than its noise: {', '.join(figure.name.strip() for figure in missed)}", file=sys.stderr)
    return 1 if given.check and missed else 0


def _draw(rows: list[dict[str, object]], file: Path) -> None:
    python = engine_home("rivals") / "bin" / "python"
    subprocess.run([python, str(pictures.__file__), str(file)], input=json.dumps(rows), text=True, check=True)


def _arguments(measures: dict[str, Measure]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.bench", description="What a stage costs, as ratios.")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument(
        "--check", action="store_true", help="exit 1 where a figure misses its mark by more than its noise"
    )
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the figures as SVG into this file")
    parser.add_argument("--only", action="append", choices=measures, help="measure this alone; may be repeated")
    return parser


if __name__ == "__main__":
    sys.exit(main())
