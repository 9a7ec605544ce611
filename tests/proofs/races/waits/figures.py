"""What a reader wants to know of a race of waits beside its checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.proofs.races.history import History
from tests.proofs.races.waits.history import UNKNOWN, WaitHistory
from tests.proofs.races.waits.run import Outcome


def figures(outcome: Outcome, history: History, waits: WaitHistory) -> dict[str, int | float]:
    """By name, each once; an indented one is a part of the one above it."""
    begun, told = waits.waits.values(), Counter(one.verdict for one in waits.told)
    known = {id(one.call) for one in waits.told}
    unknown = sum(line.get("verdict") == UNKNOWN for line in history.journal)
    ends = Counter(wait.ends[0] for wait in begun if wait.ends)
    return {
        "waits": len(begun),
        **{f"  waits {end}": ends[end] for end in ("answered", "failed", "timed out")},
        "  waits that made way for a newer request": sum(wait.made_way and not wait.ends for wait in begun),
        "  an answer and the deadline at once": sum(map(bool, _met(waits, "answer", "deadline"))),
        "  two answers at once": sum(map(bool, _met(waits, "answer", "answer"))),
        "answers": len(waits.calls("answer")),
        **{f"  answers told {verdict}": number for verdict, number in sorted({**told, "UNKNOWN": unknown}.items())},
        "  kept, and nobody told": sum(id(call) not in known for wait in begun for call in wait.answers),
        "deadlines": len(waits.calls("deadline")) + len(history.lines("look")),
        "  that came too early": len(history.lines("look")),
        "runs that went on": len(outcome.effects),
        "mishaps of waits": len(history.lines("mishap")),
        "processes killed": outcome.killed,
        "seconds of waits": round(outcome.seconds, 1),
    }


def _met(waits: WaitHistory, one: str, other: str) -> Iterator[bool]:
    """Of each wait, whether two processes had such calls for it under way at the same moment, and one was applied."""
    for lines in waits.tried.values():
        yield any(
            a["what"] == one
            and b["what"] == other
            and a["worker"] != b["worker"]
            and a["begun"] < b["ended"]
            and b["begun"] < a["ended"]
            and (a["yes"] or b["yes"])
            for a in lines
            for b in lines
        )
