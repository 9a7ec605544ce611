"""What must hold after a race of callers: who was answered, and how often the pages were made. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.proofs.races.callers.flow import caller, page
from tests.proofs.races.callers.run import Outcome
from tests.proofs.races.reconcile import Check, check


def reconcile(outcome: Outcome) -> list[Check]:
    return [*_answers(outcome), *_pages(outcome)]


def _answers(outcome: Outcome) -> Iterator[Check]:
    ids = defaultdict[str, set[str]](set)
    for answer in outcome.answers:
        ids[answer["request_id"]].add(answer["answer"])
    callers = [caller(number) for number in range(outcome.asked)]
    yield check("each caller is answered", callers, (one for one in callers if not ids[one]))
    yield check("each caller has exactly one answer id", callers, (one for one in callers if len(ids[one]) > 1))
    strays = (f"{one['answer']}: {one['status']}" for one in outcome.answers if not _is_right(one))
    yield check("each answer is the page that was asked for", outcome.answers, strays)


def _is_right(answer: object) -> bool:
    match answer:
        case {"status": "COMPLETED", "object_id": str(asked), "result": {"page": str(got)}}:
            return asked == got
        case _:
            return False


def _pages(outcome: Outcome) -> Iterator[Check]:
    pages = sorted({page(number) for number in range(outcome.asked)})
    made = {name: int(outcome.made.get(name, {}).get("times", 0)) for name in pages}
    most = Counter(line["page"] for line in outcome.journal if line["what"] == "resets")
    yield check("each page was made", pages, (name for name in pages if not made[name]))
    strays = (f"{name}: {made[name]} times, {most[name]} resets" for name in pages if made[name] > 1 + most[name])
    yield check("no page was made more often than its resets ask for", pages, strays)
    items = {name: outcome.items.get(f"run#pages#{name}") for name in pages}
    standing = (f"{name}: {item}" for name, item in items.items() if item is None or item.status != "COMPLETED")
    yield check("no run of a page stands still", pages, standing)
