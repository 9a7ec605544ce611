"""What a reader wants to know of a race of calls under ``@once`` beside its checks."""

from __future__ import annotations

from collections import Counter

from tests.proofs.races.once.reconcile import begun
from tests.proofs.races.once.run import Outcome


def figures(outcome: Outcome) -> dict[str, int | float]:
    """By name, each once in all races; an indented one is a part of the one above it."""
    told = Counter(line["how"] for line in outcome.lines("told"))
    unanswered = Counter(line["why"] for line in outcome.lines("unanswered"))
    executed = {line["owner"] for line in outcome.lines("begun")}
    ends = Counter(line["how"] for line in outcome.lines("end") if line["owner"] in executed)
    claims = begun(outcome)
    over = [line for line in claims if line["old"] is not None and line["old"]["owner"] not in (None, line["owner"])]
    return {
        "calls under @once": outcome.asked,
        "answers of @once": sum(told.values()),
        **{f"  answers of @once: {how}": number for how, number in sorted(told.items())},
        "calls without an answer": sum(unanswered.values()),
        **{f"  calls without an answer: {why}": number for why, number in sorted(unanswered.items())},
        "claims of keys": len(outcome.lines("claim")),
        "  claims of keys granted": len(claims),
        "  claims of keys whose lease was over": len(over),
        "executions": len(outcome.lines("begun")),
        **{f"  executions that ended {how}": number for how, number in sorted(ends.items())},
        "effects of executions": len(outcome.charged),
        "results stored": sum(line["yes"] for line in outcome.lines("finish")),
        "mishaps of @once": len(outcome.lines("mishap")),
        "processes of @once killed": outcome.killed,
        "seconds of @once": round(outcome.seconds, 1),
    }
