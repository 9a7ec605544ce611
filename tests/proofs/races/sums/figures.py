"""What a reader wants to know of a race of sums beside its checks."""

from __future__ import annotations

from collections import Counter

from tests.proofs.races.sums.flow import SPREAD
from tests.proofs.races.sums.run import Outcome


def figures(outcome: Outcome) -> dict[str, int | float]:
    """By name, each once in all races; an indented one is a part of the one above it."""
    told = [line for line in outcome.journal if line["what"] == "told-claim"]
    verdicts = Counter(line["verdict"] for line in told)
    fenced = [line for line in outcome.journal if line["what"] == "told-commit" and line["answer"] != "committed"]
    sums = [outcome.rows.get(f"sum-{number}", {}) for number in range(SPREAD)]
    return {
        "updates asked for": outcome.asked,
        "deliveries": len(told),
        **{f"  deliveries told {verdict}": number for verdict, number in sorted(verdicts.items())},
        "  commits that came too late": len(fenced),
        "updates that were applied": sum(int(row.get("applied", 0)) for row in sums),
        "the sum": sum(int(row.get("amount", 0)) for row in sums),
        "mishaps of sums": sum(line["what"] == "mishap" for line in outcome.journal),
        "processes of sums killed": outcome.killed,
        "seconds of sums": round(outcome.seconds, 1),
    }
