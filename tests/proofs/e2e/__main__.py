"""``python -m tests.proofs.e2e``: prints a line for each check, and ends with 1 where one fails."""

from __future__ import annotations

import argparse
import sys
import time

from tests.proofs.e2e.run import SCENES, played


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.e2e", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[*SCENES], default=[*SCENES], help="these scenes alone")
    given = parser.parse_args()
    began, made, failed = time.monotonic(), 0, 0
    for check in played(given.only):
        made, failed = made + 1, failed + (not check.holds)
        sys.stdout.write(f"{check}\n")
        sys.stdout.flush()
    took = time.monotonic() - began
    sys.stdout.write(f"{made} checks of {len(given.only)} deployed scenes, {failed} of them wrong, in {took:.0f} s\n")
    return 1 if failed or not made else 0


if __name__ == "__main__":
    sys.exit(main())
