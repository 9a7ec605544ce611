"""``python -m tests.proofs.e2e``: prints a line for each check, and ends with 1 where one fails.

``--json`` prints figures and checks as JSON instead.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence

from tests.proofs.e2e.play import Check
from tests.proofs.e2e.run import SCENES, played


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.e2e", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[*SCENES], default=[*SCENES], help="these scenes alone")
    parser.add_argument("--json", action="store_true", help="print figures and checks as JSON")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    checks = list(_told(played(given.only), silent=given.json))
    seconds = time.monotonic() - began
    failed = sum(not check.holds for check in checks)
    if given.json:
        sys.stdout.write(as_json(given.only, checks, seconds) + "\n")
    else:
        sys.stdout.write(
            f"{len(checks)} checks of {len(given.only)} deployed scenes, {failed} of them wrong, in {seconds:.0f} s\n"
        )
    return 1 if failed or not checks else 0


def as_json(scenes: Sequence[str], checks: Sequence[Check], seconds: float) -> str:
    """Return what was played, and each check. One that fails is named with what was found."""
    said = [{"name": check.name if check.holds else f"{check}", "holds": check.holds} for check in checks]
    holds = bool(checks) and all(check.holds for check in checks)
    figures = {"deployed scenes": len(scenes), "seconds of the scenes": round(seconds)}
    return json.dumps({"holds": holds, "figures": figures, "checks": said})


def _told(checks: Iterable[Check], *, silent: bool) -> Iterable[Check]:
    for check in checks:
        if not silent:
            sys.stdout.write(f"{check}\n")
            sys.stdout.flush()
        yield check


if __name__ == "__main__":
    sys.exit(main())
