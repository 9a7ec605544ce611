"""What a reader wants to know of a race of limits beside its checks."""

from __future__ import annotations

from collections import Counter

from tests.proofs.races.limits.at_work import beside, within, works
from tests.proofs.races.limits.flow import PER
from tests.proofs.races.limits.run import Outcome


def figures(outcome: Outcome) -> dict[str, int | float]:
    """By name, each once in all races."""
    at_work = list(works(outcome.journal))
    most = max((beside(work, at_work) for work in at_work), default=0)
    told = Counter(line["what"] for line in outcome.journal)
    return {
        "orders of customers with places": outcome.asked,
        "handlers that were at work": len(at_work),
        "handlers at work at once for one customer, at most": most,
        "handlers that began for one customer in an interval, at most": max(
            (within(work, at_work, PER) for work in at_work), default=0
        ),
        "times that an order found no place": told["in_line"],
        "calls of orders that stood in line": told["called"],
        "mishaps of limits": told["mishap"],
        "processes of limits killed": outcome.killed,
        "seconds of limits": round(outcome.seconds, 1),
    }
