"""``python -m tests.proofs.load``: what bounds 3,000 messages a second into one flow first."""

from __future__ import annotations

import sys

from tests.proofs.load.limits import Load, course

LOADS = {
    "one stage, a new table": Load(),
    "one stage, a table warm for 8,000": Load(warm=8_000),
    "one stage, records together, warm": Load(warm=8_000, ms=10),
    "three stages, warm for 24,000": Load(stages=3, warm=24_000),
    "a handler of half a second, warm": Load(ms=500, warm=8_000),
    "the same, a concurrency of 2,000": Load(ms=500, warm=8_000, concurrency=2_000),
    "five objects, warm": Load(warm=8_000, objects=5),
}


def table() -> list[str]:
    """Return a line for each load."""
    head = f"{'3,000 messages a second':44}{'bounded first by':28}{'backlog':>12}{'oldest':>12}{'gone after':>12}"
    return [head, *(course(load).line(name) for name, load in LOADS.items())]


if __name__ == "__main__":
    sys.stdout.write("\n".join(table()) + "\n")
