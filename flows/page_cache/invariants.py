"""What must hold of the pages and of the answers at every end, for the explorer."""

from __future__ import annotations

from collections import Counter

from flowguard.testing import View, invariant
from flows.page_cache.flow import READERS, SOURCES


@invariant
def each_caller_gets_one_answer(view: View) -> str | None:
    """Of each request, answers under one id. That it gets one at all is a promise of flowguard's own (I16)."""
    found = Counter(answer.body["request_id"] for answer in view.sent(READERS))
    twice = sorted(request for request, answers in found.items() if answers > 1)
    return f"{twice} got two answers" if twice else None


@invariant
def the_last_to_ask_sees_every_change(view: View) -> str | None:
    """Expect a reader who asks when all else is over: what they get is the newest that anybody got."""
    there = {row["source"]: int(row["revision"]) for row in view.table(SOURCES)}
    shown: dict[str, int] = {}
    for answer in view.sent(READERS):
        for source, revision in (answer.body["result"] or {}).get("revisions", {}).items():
            shown[source] = max(revision, shown.get(source, 0))
    behind = sorted(source for source, revision in shown.items() if revision != there[source])
    return f"no answer shows {behind} as they are" if behind else None
