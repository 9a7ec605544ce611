"""``python -m tests.proofs.bench [--json] [--strict]``: prints the table; exits 1 for a missed mark where asked to."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence

from tests.proofs.bench import batches, calls, cpu, imports, waits, watched, wrus
from tests.proofs.bench.figure import Figure, State, table

MEASURES: tuple[Callable[[], list[Figure]], ...] = (
    calls.figures,
    wrus.figures,
    waits.figures,
    cpu.figures,
    batches.figures,
    watched.figures,
    imports.figures,
)


def main(arguments: Sequence[str] | None = None, measures: Sequence[Callable[[], list[Figure]]] = MEASURES) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.bench", description="What a stage costs, as ratios.")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument(
        "--strict", action="store_true", help="exit 1 when a mark is missed (a noisy machine misses some)"
    )
    given = parser.parse_args(arguments)
    found = [figure for measure in measures for figure in measure()]
    print(json.dumps([figure.as_json() for figure in found], indent=2) if given.json else table(found))
    return 1 if given.strict and any(figure.state is State.OVER for figure in found) else 0


if __name__ == "__main__":
    sys.exit(main())
