"""The other proofs: the tests that take long, the explorer's recall, races of processes on a real engine, the soak,
and the deployed flows.

Each is a command.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Other:
    """A module that prints JSON for ``--json``: its figures and checks, under the names that it has for them."""

    name: str
    module: str
    short: Sequence[str]
    long: Sequence[str]
    figures: str
    holds: str


RACES: Final = Other(
    "races",
    "tests.proofs.races",
    ("--claims", "1500", "--waits", "100", "--sums", "60", "--callers", "60", "--once", "24", "--limits", "4"),
    ("--claims", "50000"),
    "counts",
    "ok",
)
SOAK: Final = Other("soak", "tests.proofs.soak", ("--messages", "250"), ("--messages", "20000"), "figures", "holds")
TESTS: Final = Other("tests", "tests.proofs.suite", (), ("--long",), "figures", "ok")
RECALL: Final = Other("recall", "tests.proofs.recall", (), ("--long",), "figures", "holds")
DEPLOYED: Final = Other("deployed", "tests.proofs.e2e", (), (), "figures", "holds")
LANES: Final = (((TESTS, RECALL), (DEPLOYED,)), ((RACES, SOAK),))
"""What is run one after the other, in lanes beside each other. The deployed flows mostly wait, so they run beside what
computes. That gives way to them: an emulator that waits for a core answers too late for its clients' time-outs."""

GIVE_WAY: Final = frozenset({TESTS.name, RECALL.name})
NICE: Final = ("nice", "-n", "10")

ALL: Final = tuple(other for lanes in LANES for lane in lanes for other in lane)


@dataclass(frozen=True)
class Outcome:
    """``figures`` by name; ``broken`` are the checks that do not hold, ``lines`` what it prints of each check.

    ``code`` is what its process ended with.
    """

    command: str
    holds: bool
    figures: Mapping[str, Any]
    checks: int
    broken: Sequence[str]
    seconds: float
    lines: Sequence[str] = ()
    code: int = 0


def run_all(*, long: bool) -> dict[str, Outcome]:
    """Run them by name, lanes beside each other."""
    ended: dict[str, Outcome] = {}
    for lanes in LANES:
        with ThreadPoolExecutor(len(lanes)) as beside:
            for outcomes in beside.map(lambda lane: {other.name: run(other, long=long) for other in lane}, lanes):
                ended |= outcomes
    return ended


def run(other: Other, *, long: bool) -> Outcome:
    """Run it in a process of its own. One that prints no JSON does not hold, and what it said is why.

    What one that does not hold has written to stderr is passed on.
    """
    arguments = [*(other.long if long else other.short), "--json"]
    began = time.perf_counter()
    nice = NICE if other.name in GIVE_WAY else ()
    whole = [*nice, sys.executable, "-m", other.module, *arguments]
    done = subprocess.run(whole, capture_output=True, text=True, check=False)
    seconds, code = time.perf_counter() - began, done.returncode
    command = " ".join(["python -m", other.module, *arguments[:-1]])
    try:
        said: Any = json.loads(done.stdout)
    except ValueError:
        why = done.stderr.strip()[-2000:] or "it printed no figures"
        return Outcome(command, False, {}, 0, (why,), seconds, code=code)
    checks = said["checks"]
    broken = tuple(check["name"] for check in checks if not check.get("ok", check.get("holds")))
    holds = bool(said[other.holds]) and not broken and code == 0
    if not holds:
        sys.stderr.write(done.stderr)
    return Outcome(command, holds, said[other.figures], len(checks), broken, seconds, said.get("lines", ()), code)
