"""What a reader wants to know of a race beside its checks: how much of what was contested, and how it was answered."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.proofs.races.fates import Fate, fates
from tests.proofs.races.history import History
from tests.proofs.races.run import Outcome
from tests.proofs.soak.journal import Line


def figures(outcome: Outcome, history: History) -> dict[str, int | float]:
    asked, commits, takes = history.lines("claim"), history.lines("commit"), history.lines("take")
    return {
        "claims": len(asked),
        "  while another process called for the same item": sum(_met(asked, commits)),
        "  asked for with others": sum("shared" in line for line in asked),
        "  granted": sum(line["yes"] for line in asked),
        **_granted(history),
        **_told("  told", history.lines("told-claim"), "verdict"),
        "commits": len(commits) + len(takes),
        "  made with others": sum("shared" in line for line in (*commits, *takes)),
        "  of hops that were only read": len(takes),
        "  applied": len(history.commits),
        **_told("  fenced by", history.lines("told-commit"), "answer"),
        "releases": sum(line["yes"] for line in history.lines("release")),
        "effects": len(outcome.effects),
        **_requests(outcome, history),
        **_mishaps(history),
        "seconds": round(outcome.seconds, 1),
    }


def _granted(history: History) -> dict[str, int]:
    """The contested ways to a claim, by what the item said before it."""
    found: Counter[str] = Counter()
    for grant in history.each():
        if grant.took_over:
            found["taken over from another request"] += 1
        elif grant.same_hop and grant.old is not None:
            before = grant.old["redrive"], grant.old["retry"]
            if grant.old["done"] or grant.line["redrive"] > grant.old["redrive"]:
                found["redrives"] += 1
            elif grant.attempt > before:
                found["retries"] += 1
            elif grant.old["owner"] == grant.line["owner"]:
                found["repeated calls"] += 1
            else:
                found["leases that were over or released"] += 1
    return {f"    {name}": number for name, number in sorted(found.items())}


def _told(what: str, lines: list[Line], name: str) -> dict[str, int]:
    counts = Counter(line[name].lower() for line in lines)
    return {f"{what} {said}": n for said, n in sorted(counts.items()) if said not in ("claimed", "committed")}


def _requests(outcome: Outcome, history: History) -> dict[str, int]:
    asked = [line["id"] for line in outcome.post if line.get("kind") == "request"]
    counts = Counter(one.fate for one in fates(asked, history).values())
    return {"requests": len(asked), **{f"  {fate}": counts[fate] for fate in Fate}}


def _mishaps(history: History) -> dict[str, int]:
    counts = Counter(line["name"] for line in history.lines("mishap"))
    return {"mishaps": counts.total(), **{f"  {name}": n for name, n in sorted(counts.items())}}


def _met(claims: list[Line], commits: list[Line]) -> Iterator[bool]:
    """Of each claim, whether another process had a call for the same item under way at the same moment."""
    items = defaultdict[str, list[Line]](list)
    for line in sorted([*claims, *commits], key=lambda line: int(line["begun"])):
        items[line["object"]].append(line)
    for lines in items.values():
        met = set[int]()
        for place, line in enumerate(lines):
            for other in range(place + 1, len(lines)):
                if lines[other]["begun"] >= line["ended"]:
                    break
                if lines[other]["worker"] != line["worker"]:
                    met.update((place, other))
        yield from (place in met for place, line in enumerate(lines) if line["what"] == "claim")
