"""What a reader wants to know of a race of callers beside its checks."""

from __future__ import annotations

from collections import Counter

from tests.proofs.races.callers.run import Outcome


def figures(outcome: Outcome) -> dict[str, int | float]:
    """By name, each once in all races; an indented one is a part of the one above it."""
    claims = Counter(line["verdict"] for line in outcome.journal if line["what"] == "told-claim")
    resets = Counter(line["verdict"] for line in outcome.journal if line["what"] == "reset")
    made = sum(int(row["times"]) for row in outcome.made.values())
    return {
        "callers": outcome.asked,
        "answers to callers": len(outcome.answers),
        "claims for pages": sum(claims.values()),
        **{f"  claims for pages told {verdict}": number for verdict, number in sorted(claims.items())},
        "rows of callers whose worker died": len(outcome.rows),
        "pages made": made,
        "  pages made that nobody waited for": made - len(_given(outcome)),
        "resets": sum(line["what"] == "resets" for line in outcome.journal),
        **{f"  resets told {verdict}": number for verdict, number in sorted(resets.items())},
        "mishaps of callers": sum(line["what"] == "mishap" for line in outcome.journal),
        "processes of callers killed": outcome.killed,
        "seconds of callers": round(outcome.seconds, 1),
    }


def _given(outcome: Outcome) -> set[str]:
    """The runs whose result somebody was answered with."""
    return {str(answer["result"].get("by")) for answer in outcome.answers if answer.get("result")}
