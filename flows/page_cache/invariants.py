"""What must hold of the pages and of the answers at every end, for the explorer."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from flowguard.testing import View, invariant
from flows.page_cache.flow import READERS, SOURCES

_OF_A_REDRIVE: Final = re.compile(r"r\d+[.]end")


@invariant
def each_caller_gets_one_answer(view: View) -> str | None:
    """Of each request, answers under one id. A dead letter that is sent back asks once more, under an id of its own."""
    first = [answer for answer in view.sent(READERS) if _OF_A_REDRIVE.search(str(answer.id)) is None]
    found = Counter(answer.body["request_id"] for answer in first)
    twice = sorted(request for request, answers in found.items() if answers > 1)
    return f"{twice} got two answers" if twice else None


@invariant
def the_last_to_ask_sees_every_change(view: View) -> str | None:
    """Expect a reader who asks when all else is over: what they get is the newest that anybody got.

    Allow an old page where its run has failed, or the order to reset it lies among the dead letters.
    """
    if any(run.status != "COMPLETED" for run in view.runs()) or view.sent("change-source-dead-letters"):
        return None
    there = {row["source"]: int(row["revision"]) for row in view.table(SOURCES)}
    shown: dict[str, int] = {}
    for answer in view.sent(READERS):
        for source, revision in (answer.body.get("result") or {}).get("revisions", {}).items():
            shown[source] = max(revision, shown.get(source, 0))
    behind = sorted(source for source, revision in shown.items() if revision != there[source])
    return f"no answer shows {behind} as they are" if behind else None
